"""Plan the tail of a topic: the offsets of Kafka that a scan reads besides what has landed.

The tail has what a driver would land next, by the driver's own rules (``source.membership``): from
the checkpoint of each topic partition to where Kafka ends; from where ``startingOffsets`` names if
the topic partition is new. What a COMMIT has landed and no record calls visible yet is in the tail,
too, since a scan of the slot does not have it. So each offset below Kafka's ends is in one half.

The ledger is read first, and Kafka's ends are asked for after that: what lands in between is in
Kafka still. The other way round, the landed half could be ahead of the ends.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from landfall.api.spec import Source
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger import State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import Bound, LastRead, Log, Topic, Watermarks, membership


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The offsets of a topic that a scan reads from Kafka.

    Attributes:
        topic: its name.
        topic_id: of the topic in Kafka when the tail was planned; empty if there was none.
        slot: of the ledger; what is visible there is in the landed half.
        ranges: the offsets, in the order of topic partitions; none is empty, no two overlap.
        ends: where each topic partition ended (last stable offset), which bounds both halves.
        expired: offsets that Kafka has deleted before they landed, and that the spec lets a driver
            skip; they are in neither half.
        left_out: topic partitions that a driver would not land any further now, and why.
        last_read: of topic partitions, the last record that was landed, by which a reader notices a
            truncated log.
        permitted: below which offset a bad record is a dead letter under every policy.
    """

    topic: str
    topic_id: str
    slot: int
    ranges: tuple[Slice, ...] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    expired: tuple[Slice, ...] = ()
    left_out: Mapping[TopicPartition, LandfallError] = field(default_factory=dict)
    last_read: Mapping[TopicPartition, LastRead] = field(default_factory=dict)
    permitted: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many offsets there are."""
        return sum(len(slice_.offsets) for slice_ in self.ranges)


def plan_tail(
    source: Source, topic: str, state: State, waiting: Sequence[Slice], log: Log
) -> TailPlan:
    """Plan the tail of a topic.

    Args:
        source: the spec.
        topic: its name.
        state: of the ledger at the slot of the scan.
        waiting: ranges of the topic that COMMITs have landed and that are not visible at that slot.
        log: Kafka, which is asked only now.

    Raises:
        Stalled: SOURCE_DENIED, the topic may not be described.
        Retry: Kafka does not answer; or it does not have any more what is committed and not visible
            yet, which the group's driver makes visible.
    """
    described = log.describe([topic])
    if topic in described.denied:
        raise described.denied[topic]
    members = frozenset(tp for tp in state.members if tp.topic == topic)
    if not described.topics:
        _check_kept(waiting, {})
        gone = Stalled(Reason.TOPIC_MISSING, f"{topic}: there is no such topic in Kafka")
        return TailPlan(topic, "", state.seq, left_out=dict.fromkeys(sorted(members), gone))
    (found,) = described.topics
    watermarks = _watermarks(found, log)
    same = {tp for tp in members if state.members[tp].topic_id == found.topic_id}
    _check_kept(waiting, {tp: marks for tp, marks in watermarks.items() if tp in same})
    starts = _starts(source, state, found, watermarks, log)
    ranges = [*waiting]
    for tp, start in starts.offsets.items():
        if start < (end := watermarks[tp].end):
            ranges.append(Slice(tp, OffsetRange(start, end)))
    return TailPlan(
        topic=topic,
        topic_id=found.topic_id,
        slot=state.seq,
        ranges=tuple(_united(ranges)),
        ends={tp: marks.end for tp, marks in watermarks.items()},
        expired=starts.expired,
        left_out=starts.left_out,
        last_read=dict(_last_read(state, same)),
        permitted={tp: end for tp, end in state.permitted.items() if tp in same},
    )


def _watermarks(topic: Topic, log: Log) -> Mapping[TopicPartition, Watermarks]:
    """Where each topic partition begins and ends.

    Raises:
        LandfallError: Kafka does not answer for one of them.
    """
    tps = topic.topic_partitions
    first, last = log.offsets(tps, Bound.LOG_START), log.offsets(tps, Bound.END)
    for why in (*first.unavailable.values(), *last.unavailable.values()):
        raise why
    return {
        tp: Watermarks.of(first.offsets[tp], last.offsets[tp])
        for tp in tps
        if tp in first.offsets and tp in last.offsets
    }


@dataclass(frozen=True, slots=True)
class _Starts:
    """Where the landing of each topic partition would continue or begin; see ``TailPlan``."""

    offsets: Mapping[TopicPartition, int]
    expired: tuple[Slice, ...]
    left_out: Mapping[TopicPartition, LandfallError]


def _starts(
    source: Source,
    state: State,
    topic: Topic,
    watermarks: Mapping[TopicPartition, Watermarks],
    log: Log,
) -> _Starts:
    if not source.selects(topic.name):
        why = Stalled(Reason.SPEC_INVALID, f"{topic.name}: spec.source.kafka does not select it")
        return _Starts({}, (), dict.fromkeys(watermarks, why))
    changes = membership.changes(state, [topic])
    is_latest = source.starting_offsets == "Latest"
    looked = membership.latest_since(source, state) if is_latest else None
    since = membership.starting_time(source, looked)
    entering = {tp: watermarks[tp] for tp in changes.enter if tp in watermarks}
    at_time = log.offsets_at(entering, since) if since and entering else {}
    begin = membership.first_offsets(source, state, membership.Entering(entering, at_time, ()))
    continued = watermarks.keys() & state.members.keys() - {*changes.enter, *changes.recreated}
    checks = membership.check_source(state, source, watermarks, sorted(continued))
    offsets = {tp: state.checkpoint[tp] for tp in continued} | {**begin.offsets}
    offsets |= {hole.topic_partition: hole.offsets.end for hole in checks.holes}
    left_out: dict[TopicPartition, LandfallError] = {
        **dict(_stopped(state, watermarks)),
        **{tp: _elsewhere(tp, lost) for tp, lost in checks.lost.items()},
        **checks.blocked,
        **changes.recreated,
        **begin.refused,
    }
    return _Starts(
        {tp: offsets[tp] for tp in sorted(offsets) if tp not in left_out},
        tuple(hole for hole in checks.holes if hole.topic_partition not in left_out),
        {tp: left_out[tp] for tp in sorted(left_out)},
    )


def _stopped(
    state: State, tps: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, LandfallError]]:
    """The topic partitions that the ledger keeps from being landed, and why."""
    for tp in tps:
        if blocked := state.blocked.get(tp):
            yield tp, Stalled(blocked.reason, blocked.message)
        elif tp in state.excluded:
            yield tp, Stalled(Reason.TOPIC_MISSING, f"{tp}: it was dropped by a decision")


def _elsewhere(tp: TopicPartition, lost: OffsetRange) -> Stalled:
    return Stalled(
        Reason.DATA_LOSS,
        f"{tp}: offsets {lost} have left Kafka before they were landed, and a driver reads them "
        "from another group, which the tail does not",
    )


def _check_kept(waiting: Iterable[Slice], kept: Mapping[TopicPartition, Watermarks]) -> None:
    """Return if Kafka still has what is committed and not visible.

    Raises:
        Retry: it does not.
    """
    for slice_ in waiting:
        marks = kept.get(slice_.topic_partition)
        if marks is None or slice_.offsets.start < marks.log_start:
            raise Retry(
                f"{slice_}: it is committed and not visible yet, and Kafka has deleted it: the "
                "group's driver makes it visible; see that it runs, and scan again"
            )


def _united(ranges: Iterable[Slice]) -> Iterator[Slice]:
    """The same offsets in order, in as few ranges as there can be."""
    last: Slice | None = None
    for slice_ in sorted(ranges):
        tp, offsets = slice_.topic_partition, slice_.offsets
        if last and last.topic_partition == tp and offsets.start <= last.offsets.end:
            end = max(last.offsets.end, offsets.end)
            last = Slice(tp, OffsetRange(last.offsets.start, end))
            continue
        if last:
            yield last
        last = slice_
    if last:
        yield last


def _last_read(
    state: State, tps: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, LastRead]]:
    for tp in sorted(tps):
        member = state.members[tp]
        if member.leader_epoch >= 0:
            yield tp, LastRead(member.epoch_offset, member.leader_epoch)
