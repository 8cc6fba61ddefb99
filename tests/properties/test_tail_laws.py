"""Each record below Kafka's ends is in a scan with a tail once, whatever happens meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.reading import LandedGroup
from tests.support.examples import share
from tests.support.ledger.landed_group import PARQUET, SEQUENCE_FILES
from tests.support.ledger.tailed import (
    BAD,
    CLICKS,
    FILTERED,
    INVISIBLE,
    KINDS,
    ROW,
    Tailed,
    records,
)

JSON: dict[str, Any] = {"format": "Json"}
TPS, COUNTS = st.sampled_from(CLICKS), st.integers(1, 6)
HAPPENINGS: st.SearchStrategy[Callable[[Tailed], object]] = st.one_of(
    st.builds(
        lambda tp, kinds: lambda on: on.produce(tp, *kinds),
        TPS,
        st.lists(st.sampled_from(KINDS), min_size=1, max_size=8),
    ),
    st.builds(
        lambda tp, count, complete: lambda on: on.land(tp, count, complete=complete),
        TPS,
        COUNTS,
        st.booleans(),
    ),
    st.builds(lambda tp: lambda on: on.run(tp), TPS),
    st.builds(lambda tp, count: lambda on: on.skip(tp, count), TPS, st.just(1)),
    st.builds(lambda some: lambda on: on.confirm(some), st.integers(0, 3)),
    st.just(lambda on: on.roll()),
)
LOOKS = st.lists(
    st.tuples(st.lists(HAPPENINGS, max_size=12), st.lists(HAPPENINGS, max_size=12)), max_size=5
)


@settings(max_examples=share(100), deadline=None)
@given(LOOKS, st.sampled_from([PARQUET, SEQUENCE_FILES, JSON]), st.booleans())
def test_each_record_is_in_one_half_once(
    looks: list[tuple[list[Callable[[Tailed], object]], list[Callable[[Tailed], object]]]],
    output: dict[str, Any],
    reopens: bool,
) -> None:
    played = Tailed(output)
    opened = played.reader()

    for before, meanwhile in looks:
        for happens in before:
            happens(played)
        left = [meanwhile[at : at + 3] for at in range(0, len(meanwhile), 3)]

        def grow(left: list[list[Callable[[Tailed], object]]] = left) -> None:
            for happens in left.pop() if left else ():
                happens(played)

        played.kafka.log_.meanwhile = grow
        opened = played.reader() if reopens else opened
        check(played, opened)


def check(played: Tailed, opened: LandedGroup) -> None:
    scan = opened.scan("clicks", tail=True)
    assert scan.tail is not None
    plan = scan.tail.plan
    grown = partial(_below, {tp.partition: end for tp, end in plan.ends.items()})
    tail = {(s.topic_partition.partition, o) for s in plan.ranges for o in _offsets(s.offsets)}

    found = records(scan.to_arrow())

    rows = grown(played.of_kind(ROW)) - grown_holes(played, tail)
    assert sorted((p, o) for p, o, _ in found) == sorted(rows)
    assert {(p, o) for p, o, half in found if half == "tail"} == rows & tail
    assert scan.rows == len(rows - tail)
    counts = scan.tail.counts()
    assert len(plan) == counts.rows + counts.filtered + counts.dead_lettered + counts.invisible
    assert counts.rows == len(rows & tail)
    assert counts.filtered == len(played.of_kind(FILTERED) & tail)
    assert counts.dead_lettered == len(played.of_kind(BAD) & tail)
    assert counts.invisible == len(played.of_kind(INVISIBLE) & tail)
    assert not plan.left_out


def grown_holes(played: Tailed, tail: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """What was skipped before the scan: a record that is skipped after it is in its tail."""
    return played.skipped - tail


def _below(ends: dict[int, int], found: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(partition, offset) for partition, offset in found if offset < ends[partition]}


def _offsets(offsets: Any) -> range:
    return range(offsets.start, offsets.end)
