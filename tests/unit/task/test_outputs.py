"""The open objects of a slice stay within their memory budget."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.objects import Part
from landfall.pipeline.records import of_columns
from landfall.store.memory import MemoryStore
from landfall.task.outputs import ObjectWriter, Outputs, OutputSizes
from landfall.task.rows import ChosenRows, RowLayout
from landfall.task.uploading import ObjectUpload, Uploader

TP = TopicPartition("clicks", 0)
PLAIN = RowLayout(timestamps=False, keys=False, headers=False)
BUDGET = 400_000


class VerbatimEncoder:
    """Writes payloads back to back."""

    held_bytes = 100

    def encode(self, block: Block) -> bytes:
        return b"".join(block.records.values.to_pylist())

    def finish(self) -> bytes:
        return b"."


def rows(start: int, count: int, size: int) -> ChosenRows:
    values = pa.array([b"%0*d" % (size, n) for n in range(start, start + count)], pa.binary())
    whole = of_columns(TP, np.arange(start, start + count), values)
    return ChosenRows(PLAIN.rows(whole, None))


def outputs(uploader: Uploader, sizes: OutputSizes, opened: list[str]) -> Outputs:
    def open_(partition: str, start: int) -> ObjectWriter:
        opened.append(f"{partition}_{start}")
        return ObjectWriter(
            TP,
            ObjectKind.DATA,
            PLAIN,
            VerbatimEncoder(),
            ObjectUpload(uploader, opened[-1], "token"),
            sizes,
        )

    return Outputs(BUDGET, 0, open_)


@pytest.mark.slow
@pytest.mark.parametrize("least_part_bytes", [1, 50_000, 10**9])
@pytest.mark.parametrize("block_bytes", [1_000, 10**9])
def test_1000_output_partitions_stay_within_the_budget(
    block_bytes: int, least_part_bytes: int
) -> None:
    opened: list[str] = []
    held = []
    with Uploader(MemoryStore(), 10**6) as uploader:
        open_objects = outputs(uploader, OutputSizes(block_bytes, 10**9, least_part_bytes), opened)
        for chunk in range(6):
            for partition in range(1000):
                open_objects.add(f"{partition}", rows(chunk * 1000 + partition, 1, 300))
            open_objects.free_memory()
            held.append(open_objects.held_bytes)
        sealed = open_objects.seal()

    assert max(held) <= BUDGET
    assert sum(one.rows for one in sealed) == 6_000
    assert len(opened) == len(set(opened)) == len(sealed)


def test_no_more_is_freed_than_half_of_the_budget_needs() -> None:
    opened: list[str] = []
    with Uploader(MemoryStore(), 10**6) as uploader:
        open_objects = outputs(uploader, OutputSizes(10**9, 10**9, 10**9), opened)
        for partition, count in (("small", 10), ("large", 600), ("middle", 300)):
            open_objects.add(partition, rows(0, count, 500))
        open_objects.free_memory()
        for partition in ("small", "large", "middle"):
            open_objects.add(partition, rows(600, 1, 500))
        open_objects.seal()

    assert opened == ["small_0", "large_0", "middle_0", "large_600"]


def test_a_block_ends_where_its_weight_is_reached() -> None:
    store = MemoryStore()
    blocks = []

    class RecordingEncoder(VerbatimEncoder):
        def encode(self, block: Block) -> bytes:
            blocks.append((int(block.records.offsets[0]), len(block.records)))
            return super().encode(block)

    with Uploader(store, 10**6) as uploader:
        upload = ObjectUpload(uploader, "key", "token")
        written = ObjectWriter(
            TP, ObjectKind.DATA, PLAIN, RecordingEncoder(), upload, OutputSizes(1000, 10**6, 1)
        )
        for start, count in ((0, 3), (3, 1), (4, 30), (34, 1)):
            written.add(rows(start, count, 84))  # a weight of 100 with ROW_BYTES
        sealed = written.seal().landed()
        store.complete(sealed.upload)

    assert blocks == [(0, 10), (10, 10), (20, 10), (30, 5)]
    assert (sealed.rows, sealed.first_offset, sealed.last_offset) == (35, 0, 34)


def test_an_object_ends_with_the_block_that_reaches_its_bytes() -> None:
    opened: list[str] = []
    sizes = OutputSizes(1_000, 10**6, 1, object_bytes=2_500)
    with Uploader(MemoryStore(), 10**6) as uploader:
        open_objects = outputs(uploader, sizes, opened)
        for start in range(0, 100, 10):
            open_objects.add("a", rows(start, 10, 84))  # a weight of 1,000 with ROW_BYTES
        sealed = open_objects.seal()

    assert opened == ["a_0", "a_30", "a_60", "a_90"]
    assert [one.rows for one in sealed] == [30, 30, 30, 10]


def test_an_object_ends_before_it_has_more_parts_than_a_store_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("landfall.task.outputs.MAX_PARTS", 3)
    opened: list[str] = []
    with Uploader(MemoryStore(), 10**6) as uploader:
        open_objects = outputs(uploader, OutputSizes(500, 500, 1), opened)
        for start in range(0, 50, 10):
            open_objects.add("a", rows(start, 10, 84))
        sealed = [one.landed() for one in open_objects.seal()]

    assert len(opened) == len(set(opened)) > 1
    assert all(len(one.upload.parts) <= 5 for one in sealed)
    assert [one.first_offset for one in sealed] == [int(key.split("_")[1]) for key in opened]


@pytest.mark.parametrize(
    ("sizes", "begun"),
    [
        ([5, 5, 90, 5, 90], ["one_0", "one_2"]),
        ([90, 5, 90], ["one_0"]),
        ([5, 5], ["one_0"]),
        ([5, 90], ["one_0", "one_1"]),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_the_first_large_row_begins_an_object_that_takes_all_rows_after_it(
    sizes: list[int], begun: list[str], at_once: bool
) -> None:
    opened: list[str] = []
    values = pa.array([b"x" * size for size in sizes], pa.binary())
    whole = ChosenRows(PLAIN.rows(of_columns(TP, np.arange(len(sizes)), values), None))
    chunks = [whole] if at_once else [whole.part(n, n + 1) for n in range(len(sizes))]
    with Uploader(MemoryStore(), 10**6) as uploader:
        limits = OutputSizes(10**9, 10**9, 10**9, large_row_bytes=90)
        open_objects = outputs(uploader, limits, opened)
        for chunk in chunks:
            open_objects.add("one", chunk)
            open_objects.free_memory()
        sealed = open_objects.seal()

    assert opened == begun
    assert sum(one.rows for one in sealed) == len(sizes)


def test_large_rows_and_the_rows_of_an_object_end_objects_together() -> None:
    opened: list[str] = []
    values = pa.array([b"x" * size for size in (5, 5, 5, 90, 5, 5)], pa.binary())
    whole = ChosenRows(PLAIN.rows(of_columns(TP, np.arange(6), values), None))
    with Uploader(MemoryStore(), 10**6) as uploader:
        limits = OutputSizes(10**9, 10**9, 10**9, object_rows=2, large_row_bytes=90)
        open_objects = outputs(uploader, limits, opened)
        open_objects.add("one", whole)
        sealed = open_objects.seal()

    assert opened == ["one_0", "one_2", "one_3", "one_5"]
    assert [one.rows for one in sealed] == [2, 1, 2, 1]


class SlowParts(MemoryStore):
    """A store that takes its time for a part, and counts the bytes that it is given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.lock = threading.Lock()

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        with self.lock:
            self.now += len(body)
            self.most = max(self.most, self.now)
        time.sleep(0.005)
        part = super().put_part(key, upload_id, number, body)
        with self.lock:
            self.now -= len(body)
        return part


def test_parts_in_flight_are_limited_by_their_bytes() -> None:
    store = SlowParts()

    with Uploader(store, 250) as uploader:
        upload = ObjectUpload(uploader, "a", "token")
        for size in [100] * 12 + [40] * 12 + [300, 100, 100, 100]:
            upload.send(b"x" * size)
        store.complete(upload.result())

    assert len(store.read("a")) == 12 * 140 + 600
    assert store.most == 300
