"""Features that meet: the page that counts them is the code's, and many more schedules of them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from landfall.api.verbs import Answer, Outcome
from tests.crashes.pair_table import ELSEWHERE, PAIRS, Met, page
from tests.crashes.playing import play_pairs
from tests.crashes.undoing import Undoing
from tests.support.examples import Profile, schedules

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/evidence/pairs.md"
FIRST, SCHEDULES, CHUNKS = 60, schedules(200), 4
"""Behind those that ``tests.properties.test_crash_pairs`` plays."""
FAILED_ONCE = {
    "dead letters expired by a slot whose REPLACE was decided again": 7280552536038,
    "a replay deleted what another one had read": 205697679838014,
    "the driver of a trial waited for a leader that never came": 202704638915872,
    "a given up dead letter was landed again by a backfill, and expired": 154233452673155,
    "a trial whose object the store had lost ended as if it had landed": 136569330612149,
    "a publisher read an OPEN of a frozen driver for a REPLACE that was rolled up": 228932723526362,
    "of two drivers of a trial one woke up, fenced by the other, which had ended": 144526588625774,
    "an undo waited for a record after a topic partition had entered": 170751016988521,
}
"""Schedules that a hunt has found, by what was wrong."""
Row = tuple[str, str, str, str]


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_meets_every_record_is_in_one_object(chunk: int) -> None:
    first = FIRST + chunk * SCHEDULES // CHUNKS

    for _ in play_pairs(first, FIRST + (chunk + 1) * SCHEDULES // CHUNKS):
        pass


@pytest.mark.parametrize("seed", FAILED_ONCE.values(), ids=FAILED_ONCE)
def test_what_failed_once_does_not_again(seed: int) -> None:
    for _ in play_pairs(seed, seed + 1):
        pass


def rows(text: str) -> list[Row]:
    """The lines of the table: two features, how often they met, and where else they do."""
    return re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*) ?\|$", text, re.MULTILINE)


def test_the_page_has_the_pairs_of_the_code() -> None:
    stored, expected = rows(PAGE.read_text()), rows(page(Met()))

    assert len(stored) == len(PAIRS)
    assert [(a, b, d) for a, b, _, d in stored] == [(a, b, d) for a, b, _, d in expected]


@pytest.mark.parametrize("test", [each.test for each in ELSEWHERE])
def test_tests_that_the_page_names_exist(test: str) -> None:
    file, _, name = test.partition("::")

    assert f"def {name or 'test_'}" in (ROOT / file).read_text()


PLAYED: Mapping[str, str] = {
    "machine": "of topics",
    "feeds": "of files",
    "losing": "of lost records",
    "expiring": "of dead letters that expire",
    "letters": "of their places",
    "replacing": "of merges",
    "promoting": "of promotions",
    "pairs": "in which all of these meet",
}
"""By the name of a test file, how the page calls the schedules that it plays."""


def test_the_page_says_how_many_schedules_are_played() -> None:
    page = " ".join((ROOT / "docs/evidence/crash-machine.md").read_text().split())
    counts = dict[str, int]()
    for file in (ROOT / "tests/properties").glob("test_crash_*.py"):
        if found := _schedules(file):
            counts[file.stem.removeprefix("test_crash_")] = found

    here = _schedules(Path(__file__))
    assert counts.keys() == PLAYED.keys()
    total = sum(counts.values()) + here
    assert f"`make test-rest` and CI play {total:,} schedules" in page
    assert schedules(total, Profile.CI) == schedules(total, Profile.FULL) == total
    assert f"by `tests/crashes` {here} more of the last kind" in page
    for name, what in PLAYED.items():
        assert f"{counts[name]:,} {what}" in page


def _schedules(file: Path) -> int:
    """How many schedules a test file plays with all inputs; 0 if it says nothing of that."""
    found = re.search(r"SCHEDULES.* = .*schedules\((\d+)\)", file.read_text())
    return int(found[1]) if found else 0


FINAL = "the REPLACE in slot 7 gave up the one in slot 5: there is nothing to undo"


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        (["objects in a were replaced again"], "nothing helps"),
        (["replaced again: `landfall undo 7`", FINAL], ""),
        (["replaced again: `landfall undo 7`", "replaced: `landfall undo 5`"], "leads back"),
        (["replaced: `landfall undo 7`", "", "replaced: `landfall undo 9`"], "leads back"),
        (["replaced: `landfall undo 7`", "", ""], ""),
    ],
)
def test_a_remedy_that_does_not_work_is_found(messages: Sequence[str], wrong: str) -> None:
    schedule: Any = SimpleNamespace(say=lambda _: None)
    undoing = Undoing(schedule)
    undoing._wanted = [(5, ())]

    for message in messages:
        done = Answer(Outcome.DONE, message="recorded in slot 9")
        undoing._take(Answer(Outcome.REFUSED, message=message) if message else done)

    assert len(undoing.stuck) == bool(wrong)
    assert all(wrong in found for found in undoing.stuck)
