"""Reads a folder of HDFS with a client that is not written in Java."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from hdfs_native import Client, FileReader, FileStatus

from landfall_audit import Unchecked
from landfall_audit.buckets import BucketFile, CannotCompare, stream_of
from landfall_audit.login.hdfs import client_options, translate_errors
from landfall_audit.spec import HdfsSection

STAGING = ".landfall-staging/"
"""Folder of what is not visible."""


@dataclass(frozen=True)
class HdfsFolder:
    """A folder. Errors are translated as in ``store.hdfs.errors``."""

    client: Client
    url: str
    root: str

    @classmethod
    def of(cls, authority: str, path: str, settings: HdfsSection) -> "HdfsFolder":
        """The folder at this path."""
        root = f"/{path.strip('/')}".rstrip("/") + "/"
        url = f"hdfs://{authority}{root}"
        with translate_errors("connect", url):
            return cls(Client(**client_options(authority, settings)), url, root)

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys and sizes, in memory: a name node lists folders in the order of its own."""
        with translate_errors("list", f"{self.url}{prefix}"):
            found = list(self._files(f"{self.root}{prefix}".rpartition("/")[0]))
        keys = ((file.path.removeprefix(self.root), file.length) for file in found)
        yield from sorted(
            (key, size)
            for key, size in keys
            if key.startswith(prefix) and not key.startswith(STAGING)
        )

    def _files(self, folder: str) -> Iterator[FileStatus]:
        try:
            for file in self.client.list_status(folder, recursive=True):
                if not file.isdir:
                    yield file
        except FileNotFoundError:
            return

    def open(self, key: str) -> BinaryIO:
        """A stream of the file's bytes."""
        url = f"{self.url}{key}"
        with translate_errors("read", url):
            file = self._opened(key)
        if file is None:
            raise FileNotFoundError(key)

        def read(size: int) -> bytes:
            with translate_errors("read", url):
                return file.read(size)

        return stream_of(read)

    def _opened(self, key: str) -> FileReader | None:
        try:
            return self.client.read(self.root + key)
        except FileNotFoundError:
            return None

    def files(self) -> Iterator[BucketFile]:
        """All files, without the staging folder. The folder need not exist."""
        with translate_errors("list", self.url):
            found = list(self._files(self.root))
        for file in found:
            name = file.path.removeprefix(self.root)
            if not name.startswith(STAGING):
                modified = datetime.fromtimestamp(file.modification_time / 1000, UTC)
                yield BucketFile(name, _etag(file), modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, looked at before and after: HDFS has no conditional reads."""
        if start >= end:
            return b""
        path = f"{self.root}{name}"
        with translate_errors("read", f"{self.url}{name}"):
            try:
                before = self.client.get_file_info(path)
                if _etag(before) == etag:
                    body = self.client.read(path).read_range(start, end - start)
                    if _etag(self.client.get_file_info(path)) == etag:
                        return body
            except FileNotFoundError:
                pass
        raise CannotCompare(Unchecked.VERSION)


def _etag(found: FileStatus) -> str:
    return f"{found.modification_time:x}-{found.length:x}"
