"""Reads a folder of a file system."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from landfall_audit import Unchecked
from landfall_audit.buckets import BucketFile, CannotCompare
from landfall_audit.links import leads_out, open_below

_STAGING = ".landfall-staging"
"""The folder in which a file store keeps what is not visible yet."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of a file system."""

    root: Path

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Paths relative to the folder and file sizes, without the staging folder.

        What links lead out of the folder is left out, and no link to a folder is followed.
        """
        keys = []
        for folder, folders, names in os.walk(self.root):
            if Path(folder) == self.root:
                folders[:] = (name for name in folders if name != _STAGING)
            keys += [Path(folder, name).relative_to(self.root).as_posix() for name in names]
        for key in sorted(key for key in keys if key.startswith(prefix)):
            path = self.root / key
            if path.is_file() and not leads_out(self.root, path):
                yield key, path.stat().st_size

    def open(self, key: str) -> BinaryIO:
        """The file, opened for reading."""
        return open_below(self.root, self.root / key)

    def files(self) -> Iterator[BucketFile]:
        """All files, without the staging folder.

        A link to a file elsewhere is a file that cannot be read.
        """
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                relative = path.relative_to(self.root).as_posix()
                if not relative.startswith(f"{_STAGING}/") and path.is_file():
                    status = path.lstat() if leads_out(self.root, path) else path.stat()
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield BucketFile(relative, _etag(status), modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, looked at after the read."""
        try:
            with open_below(self.root, self.root / name) as stream:
                stream.seek(start)
                body = stream.read(end - start)
                if _etag(os.fstat(stream.fileno())) == etag:
                    return body
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise CannotCompare(Unchecked.VERSION)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
