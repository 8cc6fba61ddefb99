"""The demo's count finds what must not be."""

import gzip
from pathlib import Path

import pytest

from dev.demo.proof import Count, count, output_partitions

LANDED = [(0, "2013-01-01"), (1, "2013-01-01"), (2, "2013-12-31")]


def write(folder: Path, name: str, flights: list[tuple[int, str]]) -> None:
    """An object per day, as the group ``partition`` lands them."""
    for day in {day for _, day in flights}:
        year, month, date = (int(part) for part in day.split("-"))
        lines = [
            f'{{"id":{number},"year":{year},"month":{month},"day":{date}}}\n'
            for number, at in flights
            if at == day
        ]
        file = folder / "flights.JFK" / f"dt={day}" / f"{name}.json.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress("".join(lines).encode()))


def test_all_of_them_once_each_is_exact(tmp_path: Path) -> None:
    write(tmp_path, "a", LANDED)

    found = count(tmp_path, 3)

    assert found == Count(rows=3, distinct=3, missing=0, days=2, misplaced=0)
    assert found.exact(3)


@pytest.mark.parametrize(
    ("landed", "again", "found"),
    [
        (LANDED[:2], [], Count(rows=2, distinct=2, missing=1, days=1, misplaced=0)),
        (LANDED, LANDED[1:2], Count(rows=4, distinct=3, missing=0, days=2, misplaced=0)),
        (LANDED[:2], LANDED[:1], Count(rows=3, distinct=2, missing=1, days=1, misplaced=0)),
        (
            [*LANDED[:2], (7, "2013-12-31")],
            [],
            Count(rows=3, distinct=3, missing=1, days=2, misplaced=0),
        ),
    ],
    ids=["one missing", "one twice", "one missing for one twice", "an unknown flight"],
)
def test_a_wrong_count_is_not_exact(
    tmp_path: Path, landed: list[tuple[int, str]], again: list[tuple[int, str]], found: Count
) -> None:
    write(tmp_path, "a", landed)
    write(tmp_path, "b", again)

    assert count(tmp_path, 3) == found
    assert not found.exact(3)


def test_a_flight_under_another_day_is_misplaced(tmp_path: Path) -> None:
    write(tmp_path, "a", LANDED)
    (tmp_path / "flights.JFK" / "dt=2013-12-31").rename(tmp_path / "flights.JFK" / "dt=2014-01-01")

    assert count(tmp_path, 3) == Count(rows=3, distinct=3, missing=0, days=2, misplaced=1)


def test_branches_count_objects_by_topic_and_output_partition() -> None:
    sizes = {
        "g/flights.JFK/dt=1/a.gz": 1,
        "g/flights.JFK/dt=1/b.gz": 2,
        "g/flights.LGA/dt=2/a.gz": 3,
    }

    assert output_partitions(sizes) == {"flights.JFK": {"dt=1": 2}, "flights.LGA": {"dt=2": 1}}
