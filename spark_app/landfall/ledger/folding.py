"""Takes a lane's state over the next record, or refuses the record. Pure.

``fold`` is the only way to a new state, for writers and readers alike: a driver folds its own
record before it appends it, so that a record which breaks a rule is never written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from landfall.ledger import completeness, decisions, feeds, runs
from landfall.ledger.entries import Replacement, Rolled
from landfall.ledger.feeds import leases
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import (
    GENESIS_HASH,
    Add,
    Applied,
    Block,
    Commit,
    Discover,
    Drop,
    Extend,
    Finalize,
    Hole,
    Lease,
    LeaseOutcome,
    Lost,
    Open,
    Record,
    Repair,
    Replace,
    Replay,
    Retired,
    Run,
    Segment,
    Snapshot,
    Unblock,
    Yield,
    decode,
    digest,
    ledger_error,
)
from landfall.ledger.replace import replacing
from landfall.ledger.state import MAY_FOLLOW, LaneOwnership, Member, State
from landfall.ledger.task_results import LandedObject


def fold(state: State, body: bytes) -> State:
    """The state after the next slot, whose bytes are ``body``.

    Raises:
        Stalled: LEDGER_BROKEN, with the slot and the rule it violates: hash chain, epoch, writer,
            order of records, or contiguity of ranges.
    """
    return fold_applied(state, body)[0]


@dataclass(frozen=True, slots=True)
class Visible:
    """The objects that a slot is the first to call visible.

    Attributes:
        objects: of COMMITs and REPLAYs, as their last REPAIRs name them.
        due: the slot of the COMMIT or REPLAY of each of them.
        replacements: by the slots of REPLACEs, what counts no more and what replaced it. They
            come after all of ``objects``.
    """

    objects: tuple[LandedObject, ...] = ()
    due: tuple[int, ...] = ()
    replacements: tuple[tuple[int, Replacement], ...] = ()


def fold_applied(state: State, body: bytes) -> tuple[State, Visible]:
    """The state after the next slot, and what this slot is the first to call visible.

    Every decided object is in the second part for one slot of a ledger, unless it is given up: the
    first slot whose ``applied_through`` reaches the record under which the object is due.

    Raises:
        Stalled: as ``fold``.
    """
    record = decode(state.seq + 1, body)
    _check_header(state, record)
    try:
        after = _apply_record(state, record)
    except ValueError as error:
        raise ledger_error(record.header.seq, str(error)) from error
    applied = max(after.applied_through, record.header.applied_through)
    unapplied = {seq: objects for seq, objects in after.unapplied.items() if seq > applied}
    due = {*unapplied, *after.missing}
    visible = [(s, o) for s in sorted(after.unapplied) if s <= applied for o in after.unapplied[s]]
    done = {seq: after.replacing[seq] for seq in sorted(after.replacing) if seq <= applied}
    replaced = tuple((seq, replacement.listed) for seq, replacement in done.items())
    retiring = {
        seq: replace(replacement, before=())
        for seq, replacement in done.items()
        if replacement.retires_later
    }
    totals = after.totals
    for replacement in done.values():  # only now: it could be given up before
        named = replacement.listed
        totals = totals.with_replacement(named.retired, named.objects, replacement.duplicates)
    folded = replace(
        after,
        seq=record.header.seq,
        tip=digest(body),
        applied_through=applied,
        changed_seq=record.header.seq
        if isinstance(record, Add | Drop | Lost | Replay)
        else after.changed_seq,
        looked_at=record.header.time if _is_after_look(record) else after.looked_at,
        unapplied=unapplied,
        replacing={
            seq: replacement for seq, replacement in after.replacing.items() if seq > applied
        }
        if done
        else after.replacing,
        retiring={**after.retiring, **retiring} if retiring else after.retiring,
        specs={seq: spec for seq, spec in after.specs.items() if seq in due},
        totals=totals,
    )
    folded = completeness.settled(folded, record)
    return folded, Visible(tuple(o for _, o in visible), tuple(s for s, _ in visible), replaced)


def _is_after_look(record: Record) -> bool:
    """Return whether only a driver that has looked at the log's topics writes such a record."""
    match record:
        case Commit() | Finalize() | Run():
            return True
        case Add() | Drop() | Hole():  # a decision needs no look
            return record.decision is None
    return False


def _check_header(state: State, record: Record) -> None:
    header = record.header
    if header.seq != state.seq + 1:
        raise ledger_error(state.seq + 1, f"claims to be slot {header.seq}")
    if header.prev != state.tip:
        raise ledger_error(
            header.seq,
            f"follows a slot with hash {header.prev[:12]}, but the slot before is {state.tip[:12]}",
        )
    if not isinstance(record, MAY_FOLLOW[state.holding]):
        raise ledger_error(
            header.seq, f"{type(record).__name__} cannot follow while the lane is {state.holding}"
        )
    if isinstance(record, Open):
        if header.epoch != state.epoch + 1:
            raise ledger_error(header.seq, f"opens epoch {header.epoch} after {state.epoch}")
    # A fenced driver that lost its slot would otherwise be folded as if it still owned the lane.
    elif (header.epoch, header.writer) != (state.epoch, state.writer):
        raise ledger_error(
            header.seq,
            f"written in epoch {header.epoch} by {header.writer}, "
            f"but the lane is held in epoch {state.epoch} by {state.writer}",
        )
    if header.applied_through > state.seq:
        raise ledger_error(
            header.seq, f"applied through {header.applied_through}, which is not before this slot"
        )


def _apply_record(state: State, record: Record) -> State:  # noqa: C901, PLR0911, PLR0912  # one arm per record type
    match record:
        case Open():
            return replace(
                state,
                holding=LaneOwnership.HELD,
                epoch=record.header.epoch,
                writer=record.header.writer,
                generation=record.generation,
                revision=record.revision,
                spec=record.spec,
                epochs=(*state.epochs, record.header.seq + 1),
            )
        case Add():
            return _add(state, record)
        case Drop():
            return _drop(state, record)
        case Commit():
            return _commit(state, record)
        case Repair():
            return decisions.repair(state, record)
        case Hole():
            return _hole(state, record)
        case Lost():
            return decisions.remember(decisions.lose(state, record), record.decision)
        case Block():
            return decisions.block(state, record)
        case Unblock():
            return decisions.remember(decisions.unblock(state, record), record.decision)
        case Replay():
            feeds.check_counted(state, record.slices)
            return decisions.remember(decisions.replay(state, record), record.decision)
        case Finalize():
            return completeness.finalize(state, record)
        case Run():
            return runs.end(state, record)
        case Discover():
            return decisions.remember(feeds.discover(state, record), record.decision)
        case Lease() | Extend() | LeaseOutcome():
            return leases.apply(state, record)
        case Replace():
            return decisions.remember(replacing.replace_objects(state, record), record.decision)
        case Retired():
            return replacing.forget_retired(state, record)
        case Snapshot():
            return replace(state, snapshot_seq=record.header.seq)
        case Applied():
            return _applied(state, record)
        case Segment():
            return _roll(state, record.rolled)
        case Yield():
            return replace(state, holding=LaneOwnership.YIELDED)


def _applied(state: State, record: Applied) -> State:
    if record.header.applied_through <= state.applied_through:
        raise ValueError(
            f"applied through {record.header.applied_through}, as slot {state.seq} already records"
        )
    return state


def _roll(state: State, rolled: Rolled) -> State:
    """The state with one more segment, which must adjoin the last and end with a seal."""
    before = state.segments[-1].after if state.segments else GENESIS_HASH
    if (rolled.first, rolled.before) != (state.epochs[0], before):
        raise ValueError(
            f"segment {rolled.key} begins with slot {rolled.first} after {rolled.before[:12]!r}, "
            f"expected slot {state.epochs[0]} after {before[:12]!r}"
        )
    sealed = rolled.epoch - state.epoch + len(state.epochs)
    if not 0 < sealed < len(state.epochs) or rolled.last + 1 != state.epochs[sealed]:
        raise ValueError(
            f"segment {rolled.key} ends with slot {rolled.last}, which does not seal epoch "
            f"{rolled.epoch}"
        )
    return replace(state, epochs=state.epochs[sealed:], segments=(*state.segments, rolled))


def _add(state: State, record: Add) -> State:
    _check_generation(state, (entry.topic_partition for entry in record.entries))
    starts = {entry.topic_partition: entry.start for entry in record.entries}
    if len(starts) != len(record.entries):
        raise ValueError("a topic partition enters twice")
    if record.decision is None and (kept_out := sorted(starts.keys() & state.excluded)):
        raise ValueError(f"{kept_out[0]}: a decision dropped it; only a decision lets it enter")
    added = {
        entry.topic_partition: Member(entry.topic_id, state.generation) for entry in record.entries
    }
    after = replace(
        state,
        checkpoint=state.checkpoint.add(starts),
        members={**state.members, **added},
        excluded=state.excluded - starts.keys(),
    )
    return decisions.remember(feeds.enter(after, record.entries), record.decision)


def _drop(state: State, record: Drop) -> State:
    checkpoint = state.checkpoint.drop(record.topic_partitions)
    members, retired = dict(state.members), dict(state.retired)
    for tp in record.topic_partitions:
        # The topic partition may have left before, under a higher generation than this time's.
        retired[tp] = max(members.pop(tp).generation, retired.get(tp, 0))
    kept_out = record.topic_partitions if record.decision else ()
    after = replace(
        state,
        checkpoint=checkpoint,
        members=members,
        retired=retired,
        excluded=state.excluded.union(kept_out),
    )
    after = decisions.forgotten(
        feeds.leave(after, record.topic_partitions), set(record.topic_partitions)
    )
    return decisions.remember(after, record.decision)


def _hole(state: State, record: Hole) -> State:
    tp, skipped = record.piece.topic_partition, len(record.piece.offsets)
    decided = (tp,) if record.decision else ()
    after = replace(
        state,
        checkpoint=state.checkpoint.advance([record.piece]),
        totals=replace(state.totals, skipped=state.totals.skipped + skipped),
        blocked=decisions.without(state.blocked, decided),
    )
    feeds.check_discovered(after, (tp,))
    after = feeds.park(after, record)
    return decisions.remember(decisions.advanced(after, (tp,)), record.decision)


def _check_generation(state: State, tps: Iterable[TopicPartition]) -> None:
    """Raise ValueError if objects of the current generation could overwrite older ones."""
    for tp in tps:
        if state.generation <= state.retired.get(tp, -1):
            raise ValueError(
                f"{tp}: generation {state.generation} already named objects of this "
                "topic partition before it was dropped"
            )


def _commit(state: State, record: Commit) -> State:
    objects = decisions.decided_objects(record)
    feeds.check_counted(state, record.slices)
    tps = {s.piece.topic_partition for s in record.slices}
    _check_generation(state, tps)
    decisions.check_not_blocked(state, tps)
    checkpoint = state.checkpoint.advance(s.piece for s in record.slices)
    after = replace(
        state,
        checkpoint=checkpoint,
        members={**state.members, **_landed_members(state, record)},
        unapplied={**state.unapplied, record.header.seq: objects},
        specs=decisions.with_spec(state, record.header.seq),
        last_commit_time=record.header.time,
        totals=state.totals.with_commit(record.slices),
        run_work=state.run_work.with_commit(record.slices) if state.runs else state.run_work,
    )
    feeds.check_discovered(after, tps)
    return decisions.advanced(after, tps)


def _landed_members(state: State, record: Commit) -> dict[TopicPartition, Member]:
    """The members that a COMMIT lands, as they are after it."""
    members: dict[TopicPartition, Member] = {}
    for landed in record.slices:  # in order, so the last record read of each comes last
        tp = landed.piece.topic_partition
        before = members.get(tp) or state.members[tp]
        epoch, offset = before.leader_epoch, before.epoch_offset
        if landed.epoch_offset > offset:
            epoch, offset = landed.leader_epoch, landed.epoch_offset
        generation = max(before.generation, state.generation)
        latest_ms = max(before.latest_ms, landed.latest_ms)
        members[tp] = Member(
            topic_id=before.topic_id,
            generation=generation,
            leader_epoch=epoch,
            epoch_offset=offset,
            latest_ms=latest_ms,
        )
    return members
