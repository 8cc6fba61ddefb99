"""Reads the objects that became visible or were replaced between two positions of a ledger."""

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.lane.replacements import has_replaced, read_replace
from landfall.ledger import State, Visible
from landfall.ledger.opened import MadeIn, OpenedSpecs
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.publish import Finished, ReplacedObjects, Stretch, VisibleObject
from landfall.publish.lifetimes import LedgerLifetimes
from landfall.publish.replaced_files import groups_of

MAX_OBJECTS = 5_000
"""The number of objects after which a stretch ends, with their slot."""


class Follower:
    """Follows the ledger of a lane; keeps its position, so that continuing costs one listing."""

    def __init__(
        self,
        lane: Lane,
        max_objects: int = MAX_OBJECTS,
        advanced: Callable[[int], None] = lambda _: None,
        kind: ObjectKind = ObjectKind.DATA,
    ) -> None:
        """Read nothing yet.

        Args:
            lane: whose ledger it is.
            max_objects: after how many objects a stretch ends.
            advanced: is called with the slot of each stretch that is read.
            kind: of the objects that are read.
        """
        self._lane = lane
        self._kind = kind
        self._max_objects = max_objects
        self._advanced = advanced
        self._state = State()
        self._epochs = list[tuple[int, int]]()
        self._lifetimes = LedgerLifetimes(lane)
        self._made_in = MadeIn(lambda slot: read_replace(lane, self._state, slot))
        self._lock = threading.Lock()  # tables ask for sources from their threads
        self.opens = OpenedSpecs()
        """The stored specs by which the slots read so far were landed."""

    @property
    def state(self) -> State:
        """The state of the lane after the last slot that was read."""
        return self._state

    @property
    def unconfirmed(self) -> Iterator[LandedObject]:
        """Objects that are committed, and that no slot read so far makes visible."""
        for objects in self._state.unapplied.values():
            yield from (landed for landed in objects if landed.kind is self._kind)

    @property
    def retiring(self) -> Container[int]:
        """Slots of the REPLACEs read so far whose old objects may still exist."""
        return self._state.retiring

    def stretches(self, after: int) -> Iterator[Stretch]:
        """The stretches from a position to the end of the ledger; none if nothing follows it.

        A store with consistent listings, such as S3, never shows a ledger that ends before a
        position that was read earlier, however fast the publisher that wrote it.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule, or a list of replaced
                objects is missing; LEDGER_BEHIND, the ledger ends before the position, which
                therefore belongs to another one.
            Retry: the store does not answer.
        """
        self._go_to(after)
        horizons = self._state.horizons
        found = _Gathered(after, horizons, self._kind, self._epoch)
        for state, visible in self._folded():
            if state.seq > after:
                found.add(state, visible, horizons)
                found.replaced += self._replaced(state, visible)
            elif state.seq == after:
                found.horizons = state.horizons
            horizons = state.horizons
            if found.count >= self._max_objects:
                self._advanced(state.seq)
                yield self._ended(found, state)
                found = _Gathered(state.seq, horizons, self._kind, self._epoch)
        if self._state.seq > found.after:
            yield self._ended(found, self._state)
        self._check_reached(after)

    def _ended(self, found: "_Gathered", state: State) -> Stretch:
        return replace(found.stretch(state), ended=partial(self._lifetimes.ended, state))

    def remaining(self, after: int) -> Iterator[Stretch]:
        """Yield the stretches without objects that are replaced before the end of the ledger.

        Replaced objects get deleted, so readers of the objects use these stretches. ``objects`` has
        the new ones, as in ``Stretch.net``, and ``replaced`` all old ones, whether among the
        objects of an earlier stretch or left out.

        Raises:
            Stalled, Retry: as ``stretches``.
        """
        retired: set[str] | None = None
        appeared, waiting = dict[str, int](), dict[str, VisibleObject]()
        for stretch in self.stretches(after):
            if retired is None and self._is_cut(stretch):
                retired = self._retired_after(stretch.through)
            new = [
                *stretch.objects,
                *(o for replacement in stretch.replaced for o in replacement.objects),
            ]
            gone = {o.upload.key for replacement in stretch.replaced for o in replacement.retired}
            appeared |= {object_.key: object_.slot for object_ in new}
            waiting |= {o.key: o for o in new if o.key in (retired or ())}
            waiting = {key: object_ for key, object_ in waiting.items() if key not in gone}
            left = _without(stretch, retired or set()).net()
            retired = retired and retired - gone
            yield replace(
                left,
                replaced=tuple(_with_slots(replacement, appeared) for replacement in left.replaced),
                read_after=after,
                left_out=tuple(waiting.values()),
                leaves_out=bool(retired),
            )
            appeared = {key: slot for key, slot in appeared.items() if key in (retired or ())}

    def _is_cut(self, stretch: Stretch) -> bool:
        """Return whether a stretch ends because it is full, perhaps before the ledger does."""
        return _count(stretch.objects, stretch.replaced) >= self._max_objects

    def _retired_after(self, position: int) -> set[str]:
        """The keys of all objects that are replaced after a position."""
        if not has_replaced(self._lane.read()):  # as in most ledgers
            return set()
        stretches = Follower(self._lane).stretches(position)
        replaced = (replacement for stretch in stretches for replacement in stretch.replaced)
        return {landed.key for replacement in replaced for landed in replacement.retired}

    def _replaced(self, state: State, visible: Visible) -> Iterator[ReplacedObjects]:
        """Yield the replacements that a slot applies."""
        time = state.last_commit_time or ""
        for slot, _ in visible.replacements:
            with self._lock:
                record, listed = self._made_in.replace(slot)
            retired = tuple(o.landed for o in listed.retire if o.landed.kind is self._kind)
            new = (o.landed for o in listed.objects if o.landed.kind is self._kind)
            objects = tuple(
                VisibleObject(
                    state.seq,
                    object_,
                    time,
                    self._decided(object_.upload.key, slot),
                    partial(self._sources, object_.upload.key, slot),
                )
                for object_ in new
            )
            changes = changes_rows(record.purpose, record.undoes)
            groups = tuple(groups_of(listed, by_folder=not changes))
            yield ReplacedObjects(
                slot=state.seq,
                record=slot,
                retired=retired,
                objects=objects,
                time=time,
                groups=groups,
                changes_rows=changes,
                sources={o.key: partial(self._sources, o.key, o.slot) for o in listed.retire},
            )

    def _sources(self, key: str, slot: int) -> Mapping[str, int]:
        with self._lock:
            return self._made_in.sources(key, slot)

    def _decided(self, key: str, slot: int) -> int:
        """The slot of the record that landed an object's rows; dead letters expire by this one."""
        if self._kind is not ObjectKind.DATA:
            return slot
        with self._lock:
            return self._made_in.slot(key, slot)

    def check(self, position: int) -> None:
        """Return if the ledger goes as far as a position.

        Raises:
            Stalled, Retry: as ``stretches``.
        """
        next(self.stretches(position), None)

    def _check_reached(self, position: int) -> None:
        if (end := self._state.seq) < position:
            found = f"ends at slot {end}" if end >= 0 else "is empty"
            raise Stalled(
                Reason.LEDGER_BEHIND,
                f"slot {position} is published, and the ledger {found}: this is a different "
                "ledger, or an old copy. Point the group at the previous store, or rebuild from "
                "this one: `landfall publish --rebuild`",
            )

    def _go_to(self, after: int) -> None:
        """Keep the latest known state at or before a position."""
        if self._state.seq > after:
            self._begin_at(State())
        if self._state.seq < after:
            snapshot = self._lane.last_snapshot()
            if snapshot is not None and snapshot.seq > after:
                snapshot = self._lane.snapshot_before(after)
            if snapshot is not None and self._state.seq < snapshot.seq <= after:
                self._begin_at(snapshot)

    def behind_since(self, after: int) -> str | None:
        """The time since when an object after a position is visible; None if there is none.

        It is the time of the last COMMIT before that, ISO 8601 in UTC.

        Raises:
            Stalled, Retry: as ``stretches``.
        """
        first = next(
            (
                part
                for part in Follower(self._lane, 1).stretches(after)
                if part.objects or part.finished
            ),
            None,
        )
        return first.time if first else None

    def _folded(self) -> Iterator[tuple[State, Visible]]:
        begun = self._state.seq
        try:
            for state, visible in self._lane.folded(self._state):
                self._reach(state)
                yield state, visible
        except Stalled as error:
            if begun < 0 or error.reason is not Reason.LEDGER_BROKEN:
                raise
            # The following slots may have been rolled up since, as in ``Lane.follow``.
            reached = self._state.seq
            self._begin_at(State())
            for state, visible in self._lane.folded(self._state):
                self._reach(state)
                if state.seq > reached:
                    yield state, visible

    def _begin_at(self, state: State) -> None:
        self._state = state
        self._epochs.clear()

    def _reach(self, state: State) -> None:
        self._state = state
        if not self._epochs or self._epochs[-1][1] != state.epoch:
            self._epochs.append((state.seq, state.epoch))
        self.opens.learn(state.generation, state.seq, state.spec)

    def _epoch(self, slot: int) -> int:
        """The epoch of a slot; -1 if it is before all that was read."""
        known = (epoch for first, epoch in reversed(self._epochs) if first <= slot)
        return next(known, -1)


@dataclass
class _Gathered:
    """The part of a stretch that was read."""

    after: int
    horizons: Mapping[str, int]
    kind: ObjectKind
    epoch_of: Callable[[int], int]
    objects: list[VisibleObject] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    replaced: list[ReplacedObjects] = field(default_factory=list)

    def add(self, state: State, visible: Visible, horizons: Mapping[str, int]) -> None:
        """Add what a slot makes visible and complete, after these horizons."""
        time = state.last_commit_time or ""
        decided = zip(visible.objects, visible.due, strict=True)
        self.objects += [
            VisibleObject(state.seq, landed, time, slot, epoch=self.epoch_of(slot))
            for landed, slot in decided
            if landed.kind is self.kind
        ]
        self.finished += _finished(state, horizons)

    @property
    def count(self) -> int:
        return _count(self.objects, self.replaced)

    def stretch(self, state: State) -> Stretch:
        """The stretch that ends with a slot."""
        return Stretch(
            after=self.after,
            through=state.seq,
            objects=tuple(self.objects),
            finished=tuple(self.finished),
            time=state.last_commit_time or "",
            horizons=self.horizons,
            replaced=tuple(self.replaced),
        )


def _count(objects: Sequence[VisibleObject], replaced: Iterable[ReplacedObjects]) -> int:
    return len(objects) + sum(
        len(replacement.retired) + len(replacement.objects) for replacement in replaced
    )


def _without(stretch: Stretch, retired: AbstractSet[str]) -> Stretch:
    """The stretch without objects of these keys."""
    if not retired:
        return stretch

    def left(objects: Iterable[VisibleObject]) -> tuple[VisibleObject, ...]:
        return tuple(object_ for object_ in objects if object_.key not in retired)

    replaced = (
        replace(replacement, objects=left(replacement.objects)) for replacement in stretch.replaced
    )
    return replace(stretch, objects=left(stretch.objects), replaced=tuple(replaced))


def _with_slots(replaced: ReplacedObjects, appeared: Mapping[str, int]) -> ReplacedObjects:
    keys = (object_.upload.key for object_ in replaced.retired)
    return replace(replaced, appeared={key: appeared[key] for key in keys if key in appeared})


def _finished(state: State, before: Mapping[str, int]) -> Iterator[Finished]:
    """The horizons that count from this slot on."""
    if state.horizons is not before:
        for topic, until in sorted(state.horizons.items()):
            if until != (earlier := before.get(topic, -1)):
                yield Finished(
                    slot=state.seq,
                    topic=topic,
                    until=until,
                    time=state.last_commit_time or "",
                    before=earlier,
                )
