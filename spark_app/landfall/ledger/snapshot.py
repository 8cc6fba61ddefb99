"""A lane's state as bytes, which a SNAPSHOT record points to. Pure.

The names of the fields are persisted. A field that older snapshots lack needs a default.
"""

from collections.abc import Mapping
from operator import itemgetter

import msgspec

from landfall import untrusted_json
from landfall.ledger import (
    Blocked,
    EndedRun,
    FeedState,
    KnownFiles,
    LaneOwnership,
    LeasedPart,
    Leasing,
    Member,
    OpenLease,
    ParkedPart,
    PartList,
    PendingHorizon,
    PendingReplacement,
    Rolled,
    State,
    Totals,
    Work,
)
from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.ledger.replace.rewriting import Rewritten
from landfall.ledger.task_results import LandedObject

_encoder = msgspec.json.Encoder(order="deterministic")


class _StoredMember(msgspec.Struct, frozen=True):
    """A topic partition of the lane, with its checkpoint."""

    topic_partition: TopicPartition
    next_offset: int
    member: Member


class _Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lease that is not over, by the slot of its record."""

    slot: int
    holder: str
    until: int
    parts: tuple[tuple[int, LeasedPart], ...]
    request: str = ""


class _Leasing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of the numbers of an external feed."""

    leased_to: int = 0
    done: int = 0
    open: tuple[_Lease, ...] = ()
    requests: tuple[str, ...] = ()


class _Feed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A feed of the lane."""

    topic_partition: TopicPartition
    end: int
    lists: tuple[PartList, ...] = ()
    known: KnownFiles | None = None
    parked: tuple[tuple[int, ParkedPart], ...] = ()
    ignored: tuple[tuple[int, ParkedPart], ...] = ()
    holes: int = 0
    leasing: _Leasing | None = None


class _StoredState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A state as it is stored, with lists of pairs for maps whose keys are not text."""

    seq: int
    tip: str
    holding: LaneOwnership
    epoch: int
    writer: str
    generation: int
    landings: tuple[_StoredMember, ...]
    retired: tuple[tuple[TopicPartition, int], ...]
    unapplied: tuple[tuple[int, tuple[LandedObject, ...]], ...]
    applied_through: int
    snapshot_seq: int
    last_commit_time: str | None
    totals: Totals
    revision: str = ""
    looked_at: str | None = None
    missing: tuple[tuple[int, tuple[LandedObject, ...]], ...] = ()
    spec: str = ""
    specs: tuple[tuple[int, str], ...] = ()
    blocked: tuple[Blocked, ...] = ()
    permitted: tuple[tuple[TopicPartition, int], ...] = ()
    accepted_truncation: tuple[tuple[TopicPartition, int], ...] = ()
    excluded: tuple[TopicPartition, ...] = ()
    replayed: tuple[str, ...] = ()
    decision_ids: tuple[str, ...] = ()
    epochs: tuple[int, ...] = (0,)
    segments: tuple[Rolled, ...] = ()
    changed_seq: int = -1
    horizons: tuple[tuple[str, int], ...] = ()
    pending_horizons: tuple[PendingHorizon, ...] = ()
    runs: tuple[EndedRun, ...] = ()
    run_totals: Totals = Totals()
    run_work: Work = Work()
    feeds: tuple[_Feed, ...] = ()
    replacing: tuple[tuple[int, PendingReplacement], ...] = ()
    retiring: tuple[tuple[int, PendingReplacement], ...] = ()
    replaced: tuple[tuple[str, int], ...] = ()
    replaced_known_from: int = -1
    rewritten: tuple[tuple[TopicPartition, tuple[Rewritten, ...]], ...] = ()


def encode_state(state: State) -> bytes:
    """The bytes of a snapshot; ``decode_state`` is the inverse. Equal states give equal bytes."""
    landings = (
        _StoredMember(tp, state.checkpoint[tp], state.members[tp])
        for tp in sorted(state.checkpoint)
    )
    return _encoder.encode(
        _StoredState(
            seq=state.seq,
            tip=state.tip,
            holding=state.holding,
            epoch=state.epoch,
            writer=state.writer,
            generation=state.generation,
            landings=tuple(landings),
            retired=tuple(sorted(state.retired.items())),
            unapplied=tuple(sorted(state.unapplied.items())),
            applied_through=state.applied_through,
            snapshot_seq=state.snapshot_seq,
            last_commit_time=state.last_commit_time,
            totals=state.totals,
            revision=state.revision,
            looked_at=state.looked_at,
            missing=tuple(sorted(state.missing.items())),
            spec=state.spec,
            specs=tuple(sorted(state.specs.items())),
            blocked=tuple(state.blocked[tp] for tp in sorted(state.blocked)),
            permitted=tuple(sorted(state.permitted.items())),
            accepted_truncation=tuple(sorted(state.accepted_truncation.items())),
            excluded=tuple(sorted(state.excluded)),
            replayed=tuple(sorted(state.replayed)),
            decision_ids=state.decision_ids,
            epochs=state.epochs,
            segments=state.segments,
            changed_seq=state.changed_seq,
            horizons=tuple(sorted(state.horizons.items())),
            pending_horizons=state.pending_horizons,
            runs=state.runs,
            run_totals=state.run_totals,
            run_work=state.run_work,
            feeds=tuple(_stored_feed(tp, state.feeds[tp]) for tp in sorted(state.feeds)),
            replacing=tuple((slot, state.replacing[slot]) for slot in sorted(state.replacing)),
            retiring=tuple((slot, state.retiring[slot]) for slot in sorted(state.retiring)),
            replaced=tuple(sorted(state.replaced.items())),
            replaced_known_from=state.replaced_known_from,
            rewritten=tuple(sorted(state.rewritten.items())),
        )
    )


def decode_state(body: bytes) -> State:
    """The state in a snapshot.

    Raises:
        ValueError: the bytes are not a snapshot.
    """
    stored = untrusted_json.decode(body, type=_StoredState)
    return State(
        seq=stored.seq,
        tip=stored.tip,
        holding=stored.holding,
        epoch=stored.epoch,
        writer=stored.writer,
        generation=stored.generation,
        checkpoint=Checkpoint({x.topic_partition: x.next_offset for x in stored.landings}),
        members={x.topic_partition: x.member for x in stored.landings},
        retired=dict(stored.retired),
        unapplied=dict(stored.unapplied),
        applied_through=stored.applied_through,
        snapshot_seq=stored.snapshot_seq,
        last_commit_time=stored.last_commit_time,
        totals=stored.totals,
        revision=stored.revision,
        looked_at=stored.looked_at,
        missing=dict(stored.missing),
        spec=stored.spec,
        specs=dict(stored.specs),
        blocked={entry.topic_partition: entry for entry in stored.blocked},
        permitted=dict(stored.permitted),
        accepted_truncation=dict(stored.accepted_truncation),
        excluded=frozenset(stored.excluded),
        replayed=frozenset(stored.replayed),
        decision_ids=stored.decision_ids,
        epochs=stored.epochs,
        segments=stored.segments,
        changed_seq=stored.changed_seq,
        horizons=dict(stored.horizons),
        pending_horizons=stored.pending_horizons,
        runs=stored.runs,
        run_totals=stored.run_totals,
        run_work=stored.run_work,
        feeds={feed.topic_partition: _feed(feed) for feed in stored.feeds},
        replacing=dict(stored.replacing),
        retiring=dict(stored.retiring),
        replaced=dict(stored.replaced),
        replaced_known_from=stored.replaced_known_from,
        rewritten=dict(stored.rewritten),
    )


def _stored_feed(tp: TopicPartition, feed: FeedState) -> _Feed:
    parked, ignored = sorted(feed.parked.items()), sorted(feed.ignored.items())
    return _Feed(
        topic_partition=tp,
        end=feed.end,
        lists=feed.lists,
        known=feed.known,
        parked=tuple(parked),
        ignored=tuple(ignored),
        holes=feed.holes,
        leasing=_stored_leasing(feed.leasing),
    )


def _feed(stored: _Feed) -> FeedState:
    parked, ignored = dict(stored.parked), dict(stored.ignored)
    leasing = _leasing(stored.leasing)
    return FeedState(
        end=stored.end,
        lists=stored.lists,
        known=stored.known,
        parked=parked,
        ignored=ignored,
        holes=stored.holes,
        leasing=leasing,
    )


def _stored_leasing(leasing: Leasing | None) -> _Leasing | None:
    if leasing is None:
        return None
    leases = tuple(
        _Lease(
            slot=slot,
            holder=lease.holder,
            until=lease.until,
            parts=_by_number(lease.parts),
            request=lease.request,
        )
        for slot, lease in sorted(leasing.open.items(), key=itemgetter(0))
    )
    return _Leasing(leasing.leased_to, leasing.done, leases, leasing.requests)


def _leasing(stored: _Leasing | None) -> Leasing | None:
    if stored is None:
        return None
    leases = {
        lease.slot: OpenLease(lease.holder, lease.until, dict(lease.parts), lease.request)
        for lease in stored.open
    }
    return Leasing(stored.leased_to, stored.done, leases, stored.requests)


def _by_number(parts: Mapping[int, LeasedPart]) -> tuple[tuple[int, LeasedPart], ...]:
    return tuple((number, parts[number]) for number in sorted(parts))
