"""What people see of the files of a feed, and what they decide about those that are not landed."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.api.verbs import IgnoreFilesRequest, Outcome, RetryFilesRequest
from landfall.cli import main
from tests.support.files.feed_scene import FeedScene, once, rows
from tests.support.landing.group import Landing

pytestmark = pytest.mark.xdist_group("drivers")

WHY = ["--why", "INC-12", "--who", "kim"]


def states(capsys: Any, *words: str) -> dict[str, str]:
    """What ``files ls --json`` says of each file."""
    capsys.readouterr()
    assert main(["files", "ls", "--json", *words]) is ExitCode.OK
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["name"]: line["state"] for line in lines}


def test_files_that_cannot_be_read_are_seen_retried_and_given_up(
    files: FeedScene, tmp_path: Path, capsys: Any
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json.gz", b"damaged")
    files.put("c.json.gz", b"damaged")
    group = files.file(tmp_path, maxAttempts=1)
    assert files.land(maxAttempts=1) is ExitCode.STALLED
    assert states(capsys, group) == {
        "a.json": "Success",
        "b.json.gz": "Error",
        "c.json.gz": "Error",
    }

    assert main(["files", "ls", group, "--limit", "1"]) is ExitCode.OK
    *_, last = capsys.readouterr().out.splitlines()
    counted = "hits: 3 files, 104 B, 10 rows, 0 dead letters, 1 shown"
    assert last == f"{counted}: Success 1 (90 B), Error 2 (14 B)"
    assert main(["status", group]) is ExitCode.OK
    said = capsys.readouterr()
    assert "parked parts" in said.out
    assert f"next: landfall files retry {group} hits" in said.err
    dry = ["files", "retry", group, "hits", "--dry-run"]
    assert main(dry) is ExitCode.OK
    assert "would record DISCOVER: hits tries 2 parts again" in capsys.readouterr().out
    assert files.feed.end == 3
    assert main(["files", "retry", group, "hits", "b.json.gz", *WHY]) is ExitCode.OK
    assert main(["files", "ignore", group, "hits", "c.json.gz", *WHY]) is ExitCode.OK
    assert states(capsys, group, "hits", "b.json.gz") == {"b.json.gz": "Pending"}

    assert files.land(maxAttempts=1) is ExitCode.STALLED

    assert [(n, p.attempt) for n, p in files.feed.parked.items()] == [(3, 2)]
    assert [*files.feed.ignored] == [2]
    assert states(capsys, group, "--state", "Ignored") == {"c.json.gz": "Ignored"}
    files.put("b.json.gz", gzip.compress(rows(range(10, 20))))
    files.put("c.json.gz", gzip.compress(rows(range(20, 30))))
    assert files.land(maxAttempts=1) is ExitCode.OK
    assert files.landed() == once(range(30))
    assert (files.feed.parked, files.feed.ignored) == ({}, {})
    assert set(states(capsys, group).values()) == {"Success"}
    assert files.faults() == []


@pytest.mark.parametrize(
    ("verb", "landed", "state"),
    [("retry", {0: 1, 1: 2, 2: 1, 3: 1}, "Success"), ("ignore", once([0, 1, 3]), "Ignored")],
)
def test_a_file_that_is_written_anew_is_landed_or_left_out_for_good(
    files: FeedScene, tmp_path: Path, capsys: Any, verb: str, landed: dict[int, int], state: str
) -> None:
    files.put("a.json", rows([0, 1]))
    assert files.land() is ExitCode.OK
    files.put("a.json", rows([1, 2]))
    assert files.land() is ExitCode.STALLED
    files.put("b.json", rows([3]))
    group = files.file(tmp_path)
    assert states(capsys, group, "--look") == {"a.json": "Error", "b.json": "Pending"}

    assert main(["files", verb, group, "hits", "a.json", *WHY]) is ExitCode.OK

    for _ in range(2):
        assert files.land() is ExitCode.OK
    assert files.landed() == landed
    assert states(capsys, group) == {"a.json": state, "b.json": "Success"}
    assert files.faults() == []
    files.put("a.json", rows([4]))
    assert files.land() is ExitCode.STALLED


@pytest.mark.parametrize(
    ("verb", "landed", "state"),
    [("retry", {0: 1, 1: 2, 2: 1, 3: 1}, "Success"), ("ignore", once([0, 1, 3]), "Ignored")],
)
def test_a_file_that_is_written_anew_waits_alone_until_somebody_decides(
    files: FeedScene, tmp_path: Path, capsys: Any, verb: str, landed: dict[int, int], state: str
) -> None:
    files.put("a.json", rows([0, 1]))
    assert files.land(onChange="Park") is ExitCode.OK
    files.put("a.json", rows([1, 2]))
    files.put("b.json", rows([3]))
    for _ in range(2):  # a driver that starts finds it as well
        assert files.land(onChange="Park") is ExitCode.STALLED
    assert files.landed() == once([0, 1, 3])
    group = files.file(tmp_path, onChange="Park")
    assert states(capsys, group, "--look") == {"a.json": "Error", "b.json": "Success"}

    assert main(["files", verb, group, "hits", "a.json", *WHY]) is ExitCode.OK

    assert files.land(onChange="Park") is ExitCode.OK
    assert files.landed() == landed
    assert states(capsys, group) == {"a.json": state, "b.json": "Success"}
    assert files.faults() == []


def test_what_cannot_be_decided_is_refused_by_name(
    files: FeedScene, tmp_path: Path, capsys: Any
) -> None:
    files.put("a.json", rows(range(10)))
    group = files.file(tmp_path)
    assert files.land() is ExitCode.OK
    slot = files.state().seq

    assert main(["files", "retry", group, "hits", "a.json", "x.json"]) is ExitCode.REFUSED
    said = capsys.readouterr().err
    assert "no file has a number and the name x.json" in said
    assert "nothing is parked of a.json, and no other version is there" in said
    assert main(["files", "retry", group, "hits"]) is ExitCode.REFUSED
    assert "no file is parked" in capsys.readouterr().err
    assert main(["files", "retry", group, "views"]) is ExitCode.REFUSED
    assert "no feed views: it has hits" in capsys.readouterr().err
    assert main(["files", "ignore", group, "hits", *WHY]) is ExitCode.USAGE
    assert main(["files", "ls", group, "hits", "x.json"]) is ExitCode.NOTHING
    assert "the feed hits has no file x.json" in capsys.readouterr().err
    assert main(["files", "ls", group, "views"]) is ExitCode.NOTHING
    assert "no feed views; it has hits" in capsys.readouterr().err
    assert files.state().seq == slot


def test_a_running_driver_carries_requests_about_files_out(files: FeedScene) -> None:
    files.put("a.json", rows([0, 1]))
    files.put("b.json.gz", b"damaged")
    running = Landing(
        files.group(maxAttempts=1, relist="200ms"), None, until_caught_up=False
    ).start()
    running.wait_until(lambda s: s.feeds and s.feeds[0].undecided_parts == 1, "it is parked")
    assert running.now.feeds[0].landed_parts == 1

    retry = RetryFilesRequest(who="kim", topic="hits", id="r1")
    answer = running.driver.decide(retry)
    running.wait_until(lambda s: s.feeds[0].parked_parts == 1 and attempts(files) == [2], "again")
    again = running.driver.decide(retry)
    ignore = IgnoreFilesRequest(who="kim", why="INC-12", topic="hits", names=("b.json.gz",))
    running.driver.decide(ignore)
    running.wait_until(lambda s: s.feeds[0].ignored_parts == 1, "it is given up")
    files.put("a.json", rows([2]))
    running.wait_until(lambda s: s.feeds[0].next_step.endswith("FILE --why '…'"), "it is stopped")
    changed = RetryFilesRequest(who="kim", topic="hits", names=("a.json",))
    running.driver.decide(changed)
    running.wait_until(lambda s: s.feeds[0].landed_parts == 2 and not s.feeds[0].error, "landed")

    assert (answer.outcome, again.outcome) == (Outcome.DONE, Outcome.DONE)
    assert answer.records == ("DISCOVER: hits tries 1 part again: b.json.gz",)
    assert running.stop() is ExitCode.OK
    assert files.landed() == once(range(3))
    assert files.faults() == []


def attempts(files: FeedScene) -> list[int]:
    return [part.attempt for part in files.feed.parked.values()]
