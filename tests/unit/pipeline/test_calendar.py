"""Which periods the directories of a route stand for, and when each is over."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import Route
from landfall.pipeline.calendar import Calendar, Unit
from landfall.pipeline.route.pattern import PatternInput, parse_pattern
from landfall.pipeline.timezones import EPOCH, Zone

HOURLY = "dt={date}/hr={hour}"
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]


def calendar(pattern: str = HOURLY, zone: str = "UTC") -> Calendar:
    return Calendar.of(Route(pattern=pattern, timezone=zone))


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def over(found: Calendar, after: str, until: str) -> list[str]:
    return [period.directory for period in found.finished(ms(after), ms(until))]


def test_days_and_hours_are_over_when_the_horizon_reaches_their_end() -> None:
    hourly = calendar()

    assert over(hourly, "2026-11-21T22:59", "2026-11-22T01:00") == [
        "dt=2026-11-21",
        "dt=2026-11-21/hr=22",
        "dt=2026-11-21/hr=23",
        "dt=2026-11-22/hr=00",
    ]
    assert over(hourly, "2026-11-22T01:00", "2026-11-22T01:59") == []
    assert over(calendar("dt={date}"), "2026-11-20T12:00", "2026-11-22T01:00") == [
        "dt=2026-11-20",
        "dt=2026-11-21",
    ]


def test_at_first_only_the_last_period_of_each_unit_is_named() -> None:
    found = [p.directory for p in calendar().finished(-1, ms("2026-11-22T01:30"))]

    assert found == ["dt=2026-11-21", "dt=2026-11-22/hr=00"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%Y/%m", ["2026", "2026/11"]),
        ("%Y/%m/%d/%H", ["2026", "2026/11", "2026/11/30", "2026/11/30/23"]),
        ("y=%G/w=%V", ["y=2026/w=49"]),
        ("%Y/%j", ["2026", "2026/334"]),
        ("%b-%d-%y", ["Nov-30-26"]),
        ("{field:c}/dt={date}", [""]),
        ("dt={date}/{field:c}", ["dt=2026-11-30", ""]),
        ("dt={date}/m={hour}{minute:15}", ["dt=2026-11-30", "dt=2026-11-30/m=2345"]),
        ("hr={hour}", []),
        ("%m-%d", []),
        ("%Y/%d", ["2026"]),
        ("{topic}", []),
    ],
)
def test_periods_of_patterns(pattern: str, expected: list[str]) -> None:
    until = "2026-12-07" if "%V" in pattern else "2026-12-01"

    assert over(calendar(pattern), "2026-11-30T23:59:59", until) == [
        name
        for name in expected
        if name != "2026"  # the year goes on
    ]
    assert calendar(pattern).is_empty is (not expected)


def test_an_hour_that_is_there_twice_is_over_after_its_second_pass() -> None:
    berlin = calendar(zone="Europe/Berlin")
    day, hour = berlin.periods("dt=2026-10-25/hr=02")

    assert hour.end == ms("2026-10-25T02:00")  # 03:00 in Berlin
    assert day.end == ms("2026-10-25T23:00")
    assert over(berlin, "2026-10-24T23:59", "2026-10-25T01:59") == [
        "dt=2026-10-25/hr=01",
    ]


def test_a_day_without_its_first_hour() -> None:
    brazil = calendar("dt={date}", "America/Sao_Paulo")

    (before,) = brazil.periods("dt=2018-11-03")
    (day,) = brazil.periods("dt=2018-11-04")

    assert (before.end, day.end) == (ms("2018-11-04T03:00"), ms("2018-11-05T02:00"))


def test_directories_of_other_patterns_and_days_that_do_not_exist_have_no_periods() -> None:
    for directory in ["dt=2026-02-30/hr=01", "2026-01-01", "dt=2026-01-01x/hr=01", "a/b/c"]:
        assert list(calendar().periods(directory)) == [], directory
    assert [p.unit for p in calendar().periods("dt=2026-01-01/hr=01")] == [Unit.DAY, Unit.HOUR]
    assert not calendar().is_over("dt=9999-12-31/hr=01", ms("2500-01-01"))


@given(
    st.integers(10**11, 2 * 10**12),
    st.sampled_from(ZONES),
    st.sampled_from([HOURLY, "dt={date}", "%Y/%m", "%G-%V/%u", "dt={date}/%H{minute:15}", "%Y/%j"]),
)
def test_a_time_is_in_the_period_of_its_directory_and_in_no_finished_one(
    millis: int, zone: str, pattern: str
) -> None:
    found = calendar(pattern, zone)
    wall = EPOCH + timedelta(
        seconds=int(Zone(zone).to_local(np.array([millis // 1000], np.int64))[0])
    )
    rendered = parse_pattern(pattern).render(PatternInput("t", 0, wall, ()))
    boundary = found.boundary(millis)

    assert not found.is_over(rendered, millis)  # its last instant is later
    assert all(p.directory != rendered for p in found.finished(millis - 4 * 86_400_000, millis))
    *_, last = found.periods(rendered)
    assert found.is_over(rendered, last.end)
    assert boundary <= millis
    assert list(found.finished(boundary, millis)) == []
    later = list(found.finished(millis, last.end))
    assert rendered in [p.directory for p in later]
