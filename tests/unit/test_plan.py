"""The plan decides by size, age and earlier failures what the next batch holds."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from landfall.api.spec import UploadPolicy
from landfall.estimates import Estimate, SizeEstimates
from landfall.ledger.feeds import SPAN
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from landfall.plan import (
    FIRST_OFFSETS,
    STAGGER,
    Backlog,
    BatchPlan,
    Capacity,
    PartSize,
    Policy,
    UploadLimits,
    is_due,
    overdue,
    plan,
    stagger_fraction,
)

MINUTE = timedelta(minutes=1)
MIB = 2**20
POLICY = Policy(UploadLimits(max_bytes=64 * MIB, max_age=5 * MINUTE))
ROOMY = Capacity(slots=4, max_bytes=10**15)
HOT = TopicPartition("hot", 0)


def backlog(tp: TopicPartition, start: int, end: int, age: timedelta = timedelta()) -> Backlog:
    return Backlog(tp, OffsetRange(start, end), age)


def known(*tps: TopicPartition, landed_bytes: float = 100, seconds: float = 4e-6) -> SizeEstimates:
    """Estimates learned from so many offsets that they are trusted for any backlog."""
    return SizeEstimates({tp: Estimate(landed_bytes, 250, seconds, offsets=10**9) for tp in tps})


def landed(
    tp: TopicPartition, offsets: int, size: int, *, cpu_seconds: float = 0.0, invisible: int = 0
) -> LandedSlice:
    rows = offsets - invisible
    upload = Upload("k", "u", (Part("e", size),), "t")
    data = LandedObject(upload, ObjectKind.DATA, rows, 0, offsets - 1, crc32=0)
    return LandedSlice(
        Slice(tp, OffsetRange(0, offsets)),
        (data,) if rows else (),
        landed=rows,
        filtered=0,
        dead_lettered=0,
        invisible=invisible,
        input_bytes=rows * 250,
        cpu_seconds=cpu_seconds,
    )


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, n) for n in range(count)]


def test_the_first_override_that_matches_the_whole_topic_name_applies() -> None:
    spec = UploadPolicy.model_validate(
        {
            "maxBytes": "64Mi",
            "maxAge": "5m",
            "overrides": [
                {"topics": "bill", "maxBytes": 1},
                {"topics": "bill.*", "maxAge": "1m"},
                {"topics": ".*ing"},
            ],
        }
    )

    policy = Policy.of(spec)

    assert policy.for_topic("billing") == UploadLimits(64 * MIB, MINUTE)
    assert policy.for_topic("clicks") == UploadLimits(64 * MIB, 5 * MINUTE)


def test_an_empty_backlog_is_never_due() -> None:
    empty = backlog(HOT, 7, 7, timedelta(days=1))

    assert not is_due(empty, POLICY, SizeEstimates())
    assert overdue(empty, POLICY) == timedelta(0)
    assert plan([empty], POLICY, SizeEstimates(), ROOMY, flush=True) is None


def test_a_backlog_is_due_by_its_estimated_bytes() -> None:
    sizes = known(HOT, landed_bytes=64)

    assert is_due(backlog(HOT, 0, MIB), POLICY, sizes)
    assert not is_due(backlog(HOT, 0, MIB - 1), POLICY, sizes)


def test_a_backlog_is_due_by_its_age_at_a_staggered_time_and_never_late() -> None:
    due_at = [5 * MINUTE * (1 - STAGGER * stagger_fraction(tp)) for tp in partitions_of("idle", 50)]

    for tp, age in zip(partitions_of("idle", 50), due_at, strict=True):
        assert is_due(backlog(tp, 0, 1, age), POLICY, SizeEstimates())
        assert not is_due(
            backlog(tp, 0, 1, age - timedelta(milliseconds=1)), POLICY, SizeEstimates()
        )
    assert max(due_at) <= 5 * MINUTE
    assert max(due_at) - min(due_at) > MINUTE * 0.8


def test_stagger_fractions_never_change() -> None:
    assert [round(stagger_fraction(TopicPartition("clicks", n)), 4) for n in range(4)] == [
        0.0329,
        0.4977,
        0.8999,
        0.568,
    ]


def test_overdue_counts_from_the_full_age() -> None:
    assert overdue(backlog(HOT, 0, 1, 4 * MINUTE), POLICY) == timedelta(0)
    assert overdue(backlog(HOT, 0, 1, 7 * MINUTE), POLICY) == 2 * MINUTE


def test_with_flush_everything_unlanded_is_due() -> None:
    young = backlog(HOT, 3, 5)

    assert plan([young], POLICY, SizeEstimates(), ROOMY) is None
    assert plan([young], POLICY, SizeEstimates(), ROOMY, flush=True) == BatchPlan(
        ((Slice(HOT, OffsetRange(3, 5)),),)
    )


def test_a_busy_topic_partition_is_not_planned_again() -> None:
    late = backlog(HOT, 0, 10, 9 * MINUTE)

    assert plan([late], POLICY, SizeEstimates(), Capacity(4, 10**15, busy={HOT})) is None


def test_of_an_unknown_topic_partition_a_bounded_range_is_planned() -> None:
    batch = plan([backlog(HOT, 5, 10**9)], POLICY, SizeEstimates(), ROOMY)

    assert batch is not None
    assert (batch.slices[0].offsets.start, batch.slices[-1].offsets.end) == (5, 5 + FIRST_OFFSETS)


def test_one_hot_topic_partition_spreads_over_all_slots_in_slices_of_about_max_bytes() -> None:
    batch = plan([backlog(HOT, 0, 8 * MIB)], POLICY, known(HOT), ROOMY)

    assert batch is not None
    lengths = [len(slice_.offsets) for slice_ in batch.slices]
    assert len(batch.bins) >= ROOMY.slots
    assert all(abs(length * 100 - 64 * MIB) < 8 * MIB for length in lengths)


def slice_mib(batch: BatchPlan | None, landed_bytes: float = 100) -> list[float]:
    assert batch is not None
    return [len(slice_.offsets) * landed_bytes / MIB for slice_ in batch.slices]


def test_what_one_hot_topic_partition_has_is_cut_so_that_no_slot_is_idle_at_the_end() -> None:
    sizes = known(HOT, seconds=1e-5)

    batch = plan([backlog(HOT, 0, 5 * 64 * MIB // 100)], POLICY, sizes, ROOMY)

    assert slice_mib(batch) == pytest.approx([40] * 8, abs=0.1)


def test_a_hot_topic_partition_without_end_fills_batches_for_every_slot() -> None:
    seven = Capacity(slots=4, max_bytes=7 * 65 * MIB)

    batch = plan([backlog(HOT, 0, 100 * MIB)], POLICY, known(HOT, seconds=1e-5), seven)

    assert slice_mib(batch) == pytest.approx([56] * 8, abs=1)


def test_what_is_due_in_time_makes_one_object_though_slots_are_idle() -> None:
    in_time = plan([backlog(HOT, 0, MIB)], POLICY, known(HOT, landed_bytes=64, seconds=1e-5), ROOMY)

    assert slice_mib(in_time, 64) == [64]


def test_the_last_batch_of_a_run_is_cut_finer_but_not_too_fine() -> None:
    last, many = [backlog(HOT, 0, MIB)], Capacity(slots=16, max_bytes=10**15)

    quick = plan(last, POLICY, known(HOT, landed_bytes=64, seconds=3e-6), many, flush=True)
    slow = plan(last, POLICY, known(HOT, landed_bytes=64, seconds=1e-5), many, flush=True)

    assert slice_mib(quick, 64) == [64]
    assert slice_mib(slow, 64) == [16] * 4


def test_slices_stay_large_where_other_topic_partitions_use_the_slots() -> None:
    tps = partitions_of("hot", 5)
    backlogs = [backlog(tp, 0, 10 * MIB) for tp in tps]

    batch = plan(backlogs, POLICY, known(*tps, seconds=1e-5), Capacity(4, 3 * 64 * MIB))

    assert batch is not None
    assert batch.topic_partitions < {*tps}
    assert slice_mib(batch) == pytest.approx([62.5] * 3, abs=0.1)


def test_a_backlog_of_few_bytes_but_much_cpu_is_cut_into_bounded_slices() -> None:
    batch = plan(
        [backlog(HOT, 0, 10**9, 9 * MINUTE)],
        POLICY,
        known(HOT, landed_bytes=0, seconds=1e-5),
        ROOMY,
    )

    assert batch is not None
    assert max(len(slice_.offsets) for slice_ in batch.slices) * 1e-5 < 310


def test_ten_thousand_idle_topic_partitions_share_few_tasks() -> None:
    idle = [backlog(tp, 0, 3, 9 * MINUTE) for tp in partitions_of("idle", 10_000)]

    batch = plan(idle, POLICY, SizeEstimates(), ROOMY)

    assert batch is not None
    assert (len(batch.bins), len(batch.slices)) == (12, 10_000)


def test_a_little_work_is_one_task() -> None:
    idle = [backlog(tp, 0, 3, 9 * MINUTE) for tp in partitions_of("idle", 50)]

    batch = plan(idle, POLICY, SizeEstimates(), ROOMY)

    assert batch is not None
    assert len(batch.bins) == 1


def test_the_heaviest_slices_are_packed_first() -> None:
    light, heavy = partitions_of("light", 6), TopicPartition("zz-heavy", 0)
    weights = {**dict.fromkeys(light, 2.0), heavy: 6.0}
    sizes = SizeEstimates(
        {tp: Estimate(1, 1, seconds / 1000, offsets=10**6) for tp, seconds in weights.items()}
    )
    backlogs = [backlog(tp, 0, 1000, 9 * MINUTE) for tp in weights]

    batch = plan(backlogs, POLICY, sizes, Capacity(slots=1, max_bytes=10**15))

    assert batch is not None
    assert sorted(sum(weights[slice_.topic_partition] for slice_ in b) for b in batch.bins) == [
        6,
        6,
        6,
    ]


def test_over_the_limit_the_most_overdue_go_first_and_the_smallest_are_not_delayed() -> None:
    big, small = partitions_of("big", 8), partitions_of("small", 8)
    backlogs = [backlog(tp, 0, 10 * MIB, (20 - i) * MINUTE) for i, tp in enumerate(big)]
    backlogs += [backlog(tp, 0, 100_000, 6 * MINUTE) for tp in small]

    batch = plan(backlogs, POLICY, known(*big, *small), Capacity(slots=4, max_bytes=4 * 64 * MIB))

    assert batch is not None
    assert big[0] in batch.topic_partitions
    assert set(small) <= batch.topic_partitions
    assert big[7] not in batch.topic_partitions


def test_a_slice_over_the_limit_is_landed_alone() -> None:
    batch = plan([backlog(HOT, 0, 8 * MIB)], POLICY, known(HOT), Capacity(slots=4, max_bytes=1))

    assert batch is not None
    assert len(batch.slices) == 1


def test_an_unknown_topic_partition_has_the_estimate_of_its_topic() -> None:
    sizes = SizeEstimates().learn([landed(TopicPartition("hot", 1), 10**6, 40 * 10**6)])

    assert round(sizes.of(HOT).landed_bytes) == 41
    assert sizes.of(HOT).offsets == 0


def test_a_few_records_hardly_change_an_estimate() -> None:
    sizes = known(HOT).learn([landed(HOT, 5, 20_000)])

    assert 100 < sizes.of(HOT).landed_bytes < 102


def test_invisible_offsets_are_cheap() -> None:
    sizes = SizeEstimates().learn(
        [landed(HOT, 10**6, 10**6, invisible=990_000), landed(HOT, 10**6, 0, invisible=10**6)]
    )

    assert sizes.of(HOT).input_bytes < 30


def test_measured_seconds_are_reduced_by_the_fixed_cost_of_a_slice() -> None:
    slow = SizeEstimates().learn([landed(HOT, 10**6, 10**6, cpu_seconds=50.02)])
    typical = SizeEstimates().learn([landed(HOT, 10**6, 10**6)])

    assert round(slow.of(HOT).seconds * 1e6) == 50
    assert round(typical.of(HOT).seconds * 1e6, 1) == 3.5


def test_a_small_batch_holds_parts_of_several_backlogs() -> None:
    tps = partitions_of("t", 8)
    backlogs = [backlog(tp, 0, 10**6) for tp in tps]

    batch = plan(backlogs, POLICY, known(*tps), Capacity(4, 10**15, max_offsets=2_000), flush=True)

    assert batch is not None
    assert [len(slice_.offsets) for slice_ in batch.slices] == [500] * 4


def test_a_small_batch_may_be_all_of_one_backlog() -> None:
    small = Capacity(4, 10**15, max_offsets=2_000)

    batch = plan([backlog(HOT, 0, 1_700)], POLICY, known(HOT), small, flush=True)

    assert batch is not None
    assert sum(len(slice_.offsets) for slice_ in batch.slices) == 1_700


def test_the_slices_of_what_must_be_tried_are_divided_among_tasks_however_small() -> None:
    tps = partitions_of("t", 8)
    backlogs = [backlog(tp, 0, 1) for tp in tps]

    batch = plan(backlogs, POLICY, known(*tps), Capacity(4, 10**15, min_tasks=4), flush=True)

    assert batch is not None
    assert [len(task) for task in batch.bins] == [2] * 4


def parts_of(*sizes: int, start: int = 0) -> Backlog:
    parts = tuple(PartSize((n + 1) * SPAN, size) for n, size in enumerate(sizes))
    return Backlog(HOT, OffsetRange(start, len(sizes) * SPAN), timedelta(hours=1), parts)


def planned_of(backlog: Backlog, capacity: Capacity = ROOMY) -> list[OffsetRange]:
    planned = plan([backlog], POLICY, SizeEstimates(), capacity)
    assert planned is not None
    return [slice_.offsets for slice_ in planned.slices]


def test_small_files_share_a_slice_that_ends_with_the_last_of_them() -> None:
    found = planned_of(parts_of(*[1 * MIB] * 100))

    assert found == [OffsetRange(0, 64 * SPAN), OffsetRange(64 * SPAN, 100 * SPAN)]


def test_a_large_part_is_a_slice_of_its_own_with_what_is_before_it() -> None:
    found = planned_of(parts_of(10, 200 * MIB, 10, start=7))

    assert found == [OffsetRange(7, 2 * SPAN), OffsetRange(2 * SPAN, 3 * SPAN)]


def test_files_are_due_by_their_bytes() -> None:
    young = timedelta(0)
    small, large = (replace(parts_of(size), age=young) for size in (MIB, 64 * MIB))

    assert not is_due(small, POLICY, SizeEstimates())
    assert is_due(large, POLICY, SizeEstimates())


def test_the_first_batch_of_files_is_small_but_has_one() -> None:
    few = Capacity(slots=4, max_bytes=10**15, max_offsets=2_000)

    assert planned_of(parts_of(*[1 * MIB] * 100), few) == [OffsetRange(0, 2 * SPAN)]
    assert planned_of(parts_of(500 * MIB, 1), few) == [OffsetRange(0, SPAN)]


def test_empty_files_are_landed_many_at_once() -> None:
    assert planned_of(parts_of(*[0] * 1_000)) == [OffsetRange(0, 1_000 * SPAN)]


def test_a_plan_says_how_many_bytes_its_largest_slice_has_in_files() -> None:
    planned = plan([parts_of(10, 200 * MIB, 10)], POLICY, SizeEstimates(), ROOMY)

    assert planned is not None
    assert planned.file_bytes == 200 * MIB + 10
