"""Files of other programs in a folder of a local or network file system.

Versions of a file are distinguished by when it was last written, its size and its inode, looked at
before and after each read. A writer that changes a file in place twice within the resolution of the
file system's clock, a few milliseconds, and keeps its size, goes unnoticed: ``settle`` is for that.

A program that may write there may put links there. One to a file of the folder is that file; one to
a folder in it is passed over, since its files are listed where they are. One to a file elsewhere is
listed as a file that cannot be read, so that it is reported, and holds up no other file. One to a
folder elsewhere is an error: it is unknown how many files are missed.
"""

import errno
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from landfall.errors import StoreAway
from landfall.objects import FileChanged, FileElsewhere, ListedFile
from landfall.store.disk import keys, leads_out, open_inside, translate_errors
from landfall.store.file import STAGING

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FolderFiles:
    """``SourceFiles`` in a folder and its folders. Thread-safe."""

    def __init__(self, root: Path) -> None:
        """``root`` need not exist: it has no files then."""
        self._root = root.absolute()

    def __repr__(self) -> str:
        return f"FolderFiles({self._root})"

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names."""
        for name in keys(self._root, prefix, after, hidden=STAGING):
            # It may have been removed since it was listed.
            if found := self.find(name):
                yield found

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now."""
        path = self._root / name
        with translate_errors("look at", path):
            try:
                is_elsewhere = leads_out(self._root, path)
                if is_elsewhere and path.is_dir():
                    raise PermissionError(
                        errno.EACCES, f"it is a link to a folder outside of {self._root}"
                    )
                found = path.lstat() if is_elsewhere else path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        is_file = is_elsewhere or stat.S_ISREG(found.st_mode)
        return _listed(name, found) if is_file else None

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version."""
        path = self._root / file.name
        with translate_errors("read", path):
            try:
                if leads_out(self._root, path):
                    raise FileElsewhere(file.name, file.etag, file.etag)
                with open_inside(self._root, path) as stream:
                    self._check(file, os.fstat(stream.fileno()))
                    stream.seek(start)
                    body = stream.read(end - start)
                    self._check(file, os.fstat(stream.fileno()))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise FileChanged(file.name, file.etag, None) from error
        if len(body) != end - start:
            raise StoreAway(f"read {path}: {len(body)} bytes from {start} on, not {end - start}")
        return body

    @staticmethod
    def _check(file: ListedFile, found: os.stat_result) -> None:
        etag = _listed(file.name, found).etag
        if etag != file.etag:
            raise FileChanged(file.name, file.etag, etag)


def _listed(name: str, found: os.stat_result) -> ListedFile:
    etag = f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"
    modified = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
    return ListedFile(name, etag, found.st_size, modified)
