"""Schedules in which dead letters are in places of their own, and specs name different ones.

Each driver has a spec of its own: it names one place or another for new dead letters, all places or
some, as after a change of ``badRecords.url`` or its rollback. A place may refuse for a while. A
driver whose spec does not name what it needs may end, for that reason alone, and it may neither
lose nor repeat anything. If it lives on, it waits with the objects that it cannot make again, and
says which fields of the spec lack the place. The last driver knows every place. In the end every
record is landed once, as in all schedules; each object is in the store that its key names; and
``fsck`` by a spec that names no place takes nothing for lost.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.driver.core.deps import DriverDeps
from landfall.driver.process.loop import Driver
from landfall.errors import LettersUnreachable, Reason, StoreDenied
from landfall.store.memory import Call, CallFault, Operation, Plan
from tests.crashes.judge import still_busy
from tests.crashes.luck import Loss
from tests.crashes.machine import Schedule
from tests.crashes.process import Process
from tests.crashes.world import driver_deps

FIRST, SECOND = {"url": "s3://letters/fake"}, {"url": "s3://other/fake"}
ALL = FIRST | {"formerPlaces": [SECOND]}
"""Names both places."""
OF_ALL = (ALL, ALL, SECOND | {"formerPlaces": [FIRST]}, {"formerPlaces": [FIRST, SECOND]})
"""How ``badRecords`` of a spec names both."""
OF_SOME: tuple[dict[str, Any], ...] = (FIRST, SECOND, {"formerPlaces": [FIRST]}, {})
BEGINS_WITH_LETTERS = 0.3
"""How often dead letters are landed before any trouble; else they are under way when it begins."""
FORGETS = 0.5
"""How often a spec does not name all places."""
REFUSALS = 2
"""How many of a schedule's events let places refuse, or answer again."""
REFUSES_COMPLETIONS = 0.2
"""How often places begin to refuse when something that is decided is to become visible."""


class LettersSchedule(Schedule):
    """One run; see the module.

    Attributes:
        refusing: whether places of dead letters refuse every call.
    """

    refusing = False
    named: dict[str, Any] = ALL
    """The section ``badRecords`` of whoever is asked next."""

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        loss = self.dice.choice((self.luck.loss, Loss.UPLOADS, Loss.COMMITTED))
        self.luck = replace(
            self.luck, letters=True, apart=True, publishes=False, loss=loss, ranges=False
        )
        self.begins_with_letters = self.dice.random() < BEGINS_WITH_LETTERS
        self._open_stores()

    def group(self, generation: int) -> ConsumerGroup:
        """The group in a generation, whose dead letters are in one of the places."""
        document = super().group(generation).model_dump(mode="json", by_alias=True)
        kept = {name: document["spec"]["badRecords"].get(name) for name in ("maxRatio", "retain")}
        document["spec"]["badRecords"] = {**kept, **self.named}
        return parse_group(document)

    def letters_plan(self) -> Plan:
        """What happens to calls of a place: the same as to all others, and it may refuse."""
        return RefusingPlace(self)

    def start(
        self, revision: str | None = None, *, until_caught_up: bool = False, stays: bool = False
    ) -> Process:
        """Start a driver; the last ones know every place."""
        forgets = not (until_caught_up or stays) and self.dice.random() < FORGETS
        self.named = self.dice.choice(OF_SOME if forgets else OF_ALL)
        self.say(f"the next spec has {self.named}")
        try:
            process = super().start(revision, until_caught_up=until_caught_up, stays=stays)
        finally:
            self.named = ALL
        process.may_name = (Reason.SPEC_INVALID,) if forgets else ()
        return process

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:
        """What a driver works with: stores of the places that its spec names."""
        store = self.store_of(group)
        return replace(driver_deps(self, name, self.runner(store)), store=store)

    def stuck(self, process: Process) -> Iterable[str]:
        """See ``Schedule``; a driver may wait for a place that its spec must name first."""
        found = super().stuck(process)
        return (f for f in found if f != still_busy(process)) if _asks_for(process) else found

    def source_events(self) -> list[Callable[[], object]]:
        """See ``Schedule``; places may refuse for a while."""
        return [*super().source_events(), *[self._refuse_or_answer] * REFUSALS]

    def _refuse_or_answer(self) -> None:
        self.refusing = not self.refusing
        self.say(f"the places of dead letters {'refuse' if self.refusing else 'answer again'}")

    def findings(self) -> Iterable[str]:
        """What is wrong in the end."""
        yield from super().findings()
        yield from self._of_a_reader_without_places()

    def _of_a_reader_without_places(self) -> Iterator[str]:
        """What ``fsck`` finds by a spec without places: they are unreachable, or not needed."""
        self.named = {}
        group = self.group(1)
        self.named = ALL
        pool = self.background.pool
        try:
            report = examine(GroupStore(group, self.store_of(group), pool), deep=False)
        except LettersUnreachable:
            return
        yield from (f"by a spec without places: {each}" for each in report.findings)


def _asks_for(process: Process) -> bool:
    """Return whether a driver says that its spec lacks a place that a repair needs."""
    failure = process.contender.deps.counters.last_failure
    if failure is None or process.progress is None or not process.progress.repairing:
        return False
    lacks_place = Reason.SPEC_INVALID in process.may_name
    return lacks_place and "nor badRecords.formerPlaces" in failure.message


class RefusingPlace:
    """What happens to calls of a place of dead letters."""

    def __init__(self, schedule: LettersSchedule) -> None:
        self._schedule = schedule

    def before(self, call: Call) -> CallFault | None:
        """See ``Plan``."""
        schedule = self._schedule
        fault = schedule.before(call)
        if schedule.calm or schedule.is_judging:
            return fault
        if call.operation is Operation.COMPLETE and schedule.dice.random() < REFUSES_COMPLETIONS:
            schedule.refusing = True
        if schedule.refusing:
            raise StoreDenied(f"{call.operation} {call.key}: 403 AccessDenied")
        return fault

    def after(self, call: Call) -> None:
        """See ``Plan``."""
        self._schedule.after(call)
