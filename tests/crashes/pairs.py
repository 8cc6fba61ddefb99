"""Schedules in which features meet: whatever other schedules play alone, in one world.

In each of them objects are merged, landed again, undone and replayed, and segments are rolled up.
Trials of new generations land in side lanes (``tests.crashes.trials``).
Beside that, as the seed says: publishers follow, drivers land closed ranges, dead letters expire or
are in places of their own, Kafka loses what a backup has, stores refuse, and clocks jump. Readers
look in the middle (``tests.crashes.readers``), and somebody undoes what he likes, by what refusals
name (``tests.crashes.undoing``). In the end what holds in all of these schedules holds together.

What has met in a schedule its ledger says (``played``).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from functools import cache, partial

from landfall.api.contract import ExitCode
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.process.loop import Driver
from landfall.driver.replacing.promoting import prepare_promotion
from landfall.errors import LandfallError
from landfall.ledger import Block, Commit, Finalize, Lost, Purpose, Record, Repair, Replace, Replay
from landfall.ledger import Run as RunRecord
from landfall.ledger.names import object_names
from landfall.store.copying import copied
from tests.crashes.expiring import ExpirySchedule
from tests.crashes.judge import folded_records
from tests.crashes.letters import LettersSchedule
from tests.crashes.losing import LosingSchedule
from tests.crashes.luck import Loss
from tests.crashes.machine import Schedule
from tests.crashes.person import ask_for_replay
from tests.crashes.process import Process
from tests.crashes.promoting import Promoter, PromotionSchedule
from tests.crashes.readers import Readers
from tests.crashes.trials import Trials
from tests.crashes.undoing import Undoing


class Feature(StrEnum):
    """What meets others."""

    COMPACTION = "compaction"
    BACKFILL = "backfill + promote"
    UNDO = "undo"
    READ_FROM = "readFrom"
    LANDED_SOURCE = "landed source"
    SHADOW = "Shadow"
    PUBLISHERS = "publishers"
    FINALIZE = "FINALIZE"
    ROLLING = "segment rolling"
    REPLAY = "replay"
    LOST_UPLOADS = "lost uploads"
    SCHEDULE = "schedule"
    LETTERS_PLACE = "letters' place"


STEPS, EVENTS, FAULTS = (600, 1000, 1600), (0.01, 0.03, 0.1), (0.0, 0.01, 0.03, 0.1)
"""How many steps of a schedule may have trouble, and how often: a driver must get round to much."""
PROMOTES_TRIAL = 0.7
"""How often a trial is promoted, if one can be, when something might be merged."""
LISTERS = 3
"""How many list while, in the end, something is undone."""
ASKS = 3
"""How many of its events ask for an undoing or a replay."""


class PairSchedule(PromotionSchedule):
    """One run; see the module. It is a base of what ``meeting`` makes."""

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        of_backup, of_places = isinstance(self, LosingSchedule), isinstance(self, LettersSchedule)
        losses = (Loss.ANYTHING, Loss.SKIPPED) if of_backup else (Loss.UPLOADS, Loss.COMMITTED)
        self.luck = replace(
            self.luck,
            steps=self.dice.choice(STEPS),
            event=self.dice.choice(EVENTS),
            fault=self.dice.choice(FAULTS),
            letters=True,
            apart=of_places or self.dice.random() < 0.5,
            loss=self.dice.choice(losses),
            publishes=self.dice.random() < 0.6,
            ranges=self.dice.random() < 0.5,
        )
        self.publishers.follows = True
        self.publishers.drops = self.dice.random() < 0.5
        self._open_stores()
        self.readers, self.undoing, self.trials = Readers(self), Undoing(self), Trials(self)

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; readers come, and a person asks more often."""
        asks: list[Callable[[], object]] = [self.undoing.begin, partial(ask_for_replay, self)]
        others = [*self.readers.events(), *self.trials.events()]
        return [*super().source_events(), *others, *asks * ASKS]

    def new_planner(self, *arguments: object) -> Promoter:
        """What plans REPLACEs for a driver."""
        return TrialPromoter(self, *arguments)  # type: ignore[arg-type]  # as of the class above

    def land_the_rest(self) -> Process:
        """See ``Schedule``; what retires may wait for publishers, or for the end of its time."""
        if not self.log.unavailable:  # a driver of a trial may wait for a leader, without an end
            self.trials.end()
            if self.aftermath:
                for _ in range(LISTERS):
                    self.readers.start_listing()
                self.undoing.end()
        last = super().land_the_rest()
        for _ in range(2):
            with self.judging():
                state = self.lane.read()
            if last.code is not ExitCode.OK or not (state.replacing or state.retiring):
                break
            if self.luck.publishes:
                self.publishers.catch_up()
            self.let_pass(timedelta(seconds=self.keep))
            last = super().land_the_rest()
        return last

    def stuck(self, process: Process) -> Iterator[str]:
        """See ``Schedule``; nor does it answer who asks for an undoing."""
        yield from super().stuck(process)
        if self.undoing.waits_for(process):
            yield "an undoing is not answered"

    def findings(self) -> Iterator[str]:
        """What is wrong in the end."""
        yield from super().findings()
        yield from self.readers.wrong
        yield from self.undoing.stuck
        yield from self.trials.findings()


class TrialPromoter(Promoter):
    """Promotes what a trial has landed, now and then, and else does what its base does."""

    _schedule: PairSchedule

    def _merge(self) -> PlannedReplacement | None:
        schedule = self._schedule
        if not schedule.trials.trials or schedule.dice.random() >= PROMOTES_TRIAL:
            return super()._merge()
        try:
            found = schedule.trials.found(self._deps.store)
            if found is None:
                return super()._merge()
            plan, lanes, made = found
            if made.cut:
                return self._halves(lanes.live, made)
            self._check(lanes.live, made)
            schedule.say(f"promotes {plan.name}")
            pool = self._deps.background.pool
            return prepare_promotion(
                lanes, plan, self._deps.new_name(), copied, lambda n: pool(n, "copy")
            )
        except LandfallError as error:
            schedule.say(f"no promotion of a trial: {error}")
            return None


def played(schedule: Schedule) -> set[Feature]:
    """What has happened in a schedule."""
    with schedule.judging():
        records = [record for _, record in folded_records(schedule)]
        state = schedule.lane.read()
    found = {feature for record in records for feature in _of(record)}
    if isinstance(schedule, PairSchedule) and schedule.readers.read_as_log:
        found.add(Feature.LANDED_SOURCE)
    if isinstance(schedule, PairSchedule) and schedule.trials.have_landed:
        found.add(Feature.SHADOW)
    if state.segments:
        found.add(Feature.ROLLING)
    if schedule.publishers.tables.tables:
        found.add(Feature.PUBLISHERS)
    if any(object_names.letters_place(key) for key, _ in schedule.rows.of):
        found.add(Feature.LETTERS_PLACE)
    return found


def _of(record: Record) -> Iterable[Feature]:
    match record:
        case Replace():
            yield _of_replace(record)
        case Commit(slices=slices) if any(each.read_from for each in slices):
            yield Feature.READ_FROM
        case Finalize():
            yield Feature.FINALIZE
        case Replay():
            yield Feature.REPLAY
        case Repair() | Block() | Lost():
            yield Feature.LOST_UPLOADS
        case RunRecord():
            yield Feature.SCHEDULE
        case _:
            pass


def _of_replace(record: Replace) -> Feature:
    if record.decision is not None:
        return Feature.UNDO
    if record.instead != -1:
        return Feature.LOST_UPLOADS
    return Feature.COMPACTION if record.purpose is Purpose.COMPACT else Feature.BACKFILL


BESIDE: tuple[type[Schedule], ...] = (LosingSchedule, ExpirySchedule, LettersSchedule)
"""What is played beside objects that take the place of others, each or not, by the seed."""


@cache
def _world(number: int) -> type[PairSchedule]:
    beside = tuple(each for bit, each in enumerate(BESIDE) if number >> bit & 1)
    return type("PairSchedule", (PairSchedule, *beside), {})


def meeting(
    seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
) -> PairSchedule:
    """The schedule of a seed, in which one or the other is played beside."""
    return _world(seed % 2 ** len(BESIDE))(seed, kind=kind, tell=tell)
