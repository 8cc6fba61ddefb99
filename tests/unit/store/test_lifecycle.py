"""Which lifecycle rules are said to discard uploads too early."""

from datetime import timedelta
from typing import Any

import pytest

from landfall.store.lifecycle import lifetime_warning, settings_warning, upload_lifetime
from landfall.store.memory import MemoryStore


def rule(days: int, **said: Any) -> dict[str, Any]:
    abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days}}
    return {"Status": "Enabled", "Filter": {"Prefix": ""}, **abort, **said}


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([{"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1}}], None),
        ([rule(3)], 3),
        ([rule(3), rule(2, Filter={"Prefix": "logs/"})], 2),
        ([rule(3, Filter={"And": {"Prefix": "logs/parsed/clicks/", "Tags": []}})], 3),
        ([rule(3, Prefix="logs/")], 3),
        ([rule(3, Filter={"Prefix": "other/"})], None),
        ([rule(3, Status="Disabled")], None),
        ([rule(1, Filter={"Prefix": "logs/parsed/_landfall/_probe/"})], None),
    ],
)
def test_the_shortest_lifetime_below_the_root_counts(
    rules: list[dict[str, Any]], days: int | None
) -> None:
    expected = None if days is None else timedelta(days=days)

    assert upload_lifetime(rules, "logs/parsed/") == expected


class Expiring(MemoryStore):
    def __init__(self, days: int | None) -> None:
        super().__init__()
        self.days = days

    def upload_lifetime(self) -> timedelta | None:
        return None if self.days is None else timedelta(days=self.days)


@pytest.mark.parametrize(("days", "warns"), [(6, True), (7, False), (None, False)])
def test_less_than_a_week_is_warned_of(days: int | None, warns: bool) -> None:
    assert lifetime_warning(Expiring(days)).startswith("a lifecycle rule") is warns
    assert lifetime_warning(MemoryStore()) == ""


class Advising(Expiring):
    def advice(self) -> list[str]:
        return ["one", "another"]


@pytest.mark.parametrize(("days", "expected"), [(6, "{}; one; another"), (7, "one; another")])
def test_all_that_is_to_change_is_one_warning(days: int, expected: str) -> None:
    store = Advising(days)

    assert settings_warning(store) == expected.format(lifetime_warning(store))
    assert settings_warning(MemoryStore()) == ""
