"""The state of a lane: the sum of all its records. Pure.

``landfall.ledger.fold`` takes a state over the next record.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from landfall.ledger.entries import Blocked, KnownFiles, PartList, Replacement, Rolled
from landfall.ledger.header import Header
from landfall.ledger.offsets import Checkpoint, TopicPartition
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
)
from landfall.ledger.replace.rewriting import Rewritten
from landfall.ledger.task_results import LandedObject
from landfall.ledger.totals import Totals, Work

KEPT_DECISIONS = 1000
"""How many ids of decisions a state remembers, the last ones."""
KEPT_RUNS = 50
"""How many runs a state remembers, the last ones."""


class LaneOwnership(StrEnum):
    """The ownership of the lane."""

    NOBODY_YET = "nobody yet"
    HELD = "held"
    YIELDED = "yielded"


MAY_FOLLOW: Mapping[LaneOwnership, tuple[type[Record], ...]] = {
    LaneOwnership.NOBODY_YET: (Open,),
    LaneOwnership.HELD: (
        Open,
        Add,
        Drop,
        Commit,
        Repair,
        Hole,
        Lost,
        Block,
        Unblock,
        Replay,
        Finalize,
        Run,
        Discover,
        Lease,
        Extend,
        LeaseOutcome,
        Replace,
        Retired,
        Snapshot,
        Applied,
        Segment,
        Yield,
    ),
    LaneOwnership.YIELDED: (Open,),
}
"""Which records may follow, by who owns the lane."""


@dataclass(frozen=True, slots=True)
class Member:
    """A topic partition of the lane.

    Attributes:
        topic_id: distinguishes its topic from another one of the same name.
        generation: the highest one that added or landed it.
        leader_epoch: of the last record that was landed, by which a truncated log is recognized; -1
            if it is not known.
        epoch_offset: offset of that record.
        latest_ms: the latest event time landed, as in ``LandedSlice``; -1 if none is known.
    """

    topic_id: str
    generation: int
    leader_epoch: int = -1
    epoch_offset: int = -1
    latest_ms: int = -1


@dataclass(frozen=True, slots=True)
class ParkedPart:
    """A part of a file that could not be landed, and waits for another number or a decision.

    One that was given up is described in the same way.

    Attributes:
        attempt: how often it was tried; 0 for one that was skipped without a try.
        skip: how many of its rows are landed under this number.
        reason: why it could not be landed.
        listed: the list that it is in.
        at: when it was parked (ms); 0 if that does not matter. Only external feeds have it.
    """

    attempt: int
    skip: int
    reason: str
    listed: PartList
    at: int = 0


@dataclass(frozen=True, slots=True)
class LeasedPart:
    """A part that a worker has: how often it was tried before, and the list that it is in."""

    attempt: int
    listed: PartList


@dataclass(frozen=True, slots=True)
class OpenLease:
    """Parts that are a worker's, until it reports their outcome or is too late.

    Attributes:
        holder: the worker.
        until: when it is too late, milliseconds since 1970-01-01 UTC.
        parts: by number; those that were done or failed are not among them.
        request: the id under which it was asked for; may be empty.
    """

    holder: str
    until: int
    parts: Mapping[int, LeasedPart]
    request: str = ""


@dataclass(frozen=True, slots=True)
class Leasing:
    """The outcome of the numbers of an external feed.

    Attributes:
        leased_to: the number that is leased next; all below were leased at least once.
        done: how many parts are done.
        open: leases that are not over, by the number of their slot.
        requests: the ids of the last requests that were carried out, oldest first.
    """

    leased_to: int = 0
    done: int = 0
    open: Mapping[int, OpenLease] = field(default_factory=dict)
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedState:
    """The state of a topic partition that has files.

    Attributes:
        end: the number that the next part gets.
        lists: those with a part that was not in ``known``, or not landed and visible, when the last
            of them was named; in order.
        known: what is stored of the files with the lowest numbers; None for nothing.
        parked: parts that could not be landed, by number.
        ignored: parts that a decision gave up, by number.
        holes: how many parts were not landed under their numbers, or not as a whole.
        leasing: of an external feed, the outcome of its numbers; None for one that is landed.
    """

    end: int = 0
    lists: tuple[PartList, ...] = ()
    known: KnownFiles | None = None
    parked: Mapping[int, ParkedPart] = field(default_factory=dict)
    ignored: Mapping[int, ParkedPart] = field(default_factory=dict)
    holes: int = 0
    leasing: Leasing | None = None


@dataclass(frozen=True, slots=True)
class PendingHorizon:
    """A horizon that counts once every object decided before it is visible, or given up.

    Attributes:
        topic: the topic.
        until: milliseconds since 1970-01-01 UTC.
        after: slot through which COMMITs and REPLAYs must be applied.
    """

    topic: str
    until: int
    after: int


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A closed range that was landed.

    Attributes:
        until: milliseconds since 1970-01-01 UTC, by Kafka timestamps.
        began: when a driver began to land it, as recorded.
        ended: when its RUN was written, as recorded.
        left: topics with something that is not landed.
        totals: what was landed since the run before, or since the ledger began.
        slot: of its RUN.
        work: of the COMMITs since the run before; none is known of the first run.
    """

    until: int
    began: str
    ended: str
    left: tuple[str, ...]
    totals: Totals
    slot: int
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True)
class PendingReplacement:
    """A REPLACE that is not known to be applied, or of whose old objects some may be left.

    Attributes:
        listed: what retires, and what replaces it.
        given_up: lists of REPLACEs before, whose new objects are not needed.
        retires_later: whether it is applied before its old objects are gone.
        duplicates: rows that it leaves out, because another one has their key.
        before: what was known of the ranges that it lands again, while it may be given up.
    """

    listed: Replacement
    given_up: tuple[Replacement, ...] = ()
    retires_later: bool = False
    duplicates: int = 0
    before: tuple[tuple[TopicPartition, tuple[Rewritten, ...]], ...] = ()


@dataclass(frozen=True)
class State:
    """The state of a lane after slot ``seq``.

    Attributes:
        seq: the last slot folded; -1 before the first.
        tip: SHA-256 (hex) of that slot.
        holding: whether a driver owns the lane, which decides what may follow.
        epoch: of the last OPEN.
        writer: of the last OPEN.
        generation: of the last OPEN.
        revision: of the last OPEN; empty if it named none.
        checkpoint: next offset to land per topic partition.
        members: the topic partitions in the checkpoint.
        retired: topic partitions that left, with the highest generation that ever named their
            objects. Offsets of a recreated topic start at 0 again, so only a higher generation can
            name its objects without overwriting the old ones.
        unapplied: per slot of a COMMIT or REPLAY that is not known to be applied, its decided
            objects, with REPAIRs and LOSTs in effect.
        applied_through: the highest ever recorded.
        snapshot_seq: the last SNAPSHOT slot; -1 for none.
        last_commit_time: of the last COMMIT, as recorded; None if there is none.
        totals: counters since the first slot.
        looked_at: when the last record was written that only a driver which had looked at the log
            writes; None if there is none.
        missing: per slot of a COMMIT, REPLAY or REPAIR, decided objects that a BLOCK named as
            missing: no driver completes them, and they are due until REPAIR or LOST.
        spec: of the last OPEN; empty if it named none.
        specs: per slot in ``unapplied`` or ``missing``, the spec its objects were made by.
        blocked: members that must not be landed until a decision, and why.
        permitted: members whose bad records over the limit are allowed below an offset.
        accepted_truncation: members whose truncated log is accepted, with the checkpoint then. The
            log may end below that checkpoint; a COMMIT forgets the entry.
        excluded: topic partitions that a decision dropped; only an ADD with a decision lets them
            enter again.
        replayed: keys of the members' dead-letter objects that were replayed.
        decision_ids: ids of the last decisions, oldest first.
        epochs: the first slot of each epoch that no segment contains; the last is the present
            epoch's.
        segments: every stretch of the ledger that is rolled up, in order and without a gap.
        changed_seq: the last slot that changes the outcome of offsets before its checkpoint: a
            topic partition that entered or left, lost objects, a replay; -1 for none.
        horizons: the event time (ms) up to which each topic is complete and all of it is visible.
        pending_horizons: decided ones whose data is not all visible yet, oldest first.
        runs: the last closed ranges that were landed, oldest first.
        run_totals: the counters at the last of them.
        run_work: what tasks did since then. It begins with the first run, so that it is the same in
            a ledger with a snapshot of before there were runs.
        feeds: the members that have files.
        replacing: by slot, the REPLACEs that are not known to be applied.
        retiring: by slot, those that are applied, with old objects that may be left.
        replaced: folders where objects were replaced, with the slot of the last such REPLACE.
        replaced_known_from: the lowest slot up to which a plan must have read the ledger, so that
            ``replaced`` has every REPLACE after it.
        rewritten: the ranges of members that a backfill landed again, in order.
    """

    seq: int = -1
    tip: str = GENESIS_HASH
    holding: LaneOwnership = LaneOwnership.NOBODY_YET
    epoch: int = 0
    writer: str = ""
    generation: int = 0
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    members: Mapping[TopicPartition, Member] = field(default_factory=dict)
    retired: Mapping[TopicPartition, int] = field(default_factory=dict)
    unapplied: Mapping[int, tuple[LandedObject, ...]] = field(default_factory=dict)
    applied_through: int = -1
    snapshot_seq: int = -1
    last_commit_time: str | None = None
    totals: Totals = field(default_factory=Totals)
    revision: str = ""
    looked_at: str | None = None
    missing: Mapping[int, tuple[LandedObject, ...]] = field(default_factory=dict)
    spec: str = ""
    specs: Mapping[int, str] = field(default_factory=dict)
    blocked: Mapping[TopicPartition, Blocked] = field(default_factory=dict)
    permitted: Mapping[TopicPartition, int] = field(default_factory=dict)
    accepted_truncation: Mapping[TopicPartition, int] = field(default_factory=dict)
    excluded: frozenset[TopicPartition] = frozenset()
    replayed: frozenset[str] = frozenset()
    decision_ids: tuple[str, ...] = ()
    epochs: tuple[int, ...] = (0,)
    segments: tuple[Rolled, ...] = ()
    changed_seq: int = -1
    horizons: Mapping[str, int] = field(default_factory=dict)
    pending_horizons: tuple[PendingHorizon, ...] = ()
    runs: tuple[EndedRun, ...] = ()
    run_totals: Totals = field(default_factory=Totals)
    run_work: Work = field(default_factory=Work)
    feeds: Mapping[TopicPartition, FeedState] = field(default_factory=dict)
    replacing: Mapping[int, PendingReplacement] = field(default_factory=dict)
    retiring: Mapping[int, PendingReplacement] = field(default_factory=dict)
    replaced: Mapping[str, int] = field(default_factory=dict)
    replaced_known_from: int = -1
    rewritten: Mapping[TopicPartition, tuple[Rewritten, ...]] = field(default_factory=dict)

    @property
    def decided_horizons(self) -> Mapping[str, int]:
        """The event time (ms) up to which each topic is decided to be complete."""
        # A topic's horizons only grow, and the oldest comes first.
        return {
            **self.horizons,
            **{horizon.topic: horizon.until for horizon in self.pending_horizons},
        }

    def horizon(self, topic: str) -> int:
        """The event time (ms) up to which a topic is decided to be complete; -1 for none."""
        return self.decided_horizons.get(topic, -1)

    @property
    def next_index(self) -> int:
        """The index, within the present epoch, of the slot that comes next."""
        return self.seq + 1 - self.epochs[-1]

    @property
    def settled_through(self) -> int:
        """The slot up to which everything is applied; the next record may record it.

        After a change without objects, such as a topic partition that enters, no COMMIT need come
        for long.
        """
        first = min((*self.unapplied, *self.replacing), default=self.seq + 1)
        return max(self.applied_through, min(self.changed_seq, first - 1))

    def place(self, seq: int) -> tuple[int, int]:
        """Epoch and index of a slot that is in no segment.

        Raises:
            ValueError: the slot is in a segment.
        """
        back = len(self.epochs) - bisect_right(self.epochs, seq)
        if back == len(self.epochs):
            raise ValueError(f"slot {seq} is in a segment")
        return self.epoch - back, seq - self.epochs[-1 - back]

    def can_open(self, revision: str) -> bool:
        """Return whether a driver of this revision may take the lane without asking for a handover.

        It may if no driver owns the lane, or if the owner has the same revision: that is a driver
        that restarts after a crash.
        """
        return self.holding is not LaneOwnership.HELD or self.revision == revision


def applied_through(unapplied: Collection[int], highest: int) -> int:
    """The last slot up to which every COMMIT is applied.

    Args:
        unapplied: slots of the COMMITs that are not applied yet.
        highest: the highest COMMIT slot known; the answer if all are applied.
    """
    return min(unapplied) - 1 if unapplied else highest


def next_header(state: State, writer: str, time: str, applied_through: int) -> Header:
    """The header of the record that follows ``state`` in the same epoch."""
    return Header(
        seq=state.seq + 1,
        prev=state.tip,
        epoch=state.epoch,
        writer=writer,
        time=time,
        # What was recorded as applied stays applied.
        applied_through=max(applied_through, state.settled_through),
    )
