"""Publishers beside the drivers of a schedule: killed, frozen and late like these.

The tables do in memory what ``landfall.publish.tables`` requires of a destination: the
position and the rows change together, and only for who has read the table as it is. A row stands
for an object, by its key and token. In the end each visible object is one row of its table, though
publishers that were frozen wake up late. Where objects are replaced, tables follow, and no object
is deleted that is a row of a table, unless somebody has dropped the table before.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from landfall.api.contract import LANE
from landfall.errors import Retry
from landfall.lane import Lane
from landfall.ledger.decisions import topic_partition
from landfall.ledger.names import object_names
from landfall.ledger.task_results import LandedObject
from landfall.publish import Stretch
from landfall.publish.context import Context
from landfall.publish.cursor import PublisherCursor
from landfall.publish.following import Follower
from landfall.publish.tables import Next, TablePublisher
from tests.crashes.scheduler import Killed, Owner

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule
    from tests.crashes.world import Version

MAX_PUBLISHERS = 2
"""Publishers that are alive at the same time."""
MAX_OBJECTS = 2
"""Objects of a stretch, so that a pass has several."""


@dataclass(frozen=True)
class Table:
    """The rows of a table and its position."""

    rows: tuple["Version", ...] = ()
    through: int = -1


@dataclass
class Tables:
    """The destination; ``gate`` is called before each answer, and says whether it gets lost."""

    gate: Callable[[str], bool]
    tables: dict[str, Table] = field(default_factory=dict)

    def through(self, table: str) -> int:
        """See ``landfall.publish.tables.Tables``, as of all methods."""
        self._answer(f"position of {table}")
        return self.tables.get(table, Table()).through

    def append(self, table: str, after: Next) -> int:
        while True:
            self._answer(f"load {table}")
            loaded = self.tables.get(table, Table())
            stretch = after(loaded.through)
            if not (stretch.objects or stretch.replaced):
                return loaded.through
            rows = tuple(_version(each.landed) for each in stretch.objects)
            retired = {_version(each) for found in stretch.replaced for each in found.retired}
            left = tuple(row for row in loaded.rows if row not in retired)
            is_lost = self.gate(f"commit {table} through {stretch.through}")
            if self.tables.get(table, Table()) is loaded or (
                not loaded.rows and table not in self.tables
            ):
                self.tables[table] = Table((*left, *rows), stretch.through)
                if not is_lost:
                    return stretch.through
            if is_lost:
                raise Retry("the answer is lost")

    def refill(self, table: str, stretch: Stretch) -> None:
        self.tables.pop(table, None)
        self.append(table, lambda _: stretch)

    def clear(self, table: str) -> None:
        self.tables.pop(table, None)

    def _answer(self, what: str) -> None:
        if self.gate(what):
            raise Retry("no answer")


class Publishers:
    """The publishers of a schedule, and their tables.

    Attributes:
        tables: that they publish to.
        alive: their processes, dead or frozen ones included.
        follows: whether tables take out what is replaced.
        drops: whether somebody may drop tables.
    """

    follows = False
    drops = True

    def __init__(self, schedule: "Schedule") -> None:
        self._schedule, self._numbers = schedule, count(1)
        self.tables = Tables(self._gate)
        self.alive: list[Owner] = []

    def events(self) -> Iterator[Callable[[], object]]:
        """What may happen to publishers between two steps."""
        if not self._schedule.luck.publishes:
            return
        going = [owner for owner in self.alive if not owner.dead]
        if sum(not owner.frozen for owner in going) < MAX_PUBLISHERS:
            yield self._start
        if going:
            one = self._schedule.dice.choice(going)
            yield lambda: self._set_frozen(one, not one.frozen)
            yield lambda: self._schedule.kill(one)
        if self.tables.tables and self.drops:
            yield self._drop

    def wake(self) -> None:
        """Wake up those that are frozen."""
        for owner in self.alive:
            owner.frozen = False

    def catch_up(self) -> None:
        """Publish all that is visible, undisturbed."""
        with self._schedule.judging():
            self._publish(self._publisher(), self._follower())

    def has(self, version: "Version") -> bool:
        """Whether an object is a row of a table."""
        return any(version in table.rows for table in self.tables.tables.values())

    def findings(self) -> Iterator[str]:
        """What tables lack or have twice, once a publisher has run undisturbed."""
        if not self._schedule.luck.publishes:
            return
        self._publish(self._publisher(), self._follower())
        found = Counter(row for table in self.tables.tables.values() for row in table.rows)
        expected = Counter(self._visible())
        if found != expected:
            yield f"not published {[*expected - found]}, published too often {[*found - expected]}"

    def _start(self) -> None:
        owner = Owner(f"P{next(self._numbers)}")
        self.alive.append(owner)
        self._schedule.say(f"{owner.name} starts to publish")
        self._schedule.scheduler.spawn(owner, "publisher", self._work)

    def _work(self) -> None:
        schedule, publisher, follower = self._schedule, self._publisher(), self._follower()
        while not schedule.calm:
            with suppress(Retry):
                self._publish(publisher, follower)
            schedule.pause()

    @staticmethod
    def _publish(publisher: TablePublisher, follower: Follower) -> None:
        publisher.publish(follower)

    def _publisher(self) -> TablePublisher:
        lane = self._schedule.lane.group, LANE
        cursor = PublisherCursor.of(self._schedule.store, lane, "lake", "tables")
        return TablePublisher(
            self._follower, cursor, self.tables, table_of, follows_replacements=self.follows
        )

    def _follower(self) -> Follower:
        lane = self._schedule.lane
        pool = self._schedule.background.pool
        return Follower(Lane(lane.slots, lane.group, LANE, lambda _: pool()), MAX_OBJECTS)

    def _gate(self, what: str) -> bool:
        """Let others go on; returns whether the answer gets lost.

        Raises:
            Killed: the publisher is killed.
        """
        schedule = self._schedule
        if schedule.is_judging:
            return False
        schedule.scheduler.step()
        schedule.say(f"{schedule.scheduler.current.owner.name} publishes: {what}")
        if schedule.calm or schedule.dice.random() >= 3 * schedule.luck.fault:
            return False
        fate = schedule.dice.random()
        if fate < 0.3:
            schedule.kill(schedule.scheduler.current.owner)
            raise Killed
        if fate < 0.6:
            self._set_frozen(schedule.scheduler.current.owner, True)
            schedule.scheduler.step()
            return False
        return True

    def _set_frozen(self, owner: Owner, frozen: bool) -> None:
        owner.frozen = frozen
        self._schedule.say(f"{owner.name} {'freezes' if frozen else 'wakes up'}")

    def _drop(self) -> None:
        table = self._schedule.dice.choice(sorted(self.tables.tables))
        self._schedule.say(f"somebody drops table {table}")
        self.tables.clear(table)

    def _visible(self) -> Iterator["Version"]:
        store = self._schedule.store
        for stat in store.list_after(""):
            with suppress(ValueError):
                object_names.parse_key(stat.key)
                visible = store.stat(stat.key)
                yield stat.key, visible.token if visible else ""


def _version(landed: LandedObject) -> "Version":
    return landed.upload.key, landed.upload.token


class Lake:
    """The publisher as the specs of schedules name it: drivers ask it where it is."""

    follows_replacements = True

    def __init__(self, context: Context) -> None:
        self._cursor = context.cursor("tables")

    @classmethod
    def of(cls, options: object, context: Context) -> "Lake":
        """See ``PublisherType``."""
        del options
        return cls(context)

    def position(self) -> int:
        """See ``Publisher``."""
        return self._cursor.read().published


def table_of(landed: LandedObject) -> str:
    """The table of an object: its topic."""
    return topic_partition(landed.upload.key).topic
