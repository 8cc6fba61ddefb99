"""What a plan of a backfill needs of a ledger: memory for what it lands again, not for all."""

import tracemalloc
from collections.abc import Callable

from landfall.driver.backfill.landed_ledger import read_chosen, read_landed
from landfall.driver.decide.backfill import Backfill, SliceChoice, chosen
from landfall.lane import Lane
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

TPS = [TopicPartition("clicks", partition) for partition in range(10)]
HOURS, ROWS = 200, 1000


def many_hours() -> SampleLedger:
    """An object of each hour in each of ten Kafka partitions."""
    sample = SampleLedger().open().add(*TPS)
    for hour in range(HOURS):
        slices = [_landed(tp, hour, f"token-{sample.state.seq + 1}") for tp in TPS]
        sample.append(sample.committing(*slices))
        sample.shown()
    return sample


def _landed(tp: TopicPartition, hour: int, token: str) -> LandedSlice:
    start = hour * ROWS
    key = f"clicks/hr={hour:03}/1_{tp.partition}_{start:020}.json"
    upload = Upload(key, f"upload-{hour}-{tp.partition}", (Part("e" * 32, 10**6),), token)
    made = LandedObject(upload, ObjectKind.DATA, ROWS, start, start + ROWS - 1, 1)
    return LandedSlice(Slice(tp, OffsetRange(start, start + ROWS)), (made,), ROWS, 0, 0, 0, 9000)


def peak_of(plan: Callable[[], Backfill]) -> tuple[Backfill, int]:
    """What is planned, and how many bytes were held at most."""
    tracemalloc.start()
    try:
        return plan(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_plan_of_an_hour_needs_no_memory_for_the_others() -> None:
    sample, choice = many_hours(), SliceChoice(output_partitions=("hr=020",))
    lane = Lane(sample.store, GROUP, LANE)

    found, peak = peak_of(lambda: read_chosen(lane, sample.store, choice)[1])
    whole, most = peak_of(lambda: chosen(read_landed(lane, sample.store), choice))

    assert found == whole
    assert len(found.retire) == len(TPS)
    assert peak < most / 3


def test_other_partitions_start_where_the_group_is_and_not_where_the_plan_ends() -> None:
    sample = many_hours()
    lane = Lane(sample.store, GROUP, LANE)
    key = f"clicks/hr=020/1_3_{20 * ROWS:020}.json"

    landed, found = read_chosen(lane, sample.store, SliceChoice(keys=frozenset([key])))

    assert [slice_.topic_partition.partition for slice_ in found.slices] == [3]
    assert {landed.checkpoint(tp) for tp in TPS} == {HOURS * ROWS}
