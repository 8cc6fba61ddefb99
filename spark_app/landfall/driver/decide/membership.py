"""Which topic partitions are members of the lane, and which must not be landed. Pure.

Compares the topics of the log with the ledger, before anything is planned.
"""

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
    """What the log's watermarks mean for the members.

    Attributes:
        holes: lost ranges that the spec allows to skip; each starts at its checkpoint.
        blocked: topic partitions that must not be landed until somebody acts, and why.
    """

    holes: tuple[Slice, ...]
    blocked: Mapping[TopicPartition, Stalled]


@dataclass(frozen=True, slots=True)
class Changes:
    """How membership must change so that the ledger follows the log.

    Attributes:
        enter: topic partitions that are new, or new again.
        leave: topic partitions of recreated topics that this generation may land from their start.
        recreated: topic partitions of recreated topics that need a higher generation, and why.
    """

    enter: tuple[TopicPartition, ...]
    leave: tuple[TopicPartition, ...]
    recreated: Mapping[TopicPartition, Stalled]


def changes(state: State, topics: Collection[Topic]) -> Changes:
    """Compare the log's topics with the ledger's members.

    A recreated topic starts at offset 0 again, so its objects would get names that exist already.
    Only a generation above all that landed the former topic may land it.
    """
    enter: list[TopicPartition] = []
    leave: list[TopicPartition] = []
    recreated: dict[TopicPartition, Stalled] = {}
    for topic in topics:
        for partition in range(topic.partitions):
            tp = TopicPartition(topic.name, partition)
            member = state.members.get(tp)
            if member is None and state.generation <= state.retired.get(tp, -1):
                recreated[tp] = _names_taken(tp, state)
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


def _names_taken(tp: TopicPartition, state: State) -> Stalled:
    return Stalled(
        Reason.TOPIC_RECREATED,
        f"{tp}: the topic was deleted and created again, and generation {state.retired[tp]} has "
        f"landed the former topic: raise spec.generation above {state.retired[tp]}",
    )


def _recreated(tp: TopicPartition, was: str, topic: Topic, state: State) -> str:
    return (
        f"{tp}: topic id was {was}, is {topic.topic_id}: the topic was deleted and created again "
        f"after offset {state.checkpoint[tp]}; "
        f"raise spec.generation above {state.generation} to land it from its start"
    )


def recreated_topics(
    state: State, tps: Collection[TopicPartition], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, Retry]:
    """Topic partitions whose topic is not, or not certainly, the one in the ledger, and why.

    Kafka never uses a topic id twice. So if a topic has the ledger's id after a range was read, the
    range was read from that topic.

    Args:
        state: of the ledger.
        tps: topic partitions of which ranges were read.
        topic_ids: the ids of their topics, asked for after reading; a topic that is gone has none.
    """
    found: dict[TopicPartition, Retry] = {}
    for tp in tps:
        member, now = state.members.get(tp), topic_ids.get(tp.topic)
        if member is None or member.topic_id != now:
            was = member.topic_id if member else "unknown"
            became = f"is {now}" if now else "it is gone"
            found[tp] = Retry(
                f"{tp}: not landed, the topic was deleted or recreated meanwhile: "
                f"id was {was}, {became}"
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
    """The first offset to land of each topic partition that enters.

    A topic partition that appears while the group runs starts at its log start offset, whatever the
    spec says: with ``Latest`` its first records would be lost.

    Args:
        kafka: the spec.
        entering: topic partitions without a checkpoint; those without watermarks are left out and
            enter at the next look.
        watermarks: of the log.
        at_time: offsets at the spec's starting time, if it has one.
        is_first_open: whether the ledger has never had a member.
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


def check_source(
    state: State,
    kafka: Kafka,
    watermarks: Mapping[TopicPartition, Watermarks],
    last_ends: Mapping[TopicPartition, int],
) -> SourceChecks:
    """Compare the log's watermarks with the checkpoint: a lost range is never skipped silently.

    Args:
        state: of the ledger.
        kafka: the spec.
        watermarks: of the topic partitions that the spec names now.
        last_ends: the last known end offsets, also of topic partitions that are gone since.
    """
    holes: list[Slice] = []
    blocked: dict[TopicPartition, Stalled] = {}
    for tp in state.checkpoint:
        at, marks = state.checkpoint[tp], watermarks.get(tp)
        if marks is None:
            # A topic that a pattern matched may go once all of it is landed.
            if tp.topic in kafka.topics or last_ends.get(tp, at) > at:
                blocked[tp] = _missing(tp, at, last_ends.get(tp, at))
        elif state.generation <= state.retired.get(tp, -1):
            blocked[tp] = _names_taken(tp, state)
        elif marks.log_start > at and kafka.on_data_loss == "SkipAndRecord":
            holes.append(Slice(tp, OffsetRange(at, marks.log_start)))
        elif marks.log_start > at:
            lost = OffsetRange(at, marks.log_start)
            blocked[tp] = Stalled(
                Reason.DATA_LOSS,
                f"{tp}: offsets {lost} expired before they were landed; "
                "onDataLoss: SkipAndRecord would skip them",
            )
        elif marks.end < at:
            blocked[tp] = Stalled(
                Reason.DATA_LOSS,
                f"{tp}: the log ends at offset {marks.end}, but everything before {at} is landed: "
                "the log was truncated",
            )
    return SourceChecks(tuple(holes), blocked)


def _missing(tp: TopicPartition, at: int, end: int) -> Stalled:
    lost = f"offsets [{at}, {end}) were lost with it" if end > at else f"landed up to offset {at}"
    return Stalled(Reason.TOPIC_MISSING, f"{tp}: the topic does not exist any more; {lost}")


def absent(kafka: Kafka, topics: Collection[Topic], state: State) -> tuple[Stalled, ...]:
    """What the spec asks for and the log has never had: a topic by name, or any topic by pattern.

    ``check_source`` finds the topics that were there once.
    """
    names = {topic.name for topic in topics} | {tp.topic for tp in state.members}
    missing = tuple(f"{name}: there is no such topic" for name in kafka.topics if name not in names)
    if kafka.topic_pattern and not names:
        missing = (
            f"no topic matches {kafka.topic_pattern!r}; a pattern must match the whole name",
        )
    return tuple(Stalled(Reason.TOPIC_MISSING, text) for text in missing)


def starting_time(kafka: Kafka) -> datetime | None:
    """The time that ``startingOffsets`` names, if it names one."""
    return (
        kafka.starting_offsets.timestamp
        if isinstance(kafka.starting_offsets, StartAtTime)
        else None
    )
