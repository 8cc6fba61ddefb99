"""The parts of a file of blocks together hold each record once, in order, however it is cut."""

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from landfall.formats.avro.parts import AvroReader
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import ReadLimits
from landfall.formats.sequencefile.parts import SequenceFileReader
from landfall.formats.whole import Whole
from tests.support.examples import share
from tests.support.payloads.file_records import (
    PACKAGE,
    SUFFIXES,
    SYNC,
    Found,
    MemoryFile,
    SequenceFileOf,
    avro_file,
    bytes_writable,
    compressed,
    parts_at,
    read_all,
    read_parts,
    text,
    values,
)

LIMITS = st.builds(
    ReadLimits,
    window_bytes=st.one_of(st.integers(1, 60), st.just(4096)),
    chunk_rows=st.integers(1, 9),
)
CUTS = st.lists(st.integers(1, 900), max_size=12)
# Contents that look like marks, or like beginnings of them.
PAYLOADS = st.one_of(
    st.binary(max_size=200), st.sampled_from([SYNC[:9], b"\xff" * 7, b"\xff" * 4 + SYNC[:15]])
)
ROWS = st.lists(st.tuples(PAYLOADS, PAYLOADS), max_size=12)
KINDS = st.builds(
    SequenceFileOf, st.sampled_from(["None", "Record", "Block"]), sync_every=st.integers(1, 4)
)
SEQUENCE_FILE = SequenceFileReader()


@given(kind=KINDS, rows=ROWS, cuts=CUTS, limits=LIMITS)
@example(
    kind=SequenceFileOf("None", 1), rows=[(b"", b"")] * 3, cuts=[195, 230], limits=ReadLimits()
)
def test_each_record_of_a_sequence_file_is_in_one_part(
    kind: SequenceFileOf, rows: list[tuple[bytes, bytes]], cuts: list[int], limits: ReadLimits
) -> None:
    content = kind.of([(bytes_writable(key), text(value)) for key, value in rows])
    file, reader = MemoryFile("part-0", content), SequenceFileReader(limits=limits)

    found = read_parts(reader, file, parts_at(len(content), cuts))

    assert [(key, value) for _, value, key, _ in found] == rows
    assert found == read_all(SEQUENCE_FILE, file)


@settings(max_examples=share(25))
@given(kind=KINDS, rows=ROWS, window=st.integers(1, 50))
def test_every_cut_of_a_sequence_file_gives_the_same(
    kind: SequenceFileOf, rows: list[tuple[bytes, bytes]], window: int
) -> None:
    content = kind.of([(bytes_writable(key), text(value)) for key, value in rows[:4]])
    file, reader = (
        MemoryFile("part-0", content),
        SequenceFileReader(limits=ReadLimits(window_bytes=window)),
    )
    whole = read_all(SEQUENCE_FILE, file)
    # The part before the cut looks for its first mark, too.
    begin = content.index(SYNC) + 1

    for cut in range(1, len(content)):
        assert read_parts(reader, file, parts_at(len(content), [begin, cut])) == whole


@given(
    rows=st.lists(PAYLOADS, max_size=5),
    kind=st.sampled_from(["None", "Block"]),
    class_=st.sampled_from([(f"{PACKAGE}LongWritable", "org.acme.Own")]),
)
def test_writables_of_other_classes_are_as_they_are_serialized(
    rows: list[bytes], kind: str, class_: tuple[str, str]
) -> None:
    content = SequenceFileOf(kind, 2, class_).of([(b"8 bytes!", row) for row in rows])

    found = read_all(SEQUENCE_FILE, MemoryFile("part-0", content))

    assert [(key, value) for _, value, key, _ in found] == [(b"8 bytes!", row) for row in rows]


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sum", "type": MONEY},
    ],
}  # fmt: skip
ORDERS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "note": st.none() | st.text(max_size=30) | st.just(SYNC[:9].decode()),
            "tags": st.lists(st.text(max_size=3), max_size=3),
            "sum": st.decimals(-9999, 9999, places=2),
        }
    ),
    max_size=40,
)
CODECS = st.sampled_from(["null", "deflate", "bzip2", "xz"])


@given(rows=ORDERS, block_bytes=st.integers(1, 300), codec=CODECS, cuts=CUTS, limits=LIMITS)
def test_each_record_of_an_avro_file_is_in_one_part(
    rows: list[dict[str, object]], block_bytes: int, codec: str, cuts: list[int], limits: ReadLimits
) -> None:
    content = avro_file(SCHEMA, rows, block_bytes, codec)
    file, reader = MemoryFile("orders.avro", content), AvroReader(limits=limits)

    found = read_parts(reader, file, parts_at(len(content), cuts))

    assert _orders(found) == list(fastavro.reader(io.BytesIO(content)))
    assert _orders(found) == rows
    assert found == read_all(AvroReader(), file)


def _orders(found: list[Found]) -> list[dict[str, object]]:
    parsed = [json.loads(value or b"") for value in values(found)]
    return [{**each, "sum": Decimal(each["sum"])} for each in parsed]


@settings(max_examples=share(25))
@given(
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40),
    block=st.integers(1, 30),
    window=st.integers(1, 50),
)
def test_every_cut_of_an_avro_file_gives_the_same(
    numbers: list[int], block: int, window: int
) -> None:
    content = avro_file("int", numbers, block)
    file, reader = (
        MemoryFile("numbers.avro", content),
        AvroReader(limits=ReadLimits(window_bytes=window)),
    )
    whole = read_all(AvroReader(), file)
    begin = content.index(SYNC) + 1

    assert values(whole) == [b'{"value":%d}' % number for number in numbers]
    for cut in range(1, len(content)):
        assert read_parts(reader, file, parts_at(len(content), [begin, cut])) == whole


@given(rows=ORDERS, suffix=st.sampled_from(SUFFIXES), at=st.integers(0, 300))
def test_files_of_blocks_may_be_compressed_as_a_whole(
    rows: list[dict[str, object]], suffix: str, at: int
) -> None:
    avro = avro_file(SCHEMA, rows, 100)
    sequence = SequenceFileOf("Record", 3).of([(bytes_writable(b""), text("x")) for _ in rows])

    for reader, content in ((AvroReader(), avro), (SEQUENCE_FILE, sequence)):
        packed = MemoryFile(f"f{suffix}", compressed(suffix, content, at))
        assert read_all(reader, packed, 1) == read_all(reader, MemoryFile("f", content))


@given(
    numbers=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=50),
    group=st.integers(1, 20),
    cuts=st.lists(st.integers(1, 5000), max_size=12),
    limits=st.builds(
        ReadLimits,
        block_bytes=st.integers(1, 2000),
        window_bytes=st.integers(1, 400),
        chunk_rows=st.integers(1, 9),
    ),
)
def test_each_row_of_a_parquet_file_is_in_one_part(
    numbers: list[int | None], group: int, cuts: list[int], limits: ReadLimits
) -> None:
    table = pa.table({"n": pa.array(numbers, pa.int64()), "s": pa.array(map(str, numbers))})
    made = io.BytesIO()
    pq.write_table(table, made, row_group_size=group)
    file = MemoryFile("n.parquet", made.getvalue())

    found = read_parts(ParquetReader(limits), file, parts_at(file.size, cuts))

    assert [position for position, *_ in found] == list(range(len(numbers)))
    assert [json.loads(value or b"") for value in values(found)] == table.to_pylist()


def test_every_cut_of_a_parquet_file_gives_the_same() -> None:
    made = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2, 3]}), made, row_group_size=1)
    file = MemoryFile("n.parquet", made.getvalue())

    for cut in range(1, file.size):
        found = read_parts(ParquetReader(), file, parts_at(file.size, [cut]))
        assert [position for position, *_ in found] == [0, 1, 2]


@given(content=st.binary(max_size=300), window=st.integers(1, 50))
def test_a_whole_file_is_one_record(content: bytes, window: int) -> None:
    reader = Whole(limits=ReadLimits(window_bytes=window))

    assert read_all(reader, MemoryFile("logo.png.gz", content), 1) == [(0, content, None, None)]
