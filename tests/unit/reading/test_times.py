"""Output partitions say for which times they are, by the pattern that made them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import Route
from landfall.pipeline.route.pattern import PatternInput, parse_pattern
from landfall.pipeline.timezones import EPOCH
from landfall.reading.files import PartitionTimes

PATTERNS = (
    "dt={date}",
    "dt={date}/hr={hour}",
    "dt={date}/hr={hour}/min={minute:15}",
    "%Y/%m/%d/%H%M%S",
    "year=%Y/month=%m",
    "%Y/%j",
    "%b-%d-%Y",
    "week=%G-%V",
    "%G/%V/%u",
    "country={field:country}/dt={date}/hr={hour}",
    "{topic}/p{kafka_partition}/dt={date}",
)
ZONES = ("UTC", "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


@given(
    st.sampled_from(PATTERNS),
    st.sampled_from(ZONES),
    st.datetimes(EPOCH, EPOCH.replace(year=2060), timezones=st.just(UTC)),
)
def test_a_record_is_within_the_times_of_its_output_partition(
    pattern: str, zone: str, time: datetime
) -> None:
    times = PartitionTimes(Route(pattern=pattern, timezone=zone))

    wall = time.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    values = PatternInput("clicks", 3, wall, ("n%2Fl",))
    output_partition = parse_pattern(pattern).render(values)

    found = times.of(output_partition)

    assert found is not None
    assert found[0] <= time < found[1]


@pytest.mark.parametrize(
    ("pattern", "zone", "output_partition", "start", "hours"),
    [
        ("dt={date}/hr={hour}", "UTC", "dt=2026-11-21/hr=04", "2026-11-21T04:00+00:00", 1),
        ("dt={date}", "Europe/Amsterdam", "dt=2026-11-21", "2026-11-20T23:00+00:00", 24),
        # Clocks are set back: the day has 25 hours, and one hour has two passes.
        ("dt={date}", "Europe/Amsterdam", "dt=2026-10-25", "2026-10-24T22:00+00:00", 25),
        (
            "dt={date}/hr={hour}",
            "Europe/Amsterdam",
            "dt=2026-10-25/hr=02",
            "2026-10-25T00:00+00:00",
            2,
        ),
        ("%Y/%m", "UTC", "2026/02", "2026-02-01T00:00+00:00", 28 * 24),
        ("{date}/{hour}/{minute:30}", "UTC", "2026-11-21/04/30", "2026-11-21T04:30+00:00", 0.5),
    ],
)
def test_times_of_an_output_partition(
    pattern: str, zone: str, output_partition: str, start: str, hours: float
) -> None:
    first = datetime.fromisoformat(start)

    found = PartitionTimes(Route(pattern=pattern, timezone=zone)).of(output_partition)

    assert found == (first, first + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("pattern", "output_partition"),
    [
        ("country={field:country}", "country=NL"),
        ("dt={date}", "day=2026-11-21"),
        ("dt={date}", "dt=2026-13-41"),
        ("hr={hour}", "hr=04"),
        ("{minute}/{date}", "30/2026-11-21"),
        ("dt=%m-%d", "dt=11-21"),
        ("{date}", "9999-12-31"),
    ],
)
def test_what_says_no_time_has_none(pattern: str, output_partition: str) -> None:
    assert PartitionTimes(Route(pattern=pattern)).of(output_partition) is None
