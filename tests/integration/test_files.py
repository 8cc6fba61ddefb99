"""Files in a bucket are landed row by row, each row once, whatever becomes of files and drivers."""

import gzip
import time
from pathlib import Path
from random import Random

import pytest

from landfall.api.contract import LANE, ExitCode
from landfall.checks import Invariant
from landfall.discovery import looker
from landfall_audit import PartitionResult, Unchecked
from tests.support.files.feed_scene import TOPIC, TP, FeedScene, once, rows
from tests.support.landing.processes import Processes

pytestmark = pytest.mark.xdist_group("drivers")


def test_each_row_of_each_file_is_landed_once_under_the_number_of_its_part(
    files: FeedScene,
) -> None:
    files.put("2026/11/b.json.gz", gzip.compress(rows(range(100))))
    files.put("2026/11/a.json", rows(range(100, 300)))
    files.put("2026/12/empty.json", b"")

    assert files.land() is ExitCode.OK

    assert files.landed() == once(range(300))
    assert files.state().checkpoint[TP] == 3_000_000_000
    assert files.faults() == []


def test_a_large_file_is_read_in_parts_that_share_no_row(files: FeedScene) -> None:
    pad = Random(7).randbytes(400).hex().encode()
    files.put("large.json", b"".join(b'{"id":%d,"p":"%s"}\n' % (i, pad) for i in range(4_000)))

    assert files.land(partBytes="1Mi") is ExitCode.OK

    assert files.feed.end == 4
    assert files.landed() == once(range(4_000))


def test_files_that_come_later_are_landed_whatever_their_names(files: FeedScene) -> None:
    files.put("m.json", rows(range(10)))
    assert files.land() is ExitCode.OK
    files.put("z.json", rows(range(10, 20)))
    files.put("a.json", rows(range(20, 30)))

    assert files.land() is ExitCode.OK
    assert files.land() is ExitCode.OK

    assert files.landed() == once(range(30))
    assert files.feed.end == 3
    assert files.faults() == []


def test_a_file_that_may_still_be_written_waits(files: FeedScene) -> None:
    files.put("half.json", rows(range(10)))

    assert files.land(settle="1h") is ExitCode.OK
    assert files.landed() == once(())
    assert files.land() is ExitCode.OK

    assert files.landed() == once(range(10))


def test_names_are_included_and_excluded(files: FeedScene) -> None:
    files.put("hourly_feed.1", rows(range(10)))
    files.put("hourly_feed.1_current", rows(range(10, 20)))
    files.put("other", rows(range(20, 30)))

    assert files.land(include=r"hourly_feed\..*", exclude=".*_current") is ExitCode.OK

    assert files.landed() == once(range(10))


def test_a_damaged_file_is_parked_and_its_mended_version_is_landed(files: FeedScene) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json.gz", b"damaged")
    files.put("c.json", rows(range(20, 30)))

    assert files.land() is ExitCode.STALLED

    assert files.landed() == once([*range(10), *range(20, 30)])
    (parked,) = files.feed.parked.values()
    assert "b.json.gz" in parked.reason
    assert (parked.attempt, parked.skip) == (1, 0)
    files.put("b.json.gz", gzip.compress(rows(range(10, 20))))
    assert files.land(onChange="Ignore") is ExitCode.OK
    assert files.landed() == once(range(30))
    assert files.feed.parked == {}
    assert files.faults() == []


def test_a_damaged_file_is_tried_as_often_as_the_spec_says(files: FeedScene) -> None:
    files.put("b.json.gz", b"damaged")

    for attempt in (1, 2, 3, 3):
        assert files.land(maxAttempts=3) is ExitCode.STALLED
        (parked,) = files.feed.parked.values()
        assert parked.attempt == attempt


def test_a_driver_that_ends_leaves_what_it_parked_to_the_next_one(files: FeedScene) -> None:
    files.put("b.json.gz", b"damaged")
    files.put("c.json", rows(range(10)))

    for attempt in (1, 2):
        assert files.land(retryInterval="1ms") is ExitCode.STALLED
        assert [part.attempt for part in files.feed.parked.values()] == [attempt]


def test_rows_before_the_damage_are_not_landed_again(files: FeedScene) -> None:
    lines = [
        b'{"id":%d,"p":"%s"}' % (i, Random(i).randbytes(40).hex().encode()) for i in range(100_000)
    ]
    whole = gzip.compress(b"\n".join(lines), 1)
    files.put("b.json.gz", whole[:-1000])

    assert files.land() is ExitCode.STALLED
    before = files.landed()
    (parked,) = files.feed.parked.values()
    for _ in range(2):
        assert files.land() is ExitCode.STALLED

    assert 0 < parked.skip < 100_000
    assert before == once(range(parked.skip))
    assert files.landed() == before
    assert files.faults() == []


@pytest.mark.parametrize(
    ("on_change", "code", "landed"),
    [
        ("Stall", ExitCode.STALLED, None),
        ("Park", ExitCode.STALLED, {0: 1, 1: 1, 3: 1}),
        ("Ignore", ExitCode.OK, {0: 1, 1: 1, 3: 1}),
        ("LandAgain", ExitCode.OK, {0: 1, 1: 2, 2: 1, 3: 1}),
    ],
)
def test_a_file_that_is_written_anew_after_it_was_landed(
    files: FeedScene, on_change: str, code: ExitCode, landed: dict[int, int] | None
) -> None:
    files.put("a.json", rows([0, 1]))
    assert files.land() is ExitCode.OK
    files.put("a.json", rows([1, 2]))
    files.put("b.json", rows([3]))

    assert files.land(onChange=on_change) is code

    if landed is None:  # whether the other file was landed before this was seen is open
        assert files.landed() in (once([0, 1]), once([0, 1, 3]))
    else:
        assert files.landed() == landed


def test_the_audit_reads_each_version_that_was_landed(files: FeedScene) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json.gz", gzip.compress(rows(range(10, 20))))
    assert files.land() is ExitCode.OK
    assert files.audit() == PartitionResult(expected=20, found=20)

    files.put("a.json", rows(range(30)))

    assert files.audit() == PartitionResult(unchecked={Unchecked.VERSION: 20})


FIRST = ["before create COMMIT"]
"""The ledger has what was discovered, and objects are uploaded that nothing names yet."""
STEPS = [
    "before create DISCOVER",
    "after create DISCOVER",
    "after create COMMIT",
    "before create HOLE",
    "after create HOLE",
]
"""Steps at which only ``make kill-suite`` kills."""


@pytest.mark.parametrize(
    "step", [*FIRST, *(pytest.param(step, marks=pytest.mark.full) for step in STEPS)]
)
def test_a_driver_is_killed_at_each_step(files: FeedScene, tmp_path: Path, step: str) -> None:
    processes = Processes(tmp_path)
    files.put("a.json", rows(range(10)))
    files.put("b.json.gz", b"damaged")
    files.put("c.json", rows(range(20, 30)))
    try:
        killed = processes.struck(files.document(), f"KILL {step}")
        assert killed.end() == -9, killed.said
    finally:
        processes.clear()
    files.put("d.json", rows(range(30, 40)))

    assert files.land() is ExitCode.STALLED  # for the damaged file

    assert files.landed() == once([*range(10), *range(20, 40)])
    assert [p.skip for p in files.feed.parked.values()] == [0]
    assert files.faults() == []


def test_files_come_while_a_driver_runs(files: FeedScene, tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    try:
        processes.run(files.document(relist="1s"))
        for n in range(20):
            files.put(f"{n % 3}/{n}.json", rows(range(n * 10, n * 10 + 10)))
            time.sleep(0.2)
        deadline = time.monotonic() + 120
        while files.landed() != once(range(200)) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        processes.clear()

    assert files.landed() == once(range(200))


def test_what_is_known_of_many_files_is_merged_into_an_index(
    files: FeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looker, "MAX_LISTED", 2)
    for n in range(70):
        files.put(f"{n:03}.json", rows([n]))

    assert files.land() is ExitCode.OK
    known = files.feed.known
    files.put("0000.json", rows([70]))
    assert files.land() is ExitCode.OK

    assert known is not None
    assert known.through >= 40
    assert len(files.feed.lists) < 20
    assert files.landed() == once(range(71))
    assert files.faults() == []
    stored = files.bucket.keys(f"out/_landfall/scene/{LANE}-files/{TOPIC}/known/")
    assert len(stored) <= 2


@pytest.mark.parametrize("folder", ["", "known/", "known-pieces/"])
def test_fsck_finds_what_is_gone_of_lists_and_index(
    files: FeedScene, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr(looker, "MAX_LISTED", 1)
    for n in range(25):
        files.put(f"{n:03}.json", rows([n]))
    assert files.land() is ExitCode.OK
    assert files.faults() == []

    prefix = f"out/_landfall/scene/{LANE}-files/{TOPIC}/{folder}"
    lost = next(key for key in files.bucket.keys(prefix) if "/" not in key.removeprefix(prefix))
    files.bucket.server.client.delete_object(Bucket=files.bucket.name, Key=lost)

    (found,) = files.fsck().findings
    assert found.invariant is Invariant.I12
    assert lost.removeprefix("out/") in str(found)
