"""Decide what a request of ``landfall.api.verbs`` records, or why it is refused. Pure.

A running driver and the command line without one decide by the same function, so a request means
the same in both ways. Nothing that is refused leaves a record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from landfall import ledger
from landfall.api.values import plural
from landfall.api.verbs import (
    DropRequest,
    Position,
    ResetRequest,
    SkipRequest,
    UnblockRequest,
)
from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger import Decision, Entry, Permission, Record, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.source import Watermarks

LedgerRequest = SkipRequest | UnblockRequest | DropRequest | ResetRequest


@dataclass(frozen=True, slots=True)
class Observed:
    """Knowledge outside the ledger about the topic partition of a request.

    Attributes:
        marks: its watermarks; None if the log does not have it.
        topic_id: the id of its topic; None if there is none.
        last_end: the last known end offset; None if it was never seen.
        stalled: why a driver does not land it, if it is stopped without a record in the ledger.
        lost_end: up to which offset no group has records; None if that is where the log begins.
            From there, another group has what the log has lost.
        is_due: it has committed objects that are not known to be visible.
        away: why the log does not answer about it, as a Kafka partition without a leader; then
            nothing of the log is known.
    """

    marks: Watermarks | None = None
    topic_id: str | None = None
    last_end: int | None = None
    stalled: Stalled | None = None
    lost_end: int | None = None
    is_due: bool = False
    away: LandfallError | None = None


@dataclass(frozen=True, slots=True)
class PlannedRecord:
    """A record to append, and one line that describes it."""

    text: str
    make: Callable[..., Record]
    """Makes the record when called with ``header=…``."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a request is refused, and what would help."""

    message: str


Plan = tuple[PlannedRecord, ...] | Refusal


def decide_request(
    state: State, request: LedgerRequest, observed: Observed, decision: Decision
) -> Plan:
    """Return the records that carry a request out, in order, or why it is refused.

    Args:
        state: of the lane, in the generation of the driver that would append.
        request: what is asked for.
        observed: what log and store show of the topic partition.
        decision: who asks, when and why; it becomes a part of each record.
    """
    tp = TopicPartition(request.topic, request.partition)
    if not isinstance(request, ResetRequest) and tp not in state.members:
        kept_out = " any more: it was dropped" if tp in state.excluded else ""
        return Refusal(
            f"{tp} is not in the ledger{kept_out}; `landfall status --partitions` lists what is"
        )
    match request:
        case SkipRequest(until=until):
            return _skip(state=state, tp=tp, until=until, observed=observed, decision=decision)
        case UnblockRequest(bad_records_until=until):
            return _unblock(state=state, tp=tp, until=until, observed=observed, decision=decision)
        case DropRequest():
            return (_drop(state, tp, observed, decision),)
        case ResetRequest(to=to):
            return _reset(state=state, tp=tp, to=to, observed=observed, decision=decision)


# ------------------------------------------------------------------------------------------- skip


def _skip(
    state: State, tp: TopicPartition, until: int | None, observed: Observed, decision: Decision
) -> Plan:
    at, marks = state.checkpoint[tp], observed.marks
    if until is None and (missing := _missing(state, tp)):
        return tuple(_lost(tp, slot, objects, decision) for slot, objects in missing)
    if _is_recreated(state, tp, observed):
        return Refusal(f"{tp}: {_recreated_hint(state, tp)}")
    end = until if until is not None else _lost_end(state, tp, observed)
    if end is None or end <= at:
        return Refusal(f"{tp}: {_nothing_to_skip(at, observed, until)}")
    highest = _highest_end(state, tp, observed)
    if end > highest:
        return Refusal(
            f"{tp}: cannot skip up to offset {end}: the log ends at {highest}; "
            f"the checkpoint is {at}"
        )
    hole = _hole(tp, OffsetRange(at, end), decision)
    return (hole,) if marks else (hole, _gone(tp, decision))


def _gone(tp: TopicPartition, decision: Decision) -> PlannedRecord:
    # Without the decision in it: a topic that is created again under this name may enter.
    reason = f"the topic is gone: {decision.why}"
    make = partial(ledger.Drop, topic_partitions=(tp,), reason=reason)
    return PlannedRecord(f"DROP: {tp} leaves, its topic is gone", make)


def _missing(state: State, tp: TopicPartition) -> tuple[tuple[int, tuple[LandedObject, ...]], ...]:
    """By slot, the decided objects of a topic partition that no driver can make again."""
    by_slot = (
        (slot, tuple(o for o in objects if topic_partition(o.upload.key) == tp))
        for slot, objects in sorted(state.missing.items())
    )
    return tuple((slot, objects) for slot, objects in by_slot if objects)


def _lost(
    tp: TopicPartition, slot: int, objects: tuple[LandedObject, ...], decision: Decision
) -> PlannedRecord:
    ranges = ", ".join(f"[{o.first_offset}, {o.last_offset + 1})" for o in objects)
    text = (
        f"LOST: {plural(len(objects), 'object')} of slot {slot} with "
        f"{plural(sum(o.rows for o in objects), 'record')} of {tp} in {ranges}"
    )
    return PlannedRecord(
        text, partial(ledger.Lost, commit=slot, objects=objects, decision=decision)
    )


def _hole(tp: TopicPartition, offsets: OffsetRange, decision: Decision) -> PlannedRecord:
    hole = partial(ledger.Hole, piece=Slice(tp, offsets), reason=decision.why, decision=decision)
    return PlannedRecord(f"HOLE: {tp}{offsets} is not landed, {len(offsets)} offsets", hole)


def _lost_end(state: State, tp: TopicPartition, observed: Observed) -> int | None:
    """Return the offset up to which records are lost; None if none are, as far as is known."""
    if observed.marks:
        is_read_elsewhere = observed.lost_end is not None
        return observed.lost_end if is_read_elsewhere else observed.marks.log_start
    blocked = state.blocked.get(tp)
    ends = [observed.last_end, blocked.offsets.end if blocked else None]
    return max((end for end in ends if end is not None), default=None)


def _highest_end(state: State, tp: TopicPartition, observed: Observed) -> int:
    known = (_lost_end(state, tp, observed), observed.marks.end if observed.marks else None)
    return max((end for end in known if end is not None), default=state.checkpoint[tp])


def _nothing_to_skip(at: int, observed: Observed, until: int | None) -> str:
    marks = observed.marks
    if until is not None:
        return f"everything before offset {until} is landed or skipped: the checkpoint is {at}"
    if marks is None:
        return (
            f"the topic is gone, and it is not known that records after offset {at} were lost; "
            "`landfall drop` takes it out of the ledger"
        )
    if observed.lost_end is not None:
        return (
            f"the log has lost offsets [{at}, {marks.log_start}), and they are read, or looked "
            "for, where another group has landed them; to skip them, give --until OFFSET"
        )
    return (
        f"nothing is lost: the log holds [{marks.log_start}, {marks.end}), the checkpoint is {at}; "
        "to skip records that are there, give --until OFFSET"
    )


# ---------------------------------------------------------------------------------------- unblock


def _unblock(
    state: State, tp: TopicPartition, until: int | None, observed: Observed, decision: Decision
) -> Plan:
    marks = observed.marks
    at = state.checkpoint[tp]
    blocked = state.blocked.get(tp)
    stopped = blocked or observed.stalled
    reason = stopped.reason if stopped else None
    if refusal := _why_unblocking_is_no_help(state, tp, reason, observed):
        return Refusal(f"{tp}: {refusal}")
    if blocked and until is None:
        what = f"UNBLOCK: {tp} lands on from offset {at}; it was stopped by {blocked.reason}"
        return (_permit(what, tp, -1, decision),)
    end = until if until is not None else marks.end if marks else at
    if end <= at:
        return Refusal(f"{tp}: bad records can be allowed only after the checkpoint, {at}")
    what = f"UNBLOCK: {tp} may have any share of bad records in [{at}, {end})"
    return (_permit(what, tp, end, decision),)


def _permit(text: str, tp: TopicPartition, until: int, decision: Decision) -> PlannedRecord:
    entries = (Permission(tp, until),)
    return PlannedRecord(text, partial(ledger.Unblock, entries=entries, decision=decision))


def _why_unblocking_is_no_help(
    state: State, tp: TopicPartition, reason: Reason | None, observed: Observed
) -> str:
    marks = observed.marks
    if reason in {Reason.STORE_DENIED, Reason.SOURCE_DENIED}:
        return f"it is stopped by {reason}; grant access, then `landfall retry`"
    if _is_recreated(state, tp, observed):
        return _recreated_hint(state, tp)
    if marks is None:
        return "the log does not have it; `landfall skip` records what was lost, or drop it"
    is_read_elsewhere = observed.lost_end is not None and observed.lost_end <= state.checkpoint[tp]
    if marks.log_start > state.checkpoint[tp] and not is_read_elsewhere:
        lost = OffsetRange(state.checkpoint[tp], marks.log_start)
        return f"offsets {lost} expired; `landfall skip` records the loss and continues after it"
    return ""


# ---------------------------------------------------------------------------------- drop and reset


def _drop(
    state: State, tp: TopicPartition, observed: Observed, decision: Decision
) -> PlannedRecord:
    at = state.checkpoint[tp]
    end = max(at, _highest_end(state, tp, observed))
    text = f"DROP: {tp} leaves at offset {at}; {end - at} offsets before {end} are not landed"
    if observed.away is not None:
        text += ", and more may not be landed, as its log does not answer"
    make = partial(ledger.Drop, topic_partitions=(tp,), reason=decision.why, decision=decision)
    return PlannedRecord(text, make)


def _reset(
    state: State, tp: TopicPartition, to: Position, observed: Observed, decision: Decision
) -> Plan:
    marks = observed.marks
    if marks is None or observed.topic_id is None:
        return Refusal(f"{tp}: the spec names no such topic partition, or the log has none")
    target = {"earliest": marks.log_start, "latest": marks.end}.get(str(to), to)
    assert isinstance(target, int)
    if not marks.log_start <= target <= marks.end:
        return Refusal(
            f"{tp}: cannot land from offset {target}: the log holds "
            f"[{marks.log_start}, {marks.end})"
        )
    if tp in state.members and not _is_recreated(state, tp, observed):
        at = state.checkpoint[tp]
        if target > at:
            return (_hole(tp, OffsetRange(at, target), decision),)
        if target == at:
            return Refusal(f"{tp}: the checkpoint is at offset {at} already")
    elif observed.is_due:
        # Their uploads may be lost, and what is made again now would be made of the new topic.
        return Refusal(
            f"{tp}: objects of the former topic are committed and not known to be visible yet: "
            "let a driver run, and ask again when they are"
        )
    return _enter_again(
        state=state,
        tp=tp,
        entry=Entry(tp, observed.topic_id, target),
        observed=observed,
        decision=decision,
    )


def _enter_again(
    state: State, tp: TopicPartition, entry: Entry, observed: Observed, decision: Decision
) -> Plan:
    if (taken := names_taken_by(state, tp)) >= state.generation:
        return Refusal(
            f"{tp}: generation {taken} has named objects of it, and this is generation "
            f"{state.generation}: set spec.generation to {taken + 1}, so that no object is "
            f"overwritten, then reset to {entry.start}"
        )
    add = PlannedRecord(
        f"ADD: {tp} lands from offset {entry.start}, in generation {state.generation}",
        partial(ledger.Add, entries=(entry,), decision=decision),
    )
    return (_drop(state, tp, observed, decision), add) if tp in state.members else (add,)


def names_taken_by(state: State, tp: TopicPartition) -> int:
    """The highest generation that may have named objects of a topic partition; -1 for none."""
    member = state.members.get(tp)
    return max(member.generation if member else -1, state.retired.get(tp, -1))


def _is_recreated(state: State, tp: TopicPartition, observed: Observed) -> bool:
    return observed.topic_id is not None and observed.topic_id != state.members[tp].topic_id


def _recreated_hint(state: State, tp: TopicPartition) -> str:
    return (
        "the topic was deleted and created again: set spec.generation to "
        f"{names_taken_by(state, tp) + 1}, then `landfall reset --to earliest`"
    )
