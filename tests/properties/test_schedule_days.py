"""Two days of an hourly schedule: drivers that are killed, an hour that stalls, a long outage.

A driver is started when a range is due, as by the operator, until it ends well or is given up until
the next hour. Between runs there is none. All that happens follows from the seed.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import Schedule
from landfall.driver.landing.closed_ranges import scheduled
from landfall.errors import LandfallError, Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import EndedRun, digest
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.store import Created
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults
from tests.crashes.process import no_waiting
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group, landed_offsets

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
HOUR, HOURS = timedelta(hours=1), 48
AT_FIVE = Schedule(cron="5 * * * *")
OUTAGE, BROKEN = range(30, 33), 20
ATTEMPTS = 4
"""How often a run is tried in its hour."""
GROUP = group(
    route={"pattern": "dt={date}/hr={hour}"},
    completeness={"delay": "5m"},
    tuning={"pollInterval": "1ms"},
)


class Killed(BaseException):
    """The process is gone: nothing that it does has an effect any more."""


class Store(MemoryStore):
    """Remembers what was visible when each RUN was written."""

    def __init__(self, plan: "Fate") -> None:
        super().__init__(plan)
        self.at_runs: dict[str, frozenset[str]] = {}

    def _create(self, key: str, body: bytes) -> Created:
        answer = super()._create(key, body)
        if answer is Created.WON and b'"type":"RUN"' in body:
            self.at_runs[digest(body)] = frozenset(self._objects)
        return answer


@dataclass
class Fate(NoFaults):
    """When the store is away, and at which call the driver is killed."""

    is_away: bool = False
    calls_to_live: float = float("inf")

    def before(self, _: Call) -> CallFault | None:
        self.calls_to_live -= 1
        if self.calls_to_live < 0:
            raise Killed
        return CallFault.REQUEST_LOST if self.is_away else None

    def after(self, _: Call) -> None:
        if self.calls_to_live < 0:
            raise Killed


@dataclass
class Days:
    """A world in which hours pass."""

    seed: int
    fate: Fate = field(default_factory=Fate)
    log: FakeLog = field(default_factory=lambda: FakeLog().write("a", 0).write("b", 0))
    kills: int = 0

    def __post_init__(self) -> None:
        self.dice, self.store = random.Random(self.seed), Store(self.fate)
        self.names, self.runner = count(), FakeRunner(self.store)
        self.began = NOW

    def hour_passes(self, number: int) -> datetime:
        """Records arrive; returns the time at which the hour is landed."""
        start = self.began + number * HOUR
        for tp in (A, B):
            (marks,) = self.log.partitions[tp.topic]
            end, times = marks.end, self.log.times.setdefault(tp, [])
            for minute in sorted(self.dice.sample(range(5, 65), 3)):
                times.append((start + timedelta(minutes=minute), end))
                end += self.dice.randrange(1, 5)
            self.log.write(tp.topic, end)
        return start + HOUR + timedelta(minutes=5)

    def land(self, now: datetime, *, breaks: bool, lives: bool) -> ExitCode | None:
        """Start a driver; returns how it ended, None if it was killed or could not work."""
        self.runner.failures[B] = [Stalled(Reason.SOURCE_DENIED, "denied")] * breaks
        if not lives:
            self.fate.calls_to_live = self.dice.choice((5, 20, 40, 60, 80, float("inf")))
        try:
            one = driver(
                GROUP,
                self.store,
                self.log,
                self.runner,
                goal=scheduled(AT_FIVE),
                writer=f"D{next(self.names)}",
                start=now,
            )
            one.report = lambda _: self._die()
            return one.run()
        except Killed:
            self.kills += 1
        except LandfallError:
            pass
        finally:
            self.fate.calls_to_live = float("inf")
        return None

    def _die(self) -> None:
        if self.fate.calls_to_live < 0:
            raise Killed

    @property
    def runs(self) -> tuple[EndedRun, ...]:
        return Lane(self.store, "fake", "0").read().runs

    def visible_at_runs(self) -> Iterator[tuple[EndedRun, set[tuple[TopicPartition, int]]]]:
        """Each RUN, and the offsets that were visible when it was written."""
        bodies = [body for _, body in Lane(self.store, "fake", "0").bodies()]
        for run in self.runs:
            found = set[tuple[TopicPartition, int]]()
            for key in self.store.at_runs[digest(bodies[run.slot])]:
                try:
                    name = object_names.parse_key(key)
                except ValueError:
                    continue
                tp = TopicPartition(name.topic, name.partition)
                with self.store.open(key) as stream:
                    found |= {(tp, int(line)) for line in stream.read().split()}
            yield run, found

    def dated_before(self, until: datetime) -> set[tuple[TopicPartition, int]]:
        """What Kafka dates before a time."""
        found = set[tuple[TopicPartition, int]]()
        for tp, times in self.log.times.items():
            later = [offset for time, offset in times if time >= until]
            end = later[0] if later else self.log.partitions[tp.topic][0].end
            found |= {(tp, offset) for offset in range(end)}
        return found


@pytest.mark.parametrize("seed", range(4))
def test_every_hour_is_complete_once_and_marked_only_then(seed: int) -> None:
    days = Days(seed)
    with no_waiting():
        for number in range(HOURS):
            now = days.hour_passes(number)
            days.fate.is_away = number in OUTAGE
            for attempt in range(ATTEMPTS + (number == HOURS - 1)):
                breaks = number == BROKEN and attempt == 0
                code = days.land(now, breaks=breaks, lives=attempt == ATTEMPTS)
                now += timedelta(minutes=4)
                if code is ExitCode.OK:
                    break
            days.fate.is_away = False

    by_end = {datetime.fromtimestamp(run.until / 1000, UTC): run for run in days.runs}
    ends = [NOW + n * HOUR + timedelta(minutes=5) for n in range(1, HOURS + 1)]
    assert list(by_end) == ends
    # What is left of ranges that one driver catches up with is landed with the last one of them.
    assert {end for end in ends if by_end[end].left} <= {*ends[BROKEN - 8 : BROKEN]}
    for run, visible in days.visible_at_runs():
        due = days.dated_before(datetime.fromtimestamp(run.until / 1000, UTC))
        assert {each for each in visible if each[0].topic not in run.left} == {
            each for each in due if each[0].topic not in run.left
        }
    assert sum(run.totals.landed for run in days.runs) == len(days.dated_before(ends[-1]))
    assert max(landed_offsets(days.store).values()) == 1
    state = Lane(days.store, "fake", "0").read()
    complete = int((NOW + HOURS * HOUR).timestamp() * 1000)
    assert state.horizons == {"a": complete, "b": complete}
    assert days.kills > 10
