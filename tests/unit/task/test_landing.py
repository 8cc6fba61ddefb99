"""Landing slices: every record is accounted for, nothing is completed, failures are contained."""

import gzip
import io
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.errors import Reason, Retry, Stalled, StoreAway
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, LandingRules
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import Records, of_columns
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import (
    HOUR,
    MIDNIGHT,
    SLICE,
    TP,
    FakeReader,
    click,
    content,
    group,
    is_empty,
    land_rows,
)


@dataclass
class WithKeys(FakeReader):
    """Reads a log whose records have these keys, in one chunk."""

    keys: pa.BinaryArray = field(kw_only=True)

    def read(self, slice_: Slice) -> Iterator[Records]:
        for found in super().read(slice_):
            yield of_columns(
                found.topic_partition,
                found.offsets,
                found.values,
                timestamps=found.timestamps,
                keys=self.keys,
                headers=found.headers,
            )


# --------------------------------------------------------------------------------------- what lands


def test_rows_land_in_their_output_partitions_under_the_planned_start() -> None:
    store = MemoryStore()
    rows = [click(105), click(106, hour=1), click(110), click(150, hour=1), click(199)]

    result = land_rows(rows, store, chunk=2)

    found = {key: gzip.decompress(body) for key, body in content(result, store).items()}
    assert found == {
        f"clicks/dt=2025-11-21/hr=00/4_3_{100:020d}.json.gz": b"".join(
            click(o)[1] + b"\n" for o in (105, 110, 199)
        ),
        f"clicks/dt=2025-11-21/hr=01/4_3_{100:020d}.json.gz": b"".join(
            click(o, 1)[1] + b"\n" for o in (106, 150)
        ),
    }


def test_objects_have_their_rows_offsets_and_checksums() -> None:
    store = MemoryStore()

    result = land_rows([click(105), click(110), click(120, hour=1)], store)

    bodies = content(result, store)
    assert isinstance(result, LandedSlice)
    found = [
        (o.rows, o.first_offset, o.last_offset, o.crc32, o.upload.size, o.upload.token)
        for o in result.objects
    ]
    crcs = [(zlib.crc32(body), len(body)) for _, body in sorted(bodies.items())]
    assert found == [(2, 105, 110, *crcs[0], "token"), (1, 120, 120, *crcs[1], "token")]


def test_every_offset_of_the_range_is_accounted_for() -> None:
    rows = [click(101), (102, b"not json"), (103, b'{"n":1}'), click(104), (107, None)]

    result = land_rows(rows, MemoryStore(), chunk=2)

    assert isinstance(result, LandedSlice)
    counted = (result.landed, result.dead_lettered, result.filtered, result.invisible)
    assert counted == (2, 3, 0, 95)
    assert result.input_bytes == sum(len(value or b"") for _, value in rows)
    assert [error.split(":")[:2] for error in result.errors] == [
        ["offset 102", " decode"],
        ["offset 103", " route"],
        ["offset 107", " route"],
    ]


def test_no_upload_is_completed() -> None:
    store = MemoryStore()

    result = land_rows([click(101), (102, b"bad")], store)

    assert isinstance(result, LandedSlice)
    assert list(store.list_after("")) == []
    assert sorted(open_.key for open_ in store.open_uploads("")) == [
        o.upload.key for o in result.objects
    ]


@pytest.mark.parametrize(
    ("rules", "rows"),
    [(LandingRules.ALL_BYTES, [4]), (LandingRules.LARGE_ROWS, [2, 2])],
)
def test_a_large_row_begins_another_file_of_typed_columns(
    rules: LandingRules, rows: list[int]
) -> None:
    payloads = [b'{"a":"%s"}' % (b"x" * size) for size in (1, 1, 2**20, 1)]
    spec = group(
        decode={"format": "Json", "columns": [{"name": "a", "type": "String"}]},
        route={"pattern": "all"},
        output={"url": "s3://bucket/root", "format": "Parquet"},
    )
    slice_ = Slice(TP, OffsetRange(0, 4))
    reader = FakeReader({TP: list(enumerate(payloads))})

    (result,) = land(Batch(spec, "token", rules=rules), [slice_], reader, MemoryStore())

    assert isinstance(result, LandedSlice), result
    assert [o.rows for o in result.objects] == rows


@pytest.mark.parametrize(
    ("rules", "codec"), [(LandingRules.ALL_BYTES, "ZSTD"), (LandingRules.LARGE_ROWS, "SNAPPY")]
)
def test_small_columns_are_written_by_the_rules_of_the_batch(
    rules: LandingRules, codec: str
) -> None:
    spec = group(
        decode={"format": "Json", "columns": [{"name": "a", "type": "String"}]},
        route={"pattern": "all"},
        output={"url": "s3://bucket/root", "format": "Parquet"},
    )
    reader, store = FakeReader({TP: [(0, b'{"a":"x"}')]}), MemoryStore()

    (result,) = land(
        Batch(spec, "token", rules=rules), [Slice(TP, OffsetRange(0, 1))], reader, store
    )

    (body,) = content(result, store).values()
    assert pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0).compression == codec


def test_keys_end_row_groups_by_the_rules_of_the_batch() -> None:
    keys = pa.array([b"k" * 400, None, b"k" * 400, b"k" * 400], pa.binary())
    spec = group(
        decode={"format": "Raw"},
        route={"pattern": "all"},
        output={"url": "s3://bucket/root", "format": "Parquet", "options": {"rowGroupBytes": 500}},
    )

    def row_groups(rules: LandingRules) -> list[list[int]]:
        reader, store = WithKeys({TP: [(n, b"v") for n in range(4)]}, keys=keys), MemoryStore()
        slice_ = Slice(TP, OffsetRange(0, 4))
        (result,) = land(Batch(spec, "token", rules=rules), [slice_], reader, store)
        (body,) = content(result, store).values()
        file = pq.ParquetFile(io.BytesIO(body))
        assert file.read().column("key").combine_chunks().equals(keys)
        return [
            file.read_row_group(n).column("offset").to_pylist() for n in range(file.num_row_groups)
        ]

    assert row_groups(LandingRules.LARGE_ROWS) == [[0, 1, 2, 3]]
    assert row_groups(LandingRules.WHOLE_ROWS) == [[0, 1, 2], [3]]


def test_keys_of_dead_letters_end_row_groups_by_the_rules_of_the_batch() -> None:
    keys = pa.array([b"k" * 3 * 2**20, None, b"k" * 2**20, b"k"], pa.binary())
    spec = group(decode={"format": "Json"}, badRecords={"policy": "DeadLetter", "maxRatio": "1"})

    def row_groups(rules: LandingRules) -> int:
        reader, store = (
            WithKeys({TP: [(n, b"no JSON") for n in range(4)]}, keys=keys),
            MemoryStore(),
        )
        slice_ = Slice(TP, OffsetRange(0, 4))
        (result,) = land(Batch(spec, "token", rules=rules), [slice_], reader, store)
        (body,) = content(result, store).values()
        return int(pq.ParquetFile(io.BytesIO(body)).num_row_groups)

    assert [row_groups(rules) for rules in LandingRules] == [1, 1, 1, 2]


def test_a_range_without_visible_records_makes_no_object() -> None:
    store = MemoryStore()

    result = land_rows([], store)

    assert result == LandedSlice(SLICE, (), 0, 0, 0, 100, 0)
    assert is_empty(store)


def test_dead_letters_keep_the_record_whole() -> None:
    store = MemoryStore()
    result = land_rows([click(101), (102, b"not json"), click(103), (150, b"\xff")], store, chunk=3)

    letters = content(result, store)[f"_landfall/events/dead-letters/clicks/4_3_{100:020d}.parquet"]

    rows = pq.read_table(io.BytesIO(letters)).to_pylist()
    assert [
        (row["topic"], row["partition"], row["offset"], row["value"], row["key"], row["stage"])
        for row in rows
    ] == [
        ("clicks", 3, 102, b"not json", b"key-102", "decode"),
        ("clicks", 3, 150, b"\xff", b"key-150", "decode"),
    ]
    assert [row["headers"] for row in rows] == [
        [{"key": "n", "value": b"102"}],
        [{"key": "n", "value": b"150"}],
    ]
    assert [int(row["timestamp"].timestamp() * 1000) for row in rows] == [
        MIDNIGHT + 102,
        MIDNIGHT + 150,
    ]
    assert all(row["error"] for row in rows)


def test_a_record_rejected_by_two_stages_is_one_dead_letter() -> None:
    """It has no event time and contains the delimiter; the error names the first of the stages."""
    output = {"url": "s3://b", "format": "Text"}

    result = land_rows([(101, b'{"n":\n1}')], MemoryStore(), output=output)

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered, len(result.errors)) == (0, 1, 1)
    assert "route" in result.errors[0]


class EvenOnly:
    """A transform that filters odd offsets, rejects multiples of ten and rewrites payloads."""

    fields = ()

    @classmethod
    def of(cls, _: object) -> "EvenOnly":
        return cls()

    def apply(self, decoded: Decoded) -> Decoded:
        even = decoded.keep(decoded.records.offsets % 2 == 0)
        left = even.reject(
            {row: "tens" for row, o in enumerate(even.records.offsets.tolist()) if o % 10 == 0}
        )
        return replace(
            left,
            records=left.records.with_values(pa.array([b"{}"] * len(left.records), pa.binary())),
        )


def test_rows_that_a_transform_filters_or_rejects_are_accounted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = ModuleType("even_only_plugin")
    plugin.EvenOnly = EvenOnly  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "even_only_plugin", plugin)
    store, rows = MemoryStore(), [(101, b"bad"), *(click(o) for o in range(102, 112))]

    result = land_rows(rows, store, transforms=[{"use": "even_only_plugin:EvenOnly"}])

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.filtered, result.dead_lettered) == (4, 5, 2)
    data, letters = sorted(content(result, store).items(), reverse=True)
    assert gzip.decompress(data[1]) == b"{}\n" * 4
    kept = pq.read_table(
        io.BytesIO(letters[1]), columns=["offset", "value", "stage", "error"]
    ).to_pylist()
    assert [(row["offset"], row["value"], row["stage"]) for row in kept] == [
        (101, b"bad", "decode"),
        (110, click(110)[1], "transform"),
    ]


# --------------------------------------------------------------------------------------- what fails


def test_policy_fail_stalls_the_slice_and_aborts_its_uploads() -> None:
    store = MemoryStore()
    rows = [*(click(o) for o in range(100, 150)), (150, b"bad")]

    result = land_rows(
        rows, store, chunk=10, badRecords={"policy": "Fail"}, output=one_byte_parts()
    )

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Stalled)
    assert result.error.reason is Reason.BAD_RECORDS
    assert "offset 150: decode" in str(result.error)
    assert is_empty(store)


def one_byte_parts() -> dict[str, object]:
    return {"url": "s3://b", "format": "Text", "codec": "None"}


@pytest.mark.parametrize(
    "error_at_end", [Stalled(Reason.DATA_LOSS, "clicks/3: gone"), Retry("no progress")]
)
def test_an_error_of_the_reader_is_the_result_of_the_slice(error_at_end: Exception) -> None:
    store = MemoryStore()
    reader = FakeReader({TP: [click(o) for o in range(100, 200)]}, 10, error_at_end)

    assert land(Batch(group(), "token"), [SLICE], reader, store) == (
        FailedSlice(SLICE, error_at_end),
    )  # type: ignore[arg-type]
    assert is_empty(store)


def test_an_unexpected_error_can_be_distinguished_from_an_outage() -> None:
    reader = FakeReader({TP: [click(101)]}, error_at_end=ZeroDivisionError("a bug"))

    (result,) = land(Batch(group(), "token"), [SLICE], reader, MemoryStore())

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Retry)
    assert "unexpected ZeroDivisionError at driver/slice_landing.py:" in str(result.error)
    assert "a bug" not in str(result.error)


@pytest.mark.parametrize("operation", [Operation.BEGIN, Operation.PUT_PART])
def test_a_store_that_fails_one_slice_lands_the_others(operation: Operation) -> None:
    store = MemoryStore(Scripted({operation: [None, CallFault.THROTTLED]}))
    slices = [Slice(TopicPartition("clicks", p), OffsetRange(0, 10)) for p in range(4)]
    log = {slice_.topic_partition: [click(o) for o in range(10)] for slice_ in slices}

    results = land(Batch(group(), "token"), slices, FakeReader(log), store)

    failed = [result for result in results if isinstance(result, FailedSlice)]
    landed = [result for result in results if isinstance(result, LandedSlice)]
    assert [type(result.error) for result in failed] == [StoreAway]
    assert [result.piece for result in results] == slices
    keys = sorted(o.upload.key for result in landed for o in result.objects)
    assert sorted(open_.key for open_ in store.open_uploads("")) == keys


# ---------------------------------------------------------------------------------------- planning


def test_a_result_has_the_cpu_time_for_planning() -> None:
    whole = Slice(TP, OffsetRange(0, 20_000))
    begun = time.process_time()

    result = land_rows([click(o) for o in range(20_000)], MemoryStore(), slice_=whole)

    assert isinstance(result, LandedSlice)
    assert 0 < result.cpu_seconds < time.process_time() - begun


def test_the_latest_event_time_counts_at_most_as_the_time_in_kafka() -> None:
    early = (101, b'{"ts":%d}' % (MIDNIGHT - HOUR))
    ahead = (103, b'{"ts":%d}' % (MIDNIGHT + 1000 * HOUR))
    undated = (105, b'{"n":1}')

    found = [
        land_rows(rows, MemoryStore())
        for rows in ([early], [early, ahead], [ahead, early], [early, undated], [undated])
    ]

    latest = [result.latest_ms for result in found if isinstance(result, LandedSlice)]
    assert latest == [
        MIDNIGHT - HOUR,
        MIDNIGHT + 103,
        MIDNIGHT + 103,
        MIDNIGHT - HOUR,
        MIDNIGHT + 105,  # nothing is landed: as Kafka dates the dead letter
    ]


def test_times_in_the_future_of_the_task_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: (MIDNIGHT + 102) * 1_000_000)

    result = land_rows([click(101), click(103)], MemoryStore())

    assert isinstance(result, LandedSlice)
    assert result.latest_ms == MIDNIGHT + 101
