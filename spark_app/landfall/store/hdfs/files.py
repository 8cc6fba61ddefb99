"""Files of other programs in a folder of HDFS.

HDFS has no ETag. Versions of a file are distinguished by when it was closed, by the millisecond,
and its size, looked at before and after each read. While a file is being written, both cover its
full blocks only: it may stay empty for hours, and grow by a block at a time. Nothing shows it, so
such files are to be left out by their names; what was read of one is another version once it is
closed.
"""

from collections.abc import Iterator

from hdfs_native import FileStatus

from landfall.api import spec
from landfall.errors import StoreAway
from landfall.objects import FileChanged, ListedFile
from landfall.store.hdfs.client import client
from landfall.store.hdfs.errors import translate_errors
from landfall.store.hdfs.requests import Requests
from landfall.store.hdfs.store import STAGING
from landfall.store.hdfs.tree import Tree, time_of
from landfall.store.in_order import in_order

_HINT = "files are read with the right r, and folders with r and x"


class HdfsFiles:
    """``SourceFiles`` in a folder and its folders. Thread-safe.

    Args:
        authority: host and port of the name node, or a name service.
        folder: what all names are relative to. It need not exist: it has no files then.
        settings: how to access it.
    """

    def __init__(self, authority: str, folder: str, settings: spec.HdfsAccess) -> None:
        self._root = f"/{folder.strip('/')}"
        self._url_of_root = f"hdfs://{authority}{self._root}/"
        with translate_errors("connect", self._url_of_root):
            made = client(authority, settings)
        self.requests = Requests(settings)
        self._tree = Tree(made, self.requests, new="")

    def __repr__(self) -> str:
        return f"HdfsFiles({self._url_of_root})"

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names, one folder in memory at a time, and those above it."""
        url = f"{self._url_of_root}{prefix}"
        return in_order(self._files(prefix, after, url), after, url)

    def _files(self, prefix: str, after: str, url: str) -> Iterator[ListedFile]:
        listed = self._tree.files(self._root, prefix, after, STAGING)
        while True:
            with translate_errors("list", url, _HINT):
                found = next(listed, None)
            if found is None:
                return
            yield _listed(found.path.removeprefix(self._root).lstrip("/"), found)

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now."""
        with translate_errors("look at", self._url_of_root + name, _HINT):
            found = self._tree.status(self._path(name))
        return None if found is None or found.isdir else _listed(name, found)

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version, looked at before and after."""
        if start >= end:
            return b""
        url, path = self._url_of_root + file.name, self._path(file.name)
        with translate_errors("read", url, _HINT):
            self._check(file)
            try:
                body = self._tree.read_range(path, start, end - start)
            except FileNotFoundError as error:
                raise FileChanged(file.name, file.etag, None) from error
            self._check(file)
        if len(body) != end - start:
            raise StoreAway(f"read {url}: {len(body)} bytes from {start} on, not {end - start}")
        return body

    def _check(self, file: ListedFile) -> None:
        found = self.find(file.name)
        if found is None or found.etag != file.etag:
            raise FileChanged(file.name, file.etag, found.etag if found else None)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def _listed(name: str, found: FileStatus) -> ListedFile:
    etag = f"{found.modification_time:x}-{found.length:x}"
    return ListedFile(name, etag, found.length, time_of(found))
