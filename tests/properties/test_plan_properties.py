"""Laws of the plan: contiguous, complete, fair, balanced, and the same for the same input."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from landfall.estimates import SLICE_SECONDS, Estimate, SizeEstimates
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from landfall.plan import (
    Backlog,
    BatchPlan,
    Capacity,
    Policy,
    UploadLimits,
    is_due,
    plan,
    stagger_fraction,
)

POLICY = Policy(UploadLimits(max_bytes=10**6, max_age=timedelta(minutes=5)))
TPS = [TopicPartition(topic, n) for topic in ("a", "b", "c") for n in range(4)]

ages = st.integers(0, 900).map(lambda s: timedelta(seconds=s))
ranges = st.tuples(st.integers(0, 10**6), st.integers(0, 3 * 10**5)).map(
    lambda p: OffsetRange(p[0], p[0] + p[1])
)
estimates = st.builds(
    Estimate, st.floats(0, 100), st.floats(0, 10**4), st.floats(0, 10**-3), st.integers(0, 10**7)
)
backlogs = st.dictionaries(st.sampled_from(TPS), st.tuples(ranges, ages)).map(
    lambda unlanded: [Backlog(tp, offsets, age) for tp, (offsets, age) in unlanded.items()]
)
sizes = st.dictionaries(st.sampled_from(TPS), estimates).map(SizeEstimates)
capacities = st.builds(
    Capacity,
    st.integers(1, 16),
    st.integers(1, 10**9),
    st.frozensets(st.sampled_from(TPS)),
)


def seconds(slice_: Slice, known: SizeEstimates) -> float:
    return SLICE_SECONDS + len(slice_.offsets) * known.of(slice_.topic_partition).seconds


@given(backlogs, sizes, capacities, st.booleans())
def test_a_batch_advances_each_checkpoint_without_a_gap_and_not_past_the_end(
    unlanded: list[Backlog], known: SizeEstimates, capacity: Capacity, flush: bool
) -> None:
    batch = plan(unlanded, POLICY, known, capacity, flush=flush) or BatchPlan(())

    after = Checkpoint({b.topic_partition: b.offsets.start for b in unlanded}).advance(batch.slices)

    assert all(after[b.topic_partition] <= b.offsets.end for b in unlanded)
    assert all(len(slice_.offsets) > 0 for slice_ in batch.slices)


@given(backlogs, sizes, capacities, st.booleans())
def test_a_batch_holds_only_what_is_due_and_not_busy_and_is_none_only_if_nothing_is(
    unlanded: list[Backlog], known: SizeEstimates, capacity: Capacity, flush: bool
) -> None:
    plannable = {
        b.topic_partition
        for b in unlanded
        if b.topic_partition not in capacity.busy
        and len(b.offsets)
        and (flush or is_due(b, POLICY, known))
    }

    batch = plan(unlanded, POLICY, known, capacity, flush=flush)

    assert (batch is None) == (not plannable)
    assert batch is None or (batch.topic_partitions and batch.topic_partitions <= plannable)


@given(backlogs, sizes, capacities)
def test_the_most_overdue_is_in_the_batch(
    unlanded: list[Backlog], known: SizeEstimates, capacity: Capacity
) -> None:
    batch = plan(unlanded, POLICY, known, capacity)
    if batch is None:
        return

    free = [
        b for b in unlanded if b.topic_partition not in capacity.busy and is_due(b, POLICY, known)
    ]
    oldest = max(b.age for b in free)

    assert any(b.age == oldest and b.topic_partition in batch.topic_partitions for b in free)


@given(backlogs, sizes, capacities)
def test_the_order_of_the_backlogs_does_not_matter(
    unlanded: list[Backlog], known: SizeEstimates, capacity: Capacity
) -> None:
    assert plan(unlanded, POLICY, known, capacity) == plan(unlanded[::-1], POLICY, known, capacity)


@given(backlogs, sizes, st.integers(1, 16))
def test_bins_differ_by_no_more_than_the_heaviest_slice(
    unlanded: list[Backlog], known: SizeEstimates, slots: int
) -> None:
    batch = plan(unlanded, POLICY, known, Capacity(slots, 10**15), flush=True)
    if batch is None:
        return

    loads = [sum(seconds(slice_, known) for slice_ in b) for b in batch.bins]

    assert len(loads) <= 3 * slots
    assert all(heavier >= lighter - 1e-6 for heavier, lighter in pairwise(loads))
    assert max(loads) - min(loads) <= max(seconds(slice_, known) for slice_ in batch.slices) + 1e-6


@given(backlogs, sizes, st.integers(1, 8), st.integers(10**7, 10**9))
def test_everything_is_landed_in_the_end(
    unlanded: list[Backlog], known: SizeEstimates, slots: int, max_bytes: int
) -> None:
    checkpoint = Checkpoint({b.topic_partition: b.offsets.start for b in unlanded})
    left = unlanded
    for _ in range(1_000):
        batch = plan(left, POLICY, known, Capacity(slots, max_bytes), flush=True)
        if batch is None:
            break
        checkpoint = checkpoint.advance(batch.slices)
        left = [
            Backlog(
                b.topic_partition, OffsetRange(checkpoint[b.topic_partition], b.offsets.end), b.age
            )
            for b in left
        ]

    assert {tp: checkpoint[tp] for tp in checkpoint} == {
        b.topic_partition: b.offsets.end for b in unlanded
    }


@given(st.integers(1, 10**5), st.integers(0, 10**4), estimates)
def test_learning_converges_to_what_is_measured(
    offsets: int, bytes_each: int, guess: Estimate
) -> None:
    tp = TPS[0]
    upload = Upload("k", "u", (Part("e", offsets * bytes_each),), "t")
    data = LandedObject(upload, ObjectKind.DATA, offsets, 0, offsets - 1, crc32=0)
    seen = LandedSlice(Slice(tp, OffsetRange(0, offsets)), (data,), offsets, 0, 0, 0, input_bytes=0)
    known = SizeEstimates({tp: guess})

    distances = [abs(guess.landed_bytes - bytes_each)]
    for _ in range(20):
        known = known.learn([seen])
        distances.append(abs(known.of(tp).landed_bytes - bytes_each))

    remaining = (20_000 / (20_000 + offsets)) ** 20
    assert all(after <= before + 1e-6 for before, after in pairwise(distances))
    assert distances[-1] <= distances[0] * remaining + 1e-6


@given(st.text(min_size=1), st.integers(0, 10**5))
def test_a_stagger_fraction_is_at_least_0_and_below_1(topic: str, partition: int) -> None:
    assert 0 <= stagger_fraction(TopicPartition(topic, partition)) < 1
