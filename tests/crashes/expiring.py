"""Schedules in which dead letters expire, and drivers' clocks differ by hours.

Drivers delete dead letters once they are old, and are killed, frozen and fenced meanwhile; others
land dead letters again. Hours pass at once, so that a pass is due at any moment, and each driver
has a clock of its own, which runs steadily, as ``SteadyClock`` does. In the end every record is in
an object, or in dead letters that the ledger says have expired, and none was deleted while a REPLAY
that has read it still waited for its objects. Now and then ``fsck`` looks between two steps, and
takes nothing that has expired for lost.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.process.loop import Driver
from landfall.ledger import Lost, Replay
from landfall.ledger.task_results import LandedObject
from tests.crashes.judge import folded_records, retired, slots
from tests.crashes.machine import Schedule
from tests.crashes.person import ask_for_replay

RETAIN = timedelta(hours=1)
JUMPS = 4
"""How many of a schedule's events let hours pass."""
PASSED = (30, 61, 130)
"""How many minutes pass then."""
SKEWS = (-180, -30, 0, 30, 240)
"""How many minutes a driver's clock is ahead."""
ASKS = 3
"""How many let drivers be asked to land dead letters again."""
CHECKS = 0.01
"""How often ``fsck`` looks between two steps."""


class SetClock:
    """A clock that is ahead of another one, by a time that may grow."""

    def __init__(self, clock: Callable[[], datetime], ahead: timedelta = timedelta(0)) -> None:
        self._clock, self.ahead = clock, ahead

    def __call__(self) -> datetime:
        return self._clock() + self.ahead


class ExpirySchedule(Schedule):
    """One run; see the module."""

    has_one_time = False

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        apart = seed % 2 == 1
        self.luck = replace(self.luck, letters=True, apart=apart, publishes=False, ranges=False)
        self._open_stores()
        # The store has a clock of its own.
        self.clock = self.passing = SetClock(self.clock)
        self.found: list[str] = []

    def group(self, generation: int) -> ConsumerGroup:
        """The group in a generation, which keeps dead letters for an hour."""
        document = super().group(generation).model_dump(mode="json", by_alias=True)
        document["spec"]["badRecords"]["retain"] = f"{RETAIN.total_seconds():.0f}s"
        return parse_group(document)

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; hours pass, and drivers are asked to replay at any time."""
        asks = [partial(ask_for_replay, self)] * ASKS
        return [*super().source_events(), *[self._pass_hours] * JUMPS, *asks]

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:
        """What a driver works with, and a clock that is set wrongly."""
        ahead = timedelta(minutes=self.dice.choice(SKEWS))
        self.say(f"the clock of {name} is ahead by {ahead}")
        clock = SetClock(self.clock, ahead)
        return replace(super().deps(name, group), clock=clock, counters=DriverCounters(clock()))

    def let_pass(self, time: timedelta) -> None:
        """Let so much time pass by every driver's clock, since what any of them has written."""
        self.passing.ahead += time + timedelta(minutes=max(SKEWS) - min(SKEWS))

    def _pass_hours(self) -> None:
        self.passing.ahead += timedelta(minutes=self.dice.choice(PASSED))
        self.say(f"hours pass, {self.passing.ahead} in all")

    def _happen(self) -> None:
        super()._happen()
        if self.dice.random() < CHECKS:
            with self.judging():
                report = examine(self._opened, deep=False)
            self.found += [f"step {self.steps}: fsck finds {each}" for each in report.findings]

    @property
    def _opened(self) -> GroupStore:
        # Not in threads of the scheduler, which is about to choose one.
        return GroupStore(self.group(1), self.store)

    def findings(self) -> Iterable[str]:
        """What is wrong in the end."""
        yield from self.found
        yield from super().findings()
        for _, record in folded_records(self):
            for landed in record.slices if isinstance(record, Replay) else ():
                yield from self._deleted_too_early(landed.dead_letters, landed.objects)

    def _given_up(self) -> frozenset[str]:
        """The keys of objects that somebody gave up: these are never visible."""
        records = (record for _, record in folded_records(self))
        lost = (record.objects for record in records if isinstance(record, Lost))
        return frozenset(o.upload.key for objects in lost for o in objects)

    def _deleted_too_early(self, key: str, objects: Iterable[LandedObject]) -> Iterable[str]:
        """Dead letters that were deleted before what a REPLAY made of them was visible."""
        deletions = ChainMap(*(store.at_deletions for store in self.stores))
        at_deletion = deletions.get(key)
        # What retires was visible.
        gone = {each.landed.upload.key for slot in slots(self) for each in retired(self, slot)}
        seen = (at_deletion or frozenset()) | self._given_up() | gone
        unseen = [o.upload.key for o in objects if o.upload.key not in seen]
        if at_deletion is not None and unseen:
            yield f"{key} was deleted before a REPLAY had made {unseen} of it"
