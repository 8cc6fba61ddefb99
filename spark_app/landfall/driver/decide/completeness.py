"""Decide up to which event time topics are complete. Pure.

A topic partition **counts** up to the latest event time that is landed of it, or, if nothing was
written to it for longer than the delay and all of it is landed, up to the look at the log that
showed this. A topic is complete up to what the topic partition that lags most counts, less the
delay. ``landfall.ledger.completeness`` checks the same when the decision is written.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter

from landfall.ledger import Horizon, Member, State
from landfall.ledger.completeness import topics_with_missing
from landfall.ledger.offsets import TopicPartition

Boundary = Callable[[str, int], int]
"""The end of the last period of a topic's route that is over at a time (ms); -1 for none."""


@dataclass(frozen=True, slots=True)
class LogLook:
    """The result of a look at the log.

    Attributes:
        at: when, in milliseconds since 1970-01-01 UTC.
        ends: topic partitions that have nothing after this offset, not even in a transaction, and
            that were not written to for longer than the delay.
        found: all topic partitions of the log that the spec names.
        recreated: members whose topic was created again; of the new one, nothing is landed.
    """

    at: int
    ends: Mapping[TopicPartition, int]
    found: Collection[TopicPartition]
    recreated: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class HeldTopic:
    """A topic whose time to be complete has come, and the topic partition that holds it.

    Attributes:
        topic: the topic.
        topic_partition: the one that lags most.
        counts_to: milliseconds since 1970-01-01 UTC up to which it counts; -1 for nothing.
        why: what it waits for.
    """

    topic: str
    topic_partition: TopicPartition
    counts_to: int
    why: str


def horizons(
    state: State, look: LogLook, delay: int, boundary: Boundary
) -> tuple[tuple[Horizon, ...], tuple[HeldTopic, ...]]:
    """Return the topics that are complete up to a later time than before, and those that are held.

    Args:
        state: of the ledger.
        look: at the log.
        delay: milliseconds that records may be late.
        boundary: where horizons may be.
    """
    topics: dict[str, dict[TopicPartition, Member]] = {}
    for tp, member in state.members.items():
        topics.setdefault(tp.topic, {})[tp] = member
    new = (tp for tp in look.found if _is_new(state, tp))
    outside = {tp.topic: tp for tp in sorted((*new, *look.recreated), reverse=True)}
    missing, decided = topics_with_missing(state), state.decided_horizons
    later, held = list[Horizon](), list[HeldTopic]()
    for topic, members in sorted(topics.items()):
        before, latest = decided.get(topic, -1), boundary(topic, look.at - delay)
        if latest <= before:
            continue
        if topic in outside:
            held.append(HeldTopic(topic, outside[topic], -1, "it is not landed yet"))
            continue
        drained = {tp for tp in members if _is_drained(state, tp, look)}
        counts = {tp: look.at if tp in drained else m.latest_ms for tp, m in members.items()}
        last = min(sorted(counts, key=attrgetter("partition")), key=counts.__getitem__)
        until = min(boundary(topic, counts[last] - delay), latest) if counts[last] >= delay else -1
        is_whole = topic not in missing
        if is_whole and until > before:
            later.append(
                _horizon(
                    state=state, topic=topic, members=members, until=until, drained=(drained, delay)
                )
            )
        if not is_whole:
            held.append(HeldTopic(topic, last, counts[last], "committed objects of it are missing"))
        elif until < latest:
            held.append(HeldTopic(topic, last, counts[last], _why(state, last, look)))
    return tuple(later), tuple(held)


def _horizon(
    state: State,
    topic: str,
    members: Mapping[TopicPartition, Member],
    until: int,
    drained: tuple[Collection[TopicPartition], int],
) -> Horizon:
    tps, delay = drained
    needed = (tp for tp in tps if members[tp].latest_ms < until + delay)
    offsets = sorted((tp.partition, state.checkpoint[tp]) for tp in needed)
    return Horizon(topic, until, tuple(offsets))


def _is_new(state: State, tp: TopicPartition) -> bool:
    return tp not in state.members and tp not in state.excluded


def _is_drained(state: State, tp: TopicPartition, look: LogLook) -> bool:
    return look.ends.get(tp) == state.checkpoint[tp] and tp not in state.blocked


def _why(state: State, tp: TopicPartition, look: LogLook) -> str:
    if tp in state.blocked:
        return f"it is blocked: {state.blocked[tp].reason}"
    if tp not in look.found:
        return "the log does not have it, or the spec does not select it: `landfall drop`"
    return "later event times of it are not landed, and it is not idle for longer than the delay"
