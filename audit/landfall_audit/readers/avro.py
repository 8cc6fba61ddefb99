"""Rows of Avro object container files: the blocks after the part's sync markers."""

from collections.abc import Iterator
from functools import partial

from landfall_audit import untrusted_json
from landfall_audit.buckets import SourceFolder
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.objects.avro_blocks import (
    SYNC_BYTES,
    AvroFileHeader,
    exactly,
    read_block,
    read_header,
)
from landfall_audit.readers import FileRow, Options, Reader
from landfall_audit.readers.avro_json import AvroJson
from landfall_audit.readers.streams import OpenPart, damage_is_unchecked


def reader_of(options: Options) -> Reader:
    """The reader with these options."""
    return partial(_rows, chosen=options.get("compression", "Auto"))


def _rows(source: SourceFolder, part: FeedFilePart, *, chosen: object) -> Iterator[FileRow]:
    with damage_is_unchecked():
        opened = OpenPart.of(source, part, chosen)
        header = read_header(opened.stream)
        # The marker that ends the header is the one before the first block.
        if opened.is_over():
            return
        is_first = not opened.start or opened.start <= opened.stream.tell()
        sync = exactly(opened.stream, SYNC_BYTES)
        if not is_first:
            if not opened.seek_mark(sync, opened.start):
                return
            exactly(opened.stream, SYNC_BYTES)
        yield from _of_blocks(opened, header, sync)


def _of_blocks(opened: OpenPart, header: AvroFileHeader, sync: bytes) -> Iterator[FileRow]:
    values = AvroJson(untrusted_json.decode(header.schema))
    while block := read_block(opened.stream, header, sync):
        count, content = block
        at = 0
        for _ in range(count):
            value, at = values.payload(content, at)
            yield FileRow(value)
        if at != len(content):
            raise ValueError("bytes left over in a block")
        if opened.is_over(SYNC_BYTES):
            return
