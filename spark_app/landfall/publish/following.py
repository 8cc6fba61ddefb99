"""Reads what became visible between two positions of a ledger."""

from collections.abc import Iterator, Mapping

from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import State, Visible
from landfall.ledger.task_results import ObjectKind
from landfall.publish import Finished, Stretch, VisibleObject

_DATA = ObjectKind.DATA
MAX_OBJECTS = 5_000
"""A stretch ends with the slot that brings it to so many objects."""


class Follower:
    """Follows the ledger of a lane; keeps where it is, so that going on costs one listing."""

    def __init__(self, lane: Lane, max_objects: int = MAX_OBJECTS) -> None:
        """Read nothing yet."""
        self._lane, self._max_objects = lane, max_objects
        self._state = State()
        self.specs: dict[int, str] = {}
        """The stored spec that each generation was landed by, in the slots read so far."""

    def stretches(self, after: int) -> Iterator[Stretch]:
        """The stretches from a position to the end of the ledger; none if nothing follows it.

        A store that lists what it has taken, as S3 does, never shows a ledger that ends before a
        position that was read earlier, however fast the publisher is that wrote the position.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule; LEDGER_BEHIND, the ledger
                ends before the position, which therefore belongs to another one.
            Retry: the store does not answer.
        """
        self._go_to(after)
        begun, objects, finished = after, list[VisibleObject](), list[Finished]()
        horizons = at_begin = self._state.horizons
        for state, visible in self._folded():
            if state.seq > after:
                time = state.last_commit_time or ""
                found = zip(visible.objects, visible.due, strict=True)
                data = ((o, due) for o, due in found if o.kind is _DATA)
                objects += [VisibleObject(state.seq, o, time, due) for o, due in data]
                finished += _finished(state, horizons)
            elif state.seq == after:
                at_begin = state.horizons
            horizons = state.horizons
            if len(objects) >= self._max_objects:
                yield _stretch(begun, state, objects, finished, at_begin)
                begun, objects, finished, at_begin = state.seq, [], [], horizons
        if self._state.seq > begun:
            yield _stretch(begun, self._state, objects, finished, at_begin)
        self._check_reached(after)

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
                f"slot {position} is published, and the ledger {found}: it is another one, or an "
                "old copy. Lead the group back to the store of before, or begin anew with what is "
                "there now: `landfall publish --rebuild`",
            )

    def _go_to(self, after: int) -> None:
        """Keep a state at or before a position, the latest there is."""
        if self._state.seq > after:
            self._state = State()
        if self._state.seq < after:
            snapshot = self._lane.last_snapshot()
            if snapshot is not None and self._state.seq < snapshot.seq <= after:
                self._state = snapshot

    def behind_since(self, after: int) -> str | None:
        """Since when something is visible that is not before a position; None if nothing is.

        It is when the COMMIT was written that came last before that, ISO 8601 in UTC.

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
            # What followed may have been rolled up since, as in ``Lane.follow``.
            reached, self._state = self._state.seq, State()
            for state, visible in self._lane.folded(self._state):
                self._reach(state)
                if state.seq > reached:
                    yield state, visible

    def _reach(self, state: State) -> None:
        self._state = state
        self.specs[state.generation] = state.spec


def _stretch(
    after: int,
    state: State,
    objects: list[VisibleObject],
    finished: list[Finished],
    horizons: Mapping[str, int],
) -> Stretch:
    time = state.last_commit_time or ""
    return Stretch(after, state.seq, tuple(objects), tuple(finished), time, horizons)


def _finished(state: State, before: Mapping[str, int]) -> Iterator[Finished]:
    """The horizons that count from this slot on."""
    if state.horizons is not before:
        for topic, until in sorted(state.horizons.items()):
            if until != (earlier := before.get(topic, -1)):
                yield Finished(state.seq, topic, until, state.last_commit_time or "", earlier)
