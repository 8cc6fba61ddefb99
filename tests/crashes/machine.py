"""The real driver loop under every kind of trouble, in an order that a seed decides.

A schedule is a handful of drivers (``LaneContender``, as in a pod) on one ``MemoryStore`` and one
log. At every call of the store or the log the seed may let another thread go on, and may strike the
call: the driver is killed before or after it, the answer is lost with or without the effect, the
effect comes later, perhaps after the driver's death, a lifecycle rule takes the upload, the store
refuses for good. Between calls it may start a driver, freeze or wake one, tell one to hand over, to
take over or to stop, let records arrive, or let the log drop what is committed.

After that all late effects come, one driver is left alone and lands the rest; then whoever was
frozen wakes up. What must be there in the end is what a run without any of this leaves, up to where
ranges were cut; see ``Schedule.judge``.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import count

import stamina

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.cli.fsck import examine
from landfall.cli.group_store import GroupStore
from landfall.driver.counters import DriverCounters
from landfall.driver.handover import LaneContender
from landfall.driver.loop import Driver, DriverDeps
from landfall.driver.observer import Observer
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import Hole, Record, Repair, decode, object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.objects import Upload
from landfall.source import Topic, Watermarks
from landfall.store.fault_injection import Call, Fault, Operation
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.crashes.stage import Killed, Owner, Queue, Stage, Task, staged
from tests.support.fakes import FakeLog, FakeRunner, group, ticking

CHANGES = {Operation.CREATE, Operation.COMPLETE, Operation.PUT_PART, Operation.ABORT}
REVISIONS = ("", "a", "b")
DECIDES = {Operation.CREATE, Operation.COMPLETE}
LOST_ATTEMPTS = 0.1
"""How often a task's first attempt uploads and is not heard of again, as under speculation or when
an executor is lost.
"""
LATE_LOOKS = 0.5
"""How often the answer to a look lets others go first, again and again."""
BURST = 0.4
"""How often the next call of a thread is struck, too."""
MOST_ALIVE = 3
MOST_STEPS = 20_000
"""After this many, a schedule has run astray."""

Offsets = Counter[tuple[str, int, int]]
"""How often a record is there, by topic id, Kafka partition and offset."""


class Wrong(AssertionError):  # noqa: N818  # the name is the finding
    """Something is there that must not be."""


class Loss(StrEnum):
    """What may be lost besides, for no fault of a driver."""

    UPLOADS = "uploads"
    COMMITTED = "committed records"
    ANYTHING = "any records"
    TOPICS = "a topic, created again under its name"


@dataclass(frozen=True, slots=True)
class Luck:
    """What a schedule is made of, drawn from its seed.

    Attributes:
        steps: before the world calms down.
        switch: how often another thread goes on.
        strike: how often a call is struck.
        event: how often something happens between two calls.
        loss: a lifecycle rule may take uploads; or the log may drop what is committed, or what is
            not, and that is skipped; or a topic may be deleted and created again, and later drivers
            may be of a higher generation.
        refuses: the store may refuse for good.
        looks: how eager drivers are to look at the lane's tail, between any two steps; 0 for never.
        repeats: a second completion is a success, as on AWS.
        snapshot_every: as in the spec.
    """

    steps: int
    switch: float
    strike: float
    event: float
    loss: Loss
    refuses: bool
    looks: float
    repeats: bool
    snapshot_every: int

    @classmethod
    def of(cls, dice: random.Random) -> "Luck":
        return cls(
            steps=dice.choice((60, 120, 180, 240)),
            switch=dice.choice((0.02, 0.1, 0.4)),
            strike=dice.choice((0.0, 0.02, 0.06, 0.15)),
            event=dice.choice((0.05, 0.1, 0.2)),
            loss=dice.choice((*Loss, Loss.UPLOADS, Loss.COMMITTED)),
            refuses=dice.random() < 0.5,
            looks=dice.choice((0.0, 0.02, 0.1, 0.3)),
            repeats=dice.random() < 0.5,
            snapshot_every=dice.choice((2, 5, 1000)),
        )


class Process(Owner):
    """A driver's process.

    Attributes:
        turns: its loop.
        code: how it ended, if by itself.
        error: what ended it otherwise.
    """

    def __init__(self, name: str, turns: LaneContender) -> None:
        super().__init__(name)
        self.turns = turns
        self.task: Task | None = None
        self.code: ExitCode | None = None
        self.error: LandfallError | None = None
        self.ended = False
        self.gave_up = False

    def run(self) -> None:
        try:
            self.code = self.turns.run()
        except LandfallError as error:
            self.error = error
        finally:
            self.ended = True

    @property
    def went_wrong(self) -> str:
        """What it said that must never be said, if it did."""
        if isinstance(self.error, Stalled) and self.error.reason is not Reason.STORE_DENIED:
            return f"{self.error.reason}: {self.error}"
        if self.gave_up:
            return f"it said that it was fenced, and had the lane: {self.turns.counters.message}"
        message = self.turns.counters.message
        return (
            message
            if self.code is ExitCode.STALLED and not message.startswith(Reason.STORE_DENIED)
            else ""
        )


class WatchedStore(MemoryStore):
    """Notes objects that change while they can be seen."""

    def __init__(
        self, plan: "Schedule", clock: Callable[[], datetime], *, repeat_completes: bool
    ) -> None:
        super().__init__(plan, repeat_completes=repeat_completes, clock=clock)
        self.changed: list[str] = []

    def _finish_once(self, upload: Upload) -> None:
        before = self._objects.get(upload.key)
        super()._finish_once(upload)
        if before and self._objects[upload.key].token != before.token:
            self.changed.append(
                f"{upload.key}: {before.token} became {self._objects[upload.key].token}"
            )

    def deliver_one(self, dice: random.Random) -> None:
        """Let one late call have its effect."""
        if self._late:
            effect = self._late.pop(dice.randrange(len(self._late)))
            with suppress(LandfallError):  # nobody waits for the answer
                effect()


@dataclass
class GatedLog(FakeLog):
    """A log whose every call is a step."""

    gate: Callable[[str], None] = lambda _: None

    def topics(self) -> tuple[Topic, ...]:
        self.gate("topics")
        return super().topics()

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        self.gate("topic ids")
        return {name: self.ids[name] for name in names}

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        self.gate("watermarks")
        return super().watermarks(tps)

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        self.gate("record times")
        return super().record_times(positions)

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self.gate("mirror")
        super().mirror(next_offsets)


class ReadingRunner(FakeRunner):
    """A runner that finds out when the log has dropped what it should read, and loses attempts with
    all they did.
    """

    log: FakeLog
    dice: random.Random
    read_from: dict[tuple[str, str], str]
    """Per object's key and token, the id of the topic that was read."""

    def _landed(self, batch: Batch, piece: Slice, bad: int) -> LandedSlice:
        topic, partition = piece.topic_partition.topic, piece.topic_partition.partition
        marks, topic_id = self.log.partitions[topic][partition], self.log.ids[topic]
        if piece.offsets.start < marks.log_start:
            raise Stalled(Reason.DATA_LOSS, f"{piece}: the log starts at {marks.log_start}")
        if piece.offsets.end > marks.end:
            raise Retry(f"{piece}: the log ends at {marks.end}")
        if self.dice.random() < LOST_ATTEMPTS:
            super()._landed(batch, piece, bad)
        landed = super()._landed(batch, piece, bad)
        self.read_from |= {(o.upload.key, o.upload.token): topic_id for o in landed.objects}
        return landed


@cache
def group_with(generation: int, snapshot_every: int, on_data_loss: str) -> ConsumerGroup:
    """The group, which takes a snapshot now and then."""
    kafka = {"bootstrapServers": "twin:9092", "topicPattern": ".*", "onDataLoss": on_data_loss}
    tuning = {"pollInterval": "5ms", "snapshotEvery": snapshot_every}
    return group(generation=generation, source={"kafka": kafka}, tuning=tuning)


class Schedule:
    """One run; see the module."""

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        self.kind = kind
        self.dice = random.Random(seed)
        self.luck = Luck.of(self.dice)
        self.generations = 1
        self.read_from: dict[tuple[str, str], str] = {}
        self.former: Offsets = Counter()
        """Records of topics that are gone, by topic id."""
        self.clock, self.names = ticking(), count(1)
        self.log = GatedLog(gate=self._ask_log)
        self.log.write("a", 25, 7).write("b", 3)
        self.store = WatchedStore(self, self.clock, repeat_completes=self.luck.repeats)
        self.processes: list[Process] = []
        self.steps, self.calls = 0, 0
        self.calm, self.aside = False, False
        self._dying: Task | None = None
        self._struck: Task | None = None
        self._tell = tell
        self.lane = Lane(self.store, self.of(1).metadata.name, LANE)
        self.stage = Stage(self.choose)

    def of(self, generation: int) -> ConsumerGroup:
        """The group, of a generation."""
        skips = self.luck.loss is Loss.ANYTHING
        return group_with(
            generation, self.luck.snapshot_every, "SkipAndRecord" if skips else "Stall"
        )

    def run(self) -> None:
        """Play it to its end.

        Raises:
            Wrong: something is there that must not be.
        """
        Stage.current = self.stage
        if self._tell:
            self.say(f"{self.luck}")
        self.start()
        self.stage.play()
        self._settle()
        self.say("all late effects come, and one driver lands the rest")
        self.generations += 1
        last = self.start("", until_caught_up=True)
        self.stage.play()
        if last.code is not ExitCode.OK:
            raise Wrong(
                f"the last driver ended with {last.code} {last.error}: {last.turns.counters.message}"
            )
        self.judge()
        if any(process.frozen for process in self.processes):
            self.say("who was frozen wakes up")
            for process in self.processes:
                process.frozen = False
            self.stage.play()
            self._settle()
            self.judge()

    def say(self, what: str) -> None:
        """Tell what happens, if somebody listens."""
        if self._tell:
            self._tell(f"{self.steps:>5}  {what}")

    # -------------------------------------------------------------------------------- who goes next

    def choose(self, tasks: list[Task]) -> Task | None:
        """The stage asks who goes next."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Wrong(
                f"no end after {MOST_STEPS} steps: {[(t.owner.name, t.what) for t in tasks]}"
            )
        if not self.calm:
            self._happen()
        awake = [task for task in tasks if task.owner.dead or not task.owner.frozen]
        busy = [task for task in awake if task.owner.dead or task.ready()]
        me = self.stage.me
        if me in busy and self.dice.random() >= self.luck.switch:
            return me
        may_go = busy if busy and self.dice.random() < 0.95 else awake
        if may_go:
            return self.dice.choice(may_go)
        return None if self.calm else self.start().task

    def _happen(self) -> None:
        if self.steps >= self.luck.steps:
            self._calm_down()
        elif self.dice.random() < self.luck.event:
            self.dice.choice(self._events())()

    def _events(self) -> list[Callable[[], object]]:
        alive = [p for p in self.processes if not p.dead and not p.ended]
        events: list[Callable[[], object]] = [
            self._arrive,
            lambda: self.store.deliver_one(self.dice),
        ]
        if len(alive) < MOST_ALIVE:
            events += [self.start, self.start]
        if self.luck.loss is Loss.TOPICS:
            events.append(self._recreate)
        elif self.luck.loss is not Loss.UPLOADS:
            events.append(self._drop)
        if alive:
            one = self.dice.choice(alive)
            events += [
                lambda: self._freeze(one),
                lambda: self._wake(one),
                lambda: self._kill(one),
                lambda: self._order(one, one.turns.take_over, "take over"),
                lambda: self._order(one, lambda: one.turns.hand_over("b"), "hand over"),
                lambda: self._order(one, lambda: one.turns.stop("SIGTERM"), "stop"),
            ]
        return events

    def _calm_down(self) -> None:
        self.calm = True
        for process in self.processes:
            if process.dead or process.ended:
                continue
            fate = self.dice.choice(("killed", "frozen", "stopped"))
            if fate == "killed":
                self._kill(process)
                continue
            process.frozen = fate == "frozen"
            self._order(process, lambda p=process: p.turns.stop("SIGTERM"), f"stop, {fate}")  # type: ignore[misc]  # mypy cannot infer it

    # --------------------------------------------------------------------------------- what happens

    def start(self, revision: str | None = None, *, until_caught_up: bool = False) -> Process:
        """Start a driver."""
        name = f"D{next(self.names)}"
        batches = count(1)
        runner = ReadingRunner(self.store)
        runner.log, runner.dice, runner.read_from = self.log, self.dice, self.read_from
        observer = Observer(self.log, timedelta(0))
        parts = DriverDeps(
            self.store, observer, runner, self.clock, lambda: f"{name}-{next(batches)}"
        )
        of = self.of(
            self.generations if until_caught_up else self.dice.randint(1, self.generations)
        )
        turns = LaneContender(
            of,
            self.lane,
            parts,
            DriverCounters(self.clock()),
            lambda _: None,
            revision=self.dice.choice(REVISIONS) if revision is None else revision,
            until_caught_up=until_caught_up,
            kind=self.kind,
            _inbox=Queue(),  # type: ignore[arg-type]  # its twin
        )
        process = Process(name, turns)
        self.say(
            f"{name} starts, revision {turns.revision or 'none'}, generation {of.spec.generation}"
        )
        self.processes.append(process)
        process.task = self.stage.spawn(process, "driver", lambda: self._live(process))
        if self.luck.looks:
            self.stage.spawn(process, "look", lambda: self._look(process))
        return process

    def _live(self, process: Process) -> None:
        process.run()
        if process.code is ExitCode.FENCED:
            with self._aside():
                process.gave_up = self.lane.read().writer.startswith(f"{process.name}-")

    def _look(self, process: Process) -> None:
        """What ``StoreMonitor`` does, for as long as the driver is there."""
        while not process.ended:
            self.stage.wait(
                lambda: process.ended or self.dice.random() < self.luck.looks, idle=True
            )
            with suppress(LandfallError):
                process.turns.look(self._read_late)

    def _read_late(self, key: str) -> bytes | None:
        body = self.store.read(key)
        while self.dice.random() < LATE_LOOKS:
            self.stage.step()
        return body

    def _arrive(self) -> None:
        topic = self.dice.choice(("a", "b"))
        more = [
            Watermarks(m.log_start, m.end + self.dice.randrange(20))
            for m in self.log.partitions[topic]
        ]
        self.log.partitions[topic] = more
        self.say(f"records arrive: {topic} {more}")

    def _drop(self) -> None:
        with self._aside():
            checkpoint = self.lane.read().checkpoint
        for tp in checkpoint:
            marks = self.log.partitions[tp.topic][tp.partition]
            start = checkpoint[tp]
            if self.luck.loss is Loss.ANYTHING:
                start = self.dice.randint(marks.log_start, marks.end)
            self.log.partitions[tp.topic][tp.partition] = Watermarks(start, marks.end)
        self.say(f"the log drops records: {self.log.partitions}")

    def _recreate(self) -> None:
        topic = self.dice.choice(("a", "b"))
        self.former += self._records(topic)
        self.log.ids[topic] += "'"
        self.log.partitions[topic] = [
            Watermarks(0, self.dice.randrange(30)) for _ in self.log.partitions[topic]
        ]
        self.generations += self.dice.choice((0, 1, 1))
        self.say(
            f"topic {self.log.ids[topic]} is created in place of the one before: {self.log.partitions[topic]}"
        )

    def _records(self, topic: str) -> Offsets:
        """What a topic was given, by its id."""
        return Counter(
            (self.log.ids[topic], partition, offset)
            for partition, marks in enumerate(self.log.partitions[topic])
            for offset in range(marks.end)
        )

    def _freeze(self, process: Owner) -> None:
        process.frozen = True
        self.say(f"{process.name} freezes")

    def _wake(self, process: Process) -> None:
        process.frozen = False

    def _kill(self, process: Owner) -> None:
        process.dead = True
        self.say(f"{process.name} is killed")

    def _order(self, process: Process, order: Callable[[], object], what: str) -> None:
        self.say(f"{process.name} is told to {what}")
        order()

    # -------------------------------------------------------------------------------- calls, struck

    def before(self, call: Call) -> Fault | None:
        """The store is asked."""
        if self.aside:
            return None
        self.stage.step()
        me = self.stage.me
        again = me is self._struck
        fault = self._strike(call, me, again=again) if self._is_struck(call, me) else None
        if self._tell:
            self.say(
                f"{me.owner.name} {me.what}: {call.operation} {call.key}{f' ({fault})' if fault else ''}"
            )
        return fault

    def _is_struck(self, call: Call, me: Task) -> bool:
        """Trouble goes for what decides, and seldom comes alone."""
        often = (
            BURST
            if me is self._struck
            else self.luck.strike * (3 if call.operation in DECIDES else 1)
        )
        is_struck = not self.calm and self.dice.random() < often
        self._struck = me if is_struck else None
        return is_struck

    def _strike(self, call: Call, me: Task, *, again: bool) -> Fault | None:
        dice = self.dice.random()
        if dice < 0.1:
            self._kill(me.owner)
            raise Killed
        if dice < 0.2:
            self._dying = me
            return Fault.LATE if dice < 0.15 and call.operation in CHANGES else None
        if dice < 0.35:
            self._freeze(me.owner)
            self.stage.step()
            return None
        if dice < (0.7 if again else 0.45) and self.luck.refuses:
            self.say(f"{me.owner.name} is refused {call.operation}")
            raise Stalled(Reason.STORE_DENIED, "the credentials expired")
        faults = [Fault.REQUEST_LOST, Fault.ANSWER_LOST, Fault.REPEATED]
        if call.operation in CHANGES:
            faults += [Fault.ANSWER_LOST, Fault.LATE, Fault.LATE]
        if self.luck.loss is Loss.UPLOADS:
            faults += [Fault.EXPIRED]
        return self.dice.choice(faults)

    def after(self, call: Call) -> None:  # noqa: ARG002  # the plan's shape
        """The store has answered."""
        if self._dying is self.stage.me and not self.aside:
            self._dying = None
            self._kill(self.stage.me.owner)
            raise Killed

    def _ask_log(self, what: str) -> None:
        self.stage.step()
        me = self.stage.me
        self.say(f"{me.owner.name} {me.what}: log, {what}")
        if not self.calm and self.dice.random() < self.luck.strike:
            if self.dice.random() < 0.3:
                self._kill(me.owner)
                raise Killed
            raise Retry("the broker is away")

    # -------------------------------------------------------------------------------------- judging

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Calls that are the test's own."""
        self.aside = True
        try:
            yield
        finally:
            self.aside = False

    def _settle(self) -> None:
        with self._aside():
            self.store.deliver()

    def judge(self) -> None:
        """Hold what is there against a run without trouble.

        Raises:
            Wrong: something is missing, twice, changed or contradicts the ledger, or a driver said
                what it must not say.
        """
        with self._aside():
            wrong = [*self._findings()]
        if wrong:
            raise Wrong("; ".join(wrong))

    def _findings(self) -> Iterator[str]:
        records = [decode(seq, body) for seq, body in self.lane.bodies()]
        landed, skipped = self._landed(), self._skipped(records)
        yield from self._unaccounted(landed, skipped)
        yield from self.store.changed
        yield from (f"{p.name}: {p.went_wrong}" for p in self.processes if p.went_wrong)
        report = examine(GroupStore(self.of(1), self.store), deep=False)
        yield from map(str, report.findings)
        if report.waiting:
            yield f"{report.waiting} decided uploads wait"
        state = self.lane.read()
        if state != report.chain.state:
            yield "a snapshot gives another state than the whole chain"
        if (state.totals.landed, state.totals.skipped) != (landed.total(), skipped.total()):
            yield f"{landed.total()} landed, {skipped.total()} skipped; the ledger counts {state.totals}"
        if self.luck.loss is not Loss.UPLOADS and any(
            isinstance(record, Repair) for record in records
        ):
            yield "a decided upload was lost, though nobody but drivers can have aborted it"

    def _unaccounted(self, landed: Offsets, skipped: Offsets) -> Iterator[str]:
        written = self._records("a") + self._records("b")
        gone = landed & self.former
        missing, too_many = written - landed - skipped, landed + skipped - written - gone
        if missing or too_many:
            yield f"missing {sorted(missing.items())}, too many {sorted(too_many.items())}"
        if skipped and self.luck.loss is not Loss.ANYTHING:
            yield f"skipped {sorted(skipped)}"

    def _landed(self) -> Offsets:
        """Every record in a visible object, by the id of the topic that it was read from."""
        found: Offsets = Counter()
        for stat in self.store.list_after(""):
            with suppress(ValueError):
                name = object_names.parse_key(stat.key)
                visible = self.store.stat(stat.key)
                topic_id = self.read_from.get(
                    (stat.key, visible.token if visible else ""), "nobody"
                )
                with self.store.open(stat.key) as stream:
                    found.update(
                        (topic_id, name.partition, int(line)) for line in stream.read().split()
                    )
        return found

    def _skipped(self, records: list[Record]) -> Offsets:
        holes = [record.piece for record in records if isinstance(record, Hole)]
        return Counter(
            (self.log.ids[hole.topic_partition.topic], hole.topic_partition.partition, offset)
            for hole in holes
            for offset in range(hole.offsets.start, hole.offsets.end)
        )


@contextmanager
def machinery() -> Iterator[None]:
    """What schedules need around them: pools and queues of the stage, no waiting between retries,
    no log.
    """
    hooks = stamina.instrumentation.get_on_retry_hooks()
    stamina.instrumentation.set_on_retry_hooks(())
    logging.disable(logging.CRITICAL)
    try:
        with staged(), stamina.set_testing(True, attempts=1000):
            yield
    finally:
        logging.disable(logging.NOTSET)
        stamina.instrumentation.set_on_retry_hooks(hooks)
