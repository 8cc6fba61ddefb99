"""Format ``Orc``, read by Arrow and the auditor; Spark and Hive read it in test_typed_files."""

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from landfall.api.spec import parse_group
from landfall.formats import Block
from landfall.formats.orc import OrcFormat
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import HEADERS, filled, of_columns
from landfall_audit.objects.rows import Order, rows_of
from tests.support.audit.audited_spec import for_auditor
from tests.support.driver.slice_landing import TP
from tests.support.kubernetes.groups import document

RECORDS = of_columns(
    TP,
    np.array([5, 7, 9], np.int64),
    pa.array([b"\xff\x00", None, b""], pa.binary()),
    timestamps=np.array([-1, 0, 1763683200123], np.int64),
    keys=pa.array([None, b"", b"k"], pa.binary()),
    headers=pa.array([[], [{"key": "a", "value": None}], [{"key": "b", "value": b"x"}]], HEADERS),
)


def written(format_: OrcFormat, *blocks: Block) -> bytes:
    encoder = format_.encoder()
    return b"".join((*(encoder.encode(block) for block in blocks), encoder.finish()))


def read(data: bytes) -> pa.Table:
    return orc.read_table(io.BytesIO(data))


@pytest.mark.parametrize("codec", ["Zstd", "Snappy", "Deflate", "None"])
def test_the_envelope_has_everything_kafka_stores(codec: str) -> None:
    data = written(OrcFormat.of({"codec": codec}), Block(RECORDS))

    table = read(data)
    assert table.column_names == [
        *("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    ]
    assert table["value"].to_pylist() == [b"\xff\x00", None, b""]
    assert table["key"].to_pylist() == [None, b"", b"k"]
    assert table["headers"].to_pylist() == RECORDS.headers.to_pylist()
    assert [row.timestamp for row in OrcFormat.of({}).rows(io.BytesIO(data))] == [
        None,
        0,
        1763683200123,
    ]


ODD = pa.RecordBatch.from_pydict(
    {
        "clock": pa.array([time(4, 5, 6, 7000), None, None], pa.time32("ms")),
        "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "huge": pa.array([Decimal("1.5"), None, None], pa.decimal256(60, 1)),
        "price": pa.array([Decimal("-12.30"), None, None], pa.decimal128(9, 2)),
        "day": pa.array([date(2026, 11, 21), None, None], pa.date32()),
        "at": pa.array([datetime(2026, 11, 21, 4, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "none": pa.nulls(3),
        "deep": pa.array(
            [[("k", [{"u": 7}])], None, []],
            pa.map_(pa.string(), pa.list_(pa.struct([("u", pa.uint32())]))),
        ),
    }
)


def test_types_that_orc_has_not_are_stored_otherwise() -> None:
    block = Block(filled(TP, [1, 2, 3], [b"x"] * 3), ODD, RowSchema("d"))

    table = read(written(OrcFormat.of({}).typed(), block))

    assert table.slice(0, 1).drop_columns(["_timestamp"]).to_pylist() == [
        {
            "clock": "04:05:06.007",
            "u": Decimal(2**64 - 1),
            "huge": "1.5",
            "price": Decimal("-12.30"),
            "day": date(2026, 11, 21),
            "at": datetime(2026, 11, 21, 4, tzinfo=UTC),
            "none": None,
            "deep": [("k", [{"u": 7}])],
            "_topic": "clicks",
            "_partition": 3,
            "_offset": 1,
        }
    ]
    assert table["deep"].to_pylist()[1:] == [None, []]


def test_timestamps_may_be_without_a_zone() -> None:
    format_ = OrcFormat.of({"timestamps": "Utc"})
    typed = written(format_.typed(), Block(filled(TP, [1, 2, 3], [b"x"] * 3), ODD, RowSchema("d")))
    envelope = written(format_, Block(RECORDS))

    assert read(typed)["at"].type == pa.timestamp("ns")
    assert read(typed)["at"][0].as_py() == datetime(2026, 11, 21, 4)  # noqa: DTZ001  # without a zone
    assert [row.timestamp for row in format_.rows(io.BytesIO(envelope))] == [None, 0, 1763683200123]
    group = parse_group(document(output__format="Orc", decode__format="Raw")).spec
    _, *rows = rows_of(for_auditor(group)).rows(io.BytesIO(envelope))
    assert rows[2] == (9, (b"", b"k", 1763683200123, (("b", b"x"),)))


def test_rows_of_a_block_are_sorted() -> None:
    typed = pa.RecordBatch.from_pydict({"n": [2, 3, 1]})
    block = Block(filled(TP, [1, 2, 3], [b"x"] * 3), typed)

    table = read(written(OrcFormat.of({"sortBy": "-n"}).typed(), block))

    assert table["n"].to_pylist() == [3, 2, 1]
    assert table["_offset"].to_pylist() == [2, 1, 3]


def test_memory_is_counted_until_a_stripe_is_written() -> None:
    encoder = OrcFormat.of({"stripeBytes": "4Mi"}).encoder()
    rng = np.random.default_rng(7)
    held, sizes = [], []
    for n in range(12):
        records = filled(
            TP, range(n * 1000, n * 1000 + 1000), [rng.bytes(1000) for _ in range(1000)]
        )
        sizes.append(len(encoder.encode(Block(records))))
        held.append(encoder.held_bytes)

    assert max(held) <= 9 * 2**20
    assert sum(size > 2**20 for size in sizes) >= 2


def test_damage_is_an_error() -> None:
    data = written(OrcFormat.of({}), Block(RECORDS))

    with pytest.raises(ValueError, match="damaged ORC file"):
        list(OrcFormat.of({}).rows(io.BytesIO(data[:-5])))


def test_the_auditor_reads_it() -> None:
    group = parse_group(document(output__format="Orc", decode__format="Raw")).spec
    data = written(OrcFormat.of({}), Block(RECORDS))

    order, *rows = rows_of(for_auditor(group)).rows(io.BytesIO(data))

    assert order == Order()
    assert rows == [
        (5, (b"\xff\x00", None, None, ())),
        (7, (None, b"", 0, (("a", None),))),
        (9, (b"", b"k", 1763683200123, (("b", b"x"),))),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"codec": "Gzip"}, "option codec: must be Zstd, Snappy, Deflate or None"),
        ({"stripeBytes": 0}, "option stripeBytes"),
        ({"rowGroupBytes": 1}, "unknown option rowGroupBytes"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        OrcFormat.of(options)
