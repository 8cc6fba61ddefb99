"""What the auditor reads of files is what is landed of them: two readers that share no code."""

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import assume, example, given
from hypothesis import strategies as st

from landfall.formats.parts import FilePart, UnreadableFileError
from landfall.formats.readers import reader_of
from landfall_audit.buckets import CannotCompare
from landfall_audit.objects.avro_blocks import unzstd
from landfall_audit.readers import FileRow
from tests.support.audit.audited_files import audited
from tests.support.payloads.avro import Declared, schemas, values
from tests.support.payloads.file_records import (
    PACKAGE,
    SUFFIXES,
    MemoryFile,
    SequenceFileOf,
    avro_file,
    bytes_writable,
    compressed,
    parts_at,
    read_parts,
    text,
)

CUTS = st.lists(st.integers(1, 900), max_size=12)


def check_same(reader: str, file: MemoryFile, cuts: Sequence[int], **options: Any) -> list[FileRow]:
    """Rows of the parts of a file, which the auditor reads as the writer does."""
    made = reader_of(reader, options)
    is_one = len(made.parts(file.name, file.size, 1)) == 1
    parts = parts_at(file.size, () if is_one else cuts)
    try:
        landed = read_parts(made, file, parts)
    except UnreadableFileError:
        assume(False)  # nothing of it is landed
    found = audited(reader, file, parts, **options)
    assert found == [FileRow(value, key) for _, value, key, _ in landed]
    return found


CSV = st.text(alphabet='ab,"\r\n \t\\éN', max_size=60)
CSV_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "header": st.just(False),
        "multiline": st.booleans(),
        "quote": st.just("'"),
        "separator": st.sampled_from(["\t", "é"]),
        "escape": st.just("\\"),
        "nullText": st.sampled_from(["N", "\\N", ""]),
        "trim": st.booleans(),
    },
)


@given(
    content=CSV,
    options=CSV_OPTIONS,
    columns=st.sampled_from([(), ("a",), ("a", "b")]),
    cuts=CUTS,
    suffix=st.sampled_from(["", *SUFFIXES]),
)
@example('a,b\n"x ""y"" , z",\n\n\r\n1,2,3\n', {}, (), [3, 9, 20], "")
@example('\ufeffa,b\n"x\ny",1\n', {"multiline": True}, (), [3], "")
def test_records_of_csv(
    content: str, options: dict[str, Any], columns: tuple[str, ...], cuts: list[int], suffix: str
) -> None:
    options = {**options, **({"columns": list(columns)} if columns else {})}
    assume(columns or options.get("header", True))
    assume(not (options.get("multiline") and options.get("escape")))
    written = compressed(suffix, content.encode()) if suffix else content.encode()

    check_same("Csv", MemoryFile(f"a.csv{suffix}", written), cuts, **options)


def test_a_row_of_csv_that_cannot_be_read_is_its_bytes() -> None:
    file = MemoryFile("a.csv", b'a,b\n1,"2"\nx"y",2\n1\n\xff,2\n')

    found = check_same("Csv", file, [])

    assert [row.value for row in found] == [b'{"a":"1","b":"2"}', b'x"y",2', b"1", b"\xff,2"]


@st.composite
def avro_rows(draw: st.DrawFn) -> tuple[Declared, list[Any]]:
    schema = draw(schemas())
    return schema, draw(st.lists(values(schema), max_size=12))


@given(
    made=avro_rows(),
    block_bytes=st.integers(1, 200),
    codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]),
    cuts=CUTS,
    suffix=st.sampled_from(["", *SUFFIXES]),
)
def test_records_of_avro(
    made: tuple[Declared, list[Any]], block_bytes: int, codec: str, cuts: list[int], suffix: str
) -> None:
    content = avro_file(*made, block_bytes, codec)
    content = compressed(suffix, content) if suffix else content

    found = check_same("Avro", MemoryFile(f"a.avro{suffix}", content), cuts)

    assert len(found) == len(made[1])


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 9}
LOGICAL = {
    "type": "record",
    "name": "acme.Logical",
    "fields": [
        {"name": "money", "type": MONEY},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "next", "type": ["null", "Logical"]},
    ],
}  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.decimals(-(10**10), 10**10, places=9),
            st.dates(),
            st.none() | st.datetimes(timezones=st.just(UTC)),
            st.times(),
            st.uuids(),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_logical_types_of_avro(rows: list[tuple[Any, ...]]) -> None:
    record: dict[str, Any] | None = None
    for row in rows:
        names = ("money", "day", "at", "time", "id")
        record = {**dict(zip(names, row, strict=True)), "next": record}

    check_same("Avro", MemoryFile("a.avro", avro_file(LOGICAL, [record] * 3, 100)), [])


def test_a_record_of_avro_that_holds_no_text_is_its_bytes() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    content = avro_file(schema, [{"a": "x"}, {"a": "YYY"}, {"a": "z"}], 10)

    found = check_same("Avro", MemoryFile("a.avro", content.replace(b"YYY", b"\xff\xff\xff")), [])

    assert [row.value for row in found] == [b'{"a":"x"}', b"\x06\xff\xff\xff", b'{"a":"z"}']


@given(
    kind=st.builds(
        SequenceFileOf, st.sampled_from(["None", "Record", "Block"]), sync_every=st.integers(1, 4)
    ),
    rows=st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=200)), max_size=12),
    cuts=CUTS,
    suffix=st.sampled_from(["", *SUFFIXES]),
)
def test_entries_of_sequence_files(
    kind: SequenceFileOf, rows: list[tuple[bytes, bytes]], cuts: list[int], suffix: str
) -> None:
    content = kind.of([(bytes_writable(key), text(value)) for key, value in rows])
    content = compressed(suffix, content) if suffix else content

    found = check_same("SequenceFile", MemoryFile(f"part-0{suffix}", content), cuts)

    assert found == [FileRow(value, key) for key, value in rows]


@pytest.mark.parametrize("kind", ["None", "Block"])
def test_entries_of_classes_that_nobody_knows_and_of_nothing(kind: str) -> None:
    classes = (f"{PACKAGE}NullWritable", "org.acme.Own")
    content = SequenceFileOf(kind, 2, classes).of([(b"", b"a"), (b"", b""), (b"", b"c")])

    found = check_same("SequenceFile", MemoryFile("part-0", content), [])

    assert found == [FileRow(b"a"), FileRow(b""), FileRow(b"c")]


UNITS = ("s", "ms", "us", "ns")
TIMES = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001  # local, too
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "text view": (pa.string_view(), st.text(max_size=20)),
    "bytes view": (pa.binary_view(), st.binary(max_size=20)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "decimal": (pa.decimal128(20, 9), st.decimals(-(10**10), 10**10, places=9)),
    "date": (pa.date32(), st.dates()),
    **{f"local {unit}": (pa.timestamp(unit), TIMES) for unit in UNITS},
    **{f"utc {unit}": (pa.timestamp(unit, "UTC"), TIMES) for unit in UNITS},
    "time32": (pa.time32("ms"), st.times()),
    "time64": (pa.time64("us"), st.times()),
    "duration": (pa.duration("us"), st.timedeltas(timedelta(days=-9), timedelta(days=9))),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=3), max_size=3)),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))]),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.lists(st.floats())}),
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9)).map(
            lambda d: [*d.items()]
        ),
    ),
    "numbered": (
        pa.map_(pa.int32(), pa.string()),
        st.dictionaries(st.integers(0, 9), st.text(max_size=3)).map(lambda d: [*d.items()]),
    ),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(0, 12))
    columns = [
        pa.array(
            draw(st.lists(st.none() | COLUMNS[name][1], min_size=count, max_size=count)),
            COLUMNS[name][0],
            from_pandas=False,
        )
        for name in names
    ]
    return pa.table(columns, names=names)


@given(table=tables(), group_rows=st.integers(1, 5), cuts=CUTS)
def test_rows_of_parquet(table: pa.Table, group_rows: int, cuts: list[int]) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group_rows)

    found = check_same("Parquet", MemoryFile("a.parquet", sink.getvalue()), cuts)

    assert len(found) == table.num_rows
    assert all(json.loads(row.value or b"") for row in found)


def test_rows_of_parquet_as_the_documentation_shows_them() -> None:
    table = pa.table(
        {
            "at": pa.array([datetime(2026, 11, 25, 5, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
            "day": [date(2026, 11, 25)],
            "time": pa.array([time(5, 4, 3)], pa.time32("s")),
            "sum": pa.array([Decimal("12.50")], pa.decimal128(9, 2)),
            "raw": [b"\x00\xff"],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)

    (found,) = check_same("Parquet", MemoryFile("a.parquet", sink.getvalue()), [])

    assert json.loads(found.value or b"") == {
        "at": "2026-11-25T05:00:00.000Z",
        "day": "2026-11-25",
        "time": "05:04:03.000",
        "sum": "12.50",
        "raw": "AP8=",
    }


@pytest.mark.parametrize("day", [-800_000, 3_000_000])
def test_days_before_year_1_and_after_9999_are_not_compared(day: int) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"day": pa.array([0, day], pa.int32()).cast(pa.date32())}), sink)
    file = MemoryFile("a.parquet", sink.getvalue())

    with pytest.raises(CannotCompare):
        audited("Parquet", file, [FilePart(0, file.size)])


def test_data_of_zstd_may_have_several_frames() -> None:
    compress = zstandard.ZstdCompressor().compress

    assert unzstd(compress(b"one") + compress(b"two")) == b"onetwo"
