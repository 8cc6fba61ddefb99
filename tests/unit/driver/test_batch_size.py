"""Batches begin small and grow with every COMMIT, and a task may end a slice of wrong estimate."""

from datetime import timedelta

from landfall.driver.decide.batch_size import (
    FIRST_BATCH_OFFSETS,
    MIN_SLICE_BYTES,
    BatchSizeLimit,
    max_batch_bytes,
    slice_bytes,
)
from landfall.estimates import Estimate, SizeEstimates
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A = TopicPartition("a", 0)
SECOND = timedelta(seconds=1)


def test_the_limit_grows_faster_the_quicker_batches_are_until_there_is_none() -> None:
    limit = BatchSizeLimit()

    assert limit.offsets == FIRST_BATCH_OFFSETS
    assert limit.committed(20 * SECOND) == limit
    assert limit.committed(5 * SECOND).offsets == 2 * FIRST_BATCH_OFFSETS
    assert limit.committed(SECOND).offsets == 8 * FIRST_BATCH_OFFSETS
    for _ in range(4):
        limit = limit.committed(SECOND)
    assert limit.offsets is None
    assert limit.committed(20 * SECOND).offsets is None
    assert (BatchSizeLimit().slice_objects, limit.slice_objects) == (25, 2_000)


def test_a_batch_may_have_more_bytes_where_more_than_four_slots_land_it() -> None:
    assert [max_batch_bytes(2000, slots) for slots in (1, 4, 6, 16)] == [2000, 2000, 3000, 8000]


def test_the_first_batches_of_a_driver_are_small_and_later_ones_are_not() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 60_000)
    runner = FakeRunner(store)

    driver(group(uploadPolicy={"maxBytes": "1Gi", "maxAge": "1ms"}), store, log, runner).run()

    lengths = [sum(len(s.offsets) for bin_ in bins for s in bin_) for bins in runner.rounds]
    assert lengths[0] <= FIRST_BATCH_OFFSETS
    assert max(lengths) >= 8 * lengths[0]
    assert landed_offsets(store) == written_offsets(log)


def test_a_driver_that_dies_after_its_first_batch_has_landed_something_every_time() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 60_000)
    landed = []
    for life in range(3):
        one = driver(
            group(), store, log, FakeRunner(store), until_caught_up=False, writer=f"w{life}"
        )
        one.report = lambda _, one=one: one.stop("spot node") if one.counters.commits else None  # type: ignore[misc]
        one.run()
        landed.append(landed_offsets(store).total())

    assert 0 < landed[0] < landed[1] < landed[2] < 60_000


def test_a_slice_may_have_some_times_the_bytes_that_were_estimated() -> None:
    known = SizeEstimates({A: Estimate(100, 1_000, 1e-6, 10**6)})

    assert slice_bytes([Slice(A, OffsetRange(0, 10**6))], known) == 4 * 10**9
    assert slice_bytes([Slice(A, OffsetRange(0, 10))], known) == MIN_SLICE_BYTES
