"""Which topic partitions enter the ledger, and which may not go on: gates before planning. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from landfall.api.spec import Kafka, StartAtOffsets, StartAtTime
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger import State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import Topic, Watermarks


@dataclass(frozen=True, slots=True)
class SourceChecks:
    """What stands between the log and the plan.

    Attributes:
        holes: lost ranges the spec allows to skip; each starts at its checkpoint.
        blocked: topic partitions that stand still, and why.
    """

    holes: tuple[Slice, ...]
    blocked: Mapping[TopicPartition, Stalled]


@dataclass(frozen=True, slots=True)
class Changes:
    """How membership must change so that the ledger follows the log.

    Attributes:
        enter: topic partitions that are new.
        leave: those of a recreated topic that this generation may start over.
        recreated: those of a recreated topic that must wait for a new generation.
    """

    enter: tuple[TopicPartition, ...]
    leave: tuple[TopicPartition, ...]
    recreated: Mapping[TopicPartition, Stalled]


def changes(state: State, topics: Collection[Topic]) -> Changes:
    """Hold the log's topics against the ledger's members.

    A recreated topic counts its offsets from 0 again, so its objects would get names that are
    taken: only a generation above every one that landed the old topic may land it.
    """
    enter: list[TopicPartition] = []
    leave: list[TopicPartition] = []
    recreated: dict[TopicPartition, Stalled] = {}
    for topic in topics:
        for partition in range(topic.partitions):
            tp = TopicPartition(topic.name, partition)
            member = state.members.get(tp)
            if member is None and state.generation <= state.retired.get(tp, -1):
                recreated[tp] = _named_before(tp, state)
            elif member is None:
                enter.append(tp)
            elif member.topic_id == topic.topic_id:
                continue
            elif member.generation < state.generation:
                leave.append(tp)
                enter.append(tp)
            else:
                recreated[tp] = Stalled(
                    Reason.TOPIC_RECREATED, _recreated(tp, member.topic_id, topic, state)
                )
    return Changes(tuple(enter), tuple(leave), recreated)


def _named_before(tp: TopicPartition, state: State) -> Stalled:
    text = f"{tp}: recreated, and generation {state.generation} landed its former life: raise spec.generation"
    return Stalled(Reason.TOPIC_RECREATED, f"{text} above {state.retired[tp]}")


def _recreated(tp: TopicPartition, was: str, topic: Topic, state: State) -> str:
    return (
        f"{tp}: topic id was {was}, is {topic.topic_id}: deleted and created again after offset {state.checkpoint[tp]}; "
        f"raise spec.generation above {state.generation} to land it from its start"
    )


def recreated_topics(
    state: State, tps: Collection[TopicPartition], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, Retry]:
    """Topic partitions whose topic is not, or not for certain, the one in the ledger.

    Ids never come back: if a topic has the ledger's id after a range was read, the range is of that
    topic.

    Args:
        state: of the ledger.
        tps: whose ranges were read.
        topic_ids: of their topics, asked for after that; a topic that is gone has none.
    """
    found: dict[TopicPartition, Retry] = {}
    for tp in tps:
        member, now = state.members.get(tp), topic_ids.get(tp.topic)
        if member is None or member.topic_id != now:
            was, became = (
                member.topic_id if member else "unknown",
                f"is {now}" if now else "it is gone",
            )
            found[tp] = Retry(
                f"{tp}: not landed, the topic was deleted or recreated meanwhile: id was {was}, {became}"
            )
    return found


def first_offsets(
    kafka: Kafka,
    entering: Collection[TopicPartition],
    watermarks: Mapping[TopicPartition, Watermarks],
    at_time: Mapping[TopicPartition, int],
    *,
    is_first_open: bool,
) -> dict[TopicPartition, int]:
    """Where topic partitions start.

    What appears while the group runs starts at its log start, whatever the spec says: with
    ``Latest`` its first records would be lost otherwise.

    Args:
        kafka: the spec.
        entering: topic partitions without a checkpoint; those without watermarks wait for the next
            look.
        watermarks: of the log.
        at_time: offsets at the spec's starting time, if it has one.
        is_first_open: whether the ledger has no members yet.
    """
    starts: dict[TopicPartition, int] = {}
    for tp in entering:
        marks = watermarks.get(tp)
        if marks is None:
            continue
        match kafka.starting_offsets:
            case "Latest" if is_first_open:
                starts[tp] = marks.end
            case StartAtTime() if is_first_open:
                starts[tp] = at_time.get(tp, marks.end)
            case StartAtOffsets(offsets=offsets) if is_first_open:
                starts[tp] = offsets.get(tp.topic, {}).get(str(tp.partition), marks.log_start)
            case _:
                starts[tp] = marks.log_start
    return starts


def gates(
    state: State,
    kafka: Kafka,
    watermarks: Mapping[TopicPartition, Watermarks],
    last_ends: Mapping[TopicPartition, int],
) -> SourceChecks:
    """Hold the log's ends against the checkpoint: what is lost is never skipped silently.

    Args:
        state: of the ledger.
        kafka: the spec.
        watermarks: of the topic partitions that the spec names now.
        last_ends: the end offsets this driver saw last, also of topic partitions that are gone
            since.
    """
    holes: list[Slice] = []
    blocked: dict[TopicPartition, Stalled] = {}
    for tp in state.checkpoint:
        at, marks = state.checkpoint[tp], watermarks.get(tp)
        if marks is None:
            if tp.topic in kafka.topics or last_ends.get(tp, at) > at:
                blocked[tp] = _missing(tp, at, last_ends.get(tp, at))
        elif state.generation <= state.retired.get(tp, -1):
            blocked[tp] = _named_before(tp, state)
        elif marks.log_start > at and kafka.on_data_loss == "SkipAndRecord":
            holes.append(Slice(tp, OffsetRange(at, marks.log_start)))
        elif marks.log_start > at:
            lost = OffsetRange(at, marks.log_start)
            text = f"{tp}: offsets {lost} expired before they were landed; onDataLoss: SkipAndRecord would skip them"
            blocked[tp] = Stalled(Reason.DATA_LOSS, text)
        elif marks.end < at:
            text = f"{tp}: the log ends at offset {marks.end}, but everything before {at} is landed: it was truncated"
            blocked[tp] = Stalled(Reason.DATA_LOSS, text)
    return SourceChecks(tuple(holes), blocked)


def _missing(tp: TopicPartition, at: int, end: int) -> Stalled:
    lost = f"; offsets [{at}, {end}) went with it" if end > at else f"; landed up to offset {at}"
    return Stalled(Reason.TOPIC_MISSING, f"{tp}: the topic is not there any more{lost}")


def absent(kafka: Kafka, topics: Collection[Topic], state: State) -> tuple[Stalled, ...]:
    """What the spec asks for and never was there: topics by name, or any at all by pattern. See ``gates`` for the rest."""
    names = {topic.name for topic in topics} | {tp.topic for tp in state.members}
    missing = tuple(f"{name}: there is no such topic" for name in kafka.topics if name not in names)
    if kafka.topic_pattern and not names:
        missing = (
            f"no topic matches {kafka.topic_pattern!r}; a pattern must match the whole name",
        )
    return tuple(Stalled(Reason.TOPIC_MISSING, text) for text in missing)


def starting_time(kafka: Kafka) -> datetime | None:
    """The starting time the spec asks for, if it asks for one."""
    return (
        kafka.starting_offsets.timestamp
        if isinstance(kafka.starting_offsets, StartAtTime)
        else None
    )
