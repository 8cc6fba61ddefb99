"""Objects that are ready to replace existing ones, and the planner of that."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from landfall import ledger
from landfall.api.compaction_status import CompactionStatus
from landfall.driver.core.merged_first import all_at_once
from landfall.lane import Lane
from landfall.ledger import Decision, Purpose, Replacement, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList, encode_list
from landfall.ledger.replace.replacing import changes_rows, why_out_of_date, why_rows_changed
from landfall.objects import Upload
from landfall.store import Slots


@dataclass(frozen=True, slots=True)
class PlannedReplacement:
    """The contents of a future REPLACE.

    Attributes:
        token: what is in the metadata of each new object.
        purpose: what it is for.
        listed: the objects that retire, and the ones that are uploaded and not completed.
        read_through: the slot up to which everything was applied, as the ledger was read for it.
        folders: in which any of these objects are, sorted.
        slices: per topic partition, from the first of the records in these objects to the last.
        duplicates: rows that have the key of another one, and are in no new object.
        backfill: the name of the backfill that is promoted; empty if none is.
        undoes: the slot of a backfill's REPLACE, or of one that undid it, if that is undone; else
            -1.
        unmerges: the slot of a merge's REPLACE, or of one that undid it, if that is undone; else
            -1.
    """

    token: str
    purpose: Purpose
    listed: ReplacementList
    read_through: int
    folders: tuple[str, ...]
    slices: tuple[Slice, ...]
    duplicates: int = 0
    backfill: str = ""
    undoes: int = -1
    unmerges: int = -1

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # each is a field
        cls,
        group: str,
        token: str,
        purpose: Purpose,
        listed: ReplacementList,
        read_through: int,
        duplicates: int = 0,
    ) -> "PlannedReplacement":
        """Return the plan with this list: its folders, and its range of each topic partition."""
        folders, slices = tuple(sorted(listed.folders)), tuple(_slices(group, listed))
        return cls(
            token=token,
            purpose=purpose,
            listed=listed,
            read_through=read_through,
            folders=folders,
            slices=slices,
            duplicates=duplicates,
        )

    @property
    def uploads(self) -> tuple[Upload, ...]:
        """The uploads of the new objects."""
        return tuple(new.landed.upload for new in self.listed.objects)

    def stored(self, slots: Slots, lane: Lane) -> Replacement:
        """Store the list; returns what names it.

        Raises:
            Retry: the store does not answer.
        """
        named, body = encode_list(lane.group, lane.name, self.listed)
        slots.create(named.key, body)  # an object with this key has these bytes
        return named

    def record(
        self, named: Replacement, instead: int = -1, decision: Decision | None = None
    ) -> Callable[..., ledger.Record]:
        """Return the REPLACE, when called with ``header=…``; ``named`` is the stored list."""
        return partial(
            ledger.Replace,
            token=self.token,
            purpose=self.purpose,
            listed=named,
            read_through=self.read_through,
            folders=self.folders,
            slices=self.slices,
            instead=instead,
            duplicates=self.duplicates,
            backfill=self.backfill,
            undoes=self.undoes,
            unmerges=self.unmerges,
            retires_later=True,
            decision=decision,
        )

    def why_not(self, state: State, applied_through: int) -> str:
        """Return why it must not be recorded now; empty if it may be.

        Args:
            state: of the lane.
            applied_through: up to which slot everything is visible.
        """
        if stale := why_out_of_date(state, self.read_through, self.folders):
            return stale
        if changes_rows(self.purpose, self.undoes) and (
            stale := why_rows_changed(state, self.read_through, self.slices)
        ):
            return stale
        missing = {o.upload.key for objects in state.missing.values() for o in objects}
        for object_ in self.listed.retire:
            key = object_.key
            if object_.slot > applied_through:
                return f"{key} is not known to be visible yet"
            if key in missing:
                return f"{key} is missing"
        return ""


class Planner(Protocol):
    """Prepares REPLACEs alongside landing; called by the driver's thread."""

    @property
    def protected(self) -> frozenset[str]:
        """Ids of uploads that it has begun, and that no record names yet."""
        ...

    @property
    def status(self) -> CompactionStatus | None:
        """The planner's work, pending and done; None if it does nothing."""
        ...

    def reserve(self, folders: frozenset[str]) -> None:
        """Plan nothing in these folders from now, and again in formerly reserved ones."""
        ...

    def observe(self, state: State) -> None:
        """Take note of the ledger."""
        ...

    def finish(self, state: State) -> bool:
        """Begin at once what is due, as the driver is to end; whether it is still under way."""
        ...

    @property
    def is_awaited(self) -> bool:
        """True if topics wait for merges before they are called complete."""
        ...

    def merged_first(
        self,
        state: State,
        wanted: Mapping[str, int],
        *,
        ends: bool = False,
        until_deleted: bool = True,
    ) -> Mapping[str, int]:
        """Return topics to call complete now, up to when (ms); the rest are merged first.

        Args:
            state: of the lane.
            wanted: by topic, up to when it is complete.
            ends: the driver ends, so nothing is waited for any more.
            until_deleted: old objects are to be deleted first, also if that takes a grace period.
        """
        ...

    def take(self) -> PlannedReplacement | None:
        """Return a plan that is ready to be recorded, if there is one; it is returned once."""
        ...

    def recorded(self, plan: PlannedReplacement, slot: int, /) -> None:
        """Take note that a plan was recorded in this slot."""
        ...

    def refused(self, plan: PlannedReplacement, why: str, /) -> None:
        """Take note that a plan was not recorded; its uploads are aborted by the caller."""
        ...

    def gave_way(self, plan: PlannedReplacement, /) -> None:
        """Take note that a plan was not recorded, since its folders are reserved: no failure.

        Its uploads are aborted by the caller.
        """
        ...

    def stop(self) -> Iterable[Upload]:
        """Begin nothing more; returns the uploads of what was ready and not taken."""
        ...


class NoPlanner:
    """Plans nothing."""

    protected = frozenset[str]()
    status: CompactionStatus | None = None

    def reserve(self, folders: frozenset[str]) -> None:
        """See ``Planner``."""

    def observe(self, state: State) -> None:
        """See ``Planner``."""

    def finish(self, state: State) -> bool:  # noqa: ARG002  # of the protocol
        """See ``Planner``."""
        return False

    is_awaited = False

    merged_first = staticmethod(all_at_once)

    def take(self) -> PlannedReplacement | None:
        """See ``Planner``."""
        return None

    def recorded(self, plan: PlannedReplacement, slot: int, /) -> None:
        """See ``Planner``."""

    def refused(self, plan: PlannedReplacement, why: str, /) -> None:
        """See ``Planner``."""

    def gave_way(self, plan: PlannedReplacement, /) -> None:
        """See ``Planner``."""

    def stop(self) -> Iterable[Upload]:
        """See ``Planner``."""
        return ()


def _slices(group: str, listed: ReplacementList) -> Iterator[Slice]:
    """Per topic partition, from the first of the records to the last."""
    ends = dict[TopicPartition, tuple[int, int]]()
    for tp, first, last in (*_retired(group, listed), *_new(group, listed)):
        start, end = ends.get(tp, (first, last + 1))
        ends[tp] = min(start, first), max(end, last + 1)
    for tp, (start, end) in sorted(ends.items()):
        yield Slice(tp, OffsetRange(start, end))


def _retired(group: str, listed: ReplacementList) -> Iterator[tuple[TopicPartition, int, int]]:
    for object_ in listed.retire:
        origin, landed = object_names.origin(group, object_.key), object_.landed
        if origin.plan < 0:
            tp = TopicPartition(origin.topic, origin.partition)
            yield tp, landed.first_offset, landed.last_offset


def _new(group: str, listed: ReplacementList) -> Iterator[tuple[TopicPartition, int, int]]:
    for new in listed.objects:
        topic = object_names.origin(group, new.key).topic
        for section in new.sections:
            tp = TopicPartition(topic, section.partition)
            yield tp, section.first_offset, section.last_offset
