"""Schedules in which dead letters expire, and drivers' clocks jump.

Drivers delete dead letters once they are old, and are killed, frozen and fenced meanwhile; others
land dead letters again. Clocks jump forwards and back, so that a pass is due at any moment. In the
end every record is in an object, or in dead letters that the ledger says have expired, and none was
deleted while a REPLAY that has read it still waited for its objects. Between any two steps ``fsck``
takes nothing that has expired for lost.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.fsck import examine
from landfall.cli.group_store import GroupStore
from landfall.driver.loop import Driver
from landfall.ledger import Lost, Replay
from landfall.ledger.task_results import LandedObject
from tests.crashes.judge import folded_records
from tests.crashes.machine import Schedule
from tests.crashes.person import asked

RETAIN = timedelta(hours=1)
JUMPS = 4
"""How many of a schedule's events let clocks jump."""
ASKS = 3
"""How many let drivers be asked to land dead letters again."""
CHECKS = 0.01
"""How often ``fsck`` looks between two steps."""


class JumpingClock:
    """The clock of all drivers, which somebody sets."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock, self.ahead = clock, timedelta(0)

    def __call__(self) -> datetime:
        return self._clock() + self.ahead


class ExpirySchedule(Schedule):
    """One run; see the module."""

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        self.luck = replace(self.luck, letters=True, publishes=False, ranges=False)
        # The store has a clock of its own.
        self.jumping = JumpingClock(self.clock)
        self.clock = self.jumping
        self.furthest = timedelta(0)
        self.found: list[str] = []

    def group(self, generation: int) -> ConsumerGroup:
        """The group in a generation, which keeps dead letters for an hour."""
        document = super().group(generation).model_dump(mode="json", by_alias=True)
        document["spec"]["badRecords"]["retain"] = f"{RETAIN.total_seconds():.0f}s"
        return parse_group(document)

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; clocks jump, and drivers are asked to replay at any time."""
        asks = [self._ask_for_replay] * ASKS
        return [*super().source_events(), *[self._jump] * JUMPS, *asks]

    def _jump(self) -> None:
        self.jumping.ahead += timedelta(minutes=self.dice.choice((-180, -30, 30, 61, 130, 240)))
        self.furthest = max(self.furthest, self.jumping.ahead)
        self.say(f"clocks are {self.jumping.ahead} ahead")

    def _ask_for_replay(self) -> None:
        for process in self.processes:
            if not (process.dead or process.ended) and (driver := process.contender._driver):
                asked(self, driver)

    def _happen(self) -> None:
        super()._happen()
        if self.calm:
            # A clock that was set back is waited for, and no schedule takes hours.
            self.jumping.ahead = self.furthest
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
        at_deletion = self.store.at_deletions.get(key)
        seen = (at_deletion or frozenset()) | self._given_up()
        unseen = [o.upload.key for o in objects if o.upload.key not in seen]
        if at_deletion is not None and unseen:
            yield f"{key} was deleted before a REPLAY had made {unseen} of it"
