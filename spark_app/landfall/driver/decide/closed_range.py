"""Find where a closed range of the log ends, and the topics landed up to there. Pure.

A closed range has what Kafka dates before a time, its end. In each topic partition it ends at the
first record dated at or after that time. If there is none yet, it ends where the log ends: what is
written after the look is late, regardless of its date. Two things make that uncertain, and are
waited for: a transaction that is open may hold back records dated before, and a record ahead of the
driver's clock, from a producer whose clock is wrong, shows nothing about the records after it.

A feed of files ends where its numbers do, once each file of the range has one. What gets another
number while the range is landed belongs to it, and what stays parked is left.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from landfall.ledger import ClosedTopic, State
from landfall.ledger.completeness import topics_with_missing
from landfall.ledger.feeds import landed_end
from landfall.ledger.offsets import TopicPartition
from landfall.source import DatedOffset

Horizon = Callable[[str], int]
"""The event time (ms) up to which a range makes a topic complete; -1 for none."""


@dataclass(frozen=True, slots=True)
class RangeLook:
    """The offsets of topic partitions, looked up after the end of the range.

    Attributes:
        now: the time, in milliseconds since 1970-01-01 UTC.
        high: the high watermarks, asked for after the end of the range.
        ends: the last stable offsets, asked for later.
        first: the first offset that is dated at or after the end of the range, below the last
            stable offset; None if there is none.
    """

    now: int
    high: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    first: Mapping[TopicPartition, DatedOffset | None]


@dataclass(frozen=True, slots=True)
class PartitionsInLog:
    """The topic partitions in the log that the spec names.

    Attributes:
        tps: topic partitions.
        unlanded: topics with something that is not landed, or that the log denies.
        recreated: members whose topic was created again; of the new one, nothing is landed.
    """

    tps: Collection[TopicPartition]
    unlanded: Collection[str] = ()
    recreated: Collection[TopicPartition] = ()


def range_ends(look: RangeLook) -> dict[TopicPartition, int]:
    """Return where the range ends, for topic partitions where this is certain."""
    found = dict[TopicPartition, int]()
    for tp, first in look.first.items():
        end = look.ends.get(tp, -1)
        if first is not None and first.timestamp <= look.now:
            found[tp] = first.offset
        elif look.high.get(tp, end + 1) <= end:
            found[tp] = end
    return found


def numbered(state: State) -> dict[TopicPartition, int]:
    """Return where the numbers of feeds end. Until a range is known to end, it has all of them."""
    return {tp: landed_end(feed) for tp, feed in state.feeds.items()}


def is_reached(state: State, ends: Mapping[TopicPartition, int], tp: TopicPartition) -> bool:
    """Return whether a topic partition is landed up to the range's end, which must be known."""
    is_known = tp in ends and tp in state.members
    return is_known and state.checkpoint[tp] >= _end(state, ends, tp)


def _end(state: State, ends: Mapping[TopicPartition, int], tp: TopicPartition) -> int:
    return landed_end(state.feeds[tp]) if tp in state.feeds else ends[tp]


def closed_topics(
    state: State,
    ends: Mapping[TopicPartition, int],
    found: PartitionsInLog,
    horizon: Horizon,
) -> tuple[tuple[ClosedTopic, ...], tuple[str, ...]]:
    """Return the topics that are landed up to the end of a range, and those that are left.

    Args:
        state: of the ledger.
        ends: where the range ends.
        found: what the log has of what the spec names.
        horizon: up to when it makes topics complete.
    """
    topics: dict[str, list[TopicPartition]] = {}
    for tp in state.members:
        topics.setdefault(tp.topic, []).append(tp)
    new = {tp.topic for tp in found.tps if tp not in state.members and tp not in state.excluded}
    left = {tp.topic for tp in state.members if not _is_landed(state, tp, ends)}
    left |= {*new, *found.unlanded, *topics_with_missing(state)}
    left |= {tp.topic for tp in found.recreated}
    closed = tuple(
        _closed(
            state,
            topic,
            tuple((tp.partition, _end(state, ends, tp)) for tp in sorted(tps)),
            horizon,
        )
        for topic, tps in sorted(topics.items())
        if topic not in left
    )
    return closed, tuple(sorted(left))


def _closed(
    state: State, topic: str, ends: tuple[tuple[int, int], ...], to: Horizon
) -> ClosedTopic:
    complete = to(topic)
    return ClosedTopic(topic, ends, complete if complete > state.horizon(topic) else -1)


def _is_landed(state: State, tp: TopicPartition, ends: Mapping[TopicPartition, int]) -> bool:
    feed = state.feeds.get(tp)
    is_parked = feed is not None and feed.leasing is None and bool(feed.parked)
    return is_reached(state, ends, tp) and tp not in state.blocked and not is_parked
