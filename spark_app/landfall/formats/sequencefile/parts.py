"""Reader ``SequenceFile``: Hadoop's files of keys and values, version 6, of any classes.

The payload is what the value holds, and the record's key what the key holds:

=================================================  ==============================================
class (``org.apache.hadoop.io``)                   holds
=================================================  ==============================================
``BytesWritable``                                  its bytes, without their number before them
``Text``                                           its UTF-8, without the number of its bytes
``NullWritable``                                   nothing: null
any other                                          what it is serialized as
=================================================  ==============================================

Records may be compressed each, in blocks, or not at all, by the codecs of ``codecs``. Records
between two sync marks belong to the part in which the first of these begins; those before the
first mark belong to the first part.

Source: Hadoop 3.4, ``SequenceFileRecordReader`` (which part a record belongs to).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from landfall.formats.parts import (
    FileBytes,
    FilePart,
    FileRecords,
)
from landfall.formats.sequencefile.contents import MalformedWritable, content_of
from landfall.formats.sequencefile.file import (
    DamagedRecord,
    Mark,
    RecordRun,
    SequenceFileBlock,
    SequenceFileHeader,
    items,
    read_header,
)
from landfall.formats.slices import row_ranges
from landfall.formats.streams import Opened, StreamReader, WindowReader, opened


@dataclass(frozen=True)
class SequenceFileReader(StreamReader):
    """Reads SequenceFiles."""

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records after the part's sync marks; see ``parts.FileReader``."""
        stream = opened(file, part, self.compression, self.limits)
        header = read_header(stream.head)
        source = _first_mark(header, stream)
        if source is None:
            return
        for item in items(source, header, self.limits, stream.end):
            if not isinstance(item, Mark):
                yield from self._records(source, header, item)

    def _records(
        self, source: WindowReader, header: SequenceFileHeader, item: SequenceFileBlock | RecordRun
    ) -> Iterator[FileRecords]:
        try:
            keys, values = item.keys(), item.values()
        except DamagedRecord as error:
            raise source.error(str(error), item.position_of(error.row)) from error
        except ValueError as error:
            raise source.error(str(error), item.position_of(0)) from error
        positions = item.positions
        key_of, value_of = content_of(header.key), content_of(header.value)
        for rows in row_ranges(len(positions), self.limits.chunk_rows):
            at = positions[rows]
            try:
                made = key_of(keys.take(rows)), value_of(values.take(rows))
            except MalformedWritable as error:
                raise source.error(str(error), int(at[error.row])) from error
            yield FileRecords(at, partial(_same, made[1]), made[0])


def _first_mark(header: SequenceFileHeader, stream: Opened) -> WindowReader | None:
    """Return a source at the first mark of the part, or at its first record; None without."""
    end_of_header = stream.head.position
    if not stream.start:
        return stream.source(end_of_header)
    begin = max(stream.start, end_of_header)
    if begin >= stream.end:
        return None
    source = stream.source(begin)
    return source if source.skip_to(header.mark, stream.end) else None


def _same(values: pa.BinaryArray) -> pa.BinaryArray:
    return values
