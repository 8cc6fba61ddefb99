"""The steps of publishers that load a table by jobs; see ``tests.model.loading``."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

OBJECTS = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What publishers do; a variant differs in one rule."""

    writes_intent_first: bool = True
    creates_if_absent: bool = True
    one_id_for_a_load: bool = True
    id_is_the_number: bool = True
    new_id_after_failure: bool = True
    absent_is_unknown: bool = True
    creates_only_at_start: bool = True
    uses_up_the_id: bool = True
    replaces_after_reset: bool = True


class Load(NamedTuple):
    """What a load is about: objects ``first`` to ``end``; none of them in a reset.

    ``before`` and ``replaces`` are how many objects the table had before it, and whether the load
    replaces its rows.
    """

    first: int
    end: int
    before: int
    replaces: bool
    creates: bool


class Outcome(NamedTuple):
    """How many objects the table has after a load, and whether the next one replaces its rows."""

    loaded: int
    replace_next: bool


RESET = Load(0, 0, 0, replaces=True, creates=False)
NOTHING = Outcome(0, replace_next=False)


@dataclass(frozen=True, slots=True)
class Job:
    """A job: the load that it does, None for one that uses up an id; and its state."""

    load: Load | None
    state: str = "running"


class At(StrEnum):
    """What a publisher does next."""

    READ = "read"
    WRITE = "write the intent"
    SUBMIT = "submit"
    USE_UP = "use up the id"
    WATCH = "watch"
    DECIDE = "write the outcome"


@dataclass(frozen=True, slots=True)
class Publisher:
    """Where a publisher is, with which load."""

    at: At = At.READ
    number: int = 0
    load: Load | None = None
    result: Outcome | None = None


NEW = Publisher()
Id = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """How often what disturbs may still be."""

    failures: int = 0
    lost: int = 0
    drops: int = 0
    resets: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """Everything there is. Loads are numbered from 1; a deleted record is not in the chain."""

    left: Left
    visible: int = 1
    intents: tuple[tuple[int, Load], ...] = ()
    outcomes: tuple[tuple[int, Outcome], ...] = ()
    jobs: tuple[tuple[Id, Job], ...] = ()
    late: tuple[tuple[Id, Load], ...] = ()
    rows: tuple[int, ...] | None = None
    publishers: tuple[Publisher, ...] = (NEW, NEW)


Event = tuple[str, World]


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[Event]:
        """The steps of everybody."""
        yield from self._disturbances(w)
        for number, job in w.jobs:
            if job.state == "running":
                yield from self.ends(w, number, job)
        for p, me in enumerate(w.publishers):
            for text, after in self.of(w, p):
                yield f"publisher {p} {text}", after
            if me != NEW:
                yield f"publisher {p} is killed", _as(w, p, NEW)

    def _disturbances(self, w: World) -> Iterator[Event]:
        left = w.left
        if w.visible < OBJECTS:
            yield f"object {w.visible} becomes visible", replace(w, visible=w.visible + 1)
        for each in w.late:
            others = tuple(other for other in w.late if other != each)
            yield f"a late request arrives: {each[1]}", _submitted(replace(w, late=others), *each)
        if left.drops and w.rows is not None:
            after = replace(w, rows=None, left=replace(left, drops=left.drops - 1))
            yield "somebody drops the table", after
        if left.deletes and len(w.outcomes) > 1:
            last = max(n for n, _ in w.intents)
            kept = replace(
                w,
                intents=tuple(each for each in w.intents if each[0] >= last),
                outcomes=tuple(each for each in w.outcomes if each[0] >= last - 1),
                left=replace(left, deletes=left.deletes - 1),
            )
            yield "old records are deleted", kept

    def ends(self, w: World, number: Id, job: Job) -> Iterator[Event]:
        """The ends that a job may come to."""
        load = job.load
        if load is None or load.first == load.end:
            yield f"job {number} does nothing", _with_job(w, number, replace(job, state="done"))
            return
        if w.rows is None and not load.creates:
            yield f"job {number} has no table", _with_job(w, number, replace(job, state="failed"))
            return
        rows = () if load.replaces else w.rows or ()
        rows = tuple(sorted((*rows, *range(load.first, load.end))))
        done = replace(_with_job(w, number, replace(job, state="done")), rows=rows)
        yield f"job {number} loads {load.first} to {load.end}", done
        if w.left.failures:
            failed = _with_job(w, number, replace(job, state="failed"))
            left = replace(w.left, failures=w.left.failures - 1)
            yield f"job {number} fails", replace(failed, left=left)

    def of(self, w: World, p: int) -> Iterator[Event]:
        """The next steps of a publisher."""
        me = w.publishers[p]
        match me.at:
            case At.READ:
                yield from self._read(w, p)
            case At.WRITE:
                yield self._write(w, p, me)
            case At.SUBMIT:
                yield from self._submit(w, p, me)
            case At.USE_UP:
                after = _submitted(w, self._id(p, me), None)
                yield "uses up the id", _as(after, p, replace(me, at=At.WATCH))
            case At.WATCH:
                yield from self._watch(w, p, me)
            case At.DECIDE:
                assert me.result
                outcomes = w.outcomes
                if me.number not in dict(outcomes):
                    outcomes = (*outcomes, (me.number, me.result))
                yield f"writes the outcome of {me.number}", _as(replace(w, outcomes=outcomes), p)

    def _read(self, w: World, p: int) -> Iterator[Event]:
        number, load, outcome = _head(w)
        wants_reset = replace(w, left=replace(w.left, resets=w.left.resets - 1))
        if load:
            yield f"finds load {number}", _as(w, p, Publisher(At.SUBMIT, number, load))
            if w.left.resets and self.rules.uses_up_the_id:
                given_up = Publisher(At.USE_UP, number, load)
                yield f"gives up load {number}", _as(wants_reset, p, given_up)
            elif w.left.resets:
                decided = Publisher(At.DECIDE, number, load, Outcome(0, replace_next=True))
                yield f"gives up load {number}", _as(wants_reset, p, decided)
            return
        if w.left.resets and w.rows:
            yield "wants a reset", _as(wants_reset, p, Publisher(At.WRITE, number + 1, RESET))
        if planned := self._plan(w, outcome):
            yield f"plans {planned}", _as(w, p, Publisher(At.WRITE, number + 1, planned))

    def _plan(self, w: World, outcome: Outcome) -> Load | None:
        loaded, replaces = outcome
        if loaded and w.rows is None:
            loaded = 0
        if w.visible == loaded:
            return None
        creates = not loaded or not self.rules.creates_only_at_start
        replaces = replaces and self.rules.replaces_after_reset
        return Load(loaded, w.visible, loaded, replaces, creates)

    def _write(self, w: World, p: int, me: Publisher) -> Event:
        assert me.load
        onward = replace(me, at=At.SUBMIT)
        if not self.rules.writes_intent_first:
            return "writes nothing", _as(w, p, onward)
        if self.rules.creates_if_absent and me.number in dict(w.intents):
            return f"finds intent {me.number} there", _as(w, p)
        others = tuple(each for each in w.intents if each[0] != me.number)
        after = replace(w, intents=(*others, (me.number, me.load)))
        return f"writes intent {me.number}", _as(after, p, onward)

    def _submit(self, w: World, p: int, me: Publisher) -> Iterator[Event]:
        assert me.load
        number = self._id(p, me)
        yield (
            f"submits job {number}",
            _as(_submitted(w, number, me.load), p, replace(me, at=At.WATCH)),
        )
        if w.left.lost and (number, me.load) not in w.late:
            left = replace(w.left, lost=w.left.lost - 1)
            late = replace(w, late=(*w.late, (number, me.load)), left=left)
            unknown = NEW if self.rules.absent_is_unknown else replace(me, at=At.WATCH)
            yield f"gets no answer to its request for job {number}", _as(late, p, unknown)

    def _watch(self, w: World, p: int, me: Publisher) -> Iterator[Event]:
        job, load = dict(w.jobs).get(self._id(p, me)), me.load
        assert load
        failed = Outcome(load.before, replace_next=load.replaces)
        if job is None:
            if not self.rules.absent_is_unknown:
                yield "finds no job", _as(w, p, replace(me, at=At.DECIDE, result=failed))
            return
        if job.state == "running":
            return
        is_done = job.state == "done" and (job.load is not None or load == RESET)
        result = failed
        if is_done:
            result = Outcome(load.end, replace_next=load == RESET)
        yield f"finds the job {job.state}", _as(w, p, replace(me, at=At.DECIDE, result=result))

    def _id(self, p: int, me: Publisher) -> Id:
        if not self.rules.one_id_for_a_load:
            return (me.number, p)
        assert me.load
        if not self.rules.id_is_the_number or not self.rules.new_id_after_failure:
            return (me.load.first, me.load.end)
        return (me.number,)


def _head(w: World) -> tuple[int, Load | None, Outcome]:
    """The number of the last load, the load if it is open, and the outcome before or of it."""
    outcomes = dict(w.outcomes)
    number = max((n for n, _ in (*w.intents, *w.outcomes)), default=0)
    if number in outcomes or not number:
        return number, None, outcomes.get(number, NOTHING)
    return number, dict(w.intents)[number], NOTHING


def _submitted(w: World, number: Id, load: Load | None) -> World:
    if number in dict(w.jobs):
        return w
    return replace(w, jobs=(*w.jobs, (number, Job(load))))


def _with_job(w: World, number: Id, job: Job) -> World:
    return replace(w, jobs=tuple((n, job if n == number else each) for n, each in w.jobs))


def _as(w: World, p: int, me: Publisher = NEW) -> World:
    return replace(w, publishers=(*w.publishers[:p], me, *w.publishers[p + 1 :]))
