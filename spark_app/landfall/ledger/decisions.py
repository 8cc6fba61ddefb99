"""How REPAIR, LOST, BLOCK, UNBLOCK, REPLAY and decisions change a lane's state. Pure.

Each function raises ``ValueError`` if the record breaks a rule; ``folding.fold`` names the slot.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from landfall.errors import Reason
from landfall.ledger.entries import Blocked, Decision
from landfall.ledger.names import object_names
from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import (
    Block,
    Commit,
    Lost,
    Repair,
    Replay,
    Unblock,
)
from landfall.ledger.replace import rewriting
from landfall.ledger.state import KEPT_DECISIONS, State
from landfall.ledger.task_results import LandedObject, ReplayedSlice

V = TypeVar("V")


def remember(state: State, decision: Decision | None) -> State:
    """The state with the decision's id among the last ones."""
    if decision is None or not decision.id or decision.id in state.decision_ids:
        return state
    return replace(state, decision_ids=(*state.decision_ids, decision.id)[-KEPT_DECISIONS:])


def without(
    by_tp: Mapping[TopicPartition, V], tps: Collection[TopicPartition]
) -> Mapping[TopicPartition, V]:
    """The mapping without these topic partitions; itself if it has none of them."""
    if not any(tp in by_tp for tp in tps):
        return by_tp
    return {tp: value for tp, value in by_tp.items() if tp not in tps}


def advanced(state: State, tps: Iterable[TopicPartition]) -> State:
    """The state after checkpoints moved: what was allowed below them, or at them, is forgotten."""
    if not (state.permitted or state.accepted_truncation):
        return state
    past = {tp for tp in tps if state.permitted.get(tp, 0) <= state.checkpoint[tp]}
    return replace(
        state,
        permitted=without(state.permitted, past),
        accepted_truncation=without(state.accepted_truncation, set(tps)),
    )


def forgotten(state: State, tps: Collection[TopicPartition]) -> State:
    """The state after these topic partitions left the lane; what was missing of them is lost."""
    left, lost = dict[int, tuple[LandedObject, ...]](), list[LandedObject]()
    for slot, objects in state.missing.items():
        left[slot] = tuple(o for o in objects if topic_partition(o.upload.key) not in tps)
        lost += [o for o in objects if topic_partition(o.upload.key) in tps]
    return replace(
        state,
        missing=_not_empty(left),
        totals=state.totals.with_lost(tuple(lost)),
        blocked=without(state.blocked, tps),
        permitted=without(state.permitted, tps),
        accepted_truncation=without(state.accepted_truncation, tps),
        replayed=frozenset(key for key in state.replayed if topic_partition(key) not in tps),
        rewritten=without(state.rewritten, tps),
    )


def check_not_blocked(state: State, tps: Iterable[TopicPartition]) -> None:
    """Raise ``ValueError`` if one of these must not be landed until a decision."""
    for blocked in (state.blocked[tp] for tp in tps if tp in state.blocked):
        raise ValueError(
            f"{blocked.topic_partition}: blocked ({blocked.reason}: {blocked.message}); "
            "only a decision clears that"
        )


def with_spec(state: State, slot: int) -> Mapping[int, str]:
    """The specs of slots whose objects are due, with the present one's for another slot."""
    return {**state.specs, slot: state.spec} if state.spec else state.specs


def block(state: State, record: Block) -> State:
    """The state with the topic partitions blocked; a later block of one replaces the earlier.

    But one for lost objects replaces none for another reason: what the log lacks may not be found
    again, while the objects stay missing and so are found again once the other block is cleared.

    What the record names as missing is not completed any more, so the applied COMMITs may pass it:
    otherwise everything landed later would stay unapplied until a user decides.
    """
    for entry in record.entries:
        _check_member(state, entry.topic_partition)
    blocked = dict(state.blocked)
    for entry in record.entries:
        before = blocked.get(entry.topic_partition, entry)
        if before.reason is Reason.OBJECT_LOST or entry.reason is not Reason.OBJECT_LOST:
            blocked[entry.topic_partition] = entry
    unapplied, missing = dict(state.unapplied), dict(state.missing)
    for gone in record.missing:
        decided = {o.upload.key: o for o in unapplied.get(gone.commit, ())}
        objects: list[LandedObject] = []
        for key in gone.keys:
            if key not in decided:
                raise ValueError(f"{key} is no unapplied object of slot {gone.commit}")
            if (tp := topic_partition(key)) not in blocked:
                raise ValueError(f"{key} is missing, but {tp} is not blocked")
            objects.append(decided.pop(key))
        unapplied[gone.commit] = tuple(decided.values())
        missing[gone.commit] = (*missing.get(gone.commit, ()), *objects)
    return replace(state, blocked=blocked, unapplied=unapplied, missing=missing)


def unblock(state: State, record: Unblock) -> State:
    """The state in which the topic partitions may be landed again."""
    permitted, accepted = dict(state.permitted), dict(state.accepted_truncation)
    members = dict(state.members)
    for entry in record.entries:
        tp = entry.topic_partition
        _check_member(state, tp)
        if entry.bad_records_until > state.checkpoint[tp]:
            permitted[tp] = max(entry.bad_records_until, permitted.get(tp, -1))
        if tp in state.blocked and state.blocked[tp].reason is Reason.DATA_LOSS:
            accepted[tp] = state.checkpoint[tp]
            # The record that it belongs to is not in the log any more.
            members[tp] = replace(members[tp], leader_epoch=-1, epoch_offset=-1)
    blocked = without(state.blocked, {entry.topic_partition for entry in record.entries})
    return replace(
        state,
        members=members,
        blocked=blocked,
        permitted=permitted,
        accepted_truncation=accepted,
    )


def lose(state: State, record: Lost) -> State:
    """The state without these decided objects; topic partitions blocked for them are free again."""
    due = _due(state, record.commit)
    for lost in record.objects:
        if due.pop(lost.upload.key, None) != lost:
            raise ValueError(
                f"gives up {lost.upload.key}, which is no unapplied object of slot "
                f"{record.commit} as that slot or its REPAIR names it"
            )
    after = _without_due(state, record.commit, record.objects)
    return replace(
        after,
        blocked=_not_for_lost(after, record.objects),
        totals=state.totals.with_lost(record.objects),
    )


def repair(state: State, record: Repair) -> State:
    """The state with new uploads for decided objects; those that were missing are due again."""
    due = _due(state, record.commit)
    for repaired in record.objects:
        before = due.pop(repaired.upload.key, None)
        if before is None:
            raise ValueError(
                f"repairs {repaired.upload.key}, "
                f"which is no unapplied object of COMMIT {record.commit}"
            )
        # Made again from the same range, the object must hold the same records.
        if (before.rows, before.first_offset, before.last_offset) != (
            repaired.rows,
            repaired.first_offset,
            repaired.last_offset,
        ):
            raise ValueError(
                f"repairs {repaired.upload.key} with other rows: "
                f"{before.rows} before, {repaired.rows} now"
            )
    again = {o.upload.key: o for o in record.objects}
    unapplied = {
        slot: tuple(again.pop(o.upload.key, o) if slot == record.commit else o for o in objects)
        for slot, objects in state.unapplied.items()
    }
    if not again:
        return replace(state, unapplied=unapplied)
    # The rest was missing. Its COMMIT may be applied, so another slot must wait for it.
    slot, spec = record.header.seq, state.specs.get(record.commit)
    after = _without_due(state, record.commit, tuple(again.values()))
    return replace(
        after,
        unapplied={**unapplied, slot: tuple(again.values())},
        specs={**state.specs, slot: spec} if spec else state.specs,
        blocked=_not_for_lost(after, again.values()),
    )


def _due(state: State, slot: int) -> dict[str, LandedObject]:
    """Decided objects of a slot that are not known to be visible, missing ones too, by key."""
    objects = (*state.unapplied.get(slot, ()), *state.missing.get(slot, ()))
    return {o.upload.key: o for o in objects}


def _without_due(state: State, slot: int, objects: Iterable[LandedObject]) -> State:
    keys = {o.upload.key for o in objects}

    def rest(
        by_slot: Mapping[int, tuple[LandedObject, ...]],
    ) -> Mapping[int, tuple[LandedObject, ...]]:
        if slot not in by_slot:
            return by_slot
        return {**by_slot, slot: tuple(o for o in by_slot[slot] if o.upload.key not in keys)}

    return replace(state, unapplied=rest(state.unapplied), missing=_not_empty(rest(state.missing)))


def _not_empty(
    by_slot: Mapping[int, tuple[LandedObject, ...]],
) -> Mapping[int, tuple[LandedObject, ...]]:
    return {slot: objects for slot, objects in by_slot.items() if objects}


def _not_for_lost(
    state: State, objects: Iterable[LandedObject]
) -> Mapping[TopicPartition, Blocked]:
    """The blocks, except of these objects' topic partitions that miss nothing any more."""
    missing = {topic_partition(o.upload.key) for objects in state.missing.values() for o in objects}
    free = {
        tp
        for tp in {topic_partition(o.upload.key) for o in objects} - missing
        if tp in state.blocked and state.blocked[tp].reason is Reason.OBJECT_LOST
    }
    return without(state.blocked, free)


def decided_objects(record: Commit | Replay) -> tuple[LandedObject, ...]:
    """The objects that a record decides.

    Raises:
        ValueError: a key is named twice, or an object carries another token than the record.
    """
    objects = tuple(o for s in record.slices for o in s.objects)
    if len({o.upload.key for o in objects}) != len(objects):
        raise ValueError("an object key is named twice")
    if any(o.upload.token != record.token for o in objects):
        raise ValueError(f"an object does not carry the batch token {record.token}")
    return objects


def replay(state: State, record: Replay) -> State:
    """The state with the new objects decided and the dead-letter objects used up."""
    objects = decided_objects(record)
    used = set(state.replayed)
    applied = max(state.applied_through, record.header.applied_through)
    for slice_ in record.slices:
        _check_replayed(state, slice_, used)
        _check_counts(state, slice_, applied)
        used.add(slice_.dead_letters)
    raised = {
        tp: replace(state.members[tp], generation=state.generation)
        for tp in {s.piece.topic_partition for s in record.slices}
        if state.members[tp].generation < state.generation
    }
    return replace(
        state,
        members={**state.members, **raised},
        unapplied={**state.unapplied, record.header.seq: objects},
        specs=with_spec(state, record.header.seq),
        replayed=frozenset(used),
        totals=state.totals.with_replay(record.slices),
    )


def _check_replayed(state: State, slice_: ReplayedSlice, used: Collection[str]) -> None:
    """Raise ``ValueError`` if the dead letters must not be landed again, or not as this slice.

    The new objects are named after the range from the start in the dead-letter object's name to its
    last record, which dead-letter objects of a generation do not share. Under a higher
    generation no other object has such a name: no checkpoint passes an offset twice while a topic
    partition is a member, and a generation that landed an earlier life of it may not replay.
    """
    key, tp = slice_.dead_letters, slice_.piece.topic_partition
    _check_member(state, tp)
    named = _origin(key)
    expected = Origin(tp.topic, named.generation, tp.partition, slice_.piece.offsets.start)
    if not _is_dead_letter_key(key) or named != expected:
        raise ValueError(f"replays {key}, which is not the name of dead letters of {slice_.piece}")
    if key in used:
        raise ValueError(f"replays {key}, which was replayed before")
    if slice_.piece.offsets.end > state.checkpoint[tp]:
        raise ValueError(
            f"replays {slice_.piece}, but the checkpoint is {state.checkpoint[tp]}: not landed yet"
        )
    if state.generation <= named.generation:
        raise ValueError(
            f"replays {key} under generation {state.generation}: only a higher one may, "
            "because objects are named after it"
        )
    if named.generation <= state.retired.get(tp, -1):
        raise ValueError(
            f"replays {key}, but {tp} left the lane after generation {state.retired[tp]}: "
            "these dead letters belong to an earlier topic of that name, or to before a reset"
        )
    for o in slice_.objects:
        made = _origin(o.upload.key)
        # A large slice gives several objects per output partition, with later starts.
        first = replace(named, generation=state.generation, start=made.start)
        if made != first or made.start not in slice_.piece.offsets:
            raise ValueError(
                f"names {o.upload.key}, which is not a name of generation "
                f"{state.generation} for {slice_.piece}"
            )


def _check_counts(state: State, slice_: ReplayedSlice, applied_through: int) -> None:
    """Raise ``ValueError`` if a backfill has landed these records again, or may be undone yet."""
    key = slice_.dead_letters
    letters, replayed = _origin(key), map(_origin, state.replayed)
    if why := rewriting.why_not_replayed(state.rewritten, letters, applied_through):
        raise ValueError(f"replays {key}: {why}")
    if state.generation < rewriting.least_generation(state.rewritten, letters, replayed):
        raise ValueError(
            f"replays {key} under generation {state.generation}, which may have named objects of "
            "these offsets before they were landed again"
        )


def topic_partition(key: str) -> TopicPartition:
    """The topic partition that the key of a data object or of dead letters names.

    Raises:
        ValueError: the key is neither.
    """
    named = _origin(key)
    return TopicPartition(named.topic, named.partition)


def start_of(key: str) -> int:
    """The offset in the key of a data object or of dead letters.

    Raises:
        ValueError: the key is neither.
    """
    return _origin(key).start


def _origin(key: str) -> Origin:
    # The group is a part of the key of dead letters; the state does not know it.
    group = key.split("/")[1] if key.startswith(f"{object_names.SYSTEM}/") else "none"
    return object_names.origin(group, key)


def _is_dead_letter_key(key: str) -> bool:
    return key.startswith(f"{object_names.SYSTEM}/")


def _check_member(state: State, tp: TopicPartition) -> None:
    if tp not in state.members:
        raise ValueError(f"{tp}: not in the lane")
