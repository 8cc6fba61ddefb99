"""Schedules in which objects take the place of others, while everything else goes on.

Each driver merges objects of one topic partition beside landing, and may be asked to undo what was
merged. Whatever happens, the store watches two things at each deletion: every row of the object is
in another visible one, and a copy of it is kept. In the end every record is in one visible object,
as in all schedules, and nothing is left to be carried out. In half of the schedules old objects
have a grace period, and none is deleted before.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import UndoRequest
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.planned_replacement import NoPlanner, PlannedReplacement
from landfall.driver.process.loop import Driver
from landfall.errors import LandfallError, StoreDenied
from landfall.lane import Lane
from landfall.lane.replacements import read_replace
from landfall.ledger import Record, Replace, State
from landfall.ledger.names import object_names, roots
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.task_results import ObjectKind
from landfall.objects import Part, Upload
from landfall.store.memory import Plan
from tests.crashes import log_events
from tests.crashes.judge import expired_letters, folded_records
from tests.crashes.luck import Loss
from tests.crashes.machine import Schedule
from tests.crashes.process import Process
from tests.crashes.world import Rows, WatchedStore
from tests.support.ledger.merged import Current, current, is_of_replace, merged, planned

GROUP = "fake"
"""The group of all schedules."""
REFUSES = 0.5
"""How often new objects of a REPLACE are refused in schedules that refuse them."""
MERGES = 0.5
"""How often a driver that merges nothing begins to, at a pass."""
LONGER = 3
"""How much longer schedules have trouble than others, so that what was merged is undone in some."""
KEEP = 200
"""The grace period of half of the schedules, in seconds: as many looks at the clock."""
UNDONE = 2
"""How many of a schedule's events ask for an undoing."""


class MergeSchedule(Schedule):
    """One run; see the module.

    Attributes:
        has_letters: whether some records are bad; in every other schedule they are in a place of
            their own then.
        keeps_parts: see ``MemoryStore``.
    """

    has_letters = False
    keeps_parts = False

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        loss = self.dice.choice((Loss.UPLOADS, Loss.UPLOADS, Loss.COMMITTED))
        steps = LONGER * self.luck.steps
        self.luck = replace(
            self.luck,
            steps=steps,
            loss=loss,
            publishes=False,
            letters=self.has_letters,
            apart=self.has_letters and seed % 2 == 1,
            ranges=False,
        )
        self.keeps_parts = self.dice.random() < 0.5
        self.refuses = REFUSES if self.dice.random() < 0.5 else 0.0
        self.keep = KEEP if self.dice.random() < 0.5 else 0
        self._open_stores()

    def new_store(self, plan: Plan) -> "MergedStore":
        """See ``Schedule``."""
        return MergedStore(self, plan, keeps_parts=self.keeps_parts)

    def run(self) -> None:
        """Land without trouble first, by two drivers: otherwise there is little to merge."""
        self.calm = True
        self.land_the_rest()
        log_events.arrive(self)
        self.land_the_rest()
        self.calm, self.steps = False, 0
        super().run()

    def land_the_rest(self) -> Process:
        """Let a driver land until it has caught up, and one more when the grace period is over."""
        last = super().land_the_rest()
        if self.keep and last.code is ExitCode.OK:
            self.let_pass(timedelta(seconds=self.keep))
            last = super().land_the_rest()
        return last

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:
        """What a driver works with, and what merges for it."""
        deps = super().deps(name, group)
        if self.refuses:
            deps = replace(deps, decide_again_after=timedelta(0))
        return replace(deps, new_planner=lambda lane, wake: self.new_planner(deps, lane, wake))

    def new_planner(self, deps: DriverDeps, lane: Lane, wake: Callable[[], object]) -> "Merger":
        """What plans REPLACEs for a driver."""
        return Merger(self, deps, lane, wake)

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; an undoing may be asked for."""
        return [*super().source_events(), *[self._ask_to_undo] * UNDONE]

    def _ask_to_undo(self) -> None:
        with self.judging():
            slots = [r.header.seq for _, r in folded_records(self) if isinstance(r, Replace)]
        drivers = [p.contender._driver for p in self.processes if not (p.dead or p.ended)]
        owners = [driver for driver in drivers if driver]
        if slots and owners:
            request = UndoRequest(who="on call", why="a test", slot=self.dice.choice(slots))
            self.say(f"a driver is asked to undo slot {request.slot}")
            self.dice.choice(owners)._requests.pending.submit(request, timedelta(0))

    def findings(self) -> Iterable[str]:
        """What is wrong in the end."""
        yield from super().findings()
        stores = [store for store in self.stores if isinstance(store, MergedStore)]
        gone = frozenset(expired_letters(self))
        gaps = chain.from_iterable(store.gaps for store in stores)
        for gap in gaps:
            if missing := gap.rows - rows_of(self.rows, gone):
                yield f"{gap.why}: {sorted(missing)}"
        records = [record for _, record in folded_records(self)]
        replaces = [record for record in records if isinstance(record, Replace)]
        lost = (r for r in replaces if r.instead != -1 and not r.again and r.decision is None)
        if any(lost) and not self.luck.loss.of_uploads:
            yield "an upload of a REPLACE was lost, and only a driver can have aborted it"
        state = self.lane.read()
        if pending := {**state.replacing, **state.retiring}:
            yield f"not carried out: {sorted(pending)}"
        if self.has_one_time:
            yield from self._too_early(records, stores)
        unkept = frozenset[str]().union(*(store.unkept for store in stores))
        if lacking := unkept - gone - {*self._given_up_new(replaces)}:
            yield f"deleted without a copy: {sorted(lacking)}"

    def _given_up_new(self, replaces: Iterable[Replace]) -> Iterator[str]:
        """The keys of new objects that nobody needs any more."""
        for each in replaces:
            if each.instead != -1 and not each.again:
                _, listed = read_replace(self.lane, self.lane.read(), each.instead)
                yield from (new.landed.upload.key for new in listed.objects)

    def _too_early(
        self, records: Sequence[Record], stores: Iterable["MergedStore"]
    ) -> Iterator[str]:
        """Old objects that were deleted before their grace period was over."""
        keep, applied = timedelta(seconds=self.keep), 0
        deleted = {key: at for store in stores for key, at in store.deleted.items()}
        for record in records:
            for each in records[applied : record.header.applied_through + 1]:
                if not isinstance(each, Replace):
                    continue
                over = datetime.fromisoformat(record.header.time) + keep
                _, listed = read_replace(self.lane, self.lane.read(), each.header.seq)
                for retired in listed.retire:
                    at = deleted.get(retired.landed.upload.key)
                    if at is not None and at < over:
                        yield f"{retired.landed.upload.key} is deleted at {at}, before {over}"
            applied = max(applied, record.header.applied_through + 1)


@dataclass(frozen=True)
class Gap:
    """Rows that nobody finds since an object was deleted, and why."""

    why: str
    rows: frozenset[tuple[str, int, int]]


def rows_of(rows: Rows, keys: Collection[str]) -> frozenset[tuple[str, int, int]]:
    """The rows in any version of these objects."""
    found = ((key, token) for key, token in rows.of if key in keys)
    return frozenset(
        chain.from_iterable(rows.records(each, _partition(each[0]) or 0) for each in found)
    )


class MergedStore(WatchedStore):
    """Records deletions that leave a row in no object, and those of which it keeps no copy.

    A copy is kept in the store of its object: dead letters never leave their place.

    Attributes:
        gaps: what is missing since an object was deleted.
        unkept: keys of deleted objects of which there was no copy.
        deleted: when each key was deleted first.
    """

    def __init__(self, schedule: MergeSchedule, plan: Plan, *, keeps_parts: bool) -> None:
        super().__init__(plan, schedule.clock, schedule.luck, keeps_parts=keeps_parts)
        self.schedule, self.rows = schedule, schedule.rows
        self.gaps: list[Gap] = []
        self.unkept: set[str] = set()
        self.deleted: dict[str, datetime] = {}

    def put_copy(  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        found, into = self._objects.get(source), self._uploads.get(upload_id)
        # Tasks of a side lane name objects relative to its root.
        root = roots.side_root_of(GROUP, source)
        name = source.removeprefix(f"{root}/") if root else source
        if found and into and (name, found.token) in self.rows.of:
            self.rows.of[key, into.token] = self.rows.of[name, found.token]
        return super().put_copy(key, upload_id, number, source, start, length)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        schedule, is_new = self.schedule, is_of_replace(upload.key)
        if is_new and not schedule.calm and schedule.dice.random() < schedule.refuses:
            raise StoreDenied(f"{upload.key}: AccessDenied")
        super().complete(upload, is_fresh=is_fresh)

    def _remove(self, key: str) -> None:
        before = self._objects.get(key)
        super()._remove(key)
        if before is None or (partition := _partition(key)) is None:
            return
        self.deleted.setdefault(key, self.schedule.clock())
        if not any(k.endswith(f"/{key}") for k in self._objects if k.startswith("_landfall/")):
            self.unkept.add(key)
        publishers = self.schedule.publishers
        if publishers.follows and not publishers.drops and publishers.has((key, before.token)):
            rows = frozenset(self.rows.records((key, before.token), partition))
            self.gaps.append(Gap(f"{key} is deleted, and a table has its rows", rows))
        left = chain.from_iterable(
            self.rows.records((k, o.token), of)
            for store in (self, *self.beside)
            for k, o in store._objects.items()
            if (of := _partition(k)) is not None
        )
        if missing := frozenset(self.rows.records((key, before.token), partition)) - {*left}:
            self.gaps.append(Gap(f"{key} is deleted, and no object has its rows", missing))


def _partition(key: str) -> int | None:
    """The Kafka partition of data or of dead letters; None for any other key."""
    try:
        return object_names.origin(GROUP, key).partition
    except ValueError:
        return None


class Merger(NoPlanner):
    """Merges two or more objects of one topic partition, now and then."""

    def __init__(
        self, schedule: Schedule, deps: DriverDeps, lane: Lane, wake: Callable[[], object]
    ) -> None:
        self._schedule, self._deps, self._lane, self._wake = schedule, deps, lane, wake
        self._pool = deps.background.pool(1, "merge")
        self._job: Future[PlannedReplacement | None] | None = None

    def observe(self, state: State) -> None:
        """See ``Planner``."""
        begins = not self._schedule.calm and self._schedule.dice.random() < MERGES
        if self._job is None and begins and state.applied_through >= 0:
            self._job = self._pool.submit(self._merge)
            self._job.add_done_callback(lambda _: self._wake())

    def take(self) -> PlannedReplacement | None:
        """See ``Planner``."""
        if self._job is None or not self._job.done():
            return None
        job, self._job = self._job, None
        return job.result()

    def stop(self) -> Iterable[Upload]:
        """See ``Planner``."""
        job = self._job
        if job and job.done() and not job.cancelled() and (plan := job.result()):
            return plan.uploads
        return ()

    def _merge(self) -> PlannedReplacement | None:
        try:
            with self._schedule.judging():  # readers of the ledger are not what this is about
                state, visible = current(self._lane)
            mergeable = [group for group in self._groups(visible) if len(group) > 1]
            if not mergeable:
                return None
            dice, token = self._schedule.dice, self._deps.new_name()
            chosen = dice.sample(mergeable, dice.randint(1, min(2, len(mergeable))))
            merges = [dice.sample(group, dice.randint(2, len(group))) for group in chosen]
            new = [self._merged(made_by(state), token, some) for some in merges]
            return planned(self._lane.group, token, made_by(state), merges, new)
        except (LandfallError, FileNotFoundError) as error:
            self._schedule.say(f"no merge: {error}")
            return None

    def _groups(self, visible: dict[str, Current]) -> Iterable[list[Current]]:
        """Objects of one folder each, as compaction merges them: an undo may be of one folder."""
        found = defaultdict[tuple[str, str, int, int], list[Current]](list)
        for each in visible.values():
            upload = each[0].landed.upload
            name = object_names.origin(self._lane.group, upload.key)
            topic_id, _ = self._schedule.rows.of[upload.key, upload.token]
            if each[0].landed.kind is ObjectKind.DATA:
                found[each[0].folder, topic_id, name.partition, name.generation].append(each)
        return found.values()

    def _merged(self, plan: int, token: str, some: Sequence[Current]) -> NewObject:
        new, rows = merged(self._deps.store, token, plan, some), self._schedule.rows
        by_offset = sorted((each.landed for each, _ in some), key=lambda each: each.first_offset)
        of = [rows.of[each.upload.key, each.upload.token] for each in by_offset]
        offsets = tuple(chain.from_iterable(offsets for _, offsets in of))
        rows.of[new.landed.upload.key, token] = of[0][0], offsets
        return new


def made_by(state: State) -> int:
    """By which slot a merge is planned by who has read the ledger up to a state."""
    return state.applied_through
