"""Decide which topic partitions are members, and which must not be landed. Pure.

Compares the topics of the log with the ledger, before anything is planned.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.spec import Source, StartAtOffsets, StartAtTime
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger import Blocked, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import FoundTopics, Topic, Watermarks


@dataclass(frozen=True, slots=True)
class SourceChecks:
    """The consequences of the log's watermarks for the members.

    Attributes:
        holes: lost ranges that the spec allows to skip; each starts at its checkpoint.
        lost: lost ranges that another group may have, from the checkpoint.
        blocked: topic partitions that must not be landed until a user acts, and why.
        truncated: topic partitions to block in the ledger, because their log was truncated.
    """

    holes: tuple[Slice, ...]
    blocked: Mapping[TopicPartition, Stalled]
    truncated: tuple[Blocked, ...]
    lost: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """How membership must change so that the ledger follows the log.

    Attributes:
        enter: topic partitions that are new, or new again.
        leave: topic partitions of recreated topics that this generation may land from their start.
        recreated: topic partitions of recreated topics that need a higher generation, or that
            cannot be distinguished from recreated ones, and why.
    """

    enter: tuple[TopicPartition, ...]
    leave: tuple[TopicPartition, ...]
    recreated: Mapping[TopicPartition, Stalled]


def changes(state: State, topics: Collection[Topic]) -> Changes:
    """Compare the log's topics with the ledger's members.

    A recreated topic starts at offset 0 again, so its objects would get names that exist already.
    Only a generation above all that landed the former topic may land it. A topic partition that a
    decision has dropped stays out.
    """
    enter: list[TopicPartition] = []
    recreated: dict[TopicPartition, Stalled] = {}
    former = former_members(state, topics)  # also those that the new topic does not have
    leave = {tp for tp in former if state.members[tp].generation < state.generation}
    ids = {topic.name: topic.topic_id for topic in topics}
    for tp in sorted(former - leave):
        recreated[tp] = Stalled(Reason.TOPIC_RECREATED, _recreated(tp, ids[tp.topic], state))
    for topic in topics:
        for tp in sorted(set(topic.topic_partitions) - state.excluded):
            if not topic.topic_id:
                recreated[tp] = _without_id(tp)
            elif tp in state.members and tp not in leave:
                continue
            elif tp not in leave and state.generation <= state.retired.get(tp, -1):
                recreated[tp] = _names_taken(tp, state)
            else:
                enter.append(tp)
    leaving = tuple(sorted(leave - recreated.keys()))
    return Changes(tuple(enter), leaving, dict(sorted(recreated.items())))


def former_members(state: State, topics: Iterable[Topic]) -> frozenset[TopicPartition]:
    """Return the members that are of another topic than the one in the log with its name.

    Of a topic whose id the log does not report, none is known to be.
    """
    ids = {topic.name: topic.topic_id for topic in topics if topic.topic_id}
    members = state.members.items()
    return frozenset(tp for tp, m in members if ids.get(tp.topic, m.topic_id) != m.topic_id)


def _without_id(tp: TopicPartition) -> Stalled:
    return Stalled(
        Reason.TOPIC_RECREATED,
        f"{tp}: the brokers give the topic no id, so a topic that is deleted and created again "
        "could not be distinguished from it: upgrade the brokers to Kafka 2.8 or newer",
    )


def _names_taken(tp: TopicPartition, state: State) -> Stalled:
    return Stalled(
        Reason.TOPIC_RECREATED,
        f"{tp}: the topic was deleted and created again, and generation {state.retired[tp]} has "
        f"landed the former topic: raise spec.generation above {state.retired[tp]}",
    )


def _recreated(tp: TopicPartition, now: str, state: State) -> str:
    was = state.members[tp].topic_id
    return (
        f"{tp}: topic id was {was}, is {now}: the topic was deleted and created again "
        f"after offset {state.checkpoint[tp]}; "
        f"raise spec.generation above {state.generation} to land it from its start"
    )


def recreated_topics(
    state: State, tps: Collection[TopicPartition], topics: FoundTopics
) -> dict[TopicPartition, LandfallError]:
    """Return topic partitions whose topic may not be the one in the ledger, and why.

    Kafka never uses a topic id twice. So if a topic has the ledger's id after a range was read, the
    range was read from that topic.

    Args:
        state: of the ledger.
        tps: topic partitions with ranges that were read.
        topics: their topics, asked for after reading. One that is denied has a ``Stalled``: whether
            it was recreated cannot be seen.
    """
    found: dict[TopicPartition, LandfallError] = {}
    ids = topics.ids
    for tp in tps:
        member, now = state.members.get(tp), ids.get(tp.topic)
        if tp.topic in topics.denied:
            found[tp] = topics.denied[tp.topic]
        elif member is None or member.topic_id != now:
            was = member.topic_id if member else "unknown"
            became = f"is {now}" if now else "it is gone"
            found[tp] = Retry(
                f"{tp}: not landed, the topic was deleted or recreated meanwhile: "
                f"id was {was}, {became}"
            )
    return found


CLOCK_MARGIN = timedelta(minutes=5)
"""How far the clocks of drivers and producers may differ before ``Latest`` skips a record."""


@dataclass(frozen=True, slots=True)
class Entering:
    """Topic partitions without a checkpoint, and what the log reports about them.

    Attributes:
        watermarks: of those that the log answers for; the remaining ones enter at a later look.
        at_time: offsets at the time that ``starting_time`` names, for those asked about.
        created: the ones that did not exist at the driver's first look.
    """

    watermarks: Mapping[TopicPartition, Watermarks]
    at_time: Mapping[TopicPartition, int]
    created: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Starts:
    """Where topic partitions enter.

    Attributes:
        offsets: the first offset to land of each.
        refused: those whose starting offset the log has not reached, and why they do not enter.
    """

    offsets: Mapping[TopicPartition, int]
    refused: Mapping[TopicPartition, Stalled]


def first_offsets(source: Source, state: State, entering: Entering) -> Starts:
    """Return the first offset to land of each topic partition that enters.

    Explicit offsets and timestamps hold for every topic partition that is new to the ledger,
    whenever it enters. A topic partition that left before has been created again: the offsets that
    the spec names are the former topic's, so it starts at its log start.

    ``Latest`` means the end when the topic partition was discovered. One that was created since the
    last look starts at its log start, and one that this driver found at its first look starts where
    the log was at the last look of an earlier driver: see ``latest_since``.
    """
    starts: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, Stalled] = {}
    for tp, marks in entering.watermarks.items():
        start = _first_offset(source, tp, marks, entering, is_new=tp not in state.retired)
        if start is not None and start > marks.end:
            refused[tp] = Stalled(
                Reason.SPEC_INVALID,
                f"{tp}: source.kafka.startingOffsets names offset {start}, but the log ends at "
                f"{marks.end}: lower it, or wait until the log has reached it",
            )
        elif start is not None:
            starts[tp] = start
    return Starts(starts, refused)


def _first_offset(
    source: Source, tp: TopicPartition, marks: Watermarks, entering: Entering, *, is_new: bool
) -> int | None:
    """Return where a topic partition starts; None if the log has not answered yet."""
    if not is_new:
        return marks.log_start
    match source.starting_offsets:
        case StartAtOffsets(offsets=offsets):
            return offsets.get(tp.topic, {}).get(str(tp.partition), marks.log_start)
        case StartAtTime():
            return entering.at_time.get(tp)
        case "Latest":
            if tp in entering.created:
                return marks.log_start
            return entering.at_time.get(tp, marks.end)
        case _:
            return marks.log_start


def starting_time(source: Source, since: datetime | None) -> datetime | None:
    """Return the time whose offsets decide where topic partitions start, if a time decides it.

    Args:
        source: the spec.
        since: for ``Latest``, the time of the last look of an earlier driver; see ``latest_since``.
    """
    match source.starting_offsets:
        case StartAtTime(timestamp=time):
            return time
        case "Latest":
            return since
        case _:
            return None


def latest_since(source: Source, state: State) -> datetime | None:
    """A time at or before the last look at the log of an earlier driver; None if none ever looked.

    A topic partition that a driver finds at its first look may have been created since an earlier
    driver looked, or the spec may name it only now. Starting at the offset of this time lands all
    of the first, and of the second nothing that is older than the group's last look.
    """
    if state.looked_at is None:
        return None
    return datetime.fromisoformat(state.looked_at) - source.discovery_interval - CLOCK_MARGIN


def check_source(
    state: State,
    source: Source,
    watermarks: Mapping[TopicPartition, Watermarks],
    tps: Iterable[TopicPartition] | None = None,
) -> SourceChecks:
    """Compare the log's watermarks with the checkpoint: a lost range is never skipped silently.

    A log that ends below the checkpoint was truncated. It is blocked in the ledger, because it may
    grow past the checkpoint again, and then nothing but the leader epochs would show it.

    Args:
        state: of the ledger.
        source: the spec.
        watermarks: of the topic partitions that the spec names now.
        tps: those to check, all in the checkpoint; None for all. Where everything in the log is
            landed, there is nothing to find.
    """
    expired: dict[TopicPartition, OffsetRange] = {}
    blocked: dict[TopicPartition, Stalled] = {}
    truncations: list[Blocked] = []
    for tp in state.checkpoint if tps is None else tps:
        at, marks = state.checkpoint[tp], watermarks.get(tp)
        if marks is None:
            continue
        if state.generation <= state.retired.get(tp, -1):
            blocked[tp] = _names_taken(tp, state)
        elif marks.log_start > at:
            expired[tp] = OffsetRange(at, marks.log_start)
        elif marks.end < at and state.accepted_truncation.get(tp) != at:
            blocked[tp] = Stalled(Reason.DATA_LOSS, truncated(tp, marks.end, at).message)
            if tp not in state.blocked:
                truncations.append(truncated(tp, marks.end, at))
    found = _of_expired(source, expired)
    blocked |= found.blocked
    return SourceChecks(found.holes, blocked, tuple(truncations), found.lost)


def _of_expired(source: Source, expired: Mapping[TopicPartition, OffsetRange]) -> SourceChecks:
    if source.read_from:
        return SourceChecks((), {}, (), expired)
    if source.skips_lost_ranges:
        return SourceChecks(tuple(Slice(tp, lost) for tp, lost in expired.items()), {}, ())
    return SourceChecks((), _stalled(source, expired), ())


def _stalled(
    source: Source, expired: Mapping[TopicPartition, OffsetRange]
) -> dict[TopicPartition, Stalled]:
    what, remedy = "expired before they were landed", "onDataLoss: SkipAndRecord would skip them"
    if source.landed:
        what = f"were not landed before {source.landed.group} began again after them"
        remedy = "`landfall skip` records the loss and continues after them"
    return {
        tp: Stalled(Reason.DATA_LOSS, f"{tp}: offsets {lost} {what}; {remedy}")
        for tp, lost in expired.items()
    }


def unavailable(
    errors: Mapping[TopicPartition, LandfallError],
) -> dict[TopicPartition, Stalled]:
    """Return why topic partitions that the log cannot answer for are not landed.

    They land again by themselves as soon as the log answers.
    """
    return {
        tp: error if isinstance(error, Stalled) else Stalled(Reason.SOURCE_UNAVAILABLE, str(error))
        for tp, error in errors.items()
    }


def truncated(tp: TopicPartition, diverges_at: int, checkpoint: int) -> Blocked:
    """Return what the ledger records about a log truncated below the checkpoint."""
    return Blocked(
        tp,
        Reason.DATA_LOSS,
        f"{tp}: the log was truncated at offset {diverges_at}, but everything before {checkpoint} "
        f"is landed: what the log holds below {checkpoint} now was never landed; `landfall "
        f"unblock` continues at {checkpoint}, `landfall reset`, in a higher generation, lands it "
        f"again from {diverges_at}",
        OffsetRange(diverges_at, checkpoint),
    )


def absent(source: Source, found: FoundTopics, state: State) -> tuple[Stalled, ...]:
    """Return what the spec asks for and the log never had: a topic (name or pattern), an offset.

    A topic that was always denied is included, with that reason; whether it exists cannot be seen.
    ``deleted`` is about the topics that were there once.
    """
    partitions = {topic.name: topic.partitions for topic in found.topics}
    landed = {tp.topic for tp in state.members}
    names = partitions.keys() | found.denied.keys() | landed
    missing = [f"{name}: there is no such topic" for name in source.topics if name not in names]
    if source.topic_pattern and not names:
        missing.append(
            f"no topic matches {source.topic_pattern!r}; a pattern must match the whole name"
        )
    elif isinstance(source.starting_offsets, StartAtOffsets):
        named = (
            TopicPartition(topic, int(partition))
            for topic, offsets in sorted(source.starting_offsets.offsets.items())
            for partition in sorted(offsets, key=int)
        )
        missing += [
            f"{tp}: source.kafka.startingOffsets names it, but {_what_there_is(tp, partitions)}"
            for tp in named
            if tp.topic not in found.denied
            and tp.partition >= partitions.get(tp.topic, 0)
            and tp not in state.members
            and tp not in state.retired
        ]
    denied = (error for name, error in sorted(found.denied.items()) if name not in landed)
    return (*denied, *(Stalled(Reason.TOPIC_MISSING, text) for text in missing))


def _what_there_is(tp: TopicPartition, partitions: Mapping[str, int]) -> str:
    count = partitions.get(tp.topic, 0)
    if not count:
        return f"there is no topic {tp.topic} that this group lands"
    return f"{tp.topic} has {count} Kafka partition{'' if count == 1 else 's'}, numbered from 0"
