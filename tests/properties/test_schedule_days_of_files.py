"""Two days of an hourly schedule whose source is a feed: kills, a damaged file, a long outage.

As ``test_schedule_days``: a driver is started when a range is due, until it ends well or is given
up until the next hour. Files come at any time, with any name. All that happens follows from the
seed, but for what threads do first.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from landfall.api.contract import ExitCode
from landfall.api.spec import Schedule
from landfall.driver.landing.closed_ranges import scheduled
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.ledger import EndedRun, digest, feeds
from landfall.ledger.names import object_names
from tests.crashes.process import no_waiting
from tests.properties.test_schedule_days import Fate, Killed, Store
from tests.support.driver.fake_feeds import DAMAGED, FeedWorld, feed_group
from tests.support.driver.fakes import NOW

HOUR, MINUTE, HOURS = timedelta(hours=1), timedelta(minutes=1), 48
AT_FIVE = Schedule(cron="5 * * * *")
OUTAGE, BROKEN = range(30, 33), 20
ATTEMPTS = 4
"""How often a run is tried in its hour."""
GROUP = feed_group(
    route={"pattern": "dt={date}/hr={hour}"},
    completeness={"delay": "5m"},
    schedule={"cron": "5 * * * *"},
    tuning={"pollInterval": "1ms"},
)


@dataclass
class DaysOfFiles:
    """A bucket in which hours pass.

    Attributes:
        written: when each file was first written.
        broken: the name of the file that is damaged at first.
    """

    seed: int
    fate: Fate = field(default_factory=Fate)
    written: dict[str, datetime] = field(default_factory=dict)
    broken: str = ""
    kills: int = 0

    def __post_init__(self) -> None:
        self.dice, self.store, self.names = random.Random(self.seed), Store(self.fate), count()
        self.world = FeedWorld(self.store, NOW, GROUP)

    def hour_passes(self, number: int) -> datetime:
        """Files are written until five past; returns the time at which the hour is landed."""
        start = NOW + number * HOUR
        # One is written just before the range ends, so that it has not settled then.
        for minute in (*sorted(self.dice.sample(range(5, 64), 2)), 64.9):
            name = f"{self.dice.randrange(100)}/{minute}-{number}"
            is_broken = number == BROKEN and not self.broken
            self.broken = name if is_broken else self.broken
            self.written[name] = start + minute * MINUTE
            self.world.write(name, start + minute * MINUTE, DAMAGED if is_broken else name.encode())
        if number == BROKEN + 1:
            self.world.write(self.broken, start + 30 * MINUTE, b"mended")
        return start + HOUR + 5 * MINUTE

    def land(self, now: datetime, *, lives: bool) -> ExitCode | None:
        """Start a driver; returns how it ended, None if it was killed or could not work."""
        if not lives:
            self.fate.calls_to_live = self.dice.choice((20, 60, 100, float("inf")))
        try:
            one = self.world.driver(scheduled(AT_FIVE), now, f"D{next(self.names)}")
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

    def visible_at_runs(self) -> Iterator[tuple[EndedRun, set[str]]]:
        """Each RUN, and the files of which all was visible when it was written."""
        bodies = [body for _, body in Lane(self.store, "fake", "0").bodies()]
        parts = self.world.numbered()
        for run in self.world.state.runs:
            found = set[str]()
            for key in self.store.at_runs[digest(bodies[run.slot])]:
                try:
                    object_names.parse_key(key)
                except ValueError:
                    continue
                with self.store.open(key) as stream:
                    rows = map(int, stream.read().split())
                    found |= {parts[feeds.number_of(row)].name for row in rows}
            yield run, found


def test_every_hour_of_files_is_complete_once_and_marked_only_then() -> None:
    days = DaysOfFiles(1)
    with no_waiting():
        for number in range(HOURS):
            now = days.hour_passes(number)
            days.fate.is_away = number in OUTAGE
            for attempt in range(ATTEMPTS + (number == HOURS - 1)):
                code = days.land(now, lives=number == BROKEN or attempt == ATTEMPTS)
                now += 4 * MINUTE
                if code is ExitCode.OK:
                    break
            days.fate.is_away = False

    by_end = {datetime.fromtimestamp(run.until / 1000, UTC): run for run in days.world.state.runs}
    ends = [NOW + n * HOUR + 5 * MINUTE for n in range(1, HOURS + 1)]
    assert list(by_end) == ends
    # What is left of ranges that one driver catches up with is landed with the last one of them.
    left = {end for end in ends if by_end[end].left}
    assert [run.left for run in days.world.state.runs if run.left]
    assert left <= {*ends[BROKEN - 8 : BROKEN + 1]}
    for run, visible in days.visible_at_runs():
        until = datetime.fromtimestamp(run.until / 1000, UTC)
        due = {name for name, at in days.written.items() if at < until}
        assert run.left or due <= visible
        assert run.left in {(), ("hits",)}
    assert days.world.landed() == dict.fromkeys(days.written, 1)
    assert days.world.state.horizons == {"hits": int((NOW + HOURS * HOUR).timestamp() * 1000)}
    assert days.kills > 10
