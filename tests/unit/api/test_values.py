"""Quantities and durations as people write them."""

from datetime import timedelta

import pytest

from landfall.api.values import duration, plural, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        (7, 7),
        ("1k", 1000),
        ("1.5Ki", 1536),
        ("256Mi", 2**28),
        ("2e9", 2 * 10**9),
        ("1E", 10**18),
        ("1Ei", 2**60),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(text: object, value: int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "Mi", "-1", "1 Mi", "1MB", "1kb", "0x10", "1e1000", "٣", True, None, [], 1.5e300]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("0.001s", timedelta(milliseconds=1)),
        ("7d", timedelta(days=7)),
    ],
)
def test_a_duration_is_the_sum_of_its_terms(text: str, value: timedelta) -> None:
    assert duration(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        5,
        "5 m",
        "-5m",
        "5min",
        "m",
        "0.0001s",
        "999999999999d",
        None,
        timedelta(microseconds=1),
    ],
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 slices"), (1, "1 slice"), (2, "2 slices"), (12, "12 slices")]
)
def test_a_noun_agrees_with_its_count(count: int, text: str) -> None:
    assert plural(count, "slice") == text
