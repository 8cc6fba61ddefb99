from datetime import timedelta

import pytest

from landfall.api.values import time_text
from landfall_operator.humanize import aged, count_text, rough, shortened


@pytest.mark.parametrize(
    ("number", "rounded"),
    [
        (0, 0),
        (-3, 0),
        (0.2, 1),
        (1, 1),
        (41, 41),
        (99, 99),
        (101, 110),
        (1234, 1300),
        (1_200_000, 1_200_000),
    ],
)
def test_numbers_keep_two_digits(number: float, rounded: int) -> None:
    assert rough(number) == rounded


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (950, "950"),
        (1000, "1k"),
        (18_000, "18k"),
        (1_200_000, "1.2M"),
        (3_000_000_000, "3G"),
    ],
)
def test_counts_are_short(number: int, text: str) -> None:
    assert count_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (41, "41s"),
        (60, "1m"),
        (125, "2m5s"),
        (5400, "1h30m"),
        (3601, "1h"),
        (90_000, "1d1h"),
        (-5, "0s"),
    ],
)
def test_times_are_short(seconds: int, text: str) -> None:
    assert time_text(seconds) == text


def test_old_numbers_have_their_age() -> None:
    assert aged("41s", timedelta(minutes=5)) == "41s (5m ago)"


def test_long_texts_are_cut() -> None:
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")
