"""Publishers: make landed objects visible elsewhere, such as in the tables of a catalog.

A publisher follows the ledger. Each slot makes certain objects visible, the same ones for every
reader at every time (``ledger.fold_applied``). So a **position** in the ledger, a slot through
which everything is published, identifies exactly these objects, and the publisher moves from
position to position. ``following`` reads the objects between two positions, ``cursor`` stores a
position as a hint, ``tables`` and ``steps`` take one step after another.

A destination applies each step exactly once by a transaction of its own: in the same transaction as
the rows it stores the position through which it has them, and it skips what it has. So any number
of publishers may run at once, be killed or be frozen at any point, and the hint may be old: that
costs work, never a row (``tests/model/publishing.py``). Landing waits for no publisher, and a
publisher waits for no other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from landfall.ledger.task_results import DecidedObject, LandedObject

if TYPE_CHECKING:
    from landfall.publish.context import Context
    from landfall.publish.following import Follower


Sources = Callable[[], Mapping[str, int]]
"""Returns the objects that were landed and whose rows an object has, by key, with the slots of the
records that landed them. Thread-safe.
"""


@dataclass(frozen=True, slots=True)
class VisibleObject:
    """A data object that is visible.

    Attributes:
        slot: the first slot that makes it visible.
        landed: the object, by its latest record.
        time: of the last COMMIT up to that slot, ISO 8601 in UTC: the same for every reader.
        decided: the slot of the record that landed its rows: it was made by the spec of the driver
            that owned the lane then. Merges and copies keep it.
        sources: of one that replaces objects; see ``Sources``.
        epoch: of the driver that landed it, by one spec; -1 if unknown, as of one that replaces
            objects.
    """

    slot: int
    landed: LandedObject
    time: str = ""
    decided: int = -1
    sources: Sources | None = field(default=None, compare=False)
    epoch: int = field(default=-1, compare=False)

    @property
    def key(self) -> str:
        """The object's key."""
        return self.landed.key


@dataclass(frozen=True, slots=True)
class Finished:
    """A topic is complete up to a time: every record with an earlier event time is visible.

    An object of an earlier hour that becomes visible in a later slot is late.

    Attributes:
        slot: the slot from which it counts.
        topic: the topic.
        until: milliseconds since 1970-01-01 UTC.
        time: of the last COMMIT up to that slot, ISO 8601 in UTC.
        before: up to when it was complete before, in the same unit; -1 if it never was.
    """

    slot: int
    topic: str
    until: int
    time: str = ""
    before: int = -1


@dataclass(frozen=True, slots=True)
class ReplacedObjects:
    """Data objects that were replaced, and the new ones.

    Attributes:
        slot: the first slot that makes the new ones visible; from this slot the old ones are gone.
        record: the slot of the REPLACE, under which copies of the old ones are kept for a time.
        retired: the old ones.
        objects: the new ones.
        time: of the last COMMIT up to ``slot``, ISO 8601 in UTC.
        groups: the keys of old and new objects, grouped by the offsets that their rows come from.
        changes_rows: whether the rows of the new ones may differ from the old ones, as after a
            backfill.
        appeared: the slot of each old one that became visible since ``Stretch.read_after``.
        sources: of old ones, by key; see ``Sources``.
    """

    slot: int
    record: int
    retired: tuple[LandedObject, ...]
    objects: tuple[VisibleObject, ...]
    time: str = ""
    groups: tuple[frozenset[str], ...] = ()
    changes_rows: bool = False
    appeared: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, Sources] = field(default_factory=dict, compare=False)


EndedLifetimes = Callable[[str], Mapping[int, Sequence[int]]]
"""Returns the highest generation of each ended lifetime of a topic's Kafka partitions, in order.

A partition that has left the group is in it, also if it entered again. Objects of its next lifetime
have a higher generation. Raises Stalled and Retry as ``Follower.stretches``.
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of the ledger between two positions.

    An object may become visible and be replaced in the same stretch: ``net`` is what is left.

    Attributes:
        after: the position before it; -1 for the start.
        through: the position after it.
        objects: data objects that became visible in slots after ``after``, in the order of the
            slots.
        finished: times up to which topics are complete, in the order of the slots.
        time: when slot ``through`` was written, ISO 8601 in UTC.
        horizons: up to when (ms) each topic is complete at ``after``.
        replaced: replacements recorded in slots after ``after``, in the order of the slots. Within
            a slot they follow all of ``objects``, which has none of the new ones.
        read_after: the position from which the ledger was read, in one or several stretches.
        left_out: objects that became visible after ``read_after``, and are not in ``objects``
            because they are replaced after ``through``.
        leaves_out: whether any objects are replaced after ``through``, as far as the ledger was
            read.
        ended: see ``EndedLifetimes``.
        unwanted: the keys of old and new objects all of whose rows the publisher leaves out by its
            options.
        mixed: the keys of new objects some of whose rows it leaves out.
    """

    after: int
    through: int
    objects: tuple[VisibleObject, ...]
    finished: tuple[Finished, ...] = ()
    time: str = ""
    horizons: Mapping[str, int] = field(default_factory=dict)
    replaced: tuple[ReplacedObjects, ...] = ()
    read_after: int = -1
    left_out: tuple[VisibleObject, ...] = ()
    leaves_out: bool = False
    ended: EndedLifetimes = field(default=lambda _: {}, compare=False)
    unwanted: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()

    def net(self) -> "Stretch":
        """The stretch as of its end: ``objects`` has the new ones, and none that was replaced.

        ``replaced`` stays, for old objects that became visible before the stretch.
        """
        if not self.replaced:
            return self
        gone = {o.upload.key for replacement in self.replaced for o in replacement.retired}
        found = [*self.objects, *(o for replacement in self.replaced for o in replacement.objects)]
        left = (o for o in found if o.landed.key not in gone)
        return replace(self, objects=tuple(sorted(left, key=lambda o: o.slot)))


@dataclass
class Published:
    """The result of a pass.

    Attributes:
        through: the position after it.
        slots: that were read.
        objects: that were published, in these slots.
        refilled: tables that had less than the cursor records.
    """

    through: int
    slots: int = 0
    objects: int = 0
    refilled: list[str] = field(default_factory=list)


class Publisher(Protocol):
    """Publishes the visible objects of a ledger to one destination.

    Every method may be called by any number of processes at once, and again after any error.
    """

    def publish(self, follower: "Follower") -> Published:
        """Publish everything that is visible now and is not published yet.

        Raises:
            Retry: the destination or the store does not answer, or the outcome is unknown.
            Stalled: a user has to change something; what is published is kept.
        """
        ...

    def position(self) -> int:
        """The last slot through which everything is published, as far as a hint knows; -1: none.

        Raises:
            Retry: the store or the destination does not answer.
        """
        ...

    def preview(self, follower: "Follower") -> Iterator[str]:
        """Describe what ``publish`` would do now, one line for each step, without doing any.

        Raises:
            Retry, Stalled: as ``publish``.
        """
        ...

    def reset(self, follower: "Follower") -> None:
        """Make the next ``publish`` publish everything again, from the start of the ledger.

        Tables are refilled and keep the old rows until then; what cannot be undone, such as a
        message, is published again.

        Raises:
            Retry, Stalled: as ``publish``.
        """
        ...


@dataclass(frozen=True, slots=True)
class DueObjects:
    """Replaced objects that are about to be deleted.

    Attributes:
        slot: the first slot that makes the new ones visible; from this slot the old ones are gone.
        time: when this slot was written.
        objects: the old ones.
    """

    slot: int
    time: datetime
    objects: tuple[DecidedObject, ...]

    @property
    def landed(self) -> int:
        """The slot of the record that landed the first of them; none was visible before it."""
        return min((object_.slot for object_ in self.objects), default=self.slot)


@dataclass(frozen=True, slots=True)
class Hold:
    """A reason why replaced objects are not deleted yet.

    Attributes:
        until: when to ask again.
        why: what names them, such as a snapshot of a table.
    """

    until: datetime
    why: str


@runtime_checkable
class HoldsObjects(Protocol):
    """A publisher whose destination has earlier versions that name landed objects."""

    def hold(self, due: DueObjects, now: datetime) -> Hold | None:
        """Return why objects must not be deleted yet; None if no kept version names them.

        Everything through ``due.slot`` is published. Versions that may expire are removed.

        Raises:
            Retry: the destination does not answer.
            Stalled: a user has to change something.
        """
        ...


class PublisherType(Protocol):
    """The class of a built-in name or the import path of a plug-in.

    One that knows ``Stretch.replaced`` has the attribute ``follows_replacements``, which is true.
    Without it, a spec that allows replacements is refused.
    """

    def of(self, options: Mapping[str, object], context: "Context") -> Publisher:
        """Build the publisher, without a request to the destination.

        Raises:
            ValueError: an option is unknown, missing or out of range, or does not fit the group;
                the message begins with ``option NAME: `` or ``options: ``.
        """
        ...
