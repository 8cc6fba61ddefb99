"""A summary says of all topic partitions what their statuses say."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from landfall.api.contract import PartitionStatus, PartitionTotals, Status, TopicCompleteness
from landfall.api.status_summary import BLOCKED, WORST, how_bad, summarize, totals_of
from tests.support.operator.cluster_model import START
from tests.support.operator.reconciled import status_of

PARTITIONS = st.lists(
    st.builds(
        lambda records, seconds, blocked: PartitionStatus(
            "clicks", 0, 0, records, records, seconds, seconds / 2, blocked=blocked
        ),
        st.integers(0, 9),
        st.floats(0, 99),
        st.sampled_from([None, "BadRecordsOverLimit", "LogTruncated"]),
    ),
    max_size=80,
).map(lambda found: tuple(replace(p, partition=n) for n, p in enumerate(found)))


def status(*partitions: PartitionStatus) -> Status:
    return replace(status_of("g1-a", START), partitions=partitions)


@given(PARTITIONS)
def test_a_summary_has_the_sums_the_worst_and_the_first_blocked(
    partitions: tuple[PartitionStatus, ...],
) -> None:
    made = summarize(status(*partitions))

    worst = sorted(partitions, key=how_bad, reverse=True)[:WORST]
    blocked = [p for p in partitions if p.blocked]
    assert {*map(how_bad, worst)} <= {how_bad(p) for p in made.partitions}
    assert {p.blocked for p in made.partitions} >= {p.blocked for p in blocked}
    assert [p for p in made.partitions if p.blocked][:BLOCKED] == blocked[:BLOCKED]
    assert len(made.partitions) <= WORST + BLOCKED + 2
    assert made.totals == totals_of(status(*partitions))


def test_the_sums_leave_blocked_topic_partitions_out() -> None:
    landable = PartitionStatus("clicks", 0, 0, 5, 5, 9.0, 1.0)
    blocked = PartitionStatus("clicks", 1, 0, 700, 700, 99.0, 90.0, blocked="LogTruncated")

    made = summarize(status(landable, replace(landable, partition=2, lag_records=6), blocked))

    assert made.totals == PartitionTotals(3, 1, 11, 9.0, 1.0)


def test_a_summary_has_one_that_is_read_from_another_group() -> None:
    late = PartitionStatus("clicks", 0, 0, 5, 5, 9.0, 1.0)
    others = [replace(late, partition=n) for n in range(WORST + 1)]
    read = replace(late, partition=99, lag_seconds=0.0, overdue_seconds=0.0, read_from="backup")

    made = summarize(status(*others, read, replace(read, partition=100)))

    assert [p.partition for p in made.partitions if p.read_from] == [99]


def test_a_summary_stays_as_it_is() -> None:
    made = summarize(status(PartitionStatus("clicks", 0, 0, 5, 5, 9.0, 1.0)))

    assert summarize(made) == made


def test_topic_partitions_are_listed_in_their_order() -> None:
    many = [
        PartitionStatus("clicks", n, 0, n, n, float(n), 0.0, blocked="x" if n % 3 else None)
        for n in range(60)
    ]

    listed = [p.partition for p in summarize(status(*many)).partitions]

    assert listed == sorted(listed)
    assert len(listed) == WORST + BLOCKED


def test_a_summary_has_the_first_topics_that_are_held() -> None:
    free = TopicCompleteness("a", "2026-11-21T04:00:00+00:00")
    held = [TopicCompleteness(f"t{n:03}", None, f"t{n:03}/0", "it waits") for n in range(50)]

    made = summarize(replace(status(), completeness=(free, *held)))

    assert made.completeness == tuple(held[:BLOCKED])
