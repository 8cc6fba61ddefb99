"""Files of other programs in a folder of HDFS, as the auditor reads them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hdfs_native import Client, FileStatus

from landfall.api.spec import HdfsAccess
from landfall.audit import Unchecked
from landfall.audit.buckets.hdfs import STAGING, HdfsFolder
from landfall.audit.sources import CannotCompare, FoundFile
from landfall.store.hdfs.errors import translate_errors


@dataclass(frozen=True)
class SourceHdfs:
    """``SourceFolder`` of a folder, which need not exist."""

    client: Client
    url: str
    root: str

    @classmethod
    def of(cls, authority: str, path: str, settings: HdfsAccess) -> "SourceHdfs":
        """The files in the folder at this path, and in those below."""
        opened = HdfsFolder.of(authority, path, settings)
        return cls(opened.client, opened.url, opened.root)

    def files(self) -> Iterator[FoundFile]:
        """All files, without the staging folder."""
        with translate_errors("list", self.url):
            found = list(self._listed())
        for each in found:
            name = each.path.removeprefix(self.root)
            if not name.startswith(STAGING):
                modified = datetime.fromtimestamp(each.modification_time / 1000, UTC)
                yield FoundFile(name, _etag(each), modified)

    def _listed(self) -> Iterator[FileStatus]:
        try:
            for each in self.client.list_status(self.root, recursive=True):
                if not each.isdir:
                    yield each
        except FileNotFoundError:
            return

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
