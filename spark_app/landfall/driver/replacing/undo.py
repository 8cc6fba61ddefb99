"""Undoes a REPLACE: restores the old objects and deletes the new ones.

One that is not applied is given up: what it was to replace stays
(``landfall.driver.replacing.giving_up``).

A generator (``landfall.driver.core.steps``): it yields what it waits for, and the thread that
appends to the lane sends it the result. Whether it can be undone depends on the whole ledger
(``landfall.driver.decide.undoing``): what the REPLACE made must count, under any names.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from msgspec import structs

from landfall import ledger
from landfall.api.values import plural
from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.steps import Steps
from landfall.driver.decide.counting import output_partition
from landfall.driver.decide.undoing import Contents, Obstacle, chosen_folders
from landfall.driver.replacing.giving_up import why_not_given_up
from landfall.driver.replacing.restoring import Restoring
from landfall.errors import Reason, Retry, Stalled
from landfall.lane.replacements import read_replace, read_replaced
from landfall.ledger import Add, Decision, Drop, Replace, State
from landfall.ledger.effects import (
    Effect,
    LifetimeBegan,
    LifetimeEnded,
    ObjectsReplaced,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.replace.replacing import changes_rows, why_out_of_date
from landfall.ledger.task_results import DecidedObject
from landfall.store.probe import probe_replacing

ATTEMPTS = 3
"""How often a plan is made again, if objects of its folders were replaced before it had them to
itself.
"""

_WITHOUT_A_COPY = (
    "copies are kept for tuning.retainReplaced, and of dead letters until these expire; "
    "if rows are wrong, land their ranges again by a backfill"
)
"""The advice once the way back has expired."""


def _keep_nobody_off(_: Iterable[str]) -> Callable[[], None]:
    return lambda: None


def _nothing_is_replaced() -> "Future[None]":
    done = Future[None]()
    done.set_result(None)
    return done


def _gives_nothing_up(slot: int, _: Decision) -> State:
    raise Retry(f"the REPLACE in slot {slot} is not done yet: try again")


@dataclass(frozen=True)
class ReplacingEffects:
    """The effects of an undoing or a promotion on the lane, on the thread that appends.

    Attributes:
        state: the lane's, now.
        why_not: why a plan must not be recorded now; empty if it may be.
        record: appends the REPLACE of a plan, and returns the state after it.
        pool: runs the rest in other threads.
        copiers: make the copies.
        reserve: keeps all else from being replaced in these folders until its result is called.
        settled: has a result once nothing is being replaced, or after a while.
        give_up: appends what gives up a REPLACE that is not applied; returns the state after it.
    """

    state: Callable[[], State]
    why_not: Callable[[PlannedReplacement], str]
    record: Callable[[PlannedReplacement, Decision | None], State]
    pool: Executor
    copiers: Executor
    reserve: Callable[[Iterable[str]], Callable[[], None]] = _keep_nobody_off
    settled: Callable[[], "Future[None]"] = _nothing_is_replaced
    give_up: Callable[[int, Decision], State] = _gives_nothing_up


@dataclass(frozen=True)
class _Pending:
    """A REPLACE that is not applied, which is given up.

    Attributes:
        slot: of it.
        listed: its list.
    """

    slot: int
    listed: ReplacementList

    @property
    def text(self) -> str:
        """The outcome in a line: what stays and what is discarded."""
        stay = plural(len(self.listed.retire), "object")
        discarded = plural(len(self.listed.objects), "new object")
        return f"REPLACE: {stay} stay, {discarded} discarded, as slot {self.slot} is not applied"


@dataclass(frozen=True)
class _Undoing:
    """The REPLACE to undo, and the objects that this concerns.

    Attributes:
        restoring: by which copies are made.
        record: the REPLACE that is undone, or a later one that did the same.
        retire: the objects that have what it made.
        back: what it has retired.
    """

    restoring: Restoring
    record: Replace
    retire: tuple[DecidedObject, ...]
    back: tuple[DecidedObject, ...]

    @property
    def slot(self) -> int:
        """Where the copies are kept, and what the record names."""
        return self.record.header.seq

    @property
    def read_through(self) -> int:
        """The slot up to which everything was applied."""
        return self.restoring.read_through

    @property
    def folders(self) -> frozenset[str]:
        """The folders of all objects."""
        return (
            ReplacementList(self.retire, (), ()).folders
            | ReplacementList(self.back, (), ()).folders
        )

    @property
    def text(self) -> str:
        """The undoing in one line."""
        back, instead = plural(len(self.back), "object"), plural(len(self.retire), "object")
        return f"REPLACE: {back} back, instead of {instead}"


def undo(
    request: UndoRequest,
    begin: Callable[[], Restoring],
    decision: Decision,
    effects: ReplacingEffects,
) -> Steps:
    """Bring back what the REPLACE in a slot has retired.

    Args:
        request: what is asked for.
        begin: how copies are made, by the lane as it is now.
        decision: what is recorded of the request.
        effects: on the lane.

    Raises:
        Fenced: another driver has opened the lane.
        LandfallError: the store does not answer. Nothing is recorded.
    """
    found: _Undoing | _Pending | Answer = yield effects.pool.submit(_found, begin(), request)
    if isinstance(found, Answer):
        return found
    if request.dry_run:
        return Answer(Outcome.DRY_RUN, (found.text,))
    if isinstance(found, _Pending):
        after = effects.give_up(found.slot, decision)
        return Answer(Outcome.DONE, (found.text,), f"recorded in slot {after.seq}")
    release = effects.reserve(found.folders)
    try:
        found = yield from found_again(found, lambda: _undoing(begin(), request), effects)
        return found if isinstance(found, Answer) else (yield from _copy(found, decision, effects))
    finally:
        release()


def _copy(found: _Undoing, decision: Decision, effects: ReplacingEffects) -> Steps:
    """Make the copies, and record the REPLACE."""
    store = found.restoring.store
    yield effects.pool.submit(probe_replacing, store, found.restoring.token)
    plan: PlannedReplacement | Answer = yield effects.pool.submit(_planned, found, effects.copiers)
    if isinstance(plan, Answer):
        return plan
    if refusal := effects.why_not(plan):
        for upload in plan.uploads:
            store.abort(upload.key, upload.upload_id)
        return Answer(Outcome.FAILED, message=f"{refusal}: try again")
    after = effects.record(plan, decision)
    return Answer(Outcome.DONE, (found.text,), f"recorded in slot {after.seq}")


class FoundCopies(Protocol):
    """The copies to make, by a reading of the ledger."""

    @property
    def read_through(self) -> int:
        """The slot up to which everything was applied."""
        ...

    @property
    def folders(self) -> Collection[str]:
        """The folders of all objects, which are reserved."""
        ...


F = TypeVar("F", bound=FoundCopies)


def found_again(
    found: F, find: Callable[[], F | Answer], effects: ReplacingEffects
) -> Generator["Future[Any]", Any, F | Answer]:
    """Search again once nothing is being replaced in the folders, so that no copy is wasted.

    Args:
        found: what was found before the folders were reserved.
        find: finds it again; FAILED while something is not visible yet.
        effects: on the lane.
    """
    attempts = 0
    while why := why_out_of_date(effects.state(), found.read_through, found.folders):
        if attempts == ATTEMPTS:
            return Answer(Outcome.FAILED, message=f"{why}: try again")
        attempts += 1
        yield effects.settled()
        newer: F | Answer = yield effects.pool.submit(find)
        if not isinstance(newer, Answer):
            found = newer
        elif newer.outcome is not Outcome.FAILED:
            return newer
    return found


def _planned(found: _Undoing, copiers: Executor) -> PlannedReplacement | Answer:
    """Copy what comes back; REFUSED if a copy has expired, which no other attempt can help."""
    group = found.restoring.lane.group
    lane = found.restoring.lane.name
    slot = found.slot
    try:
        plan = found.restoring.planned(
            found.retire,
            found.back,
            lambda key: object_names.retired_key(group, lane, slot, key),
            copiers,
        )
    except Stalled as stalled:
        if stalled.reason is not Reason.OBJECT_LOST:
            raise
        return _refused(f"{stalled}: {_WITHOUT_A_COPY}")
    if changes_rows(found.record.purpose, found.record.undoes):
        return replace(plan, undoes=slot, slices=found.record.slices)
    return replace(plan, unmerges=slot)


def _undoing(restoring: Restoring, request: UndoRequest) -> _Undoing | Answer:
    """Return what to undo, or why not; FAILED while the REPLACE is not applied."""
    found = _found(restoring, request)
    return found if not isinstance(found, _Pending) else _not_done(found.slot)


def _not_done(slot: int) -> Answer:
    return Answer(Outcome.FAILED, message=f"the REPLACE in slot {slot} is not done yet: try again")


def _found(restoring: Restoring, request: UndoRequest) -> _Undoing | _Pending | Answer:
    """Return what is undone or given up, or why not."""
    try:
        record, listed = read_replace(restoring.lane, restoring.state, request.slot)
    except ValueError as error:
        return _refused(str(error))
    if request.slot in restoring.state.replacing:
        return _pending(restoring, request, listed)
    found = _read(restoring, listed.folders)
    if later := found.decided_again.get(request.slot):
        return _found(restoring, structs.replace(request, slot=later))
    folders = chosen_folders(listed, request.output_partitions)
    refusal = _why_not_asked(record, listed, folders) or found.why_not(request.slot, folders)
    if pending := found.pending(folders, record):
        message = f"the REPLACE in slot {pending} concerns the same, and is not done yet: try again"
        return Answer(Outcome.FAILED, message=message)
    return _refused(refusal) if refusal else _of_applied(restoring, found, request.slot, folders)


def _of_applied(
    restoring: Restoring, found: "_Ledger", slot: int, folders: frozenset[str]
) -> _Undoing | Answer:
    """Return what to undo of a REPLACE that has no obstacle."""
    # What a later one has done again is kept longer.
    same = found.contents.same_as(slot, folders)
    record, listed = read_replace(restoring.lane, restoring.state, same)
    if refusal := _why_rows_differ(restoring, record, found.contents.names(same)):
        return _refused(refusal)
    retire = tuple(found.contents.counting(same, folders))
    back = tuple(object_ for object_ in listed.retire if object_.folder in folders)
    return _Undoing(restoring, record, retire, back)


@dataclass(frozen=True)
class _Ledger:
    """The records of a ledger about some folders.

    Attributes:
        contents: what counts in them.
        records: the REPLACEs that concern them.
        given_up: by the slot of a REPLACE that was given up, the slot of the one instead.
        decided_again: by the slot of a REPLACE that was decided again, the later slot.
        through: up to which slot everything is applied.
    """

    contents: Contents
    records: dict[int, Replace]
    given_up: dict[int, int]
    decided_again: dict[int, int]
    through: int

    def why_not(self, slot: int, folders: frozenset[str]) -> str:
        """Return why later changes prevent the undo of a REPLACE in these folders; or empty."""
        if slot in self.given_up:
            return (
                f"the REPLACE in slot {slot} was given up by the one in slot "
                f"{self.given_up[slot]}: it changed nothing, and there is nothing to undo"
            )
        obstacle = self.contents.obstacle(slot, folders)
        return self._in_the_way(obstacle, slot, folders) if obstacle else ""

    def pending(self, folders: frozenset[str], record: Replace) -> int:
        """The slot of a REPLACE of these folders, or of these ranges, that is not applied; or 0."""
        tps = _rewritten(record)
        return max(
            (
                slot
                for slot, other in self.records.items()
                if slot > self.through
                and slot not in self.given_up.keys() | self.decided_again.keys()
                and (folders & {*other.folders} or tps & _rewritten(other))
            ),
            default=0,
        )

    def _in_the_way(self, obstacle: Obstacle, slot: int, folders: frozenset[str]) -> str:
        """Return what must be undone first, with a command that can be run as it is."""
        where = obstacle.where
        if not obstacle.is_replace:
            return (
                f"since then {where} has left the lane, or entered again (slot {obstacle.slot}): "
                "land the range again by another backfill"
            )
        later = self.records[obstacle.slot]
        what = "objects in {} were replaced" if where in later.folders else "{} was landed"
        choice, others = "", ""
        if not changes_rows(later.purpose, later.undoes) and len(later.folders) > 1:
            choice = f" --output-partition {output_partition(f'{where}/_')!r}"
        record = self.records[slot]
        if not changes_rows(record.purpose, record.undoes) and len(folders) > 1:
            others = ", or name other ones by --output-partition"
        return (
            f"{what.format(where)} again in slot {obstacle.slot}: undo that first "
            f"(`landfall undo {obstacle.slot}{choice}`){others}"
        )


def _rewritten(record: Replace) -> frozenset[TopicPartition]:
    """Return the topic partitions with ranges that get other rows."""
    if not changes_rows(record.purpose, record.undoes):
        return frozenset()
    return frozenset(slice_.topic_partition for slice_ in record.slices)


def _read(restoring: Restoring, folders: frozenset[str]) -> _Ledger:
    """Read the ledger from its first slot; kept is what concerns these folders.

    Raises:
        Stalled: LEDGER_BROKEN, a slot or a list is missing or damaged.
        Retry: the store does not answer.
    """
    said = [effect for effect in _effects(restoring) if _concerns(effect, folders)]
    replaces = {
        effect.slot: effect.record for effect in said if isinstance(effect, ObjectsReplaced)
    }
    superseding = [record for record in replaces.values() if record.instead != -1]
    given_up = {record.instead: record.header.seq for record in superseding if not record.again}
    again = {record.instead: record.header.seq for record in superseding if record.again}
    contents, through = Contents(folders), restoring.read_through
    for effect in said:
        if not isinstance(effect, ObjectsReplaced):
            contents.take(effect)
        elif effect.slot <= through and effect.slot not in given_up.keys() | again.keys():
            contents.take(effect, _listed(restoring, effect.record, folders))
    return _Ledger(
        contents=contents, records=replaces, given_up=given_up, decided_again=again, through=through
    )


def _effects(restoring: Restoring) -> Iterator[Effect]:
    for seq, body in restoring.lane.bodies_of(restoring.state, (Add, Drop, Replace)):
        yield from effects(ledger.decode(seq, body))


def _concerns(effect: Effect, folders: frozenset[str]) -> bool:
    """Return whether an event may change what counts in folders, or which rows a range has."""
    match effect:
        case LifetimeBegan() | LifetimeEnded():
            return True
        case ObjectsReplaced(record=record):
            gives_up = record.instead != -1  # what it gives up may have had new objects elsewhere
            changes = gives_up or effect.changes_rows
            return changes or not folders.isdisjoint(record.folders)
        case _:
            return False


def _listed(restoring: Restoring, record: Replace, folders: frozenset[str]) -> ReplacementList:
    """Return the list of a REPLACE; without objects if none is in these folders."""
    if folders.isdisjoint(record.folders):
        return ReplacementList((), ())
    return read_replaced(restoring.lane.slots, record.header.seq, record.listed)


def _why_not_asked(record: Replace, listed: ReplacementList, folders: frozenset[str]) -> str:
    """Return why a REPLACE is not undone, regardless of later ones; empty if it may be."""
    slot = record.header.seq
    if record.instead != -1 and not record.again:
        return (
            f"the REPLACE in slot {slot} gave up the one in slot {record.instead}, and changed "
            "nothing: there is nothing to undo"
        )
    if not folders:
        known = sorted({output_partition(f"{folder}/_") for folder in listed.folders})
        return (
            f"the REPLACE in slot {slot} has replaced nothing in these output partitions, but in "
            f"{known[0]}" + (f" and {len(known) - 1} more" if len(known) > 1 else "")
        )
    if folders != listed.folders and changes_rows(record.purpose, record.undoes):
        return (
            f"the REPLACE in slot {slot} is of a backfill, whose rows may be in other output "
            "partitions than before: undo it as a whole, without --output-partition"
        )
    return ""


def _why_rows_differ(restoring: Restoring, record: Replace, names: frozenset[str]) -> str:
    """Return why the rows of a backfill cannot be restored as they were before it."""
    if not changes_rows(record.purpose, record.undoes):
        return ""
    if replayed := names & restoring.state.replayed:
        return (
            f"dead letters of {min(replayed)} were replayed since, and both would have their "
            "records: land the ranges again by another backfill"
        )
    return ""


def _pending(
    restoring: Restoring, request: UndoRequest, listed: ReplacementList
) -> _Pending | Answer:
    """Return what is given up, or why not."""
    if request.output_partitions:
        return _refused(
            f"the REPLACE in slot {request.slot} is not applied yet, and can be given up as a "
            "whole only: without --output-partition"
        )
    # The next record may already call what is visible applied.
    why = why_not_given_up(restoring.state, request.slot, restoring.read_through)
    return _refused(why) if why else _Pending(request.slot, listed)


def _refused(message: str) -> Answer:
    return Answer(Outcome.REFUSED, message=message)
