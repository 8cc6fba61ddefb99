"""A year in which people undo merges, land hours again and promote them, and a store refuses.

As ``late_year``, with late rows each day. Every week somebody lands an hour of some days ago again
in a side lane, as a trial does, has it promoted, and undoes that three days later; every ten days
somebody undoes what was replaced last. And every tenth day the store refuses to delete data.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from landfall.api.contract import LANE, ExitCode
from landfall.api.verbs import PromoteRequest, UndoRequest
from landfall.driver.backfill.landed_ledger import read_chosen, read_landed
from landfall.driver.backfill.side_lane import side_group, side_plan, side_root, store_plan
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.backfill import SliceChoice
from landfall.driver.process.loop import Driver
from landfall.driver.requests.pending_requests import PendingRequest
from landfall.errors import LandfallError, StoreDenied
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger.names import object_names
from landfall.store.memory import Call, CallFault, Operation
from tests.sim.late_year import (
    BEGIN,
    COMPACT,
    DAY,
    HOUR,
    PROFILES,
    World,
    Year,
    YearRunner,
    YearStore,
    played,
)
from tests.support.ledger.compaction_scene import Inline
from tests.support.stores.store_below import StoreBelow

REFUSED_DAY = 10
"""Each day whose number can be divided by this, the store deletes no data."""
UNDO_EVERY, PROMOTE_EVERY, UNDONE_AFTER = 10 * DAY, 7 * DAY, 3 * DAY
AGE = 4 * DAY
"""How old the hour is that is landed again."""


class RefusedDays:
    """A ``Plan``: on some days no data may be deleted.

    Attributes:
        refusals: how many deletions were refused.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now, self.refusals = now, 0

    def before(self, call: Call) -> CallFault | None:
        """See ``Plan``."""
        is_data = not object_names.is_system_key(call.key)
        is_refused = is_data and call.operation in {Operation.RETIRE, Operation.DELETE}
        if is_refused and (self._now() - BEGIN) // DAY % REFUSED_DAY == REFUSED_DAY - 1:
            self.refusals += 1
            raise StoreDenied("a policy of the bucket forbids to delete this")
        return None

    def after(self, call: Call) -> None:
        """See ``Plan``."""


class AskedWorld(World):
    """A world in which people ask, and the store refuses.

    Attributes:
        answers: how often each verb was answered, by its outcome.
        messages: of the answers.
    """

    def __init__(self, days: int, compact: Mapping[str, Any] = COMPACT) -> None:
        super().__init__(PROFILES["a batch a day"](days), days, compact)
        self.answers, self.messages = Counter[str](), Counter[str]()
        self._undo_at, self._promote_at = BEGIN + UNDO_EVERY, BEGIN + PROMOTE_EVERY
        self._promoted: dict[datetime, str] = {}
        self._asked: list[tuple[str, PendingRequest]] = []

    def new_store(self) -> YearStore:
        """See ``World``; it refuses on some days."""
        self.refused = RefusedDays(lambda: self.now)
        return YearStore(lambda: self.now, self.refused)

    def happen(self, driver: Driver) -> None:
        """Take the answers in, and ask for what is due."""
        self._take_answers()
        if self.now >= self._undo_at:
            self._undo_at += UNDO_EVERY
            slots = [*driver.writer.state.replaced.values()]
            if slots:
                self._ask(driver, "undo", UndoRequest(who="kim", why="sim", slot=max(slots)))
        if self.now >= self._promote_at:
            self._promote_at += PROMOTE_EVERY
            self._promote(driver, f"week-{(self.now - BEGIN) // PROMOTE_EVERY}")
        for at, name in [*self._promoted.items()]:
            if self.now >= at:
                del self._promoted[at]
                if (slot := read_promoted(self._lane, name)) < 0:
                    self.answers["promotions that were not"] += 1
                else:
                    self._ask(driver, "undo", UndoRequest(who="kim", why="sim", slot=slot))

    def _take_answers(self) -> None:
        for what, pending in [*self._asked]:
            if pending.answer.done():
                self._asked.remove((what, pending))
                answer = pending.answer.result()
                self.answers[f"{what}: {answer.outcome.value}"] += 1
                self.messages[answer.message] += 1

    @property
    def _lane(self) -> Lane:
        return Lane(self.store, self.group.metadata.name, LANE, new_pool=lambda _: Inline())

    def _ask(self, driver: Driver, what: str, request: UndoRequest | PromoteRequest) -> None:
        pending = driver._requests.pending
        pending.submit(request, timedelta(0))
        found = [each for each in pending.waiting() if each.request == request]
        self._asked += [(what, each) for each in found]

    def _promote(self, driver: Driver, name: str) -> None:
        """Land an hour again in a side lane, and ask for its promotion."""
        hour = (self.now - AGE).replace(minute=0)
        choice = SliceChoice(output_partitions=(f"{hour:dt=%Y-%m-%d/hr=%H}",))
        side = StoreBelow(self.store, side_root(self.group, name))
        try:
            landed, found = read_chosen(self._lane, self.store, choice)
            plan = side_plan(name, landed, found, self.group.spec.generation, self.now)
        except LandfallError as error:
            self.answers[f"no plan: {type(error).__name__}"] += 1
            return
        store_plan(side, plan)
        group = side_group(self.group, plan)
        lane = Lane(side, group.metadata.name, LANE, new_pool=lambda _: Inline())
        spec = store_spec(side, group, LANE)
        writer = LaneWriter.open(lane, OpenRequest(name, 1, "test", spec=spec), lambda: self.now)
        deps = DriverDeps(
            side,
            Observer(self.log, HOUR),
            YearRunner(self, side),
            lambda: self.now,
            lambda: f"{name}-{next(self._names)}",
            DriverCounters(self.now),
            self,
        )
        outer, self._driver = self._driver, None
        code = Driver(group, writer, deps, lambda _: None, False, plan.goal).run()
        self._driver = outer
        assert code is ExitCode.OK, (code, deps.counters.message)
        self.answers["hours landed again"] += 1
        self._ask(driver, "promote", PromoteRequest(who="kim", why="sim", name=name))
        self._promoted[self.now + UNDONE_AFTER] = name


def read_promoted(lane: Lane, name: str) -> int:
    """The slot in which a backfill is promoted; -1 if it is not."""
    return read_landed(lane, within={}).promotions.of(name)


def an_asked_year(days: int = 365) -> tuple[Year, AskedWorld]:
    """Play it for so many days."""
    world = AskedWorld(days)
    year = played("undone, promoted, refused", world, days)
    return year, world
