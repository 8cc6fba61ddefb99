"""What becomes of slices: every record accounted for, nothing completed, the same bytes on every
attempt.
"""

import gzip
import io
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Reason, Retry, Stalled, StoreAway
from landfall.ledger.object_names import parse_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind, SliceResult
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.store.fault_injection import Fault, Operation, Scripted
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land

TP = TopicPartition("clicks", 3)
PIECE = Slice(TP, OffsetRange(100, 200))
MIDNIGHT = 1_763_683_200_000  # 2025-11-21 00:00 UTC
HOUR = 3_600_000
Rows = Sequence[tuple[int, bytes | None]]


@dataclass
class FakeReader:
    """A log in memory, cut into chunks of ``rows`` records; ``broken`` is raised at the end of
    every slice.
    """

    log: dict[TopicPartition, Rows]
    rows: int = 1000
    broken: Exception | None = None

    def read(self, piece: Slice) -> Iterator[Records]:
        found = [(o, value) for o, value in self.log[piece.topic_partition] if o in piece.offsets]
        for at in range(0, len(found), self.rows):
            offsets, values = zip(*found[at : at + self.rows], strict=True)
            yield records_of(piece.topic_partition, offsets, values)
        if self.broken:
            raise self.broken


def records_of(
    tp: TopicPartition, offsets: Sequence[int], values: Sequence[bytes | None]
) -> Records:
    numbers = np.array(offsets, np.int64)
    keys = pa.array([b"key-%d" % o for o in offsets], pa.binary())
    headers = pa.array([[("n", b"%d" % o)] for o in offsets], HEADERS)
    return of_columns(
        tp,
        numbers,
        pa.array(values, pa.binary()),
        timestamps=MIDNIGHT + numbers,
        keys=keys,
        headers=headers,
    )


def group(**spec: object) -> ConsumerGroup:
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "twin"},
        "spec": {
            "generation": 4,
            "source": {"kafka": {"bootstrapServers": "twin:1", "topicPattern": ".*"}},
            "decode": {"format": "Json", "timestamp": {"field": "ts"}},
            "route": {"pattern": "dt={date}/hr={hour}"},
            "output": {"url": "s3://bucket/root", "format": "Json"},
            **spec,
        },
    }
    return parse_group(document)


def landed_by(
    rows: Rows, store: MemoryStore, chunk: int = 1000, piece: Slice = PIECE, **spec: object
) -> LandedSlice | FailedSlice:
    (result,) = land(Batch(group(**spec), "token"), [piece], FakeReader({TP: rows}, chunk), store)
    return result


def click(offset: int, hour: int = 0) -> tuple[int, bytes]:
    return offset, b'{"ts":%d,"n":%d}' % (MIDNIGHT + hour * HOUR + offset, offset)


def content(result: SliceResult, store: MemoryStore) -> dict[str, bytes]:
    """Every object of a landed slice, completed only now."""
    assert isinstance(result, LandedSlice)
    for landed in result.objects:
        store.complete(landed.upload)
    return {landed.upload.key: read(store, landed.upload.key) for landed in result.objects}


def read(store: MemoryStore, key: str) -> bytes:
    with store.open(key) as stream:
        return stream.read()


def untouched(store: MemoryStore) -> bool:
    return not list(store.open_uploads("")) and not list(store.list_after(""))


# --------------------------------------------------------------------------------------- what lands


def test_rows_land_in_their_output_partitions_under_the_planned_start() -> None:
    store = MemoryStore()
    rows = [click(105), click(106, hour=1), click(110), click(150, hour=1), click(199)]

    result = landed_by(rows, store, chunk=2)

    found = {key: gzip.decompress(body) for key, body in content(result, store).items()}
    assert found == {
        f"clicks/dt=2025-11-21/hr=00/4_3_{100:020d}.json.gz": b"".join(
            click(o)[1] + b"\n" for o in (105, 110, 199)
        ),
        f"clicks/dt=2025-11-21/hr=01/4_3_{100:020d}.json.gz": b"".join(
            click(o, 1)[1] + b"\n" for o in (106, 150)
        ),
    }


def test_objects_say_what_is_inside() -> None:
    store = MemoryStore()

    result = landed_by([click(105), click(110), click(120, hour=1)], store)

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

    result = landed_by(rows, MemoryStore(), chunk=2)

    assert isinstance(result, LandedSlice)
    counted = (result.landed, result.dead_lettered, result.filtered, result.invisible)
    assert counted == (2, 3, 0, 95)
    assert result.input_bytes == sum(len(value or b"") for _, value in rows)
    assert [error.split(":")[:2] for error in result.errors] == [
        ["offset 102", " decode"],
        ["offset 103", " route"],
        ["offset 107", " route"],
    ]


def test_nothing_is_completed() -> None:
    store = MemoryStore()

    result = landed_by([click(101), (102, b"bad")], store)

    assert isinstance(result, LandedSlice)
    assert list(store.list_after("")) == []
    assert sorted(open_.key for open_ in store.open_uploads("")) == [
        o.upload.key for o in result.objects
    ]


def test_a_range_without_visible_records_makes_no_object() -> None:
    store = MemoryStore()

    result = landed_by([], store)

    assert result == LandedSlice(PIECE, (), 0, 0, 0, 100, 0)
    assert untouched(store)


def test_dead_letters_keep_the_record_whole() -> None:
    store = MemoryStore()
    result = landed_by([click(101), (102, b"not json"), click(103), (150, b"\xff")], store, chunk=3)

    letters = content(result, store)[f"_landfall/twin/dead-letters/clicks/4_3_{100:020d}.parquet"]

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


def test_a_record_refused_twice_is_one_dead_letter() -> None:
    """No time to route by, and a delimiter inside: the first stage that refused it is named."""
    output = {"url": "s3://b", "format": "Text"}

    result = landed_by([(101, b'{"n":\n1}')], MemoryStore(), output=output)

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered, len(result.errors)) == (0, 1, 1)
    assert "route" in result.errors[0]


class EvenOnly:
    """A transform: odd offsets are left out, multiples of ten are bad, payloads are rewritten."""

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


def test_what_a_transform_leaves_out_or_refuses_is_accounted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = ModuleType("twin_plugin")
    plugin.EvenOnly = EvenOnly  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "twin_plugin", plugin)
    store, rows = MemoryStore(), [(101, b"bad"), *(click(o) for o in range(102, 112))]

    result = landed_by(rows, store, transforms=[{"use": "twin_plugin:EvenOnly"}])

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


def test_policy_fail_stalls_the_slice_and_gives_its_uploads_up() -> None:
    store = MemoryStore()
    rows = [*(click(o) for o in range(100, 150)), (150, b"bad")]

    result = landed_by(
        rows, store, chunk=10, badRecords={"policy": "Fail"}, output=one_byte_parts()
    )

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Stalled)
    assert result.error.reason is Reason.BAD_RECORDS
    assert "offset 150: decode" in str(result.error)
    assert untouched(store)


def one_byte_parts() -> dict[str, object]:
    return {"url": "s3://b", "format": "Text", "codec": "None"}


@pytest.mark.parametrize(
    "broken", [Stalled(Reason.DATA_LOSS, "clicks/3: gone"), Retry("no progress")]
)
def test_what_the_reader_says_is_what_the_slice_says(broken: Exception) -> None:
    store = MemoryStore()
    reader = FakeReader({TP: [click(o) for o in range(100, 200)]}, 10, broken)

    assert land(Batch(group(), "token"), [PIECE], reader, store) == (FailedSlice(PIECE, broken),)  # type: ignore[arg-type]
    assert untouched(store)


def test_a_fault_of_ours_is_told_from_a_busy_store() -> None:
    reader = FakeReader({TP: [click(101)]}, broken=ZeroDivisionError("of our own making"))

    (result,) = land(Batch(group(), "token"), [PIECE], reader, MemoryStore())

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Retry)
    assert "unexpected ZeroDivisionError at " in str(result.error)
    assert "of our own making" in str(result.error)


@pytest.mark.parametrize("operation", [Operation.BEGIN, Operation.PUT_PART])
def test_a_store_that_fails_one_slice_lands_the_others(operation: Operation) -> None:
    store = MemoryStore(Scripted({operation: [None, Fault.THROTTLED]}))
    pieces = [Slice(TopicPartition("clicks", p), OffsetRange(0, 10)) for p in range(4)]
    log = {piece.topic_partition: [click(o) for o in range(10)] for piece in pieces}

    results = land(Batch(group(), "token"), pieces, FakeReader(log), store)

    failed = [result for result in results if isinstance(result, FailedSlice)]
    landed = [result for result in results if isinstance(result, LandedSlice)]
    assert [type(result.error) for result in failed] == [StoreAway]
    assert [result.piece for result in results] == pieces
    keys = sorted(o.upload.key for result in landed for o in result.objects)
    assert sorted(open_.key for open_ in store.open_uploads("")) == keys


# ---------------------------------------------------------------------------------- always the same


def many(count: int, hours: int) -> list[tuple[int, bytes]]:
    """Rows that do not compress, over some hours, with gaps and a bad one here and there."""
    noise = np.random.default_rng(7)
    return [
        (
            o,
            b'{"ts":%d,"x":"%s"}'
            % (MIDNIGHT + int(noise.integers(hours)) * HOUR, noise.bytes(150).hex().encode()),
        )
        if o % 97
        else (o, b"bad")
        for o in range(100, 100 + count)
        if o % 13
    ]


@pytest.mark.parametrize(
    "output", [{"format": "Json"}, {"format": "SequenceFile"}, {"format": "Parquet"}]
)
def test_the_same_range_gives_the_same_bytes_however_it_was_chunked(output: dict[str, str]) -> None:
    """Blocks are cut by the rows of the output partition, so not even the reader's chunks matter."""
    rows, piece = many(6000, 3), Slice(TP, OffsetRange(100, 6100))
    spec = {"output": {"url": "s3://b", **output}}

    bodies = []
    for chunk in (10_000, 1000, 333):
        store = MemoryStore()
        bodies.append(content(landed_by(rows, store, chunk, piece, **spec), store))

    assert bodies[0] == bodies[1] == bodies[2]
    assert len(bodies[0]) == 4


@pytest.mark.slow
def test_parts_are_of_the_stores_size() -> None:
    store = MemoryStore()
    rows, piece = many(60_000, 1), Slice(TP, OffsetRange(100, 60_100))
    output = {"url": "s3://b", "format": "Json", "codec": "None", "s3": {"partBytes": "5Mi"}}

    result = landed_by(rows, store, 10_000, piece, output=output)

    assert isinstance(result, LandedSlice)
    data = next(o for o in result.objects if o.kind is ObjectKind.DATA)
    *full, last = [part.size for part in data.upload.parts]
    assert full == [5 * 2**20] * 3
    assert 0 < last <= 5 * 2**20
    lines = content(result, store)[data.upload.key].splitlines()
    assert [orjson.loads(line)["ts"] for line in lines] == [MIDNIGHT] * data.rows


def over_budget(chunk: int) -> tuple[LandedSlice, dict[str, bytes]]:
    """60 MB of noise over 1,000 output partitions, in a task that may hold 64 MiB."""
    noise = np.random.default_rng(7).bytes(400)
    text = noise.hex().encode()
    rows = [
        (o, b'{"ts":0,"who":"%d","x":"%s%d"}' % (o * 7919 % 1000, text[o % 400 :], o))
        for o in range(100, 120_100)
    ]
    store = MemoryStore(least_part_bytes=5 * 2**20)
    spec = {
        "route": {"pattern": "who={field:who}"},
        "output": {"url": "s3://b", "format": "Json", "codec": "None"},
        "tuning": {"taskMemory": "64Mi"},
    }
    result = landed_by(rows, store, chunk, Slice(TP, OffsetRange(100, 120_100)), **spec)
    assert isinstance(result, LandedSlice)
    return result, content(result, store)


@pytest.mark.slow
def test_over_its_budget_a_task_starts_new_objects_that_hold_every_row_once() -> None:
    result, bodies = over_budget(10_000)

    names = sorted(
        (parse_key(key) for key in bodies), key=lambda name: (name.output_partition, name.start)
    )
    assert len({name.output_partition for name in names}) == 1000
    assert len(names) > 1000
    by_key = {landed.upload.key: landed for landed in result.objects}
    assert all(name.start <= by_key[name.key].first_offset for name in names)
    for one, after in pairwise(names):
        assert (
            one.output_partition != after.output_partition
            or by_key[one.key].last_offset < after.start
        )
    assert result.landed == sum(body.count(b"\n") for body in bodies.values()) == 120_000
    assert bodies == over_budget(10_000)[1]


def test_the_work_of_a_slice_is_told_for_planning() -> None:
    whole = Slice(TP, OffsetRange(0, 20_000))
    begun = time.process_time()

    result = landed_by([click(o) for o in range(20_000)], MemoryStore(), piece=whole)

    assert isinstance(result, LandedSlice)
    assert 0 < result.cpu_seconds < time.process_time() - begun
