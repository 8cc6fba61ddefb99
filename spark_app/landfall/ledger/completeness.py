"""How FINALIZE changes a lane's state: up to which event time each topic is complete. Pure.

A **horizon** is an event time of a topic. A driver decides it once every topic partition of the
topic has landed past it by the delay, or has nothing more. It counts from the slot on at which all
that was decided before it is visible, so a reader that follows the ledger finds every object that a
complete hour has before the horizon that completes it. What becomes visible later in that hour is
late, by the order of the slots alone.

A horizon never moves back, not even if its topic is created again.
"""

from dataclasses import replace

from landfall.ledger import decisions
from landfall.ledger.entries import Horizon
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import (
    Finalize,
    Record,
    Repair,
)
from landfall.ledger.state import Member, PendingHorizon, State


def finalize(state: State, record: Finalize) -> State:
    """The state with later horizons, which do not count yet.

    Raises:
        ValueError: a horizon is not later than the one before, or not proven by what is landed.
    """
    if record.delay < 0 or len({entry.topic for entry in record.entries}) != len(record.entries):
        raise ValueError("finalizes a topic twice, or with a negative delay")
    members: dict[str, dict[TopicPartition, Member]] = {e.topic: {} for e in record.entries}
    for tp, member in state.members.items():
        if tp.topic in members:
            members[tp.topic][tp] = member
    decided, missing = state.decided_horizons, topics_with_missing(state)
    for entry in record.entries:
        if entry.until <= (before := decided.get(entry.topic, -1)):
            raise ValueError(
                f"finalizes {entry.topic} until {entry.until}, which is not after {before}"
            )
        if entry.topic in missing:
            raise ValueError(f"finalizes {entry.topic}, whose objects are missing")
        _check_members(state, record, entry, members[entry.topic])
    new = (PendingHorizon(e.topic, e.until, record.header.seq) for e in record.entries)
    return replace(state, pending_horizons=(*state.pending_horizons, *new))


def settled(state: State, record: Record) -> State:
    """The state after a slot, with those horizons in effect whose data is all visible.

    A REPAIR may make missing objects due again, under its own slot: all wait for that, too.
    """
    if not state.pending_horizons:
        return state
    pending = state.pending_horizons
    if isinstance(record, Repair):
        pending = tuple(replace(horizon, after=record.header.seq) for horizon in pending)
    applied = min(state.unapplied, default=state.seq + 1) - 1
    incomplete = topics_with_missing(state) if state.missing else frozenset()
    horizons, left = dict(state.horizons), list[PendingHorizon]()
    for horizon in pending:
        if horizon.after > applied or horizon.topic in incomplete:
            left.append(horizon)
        else:
            horizons[horizon.topic] = max(horizon.until, horizons.get(horizon.topic, -1))
    is_same = len(left) == len(pending)
    return replace(
        state,
        horizons=state.horizons if is_same else horizons,
        pending_horizons=tuple(left),
    )


def topics_with_missing(state: State) -> frozenset[str]:
    """The topics with missing decided objects."""
    return frozenset(
        decisions.topic_partition(o.upload.key).topic
        for objects in state.missing.values()
        for o in objects
    )


def _check_members(
    state: State, record: Finalize, entry: Horizon, members: dict[TopicPartition, Member]
) -> None:
    """Raise ``ValueError`` unless every member is past the horizon or drained."""
    if not members:
        raise ValueError(f"finalizes {entry.topic}, which is not in the lane")
    if entry.until + record.delay > record.looked:
        raise ValueError(f"finalizes {entry.topic} until {entry.until}, less than the delay ago")
    drained = dict(entry.drained)
    for tp, member in members.items():
        if (end := drained.pop(tp.partition, None)) is not None:
            _check_drained(state, tp, end)
        elif member.latest_ms < entry.until + record.delay:
            raise ValueError(
                f"finalizes {entry.topic} until {entry.until}, but {tp} has landed only up to "
                f"{member.latest_ms}, with a delay of {record.delay}"
            )
    if drained:
        raise ValueError(f"finalizes {entry.topic} by partitions that are not in the lane")


def _check_drained(state: State, tp: TopicPartition, end: int) -> None:
    if end != state.checkpoint[tp] or tp in state.blocked:
        raise ValueError(
            f"finalizes {tp.topic} by {tp} drained at {end}, but it is blocked or its checkpoint "
            f"is {state.checkpoint[tp]}"
        )
