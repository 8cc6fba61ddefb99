"""Simulated executors: the real driver lands everything, and uses the slots that it has."""

from collections.abc import Sequence
from functools import cache

import pytest

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.task import Batch
from tests.bench.scaling import topic
from tests.bench.simulated.executors import Costs, SimulatedExecutors
from tests.bench.simulated.group import Landing, group, land
from tests.bench.simulated.timeline import Timeline
from tests.support.driver.fakes import NOW

EVEN = Costs(message_bytes=1000, ratio=1, byte=1e-6, spread=0, piece=0, task=0, job=1)
"""A slot takes a second for a thousand records."""
RECORDS = 256_000_000


def no_cpu() -> float:
    return 0.0


def bins(*lengths: int) -> Sequence[tuple[Slice, ...]]:
    return [
        (Slice(TopicPartition("t", number), OffsetRange(0, length)),)
        for number, length in enumerate(lengths)
    ]


def test_time_passes_by_what_the_driver_computes_and_by_what_it_waits_for() -> None:
    computed = [0.0]
    timeline, happened = Timeline(NOW, lambda: computed[-1]), list[str]()
    timeline.at(7, lambda: happened.append("late"))
    timeline.at(3, lambda: happened.append("early"))

    computed.append(2.0)
    timeline.wait(4, lambda: bool(happened))
    assert (timeline.now, happened) == (3, ["early"])
    computed.append(2.5)
    timeline.wait(2, lambda: False)

    assert (timeline.now, timeline.cpu_seconds, happened) == (5.5, 2.5, ["early"])


def test_threads_beside_the_drivers_compute_one_after_another() -> None:
    timeline = Timeline(NOW, no_cpu)

    assert [timeline.compute(1, 2), timeline.compute(2, 2), timeline.compute(9, 1)] == [3, 5, 10]
    timeline.wait(0, lambda: True)
    assert timeline.now == 10


def test_batches_share_the_slots_fairly() -> None:
    timeline = Timeline(NOW, no_cpu)
    executors = SimulatedExecutors(timeline, 2, EVEN)
    batch = Batch(group(), "token")

    large = executors.begin(batch, bins(2000, 2000, 2000, 2000))
    small = executors.begin(batch, bins(1000))

    timeline.wait(4, small.done)
    assert timeline.now == 4  # the job starts after 1 s, its first tasks end 2 s later
    timeline.wait(9, large.done)
    assert timeline.now == 6
    assert [len(result.piece.offsets) for result in large.result()] == [2000] * 4
    assert executors.busy_seconds == 9


@cache
def landed(name: str, slots: int) -> Landing:
    return land(topic(name, RECORDS), slots, cpu=no_cpu)


@pytest.mark.parametrize("name", ["8 Kafka partitions", "one has half of all"])
def test_four_slots_land_several_kafka_partitions_nearly_four_times_as_fast(name: str) -> None:
    assert landed(name, 4).mb_per_second >= 3.6 * landed(name, 1).mb_per_second


def test_four_slots_land_one_hot_kafka_partition_nearly_four_times_as_fast() -> None:
    hot = "one Kafka partition"

    assert landed(hot, 4).mb_per_second >= 3.4 * landed(hot, 1).mb_per_second


def test_sixteen_slots_are_used_by_one_hot_kafka_partition() -> None:
    hot = "one Kafka partition"

    assert landed(hot, 16).mb_per_second >= 8 * landed(hot, 1).mb_per_second


def test_everything_is_landed_once() -> None:
    found = landed("one Kafka partition", 4)

    assert found.payload_mb == RECORDS * 250 / 1e6
    assert found.tasks <= found.slices
    assert 0.5 < found.busy <= 1
