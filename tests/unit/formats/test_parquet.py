import io
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.formats import Block, Row
from landfall.formats.parquet import ENVELOPE, Parquet
from landfall.ledger.offsets import TopicPartition
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
        [("user", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("raw", pa.binary())],
        {"pandas": "{}"},
    ),
)


def written(parquet: Parquet, *blocks: Block | Records) -> bytes:
    encoder = parquet.encoder()
    encoded = [
        encoder.encode(block if isinstance(block, Block) else Block(block)) for block in blocks
    ]
    return b"".join((*encoded, encoder.finish()))


def read(data: bytes) -> list[Row]:
    return list(Parquet.of({}).rows(io.BytesIO(data)))


def test_the_envelope_has_everything_kafka_stores() -> None:
    table = pq.read_table(io.BytesIO(written(Parquet.of({}), UNUSUAL)))

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

    rows = read(written(Parquet.of({"codec": codec}), UNUSUAL, large))

    assert rows == [
        Row(5, b"\xff\x00", None, None),
        Row(7, None, b"", 0),
        Row(9, b"", b"k", 1763683200123),
        Row(2**40, b"x" * 10_000_000),
    ]


def test_a_block_is_a_row_group_written_at_once() -> None:
    encoder = Parquet.of({}).encoder()

    first = encoder.encode(Block(UNUSUAL))
    none = encoder.encode(Block(filled(CLICKS, [], [])))
    rest = encoder.encode(Block(UNUSUAL)) + encoder.finish()

    groups = pq.ParquetFile(io.BytesIO(first + rest)).metadata
    assert first[:4] == b"PAR1"
    assert (none, groups.num_row_groups, groups.num_rows) == (b"", 2, 6)


def test_the_footer_has_statistics_and_nothing_of_pandas_or_arrow() -> None:
    metadata = pq.ParquetFile(io.BytesIO(written(Parquet.of({}), UNUSUAL))).metadata

    offsets, value = (metadata.row_group(0).column(column) for column in (2, 5))
    assert (offsets.statistics.min, offsets.statistics.max, value.is_stats_set) == (5, 9, False)
    assert metadata.metadata is None


def test_declared_columns_are_followed_by_the_coordinates() -> None:
    data = written(Parquet.of({}), Block(UNUSUAL, TYPED))

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
    data = written(Parquet.of({"envelope": False}), Block(UNUSUAL, TYPED))

    assert pq.read_schema(io.BytesIO(data)).equals(
        TYPED.schema.remove_metadata(), check_metadata=True
    )
    assert [row.offset for row in read(data)] == [None] * 3


def test_a_declared_column_may_not_take_a_coordinate_name() -> None:
    with pytest.raises(
        ValueError, match="clicks/3: two columns have the same name among _offset, _topic"
    ):
        written(Parquet.of({}), Block(UNUSUAL, pa.RecordBatch.from_pydict({"_offset": [1, 2, 3]})))


def test_a_file_of_no_records_is_a_parquet_file() -> None:
    assert read(written(Parquet.of({}))) == []


def test_held_bytes_grow_a_little_with_each_row_group() -> None:
    encoder = Parquet.of({}).encoder()
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
            "unknown option tombstones; the options are codec, envelope, extension, ",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        Parquet.of(options)

    assert message in str(caught.value)


def test_row_groups_may_have_another_size() -> None:
    assert [Parquet.of({"rowGroupBytes": size}).block_bytes for size in (None, "8Mi", 1000)] == [
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
        read(damage(written(Parquet.of({}), UNUSUAL)))
