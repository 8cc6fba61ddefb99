from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from landfall.pipeline.timezones import EPOCH, Zone, distinct


def seconds(text: str) -> int:
    return int((datetime.fromisoformat(text).replace(tzinfo=None) - EPOCH).total_seconds())


def local(zone: str, utc: str) -> str:
    return str(np.datetime64(int(Zone(zone).to_local(np.array([seconds(utc)]))[0]), "s"))


@pytest.mark.parametrize(
    ("zone", "utc", "wall"),
    [
        ("America/New_York", "2026-11-01T05:59:59", "2026-11-01T01:59:59"),
        ("America/New_York", "2026-11-01T06:00:00", "2026-11-01T01:00:00"),
        ("Australia/Lord_Howe", "2026-04-04T14:59:59", "2026-04-05T01:59:59"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00", "2026-04-05T01:30:00"),
        ("America/St_Johns", "2006-04-02T03:30:59", "2006-04-02T00:00:59"),
        ("America/St_Johns", "2006-04-02T03:31:00", "2006-04-02T01:01:00"),
        ("Asia/Kathmandu", "2026-01-01T00:00:00", "2026-01-01T05:45:00"),
        ("Europe/Amsterdam", "1880-01-01T00:00:00", "1880-01-01T00:19:32"),
    ],
)
def test_wall_time_is_exact_around_unusual_transitions(zone: str, utc: str, wall: str) -> None:
    expected = (
        datetime.fromisoformat(utc + "+00:00")
        .astimezone(ZoneInfo(zone))
        .strftime("%Y-%m-%dT%H:%M:%S")
    )

    assert local(zone, utc) == expected
    assert (
        zone == "Europe/Amsterdam" or expected == wall
    )  # before 1900 releases of the database differ


def test_a_wall_time_that_occurs_twice_means_the_first() -> None:
    twice = np.array([seconds("2026-11-01T01:30:00")])

    assert Zone("America/New_York").to_utc(twice).tolist() == [seconds("2026-11-01T05:30:00")]


def test_a_wall_time_that_is_skipped_is_read_as_if_clocks_had_not_moved() -> None:
    skipped = np.array([seconds("2026-03-08T02:30:00")])

    assert Zone("America/New_York").to_utc(skipped).tolist() == [seconds("2026-03-08T07:30:00")]


@pytest.mark.parametrize("numbers", [[], [5], [3, 1, 3], [0, 10**15, 0], [-(2**63), 2**63 - 1]])
def test_distinct_finds_each_number_again(numbers: list[int]) -> None:
    codes, values = distinct(np.array(numbers, np.int64))

    assert values[codes].tolist() == numbers
    assert values.tolist() == sorted(set(numbers))
