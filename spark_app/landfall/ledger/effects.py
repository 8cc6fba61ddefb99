"""Effects of records on ranges, objects and topic partitions, as events: one reading of each. Pure.

Code that needs to know what is landed, by which spec, and which objects count reduces these events
and does not look at types of records. So a new type of record, or a new meaning of one, is brought
to this module and to the state fold (``landfall.ledger.folding``), and to no other module. The text
of records, ``fsck``'s own chain and the auditor match types themselves: they check these two.

==========  ===================================================================================
OPEN        ``SpecOpened``
ADD         ``LifetimeBegan`` for each topic partition
DROP        ``LifetimeEnded`` for each topic partition
COMMIT      ``RangeLanded`` for each slice
HOLE        ``RangeSkipped``
REPLAY      ``LettersReplayed`` for each object of dead letters
REPAIR      ``ObjectRestored`` for each object
LOST        ``ObjectGivenUp`` for each object
BLOCK       ``ObjectMissing`` for each decided object that cannot be made again
REPLACE     ``ObjectsReplaced``, which counts from when it is applied: see ``applied``
DISCOVER    ``PartsNumbered``
==========  ===================================================================================

The events of a record are what it decides. What is decided counts once it is visible, from the slot
whose header states it; ``ledger.fold_applied`` and ``landfall.driver.decide.landed_now`` know it.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from landfall.ledger.entries import Decision, Entry
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.records import (
    Add,
    Block,
    Commit,
    Discover,
    Drop,
    Hole,
    Lost,
    Open,
    Record,
    Repair,
    Replace,
    Replay,
)
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import LandedObject, LandedSlice, ReplayedSlice


class SpecOpened(msgspec.Struct, frozen=True, gc=False):
    """From here on a generation lands, by a stored spec; ``spec`` is empty if none is stored."""

    slot: int
    generation: int
    spec: str


class LifetimeBegan(msgspec.Struct, frozen=True):
    """A topic partition enters. What was landed of it before is of a former life."""

    slot: int
    entry: Entry

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition."""
        return self.entry.topic_partition


class LifetimeEnded(msgspec.Struct, frozen=True):
    """A topic partition leaves. What is missing of it is never made."""

    slot: int
    topic_partition: TopicPartition


class RangeLanded(msgspec.Struct, frozen=True):
    """A range is landed, and its objects are decided; ``time`` (ISO 8601) is when."""

    slot: int
    time: str
    landed: LandedSlice

    @property
    def piece(self) -> Slice:
        """The range."""
        return self.landed.piece


class RangeSkipped(msgspec.Struct, frozen=True):
    """A range is not landed: it is lost, or a decision skips it."""

    slot: int
    piece: Slice
    reason: str
    decision: Decision | None


class LettersReplayed(msgspec.Struct, frozen=True):
    """The records of an object of dead letters are landed again, in objects that are decided."""

    slot: int
    landed: ReplayedSlice

    @property
    def piece(self) -> Slice:
        """The range that they are of."""
        return self.landed.piece


class ObjectRestored(msgspec.Struct, frozen=True):
    """A decided object that was lost has another upload. If it was missing, it is due again here.

    ``due`` is the slot under which it was due.
    """

    slot: int
    due: int
    landed: LandedObject


class ObjectMissing(msgspec.Struct, frozen=True, gc=False):
    """A decided object of slot ``due`` cannot be made now. Nothing waits for it."""

    slot: int
    due: int
    key: str


class ObjectGivenUp(msgspec.Struct, frozen=True, gc=False):
    """A decided object of slot ``due`` can never be made. Its records are in no object."""

    slot: int
    due: int
    key: str


class ObjectsReplaced(msgspec.Struct, frozen=True):
    """Objects are to replace other objects, as a list records that is stored next to the ledger."""

    slot: int
    record: Replace

    @property
    def slices(self) -> Sequence[Slice]:
        """From the first to the last record in these objects, by topic partition."""
        return self.record.slices

    @property
    def instead(self) -> int:
        """The slot of the one that this one supersedes; -1 for none."""
        return self.record.instead

    @property
    def changes_rows(self) -> bool:
        """True if its ranges get other rows, and not the same ones in other objects."""
        return changes_rows(self.record.purpose, self.record.undoes)


class PartsNumbered(msgspec.Struct, frozen=True):
    """Parts of a feed's files get numbers, or the outcome of parked ones is decided."""

    slot: int
    record: Discover

    @property
    def topic_partition(self) -> TopicPartition:
        """The feed's."""
        return self.record.topic_partition


Effect = (
    SpecOpened
    | LifetimeBegan
    | LifetimeEnded
    | RangeLanded
    | RangeSkipped
    | LettersReplayed
    | ObjectRestored
    | ObjectMissing
    | ObjectGivenUp
    | ObjectsReplaced
    | PartsNumbered
)


def effects(record: Record, tp: TopicPartition | None = None) -> Sequence[Effect]:  # noqa: C901, PLR0911  # one arm per type
    """Return the effects of a record, in its order; empty if it has none.

    Args:
        record: the record.
        tp: if given, ranges of other topic partitions are left out: of a long ledger, making the
            events of these would take most of the time.
    """
    slot = record.header.seq
    match record:
        case Commit():
            time = record.header.time
            return [
                RangeLanded(slot, time, slice_)
                for slice_ in record.slices
                if tp is None or slice_.piece.topic_partition == tp
            ]
        case Replay():
            return [LettersReplayed(slot, slice_) for slice_ in record.slices]
        case Replace():
            return [ObjectsReplaced(slot, record)]
        case Repair():
            return [ObjectRestored(slot, record.commit, object_) for object_ in record.objects]
        case Lost():
            keys = [object_.upload.key for object_ in record.objects]
            return [ObjectGivenUp(slot, record.commit, key) for key in keys]
        case Block():
            return [ObjectMissing(slot, m.commit, key) for m in record.missing for key in m.keys]
        case Hole():
            return [RangeSkipped(slot, record.piece, record.reason, record.decision)]
        case Add():
            return [LifetimeBegan(slot, entry) for entry in record.entries]
        case Drop():
            return [LifetimeEnded(slot, tp) for tp in record.topic_partitions]
        case Open():
            return [SpecOpened(slot, record.generation, record.spec)]
        case Discover():
            return [PartsNumbered(slot, record)]
        case _:
            return ()


def decided_slices(record: Record) -> Sequence[LandedSlice] | Sequence[ReplayedSlice]:
    """Return the slices that a record lands, with the objects it decides; empty if none."""
    return record.slices if isinstance(record, Commit | Replay) else ()


def replaces(records: Iterable[Record]) -> Iterator[Replace]:
    """The records that replace objects, applied or not."""
    return (record for record in records if isinstance(record, Replace))


def applied(records: Iterable[Record], through: int) -> tuple[Replace, ...]:
    """The REPLACEs among records that are applied, if everything is up to a slot; in their order.

    One that another one was recorded instead of never is.
    """
    found = [*replaces(records)]
    given_up = {record.instead for record in found}
    return tuple(
        record
        for record in found
        if record.header.seq <= through and record.header.seq not in given_up
    )
