"""What the auditor reads of the parts of a file that is in memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from landfall.api.spec import Feed
from landfall.formats.parts import FilePart
from landfall_audit.buckets import BucketFile
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.readers import FileRow
from landfall_audit.readers.by_name import reader_of
from tests.support.audit.audited_spec import for_auditor
from tests.support.payloads.file_records import MemoryFile


@dataclass(frozen=True)
class OneFile:
    """``SourceFolder`` of one file."""

    file: MemoryFile

    def files(self) -> Iterator[BucketFile]:
        raise NotImplementedError

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        assert (name, etag) == (self.file.name, "v1")
        return self.file.read(start, end)


def audited(
    reader: str, file: MemoryFile, parts: Iterable[FilePart], **options: Any
) -> list[FileRow]:
    """All rows of these parts, one part after the other."""
    feed = Feed.model_validate(
        {"topic": "t", "url": "file:///in", "reader": reader, "readerOptions": options}
    )
    read = reader_of(for_auditor(feed))
    assert read
    found: list[FileRow] = []
    for part in parts:
        found += read(
            OneFile(file), FeedFilePart(file.name, "v1", file.size, 0, part.start, part.end, 0)
        )
    return found
