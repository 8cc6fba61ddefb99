"""Schedules in which Kafka loses records that another group has landed.

The other group, a backup, lands what Kafka has, now and then, and in between Kafka drops records of
all topic partitions, landed or not. Drivers read from the backup what they missed, and skip what
nobody has. In the end every record is landed once or skipped, as in all schedules; nothing that the
backup has was skipped or given up; and what a COMMIT says of where it was read from is true.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from msgspec import structs

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.core.deps import DriverDeps
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger import Commit, Hole, Lost
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store import Store
from landfall.task import Batch
from tests.crashes import log_events
from tests.crashes.judge import folded_records
from tests.crashes.luck import Loss
from tests.crashes.machine import Schedule
from tests.crashes.process import Process
from tests.crashes.world import SHORT_SLICES, ReadingRunner
from tests.support.driver.fake_backup import READ_FROM, FakeBackup

LANDS = 3
"""How many of a schedule's events let the backup land more."""
DROPS = 2
"""How many more than in other schedules let Kafka drop records."""
HIDES = 0.3
"""How often what it lands is not visible at once: its store is slow, or its driver was killed."""
GAPS = 0.2
"""How often it leaves something out."""
AWAY = 0.05
"""How often its store does not answer."""


class LosingSchedule(Schedule):
    """One run; see the module."""

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        loss = self.dice.choice((Loss.ANYTHING, Loss.ANYTHING, Loss.SKIPPED))
        self.luck = replace(
            self.luck, loss=loss, publishes=False, letters=False, apart=False, ranges=False
        )
        self.backup = FakeBackup({}, final=False, gate=self._ask_backup)
        self.untrue: list[str] = []

    def group(self, generation: int) -> ConsumerGroup:
        """The group in a generation, which reads from the backup what Kafka has lost."""
        document = super().group(generation).model_dump(mode="json", by_alias=True)
        document["spec"]["source"]["kafka"]["onDataLoss"] = {
            **READ_FROM,
            "otherwise": "SkipAndRecord",
        }
        return parse_group(document)

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:
        """What a driver works with, and the backup."""
        return replace(super().deps(name, group), backup=self.backup)

    def runner(self, store: Store) -> "BackedRunner":
        """See ``Schedule``; tasks read from the backup, too."""
        return BackedRunner(store, schedule=self)

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; the backup lands what Kafka has."""
        drops = [partial(log_events.drop, self)] * DROPS
        return [*super().source_events(), *[self._land_in_backup] * LANDS, *drops]

    def land_the_rest(self) -> Process:
        """Let a driver land until it has caught up; the backup will land no more."""
        self._end_backup()
        return super().land_the_rest()

    def stuck(self, process: Process) -> Iterable[str]:
        """See ``Schedule``; from now on the backup lands nothing more."""
        self._end_backup()
        return super().stuck(process)

    def _end_backup(self) -> None:
        """Let everything be visible that the backup has; it lands no more."""
        self.backup.final = True
        self.backup.hidden.clear()

    def findings(self) -> Iterable[str]:
        """What is wrong in the end."""
        yield from super().findings()
        yield from self.untrue
        for before, record in folded_records(self):
            match record:
                case Hole(piece=piece) if before.members.keys() >= {piece.topic_partition}:
                    if held := self._held(piece):
                        yield f"{piece} was skipped, and the backup has {held} of it"
                case Lost(commit=slot, objects=objects):
                    tps = {topic_partition(o.upload.key) for o in objects}
                    yield from (f"given up: {each}" for each in self._read_elsewhere(slot, tps))
                case _:
                    pass

    def _held(self, piece: Slice) -> list[int]:
        """The offsets of a range that the backup has."""
        tp = piece.topic_partition
        return [
            offset
            for landed in self.backup.landed.get(tp, ())
            for offset in range(piece.offsets.start, piece.offsets.end)
            if landed.start <= offset < landed.end
        ]

    def _read_elsewhere(self, slot: int, tps: set[TopicPartition]) -> Iterable[Slice]:
        """The slices of a COMMIT that were read from the backup, which keeps what it has."""
        for _, record in folded_records(self):
            if isinstance(record, Commit) and record.header.seq == slot:
                slices = (s for s in record.slices if s.read_from)
                yield from (s.piece for s in slices if s.piece.topic_partition in tps)

    def _land_in_backup(self) -> None:
        for topic, partitions in self.log.partitions.items():
            for number, marks in enumerate(partitions):
                tp, landed = TopicPartition(topic, number), self.backup.landed
                end = max((each.end for each in landed.get(tp, ())), default=0)
                start = max(end, marks.log_start)
                if self.dice.random() < GAPS:
                    start = self.dice.randint(start, max(start, marks.end))
                self.backup.hidden.pop(tp, None)
                if start < marks.end and self.dice.random() < HIDES:
                    self.backup.hidden[tp] = start
                if start < marks.end:
                    landed.setdefault(tp, []).append(
                        OffsetRange(start, self.dice.randint(start + 1, marks.end))
                    )
        self.say(f"the backup has {self.backup.landed}, hidden: {self.backup.hidden}")

    def _ask_backup(self) -> None:
        if self.is_judging:
            return
        self.scheduler.step()
        if not self.calm and self.dice.random() < AWAY:
            raise Retry("the store of the backup does not answer")


class BackedRunner(ReadingRunner):
    """Reads from the backup what it is told to, and notes if a COMMIT could say otherwise."""

    def __init__(self, store: Store, *, schedule: LosingSchedule) -> None:
        super().__init__(store)
        self._schedule = schedule

    def _landed(self, batch: Batch, piece: Slice, bad: int) -> LandedSlice:
        landed = super()._landed(batch, piece, bad)
        found = dict(batch.from_backup).get(piece)
        return structs.replace(landed, read_from=found.group) if found else landed

    def _read_log(self, batch: Batch, piece: Slice) -> tuple[str, Slice]:
        found = dict(batch.from_backup).get(piece)
        if found is None:
            return super()._read_log(batch, piece)
        backup, tp = self._schedule.backup, piece.topic_partition
        if not backup.has(tp, found.topic_id, piece.offsets):
            if batch.limits:  # else it was landed from there, and the backup keeps what it has
                self._schedule.untrue.append(f"{piece} was to be read from {backup.landed}")
            raise Stalled(Reason.DATA_LOSS, f"{piece}: backup has {backup.landed.get(tp)}")
        if batch.limits and len(piece.offsets) > 1 and self.dice.random() < SHORT_SLICES:
            end = self.dice.randrange(piece.offsets.start + 1, piece.offsets.end)
            piece = Slice(tp, OffsetRange(piece.offsets.start, end))
        return found.topic_id, piece
