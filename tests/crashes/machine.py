"""The real driver loop under every kind of trouble, in an order that a seed decides.

A schedule is a handful of drivers (``LaneContender``, as in a pod) on one ``MemoryStore`` and one
log. At every call of the store or the log the seed may let another thread continue, and may inject
a fault: the driver is killed before or after the call, the answer is lost with or without the
effect, the effect comes later, perhaps after the driver's death, a lifecycle rule expires the
upload, or the store refuses. Between calls the seed may start a driver, freeze or wake one, send
one a command to hand over, to take over or to stop, let records arrive, let the log drop what is
committed, or leave a Kafka partition without a leader. Drivers may be asked to land dead letters
again.

After that nothing fails any more, and a driver that lives on must land all it can (see
``tests.crashes.aftermath``). All delayed effects come, and one driver is left alone and lands the
rest. Then drivers that are still frozen wake up. In the end the store must hold what a run without
any trouble leaves, apart from where ranges were cut; see ``tests.crashes.judge``.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import DriverDeps
from landfall.driver.landing.goals import Endless
from landfall.driver.process.handover import ContenderOptions, LaneContender, StatusReporter
from landfall.driver.process.loop import Driver
from landfall.errors import Retry, Stalled, StoreDenied
from landfall.lane import Lane
from landfall.lane.stores import as_one
from landfall.ledger.offsets import TopicPartition
from landfall.store import Store
from landfall.store.memory import Call, CallFault, Operation, Plan
from landfall.store.routed import LettersStore
from tests.crashes import log_events, ranges
from tests.crashes.aftermath import Aftermath, land_letters, land_without_leaders
from tests.crashes.folded import FoldedSlots
from tests.crashes.judge import Offsets, findings, stuck
from tests.crashes.luck import Loss, Luck
from tests.crashes.person import asked, decide
from tests.crashes.process import Process, Wrong, check_store
from tests.crashes.publishing import Publishers
from tests.crashes.scheduler import Killed, Owner, ScheduledBackground, Scheduler, Task
from tests.crashes.world import (
    GatedLog,
    ReadingRunner,
    Rows,
    WatchedStore,
    driver_deps,
    group_with,
)
from tests.support.driver.fakes import ticking

CHANGES = {Operation.CREATE, Operation.COMPLETE, Operation.PUT_PART, Operation.PUT_COPY}
CHANGES |= {Operation.ABORT, Operation.DELETE, Operation.DROP, Operation.RETIRE}
REVISIONS = ("", "a", "b")
DECIDES = {Operation.CREATE, Operation.COMPLETE}
BURST = 0.4
"""How often a thread whose call met a fault meets one at its next call."""
MAX_ALIVE = 3
MAX_STEPS = 20_000
"""A schedule that takes more steps than this never ends."""


class Schedule:
    """One run; see the module.

    Args:
        seed: decides everything.
        kind: the driver to run, or a broken one.
        tell: takes each step as a line of text.

    Attributes:
        begins_with_letters: whether dead letters, if there are any, are landed before any trouble.
        has_one_time: whether all clocks are the same, and none jumps.
    """

    begins_with_letters = True
    has_one_time = True

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        self.kind = kind
        self.dice = random.Random(seed)
        self.luck = Luck.of(self.dice)
        self.generations = 1
        self.rows = Rows()
        self.former: Offsets = Counter()
        """Records of topics that are deleted, by topic id."""
        self.clock, self.names = ticking(), count(1)
        self.keep = 0
        self.log = GatedLog(gate=self._ask_log)
        self.log.write("a", 25, 7).write("b", 4)
        self._open_stores()
        self.processes: list[Process] = []
        self.publishers = Publishers(self)
        self.steps, self.calls = 0, 0
        self.aftermath: Aftermath | None = None
        self.calm, self.is_judging = False, False
        self._dying: Task | None = None
        self._faulted: Task | None = None
        self._tell = tell
        self.scheduler = Scheduler(self.choose)
        self.background = ScheduledBackground(self.scheduler)
        self.folded = FoldedSlots()

    def group(self, generation: int) -> ConsumerGroup:
        """The group in a generation."""
        skips = self.luck.loss in {Loss.ANYTHING, Loss.SKIPPED}
        return group_with(
            generation,
            self.luck.snapshot_every,
            self.luck.segment_every,
            "SkipAndRecord" if skips else "Stall",
            publishes=self.luck.publishes,
            letters_apart=self.luck.apart,
            keep=self.keep,
        )

    def _open_stores(self) -> None:
        """One store for everything, or several as one."""
        self.watched = self.new_store(self)
        places = self.group(1).spec.bad_records.places
        self.letters = {place.id: self.new_store(self.letters_plan()) for place in places}
        for store in self.stores:
            store.beside = [other for other in self.stores if other is not store]
        self.store: Store = self.store_of(self.group(1))
        self.lane = Lane(
            self.store, self.group(1).metadata.name, LANE, lambda _: self.background.pool()
        )

    def new_store(self, plan: Plan) -> WatchedStore:
        """A store that nothing is in."""
        return WatchedStore(plan, self.clock, self.luck)

    def letters_plan(self) -> Plan:
        """What happens to calls of a place of dead letters: as to all others."""
        return self

    @property
    def stores(self) -> list[WatchedStore]:
        """The store of the ledger and of data, and the places of dead letters."""
        return [self.watched, *self.letters.values()]

    def store_of(self, group: ConsumerGroup) -> Store:
        """The stores as one, for who knows the places that a group names."""
        named = group.spec.bad_records.places
        known = {
            place.id: LettersStore(self.letters[place.id], f"spec.{place.section}.url")
            for place in named
        }
        return as_one(self.watched, letters=known) if self.luck.apart else self.watched

    def run(self) -> None:
        """Play it to its end.

        Raises:
            Wrong: the result is not what a run without trouble leaves.
        """
        if self._tell:
            self.say(f"{self.luck}")
        if self.luck.letters and self.begins_with_letters:
            land_letters(self)
        self.start()
        self.scheduler.play()
        assert self.aftermath
        self._refuse(self.aftermath.late)
        self._deliver_all()
        self.say("all delayed effects come, and one driver lands the rest")
        self.generations += 1
        if self.log.unavailable:
            self._refuse(land_without_leaders(self))
        last = self.land_the_rest()
        if last.code is ExitCode.STALLED and self.luck.loss.is_decided:
            self._decide(finally_=True)
            last = self.land_the_rest()
        last.must_end_with(self.last_code())
        self.judge()
        if any(process.frozen for process in (*self.processes, *self.publishers.alive)):
            self.say("frozen drivers wake up")
            for process in self.processes:
                process.frozen = False
            self.publishers.wake()
            self.scheduler.play()
            self._deliver_all()
            self.judge()

    def last_code(self) -> ExitCode:
        """With which code the driver ends that has landed the rest."""
        return ExitCode.OK

    def land_the_rest(self) -> Process:
        """Let a driver land until it has caught up."""
        last = self.start("", until_caught_up=True)
        self.scheduler.play()
        return last

    def let_pass(self, time: timedelta) -> None:
        """Let so much time pass, of which each look at the clock takes a second."""
        for _ in range(int(time.total_seconds())):
            self.clock()

    def pause(self, ends: float | None = None) -> None:
        """Let other threads run; it ends between two steps by this chance, or by that of events."""
        self.scheduler.wait(
            lambda: self.dice.random() < (self.luck.event if ends is None else ends), idle=True
        )

    def say(self, what: str) -> None:
        """Pass a line of text on, if anybody wants to read it."""
        if self._tell:
            self._tell(f"{self.steps:>5}  {what}")

    # ------------------------------------------------------------------------- which thread is next

    def choose(self, tasks: list[Task]) -> Task | None:
        """Which task runs next: what ``Scheduler`` asks."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Wrong(
                f"no end after {MAX_STEPS} steps: {[(t.owner.name, t.what) for t in tasks]}"
            )
        if self.aftermath:
            self.aftermath.happen()
        elif not self.calm:
            self._happen()
        awake = [task for task in tasks if task.owner.dead or not task.owner.frozen]
        busy = [task for task in awake if task.owner.dead or task.ready()]
        me = self.scheduler.current
        if me in busy and self.dice.random() >= self.luck.switch:
            return me
        may_go = busy if busy and self.dice.random() < 0.95 else awake
        if may_go:
            return self.dice.choice(may_go)
        return None if self.calm else self.start().task

    def _happen(self) -> None:
        if self.steps >= self.luck.steps:
            self.calm, self.aftermath = True, Aftermath(self)
        elif self.dice.random() < self.luck.event:
            self.dice.choice(self._events())()

    def _events(self) -> list[Callable[[], object]]:
        alive = [p for p in self.processes if not p.dead and not p.ended]
        arrive, *others = self.source_events()
        events = [arrive, lambda: self.watched.deliver_one(self.dice)]
        events += [partial(place.deliver_one, self.dice) for place in self.letters.values()]
        if len(alive) < MAX_ALIVE:
            events += [self.start, self.start]
        events += others
        if self.luck.loss.of_uploads:
            events += [partial(log_events.expire_upload, self)] * 4
        events += self.publishers.events()
        events += [self._decide] * (3 * self.luck.loss.is_decided)
        events += [partial(e, self) for e in log_events.LEADERS if self.luck.leaderless]
        if alive:
            one = self.dice.choice(alive)
            events += [
                lambda: self._freeze(one),
                lambda: self._wake(one),
                lambda: self.kill(one),
                lambda: self.send(one, one.contender.take_over, "take over"),
                lambda: self.send(one, lambda: one.contender.hand_over("b"), "hand over"),
                lambda: self.send(one, lambda: one.contender.stop("SIGTERM"), "stop"),
            ]
        return events

    def source_events(self) -> list[Callable[[], object]]:
        """What may happen to the source: first that something arrives, then what is lost."""
        events = [partial(log_events.arrive, self)]
        if self.luck.loss.of_topics:
            events.append(partial(log_events.recreate, self))
        elif self.luck.loss is not Loss.UPLOADS:
            events.append(partial(log_events.drop, self))
        return [*events]

    # --------------------------------------------------------------------------------- what happens

    def start(
        self, revision: str | None = None, *, until_caught_up: bool = False, stays: bool = False
    ) -> Process:
        """Start a driver.

        Args:
            revision: its revision; any one by default.
            until_caught_up: whether it ends once it has landed everything.
            stays: whether it is of the newest generation, and lands all records until it is
                stopped.
        """
        name, is_last = f"D{next(self.names)}", until_caught_up or stays
        is_newest = is_last or (self.luck.letters and self.dice.random() < 0.7)
        number = self.generations if is_newest else self.dice.randint(1, self.generations)
        own = self.dice.choice(REVISIONS) if revision is None else revision
        goal = Endless if is_last else ranges.goal(self.luck, self.dice)
        deps = self.deps(name, group := self.group(number))
        contender = LaneContender(
            group,
            deps,
            lambda writer, report: asked(
                self, self.kind(group, writer, deps, process.keeping(report), until_caught_up, goal)
            ),
            StatusReporter(lambda _: None),
            ContenderOptions(own),
        )
        process = Process(name, contender, is_endless=goal is Endless)
        what = f"generation {number}" + ", ranges" * (not process.is_endless)
        self.say(f"{name} starts, revision {own or 'none'}, {what}")
        self.processes.append(process)
        process.task = self.scheduler.spawn(process, "driver", lambda: self._run_driver(process))
        if self.luck.checks:
            self.scheduler.spawn(process, "check", lambda: check_store(self, process))
        return process

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:  # noqa: ARG002  # feeds need it
        """What a driver works with."""
        return driver_deps(self, name, self.runner(self.store))

    def runner(self, store: Store) -> ReadingRunner:
        """What runs the tasks of a driver that has this store."""
        return ReadingRunner(store)

    def _run_driver(self, process: Process) -> None:
        process.run()
        if process.code is ExitCode.FENCED:
            with self.judging():
                process.was_owner = self.lane.read().writer.startswith(f"{process.name}-")

    def _decide(self, *, finally_: bool = False) -> None:
        with self.judging():
            decided = decide(self, finally_=finally_)
        self.say(f"a person decides: {decided}")

    def _freeze(self, process: Owner) -> None:
        process.frozen = True
        self.say(f"{process.name} freezes")

    def _wake(self, process: Process) -> None:
        process.frozen = False

    def kill(self, process: Owner) -> None:
        """Kill a process."""
        process.dead = True
        self.say(f"{process.name} is killed")

    def send(self, process: Process, command: Callable[[], object], what: str) -> None:
        """Send a process a command."""
        self.say(f"{process.name} gets the command to {what}")
        command()

    # ---------------------------------------------------------------------------- calls and faults

    def before(self, call: Call) -> CallFault | None:
        """The store gets a call; the fault that it meets, if any."""
        if self.is_judging:
            return None
        self.scheduler.step()
        me = self.scheduler.current
        again = me is self._faulted
        fault = self._inject(call, me, again=again) if self._meets_fault(call, me) else None
        if self._tell:
            self.say(
                f"{me.owner.name} {me.what}: {call.operation} {call.key}"
                f"{f' ({fault})' if fault else ''}"
            )
        return fault

    def _meets_fault(self, call: Call, me: Task) -> bool:
        """Calls that decide something meet faults more often, and faults come in bursts."""
        often = (
            BURST
            if me is self._faulted
            else self.luck.fault * (3 if call.operation in DECIDES else 1)
        )
        meets_fault = not self.calm and self.dice.random() < often
        self._faulted = me if meets_fault else None
        return meets_fault

    def _inject(self, call: Call, me: Task, *, again: bool) -> CallFault | None:
        dice = self.dice.random()
        if dice < 0.1:
            self.kill(me.owner)
            raise Killed
        if dice < 0.2:
            self._dying = me
            return CallFault.LATE if dice < 0.15 and call.operation in CHANGES else None
        if dice < 0.35:
            self._freeze(me.owner)
            self.scheduler.step()
            return None
        if dice < (0.7 if again else 0.45) and self.luck.refuses:
            self.say(f"{me.owner.name} is refused {call.operation}")
            raise StoreDenied("the credentials expired")
        faults = [CallFault.REQUEST_LOST, CallFault.ANSWER_LOST, CallFault.REPEATED]
        if call.operation in CHANGES:
            faults += [CallFault.ANSWER_LOST, CallFault.LATE, CallFault.LATE]
        if self.luck.loss.of_uploads:
            faults += [CallFault.EXPIRED]
        return self.dice.choice(faults)

    def after(self, call: Call) -> None:  # noqa: ARG002  # the protocol of ``MemoryStore``'s plan
        """The store has answered, and may have killed the caller."""
        if self._dying is self.scheduler.current and not self.is_judging:
            self._dying = None
            self.kill(self.scheduler.current.owner)
            raise Killed

    def _ask_log(self, what: str) -> None:
        self.scheduler.step()
        me = self.scheduler.current
        self.say(f"{me.owner.name} {me.what}: log, {what}")
        if not self.calm and self.dice.random() < self.luck.fault:
            if self.dice.random() < 0.3:
                self.kill(me.owner)
                raise Killed
            raise Retry("the broker is away")

    # -------------------------------------------------------------------------------------- judging

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Inside, calls of the store are the test's own and meet no fault.

        Raises:
            Wrong: the ledger cannot be read.
        """
        was_judging, self.is_judging = self.is_judging, True
        try:
            yield
        except Stalled as stalled:
            raise Wrong(f"{stalled.reason}: {stalled}") from stalled
        finally:
            self.is_judging = was_judging

    def _deliver_all(self) -> None:
        with self.judging():
            for store in self.stores:
                store.deliver()

    def judge(self) -> None:
        """Compare the store with what a run without trouble leaves.

        Raises:
            Wrong: something is wrong with it, or a driver ended as it must not.
        """
        with self.judging():
            self._refuse([*self.findings()])

    def findings(self) -> Iterable[str]:
        """What is wrong in the end; see ``tests.crashes.judge``, as of the next."""
        return findings(self)

    def stuck(self, process: Process) -> Iterable[str]:
        """What a driver that lives on has not landed, and gives no reason for."""
        return stuck(self, process)

    def log_start(self, tp: TopicPartition) -> int:
        """The first offset that the source still has."""
        return self.log.partitions[tp.topic][tp.partition].log_start

    @staticmethod
    def _refuse(wrong: Iterable[str]) -> None:
        if found := "; ".join(wrong):
            raise Wrong(found)
