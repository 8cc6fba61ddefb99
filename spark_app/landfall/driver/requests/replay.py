"""Lands dead letters again: finds their objects, and lands each through the present pipeline.

The new objects are named after the present generation, so it must be above the one that wrote the
dead letters. REPLAY records name what was landed; the fold refuses a dead-letter object that was
replayed before. What is bad again becomes a new dead letter.

``replay`` is a generator, so that a driver can land meanwhile: it yields what it waits for, and the
thread that appends to the lane sends it the result. Without a driver, ``run`` does nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from landfall import ledger
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.api.values import plural
from landfall.api.verbs import Answer, Outcome, ReplayRequest
from landfall.driver.core.deps import Append
from landfall.driver.core.runner import BinRunner
from landfall.driver.core.steps import Steps
from landfall.driver.landing.dead_letter_expiry import ExpirySweep
from landfall.errors import LandfallError, Stalled
from landfall.lane import Lane
from landfall.lane.expired_letters import read_expired
from landfall.ledger import Decision, State
from landfall.ledger.names import object_names
from landfall.ledger.names.expired_letters import NONE_EXPIRED, ExpiredLetters
from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace import rewriting
from landfall.ledger.task_results import FailedSlice, LandedObject, LandedSlice, ReplayedSlice
from landfall.store import Store
from landfall.task import Batch
from landfall.task.dead_letter_reader import DeadLetters, measure

OBJECTS_PER_RECORD = 50
"""How many dead-letter objects one REPLAY names at most."""

Landed = tuple[str, list[ReplayedSlice], list[LandfallError]]
"""A batch's token, what it landed, and the errors of what it did not."""


@dataclass(frozen=True, slots=True)
class Replayable:
    """Dead-letter objects that a request is about.

    Attributes:
        objects: the ones that this generation may replay, in the order of their keys.
        replayed: how many more were replayed before.
        retired: how many more a backfill has landed again, or is about to.
        needs_generation: the least generation that may replay the rest; 0 if there is no rest.
        expired_before: dead letters that were landed before this time are gone; empty for none.
    """

    objects: tuple[DeadLetters, ...]
    replayed: int = 0
    retired: int = 0
    needs_generation: int = 0
    expired_before: str = ""

    @property
    def message(self) -> str:
        """A line on what is left out, and what would help."""
        parts = [f"replayed before: {plural(self.replayed, 'dead-letter object')}"] * bool(
            self.replayed
        )
        if self.retired:
            found = plural(self.retired, "dead-letter object")
            parts.append(f"landed again by a backfill, or about to be: {found}")
        if self.needs_generation:
            parts.append(
                "the rest was written or replayed by this generation or a later one: "
                f"set spec.generation to {self.needs_generation} to replay them"
            )
        if not self.objects and not parts:
            parts.append("there are no such dead letters")
        if self.expired_before:
            parts.append(
                f"those landed before {self.expired_before} have expired (spec.badRecords.retain) "
                "and cannot be replayed"
            )
        return "; ".join(parts)


@dataclass
class Replayer:
    """Does the work of the replays of one owner of the lane; appends nothing itself.

    Attributes:
        group: the resource.
        store: holds the dead letters, and gets the new objects.
        runner: runs the tasks.
        new_name: makes a token for each batch.
    """

    group: ConsumerGroup
    store: Store
    runner: BinRunner
    new_name: Callable[[], str]
    _has_finished_expiry: bool = field(default=False, init=False)

    def finish_expiry(self, state: State) -> None:
        """Delete dead letters that a former driver may still delete, before any of them is read.

        Only a process that has opened the lane may do so, and only once. What a fenced driver
        records later it deletes no more; and another replay may have read it, whose REPLAY is not
        recorded yet.

        Raises:
            Retry: the store does not answer.
            Stalled: LEDGER_BROKEN, the ledger cannot be read.
        """
        if self._has_finished_expiry:
            return
        ExpirySweep(self.store, Lane(self.store, self.group.metadata.name, LANE)).finish(state)
        self._has_finished_expiry = True

    def find(self, state: State, request: ReplayRequest) -> Replayable:
        """Return the dead-letter objects that the request is about.

        Raises:
            Retry: the store does not answer.
            Stalled: an object is damaged.
        """
        replayed = 0
        retired = 0
        too_new = 0
        chosen = []
        before = self._replayed(state)
        for key, origin in self._named(request):
            least = rewriting.least_generation(state.rewritten, origin, before)
            if key in state.replayed:
                replayed += 1
            elif rewriting.why_not_replayed(state.rewritten, origin, state.applied_through):
                retired += 1
            elif least > state.generation:
                too_new = max(too_new, least)
            elif _is_in_lane(state, origin):
                chosen.append((key, origin))
        measured = (self._measured(key, origin) for key, origin in chosen)
        objects = tuple(o for o in measured if o and _is_wanted(o, request))
        expired = self._expired()
        return Replayable(
            objects=objects,
            replayed=replayed,
            retired=retired,
            needs_generation=too_new,
            expired_before=expired.before,
        )

    def land(self, objects: Sequence[DeadLetters]) -> Landed:
        """Upload what these dead letters give now."""
        by_slice = {o.piece: o for o in objects}
        token = self.new_name()
        batch = Batch(self.group, token, dead_letters=tuple((o.piece, o.key) for o in objects))
        slots = max(1, self.runner.slots)
        bins = [tuple(o.piece for o in objects[n::slots]) for n in range(slots)]
        results = self.runner.run(batch, [bin_ for bin_ in bins if bin_])
        landed = [_replayed(by_slice[r.piece], r) for r in results if isinstance(r, LandedSlice)]
        failed = [r.error for r in results if isinstance(r, FailedSlice)]
        return token, sorted(landed, key=lambda s: s.dead_letters), failed

    def _measured(self, key: str, origin: Origin) -> DeadLetters | None:
        """Return the contents of the object; None if it has expired since it was listed."""
        try:
            return measure(self.store, key, origin)
        except Stalled:
            if self._expired() == NONE_EXPIRED or self.store.stat(key) is not None:
                raise
            return None

    def _expired(self) -> ExpiredLetters:
        return read_expired(self.store, self.group.metadata.name, LANE)

    def _replayed(self, state: State) -> Sequence[Origin]:
        """Return the origins in the names of replayed dead letters, if that matters."""
        if not state.rewritten:
            return ()
        return [object_names.origin(self.group.metadata.name, key) for key in state.replayed]

    def _named(self, request: ReplayRequest) -> Iterator[tuple[str, Origin]]:
        name = self.group.metadata.name
        for place in ("", *(destination.id for destination in self.group.spec.bad_records.places)):
            prefix = object_names.dead_letters_prefix(name, request.topic, place=place)
            for stat in self.store.list_after(prefix):
                try:
                    origin = object_names.origin(name, stat.key)
                except ValueError:
                    continue  # nothing that Landfall has written
                if request.partition in {None, origin.partition}:
                    yield stat.key, origin


@dataclass(frozen=True)
class ReplayEffects:
    """The effects of a replay on the lane, on the thread that appends.

    Attributes:
        append: appends a record.
        apply: makes the objects of a slot visible.
        pool: runs the rest in other threads.
    """

    append: Append
    apply: Callable[[int, Iterable[LandedObject]], object]
    pool: Executor


def replay(
    replayer: Replayer,
    request: ReplayRequest,
    decision: Decision,
    state: State,
    effects: ReplayEffects,
) -> Steps:
    """Land what the request is about, some objects at a time, each time with a REPLAY record.

    Raises:
        Fenced: another driver has opened the lane.
        LandfallError: something is away; what was replayed so far stays replayed.
    """
    if not request.dry_run:
        yield effects.pool.submit(replayer.finish_expiry, state)
    found: Replayable = yield effects.pool.submit(replayer.find, state, request)
    if not found.objects:
        return Answer(Outcome.REFUSED, message=found.message)
    planned = f"REPLAY: {_count(found.objects)}"
    if request.dry_run:
        return Answer(Outcome.DRY_RUN, (planned,), found.message)
    records: list[str] = []
    problems: list[str] = [found.message] if found.message else []
    outcome = Outcome.DONE
    for start in range(0, len(found.objects), OBJECTS_PER_RECORD):
        chunk = found.objects[start : start + OBJECTS_PER_RECORD]
        landed: Landed = yield effects.pool.submit(replayer.land, chunk)
        token, slices, errors = landed
        if errors:
            outcome, problems = Outcome.FAILED, [*problems, *map(str, errors[:5])]
        if slices:
            made = partial(ledger.Replay, token=token, slices=tuple(slices), decision=decision)
            state = effects.append(made)
            # After the REPLAY, as after a COMMIT: no object is visible that no record names.
            effects.apply(state.seq, [o for s in slices for o in s.objects])
            records.append(_describe(slices))
    return Answer(outcome, tuple(records), "; ".join(problems))


def _count(objects: Sequence[DeadLetters]) -> str:
    records = sum(o.rows for o in objects)
    return f"{plural(records, 'dead letter')} in {plural(len(objects), 'object')}"


def _describe(slices: Sequence[ReplayedSlice]) -> str:
    landed, bad = sum(s.landed for s in slices), sum(s.dead_lettered for s in slices)
    return (
        f"REPLAY: {plural(sum(s.rows for s in slices), 'dead letter')} of "
        f"{plural(len(slices), 'object')}: {landed} landed, "
        f"{sum(s.filtered for s in slices)} filtered, {bad} bad again"
    )


def _is_in_lane(state: State, origin: Origin) -> bool:
    """Return whether the dead letters are of the topic partition as it is in the lane now.

    Dead letters of an earlier topic of that name, or from before a reset, are of offsets that were
    landed again, or of other records.
    """
    tp = TopicPartition(origin.topic, origin.partition)
    return tp in state.members and origin.generation > state.retired.get(tp, -1)


def _is_wanted(found: DeadLetters, request: ReplayRequest) -> bool:
    offsets = found.piece.offsets
    return offsets.end > request.first and (request.until is None or offsets.start < request.until)


def _replayed(source: DeadLetters, landed: LandedSlice) -> ReplayedSlice:
    return ReplayedSlice(
        dead_letters=source.key,
        piece=source.piece,
        rows=source.rows,
        objects=landed.objects,
        landed=landed.landed,
        filtered=landed.filtered,
        dead_lettered=landed.dead_lettered,
        errors=landed.errors,
        schemas=landed.schemas,
        rules=landed.rules,
        parts=landed.parts,
    )
