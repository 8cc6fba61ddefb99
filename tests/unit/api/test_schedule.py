"""Which closed ranges are due, by ``spec.schedule``, and what goes with it."""

from datetime import UTC, datetime

import pytest

from landfall.api.spec import Schedule, parse_group
from landfall.errors import Stalled
from tests.support.kubernetes.groups import document

HOURLY = Schedule(cron="5 * * * *", boundary="Hour")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ends(schedule: Schedule, after: str | None, now: str) -> list[str]:
    found = schedule.ends(at(after) if after else None, at(now))
    return [end.isoformat(" ", "minutes").removesuffix("+00:00") for end in found]


def test_the_hours_since_the_last_one_are_due_once_the_time_comes() -> None:
    assert ends(HOURLY, "2026-11-21 04:00", "2026-11-21 05:04") == []
    assert ends(HOURLY, "2026-11-21 04:00", "2026-11-21 05:05") == ["2026-11-21 05:00"]
    assert ends(HOURLY, "2026-11-21 04:00", "2026-11-21 07:30") == [
        "2026-11-21 05:00",
        "2026-11-21 06:00",
        "2026-11-21 07:00",
    ]


def test_a_range_ends_at_the_time_itself_without_a_boundary() -> None:
    schedule = Schedule(cron="5 * * * *")

    assert ends(schedule, "2026-11-21 04:05", "2026-11-21 05:06") == ["2026-11-21 05:05"]
    assert ends(schedule, "2026-11-21 05:05", "2026-11-21 05:06") == []


def test_the_first_range_has_all_that_is_before() -> None:
    assert ends(HOURLY, None, "2026-11-21 07:30") == ["2026-11-21 07:00"]
    assert ends(HOURLY, None, "2026-11-21 07:05") == ["2026-11-21 07:00"]
    assert ends(HOURLY, None, "2026-11-21 07:04") == ["2026-11-21 06:00"]


def test_two_times_within_an_hour_are_one_range_of_it() -> None:
    schedule = Schedule(cron="5,20 * * * *", boundary="Hour")

    assert ends(schedule, "2026-11-21 04:00", "2026-11-21 06:30") == [
        "2026-11-21 05:00",
        "2026-11-21 06:00",
    ]


def test_days_and_hours_are_those_of_the_time_zone() -> None:
    schedule = Schedule(cron="30 2 * * *", boundary="Day", time_zone="Europe/Berlin")

    # Summer time ends in the night to the 25th of October: that day has 25 hours.
    assert ends(schedule, "2026-10-23 22:00", "2026-10-27 12:00") == [
        "2026-10-24 22:00",
        "2026-10-25 23:00",
        "2026-10-26 23:00",
    ]


def test_the_hour_that_clocks_are_set_back_is_two_ranges() -> None:
    schedule = Schedule(cron="5 * * * *", boundary="Hour", time_zone="Europe/Berlin")

    assert ends(schedule, "2026-10-24 23:00", "2026-10-25 02:30") == [
        "2026-10-25 00:00",
        "2026-10-25 01:00",
        "2026-10-25 02:00",
    ]


@pytest.mark.parametrize("cron", ["61 * * * *", "* * * *", "@hourly", "", "0 0 30 2 *"])
def test_what_is_no_cron_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="not five fields of cron"):
        Schedule(cron=cron)


def test_a_group_sleeps_for_one_reason() -> None:
    with pytest.raises(Stalled, match="idle: a group with schedule has a driver only for its runs"):
        parse_group(document(schedule={"cron": "5 * * * *"}, idle={}))


def test_an_hour_waits_for_late_records_unless_a_range_ends_it() -> None:
    schedule = {"cron": "5 * * * *", "boundary": "Hour"}
    group = parse_group(document(schedule=schedule, completeness={"delay": "0s"}))

    assert group.spec.completeness
    assert not group.spec.completeness.delay
    with pytest.raises(Stalled, match=r"completeness\.delay: must be longer than zero without sch"):
        parse_group(document(completeness={"delay": "0s"}))


@pytest.mark.parametrize("field", ["schedule", "idle"])
def test_files_that_others_take_need_a_driver_that_runs(field: str) -> None:
    feed = {"topic": "hits", "url": "s3://in", "process": "External"}
    section = {"schedule": {"cron": "5 * * * *"}, "idle": {}}[field]

    with pytest.raises(Stalled, match=f"{field}: the files of hits are taken from a driver"):
        parse_group(document(source={"files": [feed]}, **{field: section}))
