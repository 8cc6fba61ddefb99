"""Trials of a new generation: side lanes that real drivers land while everything else continues.

A trial, as ``upgrade.strategy: Shadow`` makes one, is a side lane: somebody plans ranges that are
landed, drivers of the newest generation land them again below ``_landfall/``, and what they have
landed is promoted, or discarded. All of that is real code on the store of the schedule, so side
drivers are killed, freeze and meet faults as live ones do; frozen ones wake up late, after what
they landed was promoted or discarded.

In the end each side lane that is not discarded is landed, unless the log or the store has lost what
it needs: its objects have just the records of its ranges, once each, and ``fsck`` finds nothing.
Then all are discarded, stuck ones too: nothing is left of them, and nothing of the live group goes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.checks.objects import is_landfall_object
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import (
    DISCARDED,
    SidePlan,
    discard,
    read_plan,
    side_group,
    side_plan,
    side_root,
    store_plan,
)
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.planned_replacement import NoPlanner
from landfall.driver.decide.promotion import Promotion, promotion
from landfall.driver.process.handover import ContenderOptions, LaneContender, StatusReporter
from landfall.driver.replacing.promoting import Lanes
from landfall.errors import LandfallError, Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import Commit, decode
from landfall.ledger.names import object_names
from landfall.source import FoundTopics
from landfall.store import Store
from tests.crashes.process import Process
from tests.crashes.promoting import ranges_of_some
from tests.crashes.scheduler import Owner
from tests.crashes.world import GatedLog, driver_deps
from tests.support.ledger.compaction_scene import Inline
from tests.support.stores.store_below import StoreBelow

if TYPE_CHECKING:
    from tests.crashes.pairs import PairSchedule

EVENTS = 4
"""How many of a schedule's events plan a trial, or start another driver of one."""
MAX_ALIVE = 2
"""Drivers of a trial that are alive at the same time."""
DISCARDS = 0.2
"""How often a trial is discarded, once one is due."""


@dataclass
class Trial:
    """A side lane.

    Attributes:
        plan: what it lands.
        group: the live group that it was planned for.
        store: what is below its root.
        drivers: all that were started.
    """

    plan: SidePlan
    group: ConsumerGroup
    store: StoreBelow
    drivers: list[Process] = field(default_factory=list)

    @property
    def alive(self) -> list[Process]:
        """Its drivers that run."""
        return [each for each in self.drivers if not (each.dead or each.ended)]


class SideLog:
    """The log of a schedule for a group that names topics."""

    def __init__(self, log: GatedLog, names: Collection[str]) -> None:
        self._log, self._names = log, names

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """See ``Log``."""
        found = self._log.topics(known)
        return replace(found, topics=tuple(t for t in found.topics if t.name in self._names))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class Trials:
    """The trials of a schedule, one after the other.

    Attributes:
        trials: all of them.
        discarded: how many were discarded while everything continued.
        discarded_stuck: how many could not be landed, and were discarded in the end.
    """

    def __init__(self, schedule: "PairSchedule") -> None:
        self._schedule, self._names = schedule, count(1)
        self.trials: list[Trial] = []
        self.discarded = self.discarded_stuck = 0
        self._were_frozen: set[str] = set()

    def events(self) -> list[Callable[[], object]]:
        """What may happen between two steps."""
        found: list[Callable[[], object]] = [self._advance] * EVENTS
        if self.trials and self.trials[-1].alive:
            one = self._schedule.dice.choice(self.trials[-1].alive)
            found += [partial(self._schedule.kill, one), partial(self._freeze_or_wake, one)]
        return [*found, self._discard]

    @property
    def open(self) -> list[Trial]:
        """Those that are not discarded."""
        with self._schedule.judging():
            return [each for each in self.trials if each.store.read(DISCARDED) is None]

    @property
    def have_landed(self) -> bool:
        """Whether some trial has landed anything."""
        with self._schedule.judging():
            records = (decode(*slot) for each in self.trials for slot in self._lane(each).bodies())
            return any(isinstance(record, Commit) for record in records)

    def found(self, store: Store) -> tuple[SidePlan, Lanes, Promotion] | None:
        """What there is to promote of the last trial, by the live ledger as it is now.

        Raises:
            LandfallError: it is not landed, or what is live has changed since the plan.
        """
        if not self.open or self.open[-1] is not self.trials[-1]:
            return None
        trial = self.trials[-1]
        plan = trial.plan
        with self._schedule.judging():  # readers of the ledger are not what this is about
            live = read_landed(self._live, store, plan.offsets)
            side = read_landed(self._lane(trial))
        if live.promotions.of(plan.name) >= 0:
            return None
        ids = [(each.topic_partition, each.topic_id) for each in plan.ranges]
        made = promotion(live, side, plan.slices, ids, plan.read_through)
        return plan, Lanes(store, trial.store.root, live, side), made

    # ------------------------------------------------------------------------------ what happens

    def _advance(self) -> None:
        """Plan a trial and start a driver of it; if there is one, start another driver."""
        if not self.open or self._is_promoted(self.open[-1]):
            self._plan()
        elif len(self.open[-1].alive) < MAX_ALIVE and not self._has_landed(self.open[-1]):
            self._start(self.open[-1])

    def _is_promoted(self, trial: Trial) -> bool:
        with self._schedule.judging():
            landed = read_landed(self._live)
        return landed.promotions.of(trial.plan.name) >= 0

    @staticmethod
    def _has_landed(trial: Trial) -> bool:
        return any(each.code is ExitCode.OK for each in trial.drivers)

    def _plan(self) -> None:
        schedule = self._schedule
        group, name = schedule.group(schedule.generations), f"trial-{next(self._names)}"
        with schedule.judging():
            landed = read_landed(self._live)
        try:
            if (backfill := ranges_of_some(schedule, landed)) is None:
                return
            plan = side_plan(name, landed, backfill, schedule.generations, schedule.clock())
        except LandfallError as error:
            schedule.say(f"no trial: {error}")
            return
        store = StoreBelow(schedule.store_of(group), side_root(group, name))
        with schedule.judging():
            store_plan(store, plan)
        schedule.say(f"{name} is planned: {[str(each) for each in plan.slices]}")
        self.trials.append(Trial(plan, group, store))
        self._start(self.trials[-1])

    def _start(self, trial: Trial) -> Process:
        schedule = self._schedule
        name = f"S{next(schedule.names)}"
        group = side_group(trial.group, trial.plan)
        deps = self._deps(name, group, trial)
        contender = LaneContender(
            group,
            deps,
            lambda writer, report: schedule.kind(
                group, writer, deps, process.keeping(report), False, trial.plan.goal
            ),
            StatusReporter(lambda _: None),
            ContenderOptions(),
        )
        process = Process(name, contender, is_endless=False)
        schedule.say(f"{name} starts, for {trial.plan.name}")
        trial.drivers.append(process)
        process.task = schedule.scheduler.spawn(process, "side driver", process.run)
        return process

    def _deps(self, name: str, group: ConsumerGroup, trial: Trial) -> DriverDeps:
        schedule = self._schedule
        of_live = schedule.deps(name, group)
        topics = {each.topic_partition.topic for each in trial.plan.ranges}
        runner = driver_deps(schedule, name, schedule.runner(trial.store)).runner
        return replace(
            of_live,
            store=trial.store,
            runner=runner,
            observer=Observer(SideLog(schedule.log, topics), timedelta(0)),
            new_planner=lambda *_: NoPlanner(),
        )

    def _freeze_or_wake(self, process: Process) -> None:
        process.frozen = not process.frozen
        self._were_frozen.add(process.name)
        self._schedule.say(f"{process.name} {'freezes' if process.frozen else 'wakes up'}")

    def _discard(self) -> None:
        schedule = self._schedule
        if not self.open or schedule.dice.random() >= DISCARDS:
            return
        trial, owner = self.open[-1], Owner(f"X{next(schedule.names)}")
        schedule.say(f"{owner.name} discards {trial.plan.name}")

        def work() -> None:
            name, pool = trial.plan.name, schedule.background.pool
            with suppress(LandfallError):
                discard(trial.group, trial.store, name, schedule.clock, pool)

        schedule.scheduler.spawn(owner, "discard", work)

    # ------------------------------------------------------------------------------------ the end

    def end(self) -> None:
        """Let one more driver land what is not landed; frozen ones wake up, and may be fenced."""
        for trial in self.open:
            works = any(not process.frozen for process in trial.alive)
            if not works and not self._has_landed(trial):
                self._start(trial)
        for trial in self.trials:
            for process in trial.drivers:
                process.frozen = False

    def findings(self) -> Iterator[str]:
        """What is wrong with side lanes in the end."""
        for trial in self.trials:
            for process in trial.drivers:
                process.was_owner = False
                if wrong := process.went_wrong:
                    yield f"{trial.plan.name}, {process.name}: {wrong}"
        left = self.open
        self.discarded = len(self.trials) - len(left)
        for trial in left:
            yield from (f"{trial.plan.name}: {each}" for each in self._of(trial))
        for trial in self.trials:
            yield from (f"{trial.plan.name}: {each}" for each in self._discarded(trial))
            self.discarded_stuck += trial in left and not self._has_landed(trial)

    def _discarded(self, trial: Trial) -> Iterator[str]:
        """Discard a side lane, perhaps again; what is wrong afterwards."""
        schedule, group, pool = self._schedule, trial.group, self._schedule.background.pool
        try:
            discard(group, trial.store, trial.plan.name, schedule.clock, pool)
        except LandfallError as error:
            yield f"cannot be discarded: {error}"
            return
        keys = [stat.key for stat in trial.store.list_after("")]
        objects = [key for key in keys if is_landfall_object(key, group.metadata.name)]
        uploads = [upload.key for upload in trial.store.open_uploads("")]
        if objects or uploads:
            yield f"is discarded, and leaves {[*objects, *uploads]}"
        with suppress(Stalled):
            yield f"is discarded, and has a plan still: {read_plan(trial.store, trial.plan.name)}"
        report = examine(GroupStore(schedule.group(1), schedule.store, pool), deep=False)
        yield from (f"is discarded, and of the live group {each}" for each in report.findings)

    def _of(self, trial: Trial) -> Iterator[str]:
        schedule = self._schedule
        group = side_group(trial.group, trial.plan)
        report = examine(GroupStore(group, trial.store, schedule.background.pool), deep=False)
        yield from (f"fsck finds {each}" for each in report.findings)
        if not self._has_landed(trial):
            last = trial.drivers[-1]
            # To one that was frozen for long, the log has not answered in time.
            is_late = last.code is ExitCode.UNAVAILABLE and last.name in self._were_frozen
            is_stalled = last.code is ExitCode.STALLED and self._may_stall(trial, last)
            if not (is_late or is_stalled or last.code is ExitCode.FENCED or last.dead):
                yield f"is not landed, and {last.name} ended with {last.code} {last.error}"
            return
        found = Counter[tuple[str, int, int]]()
        for stat in trial.store.list_after(""):
            with suppress(ValueError):
                name = object_names.origin(group.metadata.name, stat.key)
                there = trial.store.stat(stat.key)
                token = there.token if there else ""
                found += schedule.rows.records((stat.key, token), name.partition)
        wanted = Counter(
            (each.topic_id, each.topic_partition.partition, offset)
            for each in trial.plan.ranges
            for offset in range(each.offsets.start, each.offsets.end)
        )
        if found != wanted:
            yield f"has {found - wanted} too much, and lacks {wanted - found}"

    def _may_stall(self, trial: Trial, last: Process) -> bool:
        """Whether the log has lost what is not landed, or the driver has named what is wrong.

        Why it ends it says at its end: by then a leader may be back for whose sake it does.
        """
        ranges = {each.topic_partition: each.offsets for each in trial.plan.ranges}
        message = last.contender.deps.counters.message
        is_named = any(line.startswith(tuple(Reason)) for line in message.splitlines())
        is_lost = any(self._schedule.log_start(tp) > o.start for tp, o in ranges.items())
        return is_named or is_lost or self._schedule.luck.leaderless

    @property
    def _live(self) -> Lane:
        """The live ledger, read on the calling thread: the scheduler may be about to choose one."""
        return Lane(self._schedule.store, self._schedule.lane.group, LANE, lambda _: Inline())

    def _lane(self, trial: Trial) -> Lane:
        return self._live.elsewhere(trial.store)
