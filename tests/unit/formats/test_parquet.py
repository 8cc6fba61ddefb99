import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Codec
from landfall.formats import Block, Row
from landfall.formats.columns import ENVELOPE
from landfall.formats.parquet import ParquetFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import HEADERS, Records, filled, of_columns

CLICKS = TopicPartition("clicks", 3)
UNUSUAL = of_columns(
    CLICKS,
    np.array([5, 7, 9], np.int64),
    pa.array([b"\xff\x00", None, b""], pa.binary()),
    timestamps=np.array([-1, 0, 1763683200123], np.int64),
    keys=pa.array([None, b"", b"k"], pa.binary()),
    headers=pa.array(
        [[], [{"key": "a", "value": None}, {"key": "a", "value": b"\xff"}], []], HEADERS
    ),
)
TYPED = pa.RecordBatch.from_pylist(
    [{"user": 1, "at": datetime(2026, 11, 21, tzinfo=UTC)}, {"raw": b"\xff"}, {"user": 3}],
    pa.schema(
        [("user", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())],
        {"pandas": "{}"},
    ),
)


def written(parquet: ParquetFormat, *blocks: Block | Records) -> bytes:
    encoder = parquet.encoder()
    encoded = [
        encoder.encode(block if isinstance(block, Block) else Block(block)) for block in blocks
    ]
    return b"".join((*encoded, encoder.finish()))


def read(data: bytes) -> list[Row]:
    return list(ParquetFormat.of({}).rows(io.BytesIO(data)))


def test_the_envelope_has_everything_kafka_stores() -> None:
    table = pq.read_table(io.BytesIO(written(ParquetFormat.of({}), UNUSUAL)))

    coordinates = {"topic": "clicks", "partition": 3}
    assert table.schema.equals(ENVELOPE)
    assert table.to_pylist() == [
        {
            **coordinates,
            "offset": 5,
            "timestamp": None,
            "key": None,
            "value": b"\xff\x00",
            "headers": [],
        },
        {
            **coordinates,
            "offset": 7,
            "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
            "key": b"",
            "value": None,
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"\xff"}],
        },
        {
            **coordinates,
            "offset": 9,
            "timestamp": datetime(2025, 11, 21, 0, 0, 0, 123000, tzinfo=UTC),
            "key": b"k",
            "value": b"",
            "headers": [],
        },
    ]


@pytest.mark.parametrize("codec", ["Zstd", "Snappy", "Gzip", "None"])
def test_rows_are_read_back_including_nulls_and_large_values(codec: str) -> None:
    large = filled(CLICKS, [2**40], [b"x" * 10_000_000])

    rows = read(written(ParquetFormat.of({"codec": codec}), UNUSUAL, large))

    assert rows == [
        Row(5, b"\xff\x00", None, None),
        Row(7, None, b"", 0),
        Row(9, b"", b"k", 1763683200123),
        Row(2**40, b"x" * 10_000_000),
    ]


def test_a_block_is_a_row_group_written_at_once() -> None:
    encoder = ParquetFormat.of({}).encoder()

    first = encoder.encode(Block(UNUSUAL))
    none = encoder.encode(Block(filled(CLICKS, [], [])))
    rest = encoder.encode(Block(UNUSUAL)) + encoder.finish()

    groups = pq.ParquetFile(io.BytesIO(first + rest)).metadata
    assert first[:4] == b"PAR1"
    assert (none, groups.num_row_groups, groups.num_rows) == (b"", 2, 6)


def test_the_footer_has_statistics_and_nothing_of_pandas_or_arrow() -> None:
    metadata = pq.ParquetFile(io.BytesIO(written(ParquetFormat.of({}), UNUSUAL))).metadata

    offsets, value = (metadata.row_group(0).column(column) for column in (2, 5))
    assert (offsets.statistics.min, offsets.statistics.max, value.is_stats_set) == (5, 9, False)
    assert metadata.metadata is None


def test_declared_columns_are_followed_by_the_coordinates() -> None:
    data = written(ParquetFormat.of({}), Block(UNUSUAL, TYPED))

    assert pq.read_schema(io.BytesIO(data)).names == [
        "user",
        "at",
        "raw",
        "_topic",
        "_partition",
        "_offset",
        "_timestamp",
    ]
    assert [(row.offset, row.timestamp, orjson.loads(row.value or b"")) for row in read(data)] == [
        (5, None, {"user": 1, "at": "2026-11-21T00:00:00Z", "raw": None}),
        (7, 0, {"user": None, "at": None, "raw": "/w=="}),
        (9, 1763683200123, {"user": 3, "at": None, "raw": None}),
    ]


def test_declared_columns_may_come_without_coordinates() -> None:
    data = written(ParquetFormat.of({"envelope": False}), Block(UNUSUAL, TYPED))

    assert pq.read_schema(io.BytesIO(data)).equals(
        TYPED.schema.remove_metadata(), check_metadata=True
    )
    assert [row.offset for row in read(data)] == [None] * 3


COARSE = pa.schema(
    [
        ("s", pa.timestamp("s", "UTC")),
        ("ms", pa.timestamp("ms", "UTC")),
        ("wall", pa.timestamp("ms")),
        ("clock", pa.time32("ms")),
        ("all", pa.list_(pa.struct([("ms", pa.timestamp("ms", "UTC"))]))),
        ("by", pa.map_(pa.string(), pa.timestamp("ms", "UTC"))),
        ("ns", pa.timestamp("ns", "UTC")),
    ]
)
LATE = datetime(2026, 11, 21, 4, 5, 6, 789000, tzinfo=UTC)
ROW = {
    "s": LATE.replace(microsecond=0),
    "ms": LATE,
    "wall": LATE.replace(tzinfo=None),
    "clock": LATE.time(),
    "all": [{"ms": LATE}, None],
    "by": [("a", LATE), ("b", None)],
    "ns": LATE,
}


@pytest.mark.parametrize("schema", [None, RowSchema("digest", "name")])
def test_times_are_microseconds_whatever_they_come_from(schema: RowSchema | None) -> None:
    """Iceberg has no other unit than micros, and Spark believes it of every file."""
    rows = pa.RecordBatch.from_pylist([ROW, {}, ROW], COARSE)

    data = written(ParquetFormat.of({}).typed(), Block(UNUSUAL, rows, schema))

    found = pq.read_table(io.BytesIO(data))
    described = str(pq.ParquetFile(io.BytesIO(data)).schema)
    assert "milliseconds" not in described
    assert described.count("timeUnit=microseconds") == 7  # with _timestamp
    assert found.schema.field("wall").type == pa.timestamp("us")
    assert found.select(COARSE.names).to_pylist() == [ROW, dict.fromkeys(ROW), ROW]


def test_offsets_and_kafka_timestamps_are_packed_as_differences() -> None:
    packed = many()
    with_dictionary = many(dictionary=True)

    for name in ("_offset", "_timestamp"):
        assert "DELTA_BINARY_PACKED" in column_chunk(packed, name).encodings
        assert "RLE_DICTIONARY" not in column_chunk(packed, name).encodings
        assert "RLE_DICTIONARY" in column_chunk(with_dictionary, name).encodings
    for name in ("_partition", "user"):
        assert "RLE_DICTIONARY" in column_chunk(packed, name).encodings
    assert column_chunk(packed, "_offset").total_compressed_size < 200
    assert column_chunk(with_dictionary, "_offset").total_compressed_size > 3000


def test_a_column_of_the_payload_may_be_called_like_an_offset() -> None:
    rows = pa.RecordBatch.from_pydict({"_offset": ["a", "b", "c"], "_timestamp": [1.5, 2.5, None]})

    data = written(ParquetFormat.of({"envelope": False}), Block(UNUSUAL, rows))

    assert pq.read_table(io.BytesIO(data)).to_pydict() == rows.to_pydict()


def test_a_declared_column_may_not_take_a_coordinate_name() -> None:
    with pytest.raises(
        ValueError, match="clicks/3: two columns have the same name among _offset, _topic"
    ):
        written(
            ParquetFormat.of({}), Block(UNUSUAL, pa.RecordBatch.from_pydict({"_offset": [1, 2, 3]}))
        )


def test_a_file_of_no_records_is_a_parquet_file() -> None:
    assert read(written(ParquetFormat.of({}))) == []


def test_held_bytes_grow_a_little_with_each_row_group() -> None:
    encoder = ParquetFormat.of({}).encoder()
    for _ in range(10):
        encoder.encode(Block(filled(CLICKS, range(1000), [b"x" * 1000] * 1000)))

    assert 50_000 < encoder.held_bytes < 200_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "Deflate"}, "option codec: must be Zstd, Snappy, Gzip or None, got 'Deflate'"),
        (
            {"rowGroupBytes": "many"},
            "option rowGroupBytes: not a quantity such as 256Mi or 1G: 'many'",
        ),
        ({"rowGroupBytes": 0}, "option rowGroupBytes: 0 is not more than 0 bytes"),
        ({"envelope": "yes"}, "option envelope: 'yes' is not true or false"),
        (
            {"tombstones": "Empty"},
            "unknown option tombstones; the options are bloomFilters, codec, dictionary, ",
        ),
        ({"sortBy": ["n", "-n"]}, "option sortBy: a column comes twice"),
        ({"sortBy": [7]}, "option sortBy: [7] is not a list of names"),
        ({"dictionary": ["a", "a"]}, "option dictionary: ['a', 'a'] has a name twice"),
        ({"statistics": 1}, "option statistics: 1 is not a list of names"),
        ({"pageBytes": 0}, "option pageBytes: 0 is not more than 0 bytes"),
        ({"pageIndex": "yes"}, "option pageIndex: 'yes' is not true or false"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        ParquetFormat.of(options)

    assert message in str(caught.value)


def test_row_groups_may_have_another_size() -> None:
    assert [
        ParquetFormat.of({"rowGroupBytes": size}).block_bytes for size in (None, "8Mi", 1000)
    ] == [
        2**25,
        2**23,
        1000,
    ]


def flip(data: bytes) -> bytes:
    return data[:100] + bytes((data[100] ^ 1,)) + data[101:]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:0], lambda data: data[:50], flip]
)
def test_a_damaged_file_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match="damaged Parquet file, at row 0 or later"):
        read(damage(written(ParquetFormat.of({}), UNUSUAL)))


MANY = pa.RecordBatch.from_pydict(
    {"user": [f"u{i % 7}" for i in range(3000)], "n": list(range(3000))},
    pa.schema([("user", pa.string()), ("n", pa.int32())]),
)


def many(**options: object) -> bytes:
    records = filled(CLICKS, range(3000), [b"x"] * 3000)
    return written(ParquetFormat.of(options), Block(records, MANY))


def column_chunk(data: bytes, name: str) -> pq.ColumnChunkMetaData:
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return next(chunk for chunk in chunks if chunk.path_in_schema == name)


def test_rows_of_a_row_group_are_sorted_and_the_footer_says_so() -> None:
    data = many(sortBy=["user", "-n"])

    table = pq.read_table(io.BytesIO(data))
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    expected = sorted(MANY.to_pylist(), key=lambda row: (row["user"], -row["n"]))
    assert table.select(["user", "n"]).to_pylist() == expected
    assert table["_offset"].to_pylist() == [row["n"] for row in expected]
    assert [(key.column_index, key.descending) for key in group.sorting_columns] == [
        (0, False),
        (1, True),
    ]
    assert not ParquetFormat.of({"sortBy": "n"}).keeps_order


def test_equal_keys_stay_in_the_order_of_their_offsets() -> None:
    table = pq.read_table(io.BytesIO(many(sortBy="user")))

    expected = sorted(range(3000), key=lambda n: f"u{n % 7}")
    assert table["_offset"].to_pylist() == expected


def test_dictionary_statistics_bloom_filters_and_the_page_index_are_chosen() -> None:
    plain = many(dictionary=False, statistics=False)
    chosen = many(
        dictionary=["user"], statistics=["n"], bloomFilters=["user"], pageIndex=True, pageBytes=2048
    )

    for name in ("user", "n"):
        assert "RLE_DICTIONARY" not in column_chunk(plain, name).encodings
        assert column_chunk(plain, name).statistics is None
    user, n = column_chunk(chosen, "user"), column_chunk(chosen, "n")
    assert "RLE_DICTIONARY" in user.encodings
    assert "RLE_DICTIONARY" not in n.encodings
    assert user.statistics is None
    assert (n.statistics.min, n.statistics.max) == (0, 2999)
    assert not column_chunk(plain, "n").has_column_index
    assert n.has_column_index
    assert n.has_offset_index
    assert pq.read_table(io.BytesIO(chosen)).equals(pq.read_table(io.BytesIO(plain)))


NESTED = pa.struct([("x", pa.float64()), ("n", pa.int64())])
FLOATS = pa.schema(
    [
        ("x", pa.float64()),
        ("n.dotted", pa.int32()),
        ("items", pa.list_(NESTED)),
        ("by", pa.map_(pa.string(), pa.float32())),
    ]
)
NOT_A_NUMBER = pa.RecordBatch.from_pylist(
    [
        {"x": x, "n.dotted": 1, "items": [{"x": x, "n": 1}], "by": [("k", x)]}
        for x in (1.0, float("nan"), 3.0)
    ],
    FLOATS,
)


@pytest.mark.parametrize("options", [{}, {"statistics": True}, {"pageIndex": True}])
def test_readers_do_not_overlook_nan(options: dict[str, object], tmp_path: Path) -> None:
    block = Block(filled(TopicPartition("t", 0), range(3), [b"x"] * 3), NOT_A_NUMBER)
    path = tmp_path / "nan.parquet"
    path.write_bytes(written(ParquetFormat.of(options).typed(), block))

    found = duckdb.connect().execute(f"SELECT x FROM '{path}' WHERE x > 5").fetchall()
    group = pq.read_metadata(path).row_group(0)
    leaves = [group.column(i) for i in range(group.num_columns)]
    without = {leaf.path_in_schema for leaf in leaves if not leaf.is_stats_set}

    assert str(found) == ("[]" if "statistics" in options else "[(nan,)]")
    floats = {"x", "items.list.element.x", "by.key_value.value"}
    assert without == (set() if "statistics" in options else floats)


def test_a_bloom_filter_is_used_by_another_reader(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    path.write_bytes(many(bloomFilters=["user"]))

    found = (
        duckdb.connect()
        .sql(f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'user', 'nobody')")
        .fetchall()
    )

    assert found == [(True,)]


def texts(*values: str) -> Block:
    batch = pa.RecordBatch.from_pylist(
        [{"short": str(row), "in": [{"text": value}]} for row, value in enumerate(values)],
        pa.schema([("short", pa.string()), ("in", pa.list_(pa.struct({"text": pa.string()})))]),
    )
    records = of_columns(CLICKS, np.arange(len(values)), pa.nulls(len(values), pa.binary()))
    return Block(records, batch)


def test_long_values_have_neither_statistics_nor_a_dictionary() -> None:
    typed = ParquetFormat.of({"envelope": False, "codec": Codec.ZSTD}).typed()
    short, long = texts("a", "b" * 65_536), texts("a", "b" * 65_537)

    of_short, of_long = (
        pq.ParquetFile(io.BytesIO(written(typed, block))).metadata.row_group(0)
        for block in (short, long)
    )

    assert [of_short.column(n).path_in_schema for n in (0, 1)] == ["short", "in.list.element.text"]
    assert [of_short.column(n).has_dictionary_page for n in (0, 1)] == [True, True]
    assert [of_long.column(n).has_dictionary_page for n in (0, 1)] == [True, False]
    assert [of_long.column(n).is_stats_set for n in (0, 1)] == [True, False]
    assert of_short.column(1).is_stats_set


def columns_of_rows(rows: int) -> Block:
    """Columns of integers, floats, texts of 8 bytes and of 100, and lists of structs."""
    values = [
        {
            "n": row,
            "f": row / 2,
            "short": f"{row:08}",
            "long": f"{row:0100}",
            "in": [{"n": row, "text": "x"}],
        }
        for row in range(rows)
    ]
    inner = pa.struct({"n": pa.int32(), "text": pa.string()})
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("f", pa.float64()),
            ("short", pa.string()),
            ("long", pa.string()),
            ("in", pa.list_(inner)),
        ]
    )
    records = of_columns(CLICKS, np.arange(rows), pa.nulls(rows, pa.binary()))
    return Block(records, pa.RecordBatch.from_pylist(values, schema))


def compressed(parquet: ParquetFormat, rows: int) -> dict[str, tuple[str, bool, bool]]:
    """The codec of each leaf, and whether it has a dictionary, and is packed as differences."""
    data = written(parquet.typed(), columns_of_rows(rows))
    assert pq.read_table(io.BytesIO(data)).to_pylist() == columns_of_rows(rows).columns.to_pylist()
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {
        chunk.path_in_schema: (
            chunk.compression,
            chunk.has_dictionary_page,
            "DELTA_BINARY_PACKED" in chunk.encodings,
        )
        for chunk in chunks
    }


LARGE, SMALL, PACKED = ("ZSTD", True, False), ("SNAPPY", False, False), ("SNAPPY", False, True)
NARROW = ParquetFormat.of({"envelope": False})


def test_small_columns_are_compressed_by_snappy_without_a_dictionary() -> None:
    inner = {"in.list.element.n": PACKED, "in.list.element.text": SMALL}
    assert (
        compressed(NARROW, 20) == {"n": PACKED, "f": SMALL, "short": SMALL, "long": SMALL} | inner
    )

    inner = dict.fromkeys(inner, LARGE)
    by_size = {"n": PACKED, "f": SMALL, "short": LARGE, "long": LARGE} | inner
    assert compressed(NARROW, 1_000) == by_size

    assert set(compressed(NARROW, 1_001).values()) == {LARGE}


@pytest.mark.parametrize(
    ("parquet", "expected"),
    [
        (ParquetFormat.of({"envelope": False, "codec": Codec.ZSTD}), LARGE),
        (ParquetFormat.of({"envelope": False, "level": 3}), LARGE),
        (ParquetFormat.of({"envelope": False, "dictionary": True}), ("SNAPPY", True, False)),
        (NARROW.before_large_rows(), LARGE),
    ],
)
def test_what_options_or_earlier_rules_say_holds_for_small_columns(
    parquet: ParquetFormat, expected: tuple[str, bool, bool]
) -> None:
    assert set(compressed(parquet, 20).values()) == {expected}


def test_an_open_file_holds_no_bounds_of_long_values() -> None:
    typed = ParquetFormat.of({"envelope": False}).typed()
    encoder, block = typed.encoder(), texts("a" * 2**22, "b" * 2**22)
    before = pa.total_allocated_bytes()
    encoder.encode(block)
    held = pa.total_allocated_bytes() - before

    assert held < 10 * 2**20  # the pages of the last column; 24 MiB with statistics


def test_only_typed_columns_whose_statistics_are_chosen_for_them_part_large_rows() -> None:
    assert ParquetFormat.of({}).typed().large_row_bytes == 2**20
    assert ParquetFormat.of({}).large_row_bytes is None
    assert ParquetFormat.of({"statistics": True}).typed().large_row_bytes is None
    assert ParquetFormat.of({}).typed().before_large_rows().large_row_bytes is None
