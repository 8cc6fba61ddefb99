"""How files are cut, what is read of them, and how options make readers."""

import io
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.formats.avro.parts import AvroReader
from landfall.formats.csv import CsvReader
from landfall.formats.line_parts import JsonLinesReader, LinesReader
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import FilePart, FileReader, ReadLimits
from landfall.formats.readers import reader_of
from landfall.formats.sequencefile.parts import SequenceFileReader
from landfall.formats.whole import Whole
from tests.support.payloads.file_records import (
    PACKAGE,
    SUFFIXES,
    MemoryFile,
    SequenceFileOf,
    avro_file,
    bytes_writable,
    compressed,
    read_all,
    text,
    values,
)

LINES = b"".join(b"line %d\n" % i for i in range(5000))
NAMES = ("Lines", "JsonLines", "Csv", "Parquet", "Avro", "SequenceFile", "Whole")


@dataclass(frozen=True)
class Watched:
    """A file that knows which bytes were read."""

    name: str
    content: bytes
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, start: int, end: int, /) -> bytes:
        assert 0 <= start < end <= len(self.content)
        self.ranges.append((start, end))
        return self.content[start:end]


def rows_of(count: int) -> list[tuple[bytes, bytes]]:
    dice = random.Random(7)
    return [(bytes_writable(b""), text(dice.randbytes(50))) for _ in range(count)]


@pytest.mark.parametrize(
    ("reader", "content"),
    [
        (LinesReader, LINES),
        (AvroReader, avro_file("string", ["x" * 50] * 700, 300)),
        (SequenceFileReader, SequenceFileOf("None", 9).of(rows_of(700))),
        (SequenceFileReader, SequenceFileOf("Block", 9).of(rows_of(700))),
    ],
    ids=["lines", "avro", "records", "blocks"],
)
def test_a_part_costs_its_own_bytes_in_windows(
    reader: type[LinesReader | AvroReader | SequenceFileReader], content: bytes
) -> None:
    file = Watched("f", content)
    part = FilePart(len(content) // 2, len(content) // 2 + 4000)

    for _ in reader(limits=ReadLimits(window_bytes=1000)).read(file, part):
        pass

    header = [each for each in file.ranges if each[0] == 0]
    rest = [each for each in file.ranges if each[0]]
    assert len(header) <= 1
    assert max(end - start for start, end in file.ranges) <= 1000
    assert part.start - 1 <= rest[0][0] <= part.start
    assert rest[-1][1] <= part.end + 1000


def test_reading_stops_when_the_next_part_begins_with_a_line() -> None:
    file = Watched("f", b"one\ntwo\nthree\n")

    assert [len(chunk) for chunk in LinesReader().read(file, FilePart(4, 8))] == [1]
    assert file.ranges == [(3, 8)]


def test_parquet_reads_the_footer_and_its_row_groups() -> None:
    made = io.BytesIO()
    pq.write_table(pa.table({"n": range(90_000)}), made, row_group_size=30_000, compression="none")
    file = Watched("f", made.getvalue())

    third = FilePart(file.size * 2 // 3, file.size)
    found = [len(chunk) for chunk in ParquetReader().read(file, third)]

    assert found == [10_000] * 3
    assert len(file.ranges) == 2
    assert file.ranges[1][0] > file.size // 2


@pytest.mark.parametrize("reader", [LinesReader(), CsvReader(("a",), has_header=False)])
def test_chunks_depend_on_the_bytes_alone(reader: FileReader) -> None:
    file = MemoryFile("f", b"a\n" * 25_000)

    for part in reader.parts("f", file.size, 30_000):
        sizes = [len(chunk) for chunk in reader.read(file, part)]
        assert sizes == [10_000, 2_500]


def test_parts_are_made_of_names_and_sizes() -> None:
    lines = LinesReader()

    assert lines.parts("f", 0) == (FilePart(0, 0),)
    assert lines.parts("f", 10, 4) == (FilePart(0, 3), FilePart(3, 6), FilePart(6, 10))
    assert lines.parts("f.LOG.GZ", 10, 4) == (FilePart(0, 10),)
    assert LinesReader(reader_of("Lines", {"compression": "None"}).compression).parts(
        "f.gz", 10, 5
    ) == (  # type: ignore[attr-defined]  # Lines has it
        FilePart(0, 5),
        FilePart(5, 10),
    )
    assert CsvReader(multiline=True).parts("f.csv", 10, 4) == (FilePart(0, 10),)
    assert Whole().parts("f.png", 10, 4) == (FilePart(0, 10),)
    assert len(lines.parts("f", 300 * 2**20)) == 3
    with pytest.raises(ValueError, match="parts of 0 bytes"):
        lines.parts("f", 10, 0)


@pytest.mark.parametrize("name", ["a.snappy", "a.log.lzo", "a.zip", "a.xz", "a.Z"])
def test_compression_that_cannot_be_read_is_refused(name: str) -> None:
    for reader in (
        LinesReader(),
        JsonLinesReader(),
        CsvReader(),
        AvroReader(),
        SequenceFileReader(),
        ParquetReader(),
    ):
        with pytest.raises(ValueError, match=r"files ending in .* cannot be read, only \.gz"):
            reader.parts(name, 10)


def test_parquet_files_are_not_compressed_as_a_whole() -> None:
    with pytest.raises(ValueError, match="compressed as a whole"):
        ParquetReader().parts("a.parquet.gz", 10)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_another_file_is_refused(name: str) -> None:
    reader = reader_of(name, {})

    with pytest.raises(ValueError, match="f"):
        list(reader.read(MemoryFile("f", b"12345"), FilePart(3, 6)))


@pytest.mark.parametrize("reader", [LinesReader(), AvroReader(), SequenceFileReader()])
def test_a_compressed_file_has_one_part(reader: FileReader) -> None:
    with pytest.raises(ValueError, match="it is compressed"):
        list(reader.read(MemoryFile("f.gz", b"12345"), FilePart(0, 3)))


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_empty_text_files_have_no_records(suffix: str) -> None:
    for reader in (
        LinesReader(),
        JsonLinesReader(),
        CsvReader(),
        CsvReader(multiline=True),
        CsvReader(("a",)),
    ):
        assert read_all(reader, MemoryFile(f"f{suffix}", b"")) == []
        packed = compressed(suffix, b"") if suffix else b""
        assert read_all(reader, MemoryFile(f"f{suffix}", packed)) == []


def test_a_header_alone_has_no_records() -> None:
    for content in (b"a,b", b"a,b\n", b"a,b\r\n\r\n", b"\xef\xbb\xbfa,b\n"):
        assert read_all(CsvReader(), MemoryFile("f.csv", content), 1) == []


def test_columns_replace_the_names_of_a_header() -> None:
    file = MemoryFile("f.csv", b"a;b\n1;\\N\n")
    dialect = {"separator": ";", "nullText": "\\N"}

    assert values(read_all(CsvReader(("x", "y"), dialect=dialect), file)) == [b'{"x":"1","y":null}']


def test_a_byte_order_mark_is_no_part_of_a_name() -> None:
    file = MemoryFile("f.csv", b'\xef\xbb\xbf"a",b\n1,2\n')

    assert values(read_all(CsvReader(), file, 5)) == [b'{"a":"1","b":"2"}']


def test_null_writables_are_null() -> None:
    classes = (f"{PACKAGE}NullWritable", f"{PACKAGE}NullWritable")
    content = SequenceFileOf("None", 1, classes).of([(b"", b"")] * 2)

    found = read_all(SequenceFileReader(), MemoryFile("f", content))

    assert [(value, key) for _, value, key, _ in found] == [(None, None)] * 2


def test_whole_files_may_be_decompressed() -> None:
    packed = MemoryFile("f.json.gz", compressed(".gz", b"{}"))

    assert values(read_all(reader_of("Whole", {"compression": "Gzip"}), packed)) == [b"{}"]
    assert values(read_all(Whole(), packed)) == [packed.content]


@pytest.mark.parametrize("name", NAMES)
def test_all_readers_take_the_limit_of_a_record(name: str) -> None:
    reader = reader_of(name, {"maxRecordBytes": "1Mi"})

    assert reader.limits.record_bytes == 2**20  # type: ignore[attr-defined]  # all have it


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("Line", {}, "no reader 'Line', did you mean Lines?"),
        ("Lines", {"columns": ["a"]}, "unknown option columns"),
        ("Lines", {"compression": "Snappy"}, "options: Invalid enum value 'Snappy'"),
        ("Parquet", {"compression": "Gzip"}, "unknown option compression"),
        ("Lines", {"maxRecordBytes": "1Gi"}, "maxRecordBytes: limits out of range"),
        ("Lines", {"maxRecordBytes": "much"}, "maxRecordBytes: not a quantity"),
        ("Csv", {"header": False}, "files without a header need columns"),
        ("Csv", {"columns": ["a", "a"]}, "columns must have unique names"),
        ("Csv", {"separator": "||"}, "must be one character"),
        ("Csv", {"multiline": True, "escape": "\\"}, "multiline needs an ASCII quote"),
        ("Csv", {"multiline": True, "quote": "“"}, "multiline needs an ASCII quote"),
    ],
)
def test_wrong_options_are_named(name: str, options: Mapping[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        reader_of(name, options)
