"""What is not what its reader says, or damaged, is one error with the file, the place and why."""

import io
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.errors import StoreAway
from landfall.formats.avro.parts import AvroReader
from landfall.formats.csv import CsvReader
from landfall.formats.line_parts import JsonLinesReader, LinesReader
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import FilePart, FileReader, ReadLimits, UnreadableFileError
from landfall.formats.sequencefile.parts import SequenceFileReader
from landfall.formats.whole import Whole
from tests.support.payloads.file_records import (
    PACKAGE,
    SUFFIXES,
    SYNC,
    MemoryFile,
    SequenceFileOf,
    avro_file,
    bytes_writable,
    compressed,
    read_all,
    read_parts,
    text,
    values,
)

ROWS = [(bytes_writable(b"k%d" % i), text(f"value {i}")) for i in range(9)]
NUMBERS = list(range(100))
SHORT = ReadLimits(record_bytes=10)


def error_of(
    reader: FileReader, content: bytes, name: str = "f", part: FilePart | None = None
) -> UnreadableFileError:
    file = MemoryFile(name, content)
    with pytest.raises(UnreadableFileError) as raised:
        read_parts(reader, file, [part or FilePart(0, len(content))])
    assert raised.value.name == name
    return raised.value


def parquet() -> bytes:
    made = io.BytesIO()
    table = pa.table({"n": pa.array(NUMBERS), "s": [f"text {n}" for n in NUMBERS]})
    pq.write_table(table, made, row_group_size=30, write_page_checksum=True, compression="none")
    return made.getvalue()


def test_an_error_has_the_file_the_place_and_the_reason() -> None:
    error = error_of(LinesReader(limits=SHORT), b"short\nmuch too long\n", "logs/app.log")

    assert (error.position, error.reason) == (6, "a line of more than 10 bytes")
    assert str(error) == "logs/app.log: at 6: a line of more than 10 bytes"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("reader", [AvroReader(), SequenceFileReader(), ParquetReader()])
@pytest.mark.parametrize("content", [b"", b"x", b"{}\n" * 99])
def test_text_is_no_binary_file(reader: FileReader, content: bytes) -> None:
    assert error_of(reader, content).position == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "reader", [LinesReader(), JsonLinesReader(), CsvReader(("a",), has_header=False)]
)
def test_compressed_data_that_ends_early_is_damaged(reader: FileReader, suffix: str) -> None:
    whole = compressed(suffix, b"line\n" * 99)

    for end in (3, len(whole) // 2, len(whole) - 1):
        assert "damaged" in error_of(reader, whole[:end], f"f{suffix}").reason


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_behind_compressed_data_is_not_ignored(suffix: str) -> None:
    whole = compressed(suffix, b"line\n" * 99)

    assert "damaged" in error_of(LinesReader(), whole + b"more lines\n" * 9, f"f{suffix}").reason


@pytest.mark.parametrize("length", [10, 11, 100])
@pytest.mark.parametrize("window", [1, 7, 4096])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_have_a_limit(length: int, window: int, suffix: str) -> None:
    reader = LinesReader(limits=ReadLimits(record_bytes=10, window_bytes=window))
    line = b"x" * (length - 1) + b"\n"
    content = b"ab\n" + line + b"c"
    file = MemoryFile(f"f{suffix}", compressed(suffix, content) if suffix else content)

    if length <= 10:
        assert values(read_all(reader, file)) == [b"ab", line[:-1], b"c"]
    else:
        assert error_of(reader, file.content, file.name).position == 3


def test_the_last_line_has_the_same_limit() -> None:
    assert values(read_all(LinesReader(limits=SHORT), MemoryFile("f", b"x" * 10))) == [b"x" * 10]
    assert error_of(LinesReader(limits=SHORT), b"x" * 11).position == 0


def test_a_line_that_is_too_long_spoils_only_its_own_part() -> None:
    reader, content = LinesReader(limits=SHORT), b"a\n" + b"x" * 50 + b"\nb\n"
    file = MemoryFile("f", content)

    assert error_of(reader, content, part=FilePart(0, 10)).position == 2
    assert read_parts(reader, file, [FilePart(10, 50)]) == []
    assert values(read_parts(reader, file, [FilePart(50, 55)])) == [b"b"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,a\n1,2\n", "the header: columns must have unique names, got a, a"),
        (b'"a\n1\n', "the header: header: malformed value 1: '\"a'"),
        (b"\xff\n1\n", "the header: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_header_of_csv_must_name_columns(content: bytes, reason: str) -> None:
    assert error_of(CsvReader(), content).reason.startswith(reason)
    assert error_of(CsvReader(), content, part=FilePart(2, len(content))).reason.startswith(reason)


def test_an_open_quote_at_the_end_is_damage() -> None:
    error = error_of(CsvReader(multiline=True), b'a\n1\n"2\n3\n')

    assert (error.position, error.reason) == (4, "a quote is not closed at the end of the file")


def test_an_open_quote_has_a_limit() -> None:
    reader = CsvReader(multiline=True, limits=ReadLimits(record_bytes=10, window_bytes=5))

    assert error_of(reader, b'a\n1\n"2\n3\n4\n5\n6\n7\n8\n').position == 4


def test_rows_of_csv_that_do_not_fit_are_bad_and_keep_their_bytes() -> None:
    content = b'a,b\n1,2\n3\n4,"5\n6,\xff\n7,8\n'

    found = read_all(CsvReader(), MemoryFile("t.csv", content))

    assert [(position, value) for position, value, _, _ in found] == [
        (4, b'{"a":"1","b":"2"}'),
        (8, b"3"),
        (10, b'4,"5'),
        (15, b"6,\xff"),
        (19, b'{"a":"7","b":"8"}'),
    ]
    assert [error for *_, error in found] == [
        None,
        "csv: 1 values for 2 columns",
        "csv: malformed value 2: '\"5'",
        "not UTF-8: invalid start byte at byte 2",
        None,
    ]


@pytest.mark.parametrize("kind", ["None", "Record", "Block"])
def test_a_sequence_file_that_ends_early_is_damaged_or_has_fewer_records(kind: str) -> None:
    content = SequenceFileOf(kind, 2).of(ROWS)
    whole = read_all(SequenceFileReader(), MemoryFile("f", content))

    for end in range(len(content)):
        try:
            found = read_all(SequenceFileReader(), MemoryFile("f", content[:end]))
        except UnreadableFileError:
            continue
        # It ends between two records: what is known of its size is not known here.
        assert found == whole[: len(found)]


def test_a_wrong_sync_mark_is_damage() -> None:
    content = SequenceFileOf("None", 2).of(ROWS)
    at = content.index(b"\xff\xff\xff\xff" + SYNC)
    damaged = content[: at + 9] + b"?" + content[at + 10 :]

    error = error_of(SequenceFileReader(), damaged)

    assert (error.position, error.reason) == (at, "another sync mark than in the header")


def test_lengths_of_a_sequence_file_must_make_sense() -> None:
    content = SequenceFileOf("None", 9).of(ROWS[:1])
    at = content.index(SYNC) + 16

    for lengths in ("7fffffff00000001", "0000000100000002", "0000000fffffffff", "8000000000000000"):
        damaged = content[:at] + bytes.fromhex(lengths) + content[at + 8 :]
        assert error_of(SequenceFileReader(), damaged).position == at


@pytest.mark.parametrize(
    ("class_", "value"),
    [
        ("BytesWritable", b"\x00\x00\x00\x05four"),
        ("BytesWritable", b"\x00\x00"),
        ("Text", b"\x05four"),
        ("Text", b"\x90" + b"x" * 144),
        ("Text", b""),
        ("NullWritable", b"x"),
    ],
)
def test_writables_must_be_of_their_class(class_: str, value: bytes) -> None:
    classes = (f"{PACKAGE}NullWritable", PACKAGE + class_)
    content = SequenceFileOf("None", 9, classes).of([(b"", value)])

    assert class_ in error_of(SequenceFileReader(), content).reason


def test_codecs_that_cannot_be_read_are_named() -> None:
    content = SequenceFileOf("Record", 9).of(ROWS)
    unknown = content.replace(b"DefaultCodec", b"LzopperCodec")

    assert "LzopperCodec" in error_of(SequenceFileReader(), unknown).reason


def test_bytes_that_grow_too_much_are_refused() -> None:
    limits = ReadLimits(record_bytes=100, block_bytes=1000)
    row = (bytes_writable(b""), text("x" * 5000))

    for kind in ("None", "Record", "Block"):
        content = SequenceFileOf(kind, 9).of([row])
        assert "more than" in error_of(SequenceFileReader(limits=limits), content).reason
    content = avro_file("string", ["x" * 5000], 10, "deflate")
    assert "more than" in error_of(AvroReader(limits=limits), content).reason
    content = avro_file("string", ["x" * 500], 10)
    assert "more than" in error_of(AvroReader(limits=limits), content).reason


@pytest.mark.parametrize("block_bytes", [1, 20, 1000])
def test_any_damage_of_an_avro_file_is_an_error_or_the_same_number_of_records(
    block_bytes: int,
) -> None:
    content = avro_file("long", NUMBERS, block_bytes)

    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
        try:
            found = read_all(AvroReader(), MemoryFile("f", damaged), 70)
        except UnreadableFileError:
            continue
        assert len(found) == len(NUMBERS)


def test_an_avro_file_that_ends_inside_a_block_is_damaged() -> None:
    content = avro_file("string", ["a" * 300, "b" * 300], 1)

    # The last part holds no more than the end of a block, whose marker is missing.
    error = error_of(AvroReader(), content[:-1], part=FilePart(len(content) - 60, len(content) - 1))

    assert error.reason == "the file does not end with its sync marker"


@pytest.mark.parametrize("damage", ["no sync marker", "records that do not fit", "a long record"])
def test_blocks_of_avro_before_a_damaged_one_are_read(damage: str) -> None:
    texts = ["a" * 300, "b" * 300, "c" * 300]
    content = bytearray(avro_file("string", texts, 1))
    limits = ReadLimits(record_bytes=350 if damage == "a long record" else 1 << 20)
    if damage == "a long record":
        content = bytearray(avro_file("string", [*texts[:2], "c" * 400], 1))
    elif damage == "no sync marker":
        content[-1] ^= 1
    else:
        content[content.index(b"ccc") - 1] ^= 8  # of the length of the text
    chunks = AvroReader(limits=limits).read(
        MemoryFile("f", bytes(content)), FilePart(0, len(content))
    )

    assert len(next(chunks)) == 2
    with pytest.raises(UnreadableFileError):
        next(chunks)


def test_single_records_of_avro_may_be_bad() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    content = avro_file(schema, [{"s": "a"}, {"s": "é"}, {"s": "b"}], 1000)
    damaged = content.replace("é".encode(), b"\xc3\xc3")

    found = read_all(AvroReader(), MemoryFile("f", damaged))

    assert values(found) == [b'{"s":"a"}', b"\x04\xc3\xc3", b'{"s":"b"}']
    assert [error for *_, error in found] == [None, "avro: s: not UTF-8", None]


def test_any_damage_of_parquets_pages_is_an_error() -> None:
    content = parquet()
    footer = int.from_bytes(content[-8:-4], "little") + 8

    # Of some damaged footers Arrow ends the process: see ``landfall.formats.parquet.parts``.
    for at in range(0, len(content) - footer, 7):
        damaged = content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
        try:
            found = read_all(ParquetReader(), MemoryFile("f", damaged), 700)
        except UnreadableFileError:
            continue
        assert len(found) == len(NUMBERS)


def test_a_parquet_file_that_ends_early_is_damaged() -> None:
    content = parquet()

    for end in range(0, len(content), 9):
        assert error_of(ParquetReader(), content[:end]).position == 0


def test_a_page_whose_checksum_is_wrong_is_damage() -> None:
    content = parquet()
    at = content.index(b"text 45")

    error = error_of(ParquetReader(), content[:at] + b"T" + content[at + 1 :])

    assert error.position == 30
    assert "damaged Parquet file" in error.reason


def test_a_whole_file_has_a_limit() -> None:
    assert values(read_all(Whole(limits=SHORT), MemoryFile("f", b"x" * 10))) == [b"x" * 10]
    assert error_of(Whole(limits=SHORT), b"x" * 11).reason == "it has more than 10 bytes"


class Away(MemoryFile):
    """A file whose store does not give its last bytes."""

    def read(self, start: int, end: int, /) -> bytes:
        if end == self.size:
            raise StoreAway("503")
        return super().read(start, end)


FILES: list[tuple[FileReader, str, bytes]] = [
    (LinesReader(), "f", b"line\n" * 99),
    (LinesReader(), "f.gz", compressed(".gz", bytes(range(256)))),
    (LinesReader(), "f.bz2", compressed(".bz2", bytes(range(256)))),
    (LinesReader(), "f.zst", compressed(".zst", bytes(range(256)))),
    (LinesReader(), "f.lz4", compressed(".lz4", bytes(range(256)))),
    (AvroReader(), "f", avro_file("long", NUMBERS, 20)),
    (SequenceFileReader(), "f", SequenceFileOf("Block", 2).of(ROWS)),
    (ParquetReader(), "f", parquet()),
    (Whole(limits=ReadLimits(window_bytes=10)), "f", b"x" * 99),
]


@pytest.mark.parametrize("index", range(len(FILES)))
def test_a_store_that_is_away_is_no_damage(index: int) -> None:
    reader, name, content = FILES[index]
    file = Away(name, content)

    with pytest.raises(StoreAway):
        read_parts(reader, file, [FilePart(0, file.size)])
