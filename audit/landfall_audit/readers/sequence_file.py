"""Rows of Hadoop's SequenceFiles, after the part's sync marks."""

from collections.abc import Iterator
from functools import partial

from landfall_audit.buckets import SourceFolder
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.objects.sequence_file import content, pairs, read_header
from landfall_audit.readers import FileRow, Options, Reader
from landfall_audit.readers.streams import OpenPart, damage_is_unchecked


def reader_of(options: Options) -> Reader:
    """The reader with these options."""
    return partial(_rows, chosen=options.get("compression", "Auto"))


def _rows(source: SourceFolder, part: FeedFilePart, *, chosen: object) -> Iterator[FileRow]:
    with damage_is_unchecked():
        opened = OpenPart.of(source, part, chosen)
        header = read_header(opened.stream)
        # What is before the first mark belongs to the first part.
        if opened.start:
            begin = max(opened.start, opened.stream.tell())
            if not opened.seek_mark(header.mark, begin):
                return
        for key, value in pairs(opened.stream, header, opened.is_over):
            yield FileRow(content(header.value, value), content(header.key, key))
