"""A closed range of a feed ends once each file of it has a number, and has all of them."""

from datetime import datetime, timedelta

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.driver.http.status import DriverProgress
from landfall.driver.landing.closed_ranges import until
from landfall.driver.landing.goals import Endless
from landfall.errors import Stalled
from landfall.ledger.feeds import SPAN, number_of
from landfall.source.files_log import FilesLog, Listed
from landfall.store.memory import MemoryStore
from tests.support.driver.fake_feeds import DAMAGED, FEED, HITS, FeedWorld, feed_group
from tests.support.driver.fakes import NOW, group

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
END = NOW
"""Where the range ends; drivers are started then."""


@pytest.fixture
def world() -> FeedWorld:
    """A bucket with two files of the range."""
    made = FeedWorld(MemoryStore(), NOW)
    made.write("04/b", END - 40 * MINUTE)
    made.write("04/a", END - 20 * MINUTE)
    return made


def lands(world: FeedWorld, end: datetime = END, writer: str = "w") -> ExitCode:
    return world.driver(until(end), end, writer).run()


def runs(world: FeedWorld) -> list[tuple[datetime, tuple[str, ...], int]]:
    ends = ((NOW + timedelta(milliseconds=r.until - _millis(NOW)), r) for r in world.state.runs)
    return [(end, run.left, run.totals.landed) for end, run in ends]


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def test_a_range_has_every_file_that_was_written_before_its_end(world: FeedWorld) -> None:
    assert lands(world) is ExitCode.OK

    assert runs(world) == [(END, (), 2)]
    assert world.state.checkpoint[HITS] == 2 * SPAN


def test_a_file_that_has_not_settled_is_waited_for(world: FeedWorld) -> None:
    world.write("04/c", END - timedelta(seconds=1))

    assert lands(world) is ExitCode.OK

    assert runs(world) == [(END, (), 3)]


def test_a_file_that_is_written_on_does_not_hold_the_range(world: FeedWorld) -> None:
    one = world.driver(until(END), END)
    now = one.deps.clock

    def write(_: object) -> None:
        world.write("04/current", now(), str(now()).encode())

    world.write("04/current", END - MINUTE)
    one.report = write

    assert one.run() is ExitCode.OK
    assert runs(world) == [(END, (), 2)]


def test_a_late_name_comes_with_the_next_range(world: FeedWorld) -> None:
    lands(world)
    world.write("03/late", END + MINUTE)

    lands(world, END + HOUR, "w2")

    assert runs(world) == [(END, (), 2), (END + HOUR, (), 1)]


def test_a_damaged_file_leaves_the_feed_and_its_mended_version_ends_the_range(
    world: FeedWorld,
) -> None:
    world.group = feed_group(
        route={"pattern": "dt={date}/hr={hour}"},
        completeness={"delay": "5m"},
        schedule={"cron": "5 * * * *"},
    )
    world.write("04/c", END - 10 * MINUTE, DAMAGED)

    assert lands(world) is ExitCode.STALLED
    assert lands(world, writer="w2") is ExitCode.STALLED
    assert runs(world) == [(END, ("hits",), 2)]
    assert world.state.horizons == {}

    world.write("04/c", END + MINUTE)
    assert world.driver(until(END), END + 10 * MINUTE, "w3").run() is ExitCode.OK
    assert runs(world) == [(END, ("hits",), 2), (END, (), 1)]
    assert world.state.horizons == {"hits": _millis(END - HOUR)}


@pytest.mark.parametrize("on_change", ["Stall", "Park"])
def test_a_file_that_waits_for_a_decision_leaves_the_feed(world: FeedWorld, on_change: str) -> None:
    def group_with(on_change: str) -> ConsumerGroup:
        return group(
            source={"files": [{**FEED, "onChange": on_change}]},
            route={"pattern": "dt={date}/hr={hour}"},
            completeness={"delay": "5m"},
            schedule={"cron": "5 * * * *"},
        )

    world.group = group_with(on_change)
    assert lands(world) is ExitCode.OK
    world.write("04/a", END + MINUTE, b"another version")

    assert lands(world, END + HOUR, "w2") is ExitCode.STALLED
    assert runs(world) == [(END, (), 2), (END + HOUR, ("hits",), 0)]
    assert world.state.horizons == {"hits": _millis(END - HOUR)}

    world.group = group_with("Ignore")
    assert lands(world, END + HOUR, "w3") is ExitCode.OK
    assert runs(world)[2:] == [(END + HOUR, (), 0)]
    assert world.state.horizons == {"hits": _millis(END)}


def test_without_a_schedule_hours_of_files_are_never_complete() -> None:
    with pytest.raises(Stalled, match="completeness: needs schedule"):
        feed_group(completeness={"delay": "5m"})


def test_a_driver_that_is_woken_knows_what_is_left_once_it_has_listed_all_names(
    world: FeedWorld,
) -> None:
    one, known = world.driver(Endless, END), list[int]()

    def report(progress: DriverProgress) -> None:
        if progress.offsets_known and not known:  # the operator lets a driver go by this
            known.extend(number_of(each.offsets.end) for each in progress.backlogs)
            one.stop("seen")

    one.report = report
    one.run()

    assert known == [2]


def test_a_listing_closes_what_was_written_before_it_began() -> None:
    second = timedelta(seconds=1)

    assert Listed(END).closes(END)
    assert not Listed(END - second).closes(END)
    assert Listed(END, END).closes(END)
    assert not Listed(END, END - second).closes(END)


def test_a_log_of_files_says_where_closed_feeds_end(world: FeedWorld) -> None:
    lands(world)
    log = FilesLog(world.group)
    log.take_in(world.state)

    assert log.first_from([HITS], END) == {}
    log.listed[HITS] = Listed(END + MINUTE)
    found = log.first_from([HITS], END)[HITS]
    assert found is not None
    assert (found.offset, found.timestamp) == (2 * SPAN, _millis(END + MINUTE))
