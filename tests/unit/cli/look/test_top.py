"""``landfall top`` shows what all groups of a root land at present."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.look.top import Watched, _fastest_first
from tests.support.files.folder_feed import FolderFeed, rows
from tests.support.ledger.sample_ledger import GROUP
from tests.unit.cli.conftest import Landed
from tests.unit.cli.look.test_ls import copy

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def root(landed: Callable[[str], Landed]) -> Path:
    return landed("Json").root


def looks(capsys: Captured) -> list[list[dict[str, Any]]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_groups_of_a_root_are_shown(root: Path, capsys: Captured) -> None:
    copy(root, "shop-2")

    assert main(["top", f"file://{root}", "--count", "1", "--json"]) == ExitCode.OK

    (groups,) = looks(capsys)
    assert [each["group"] for each in groups] == [GROUP, "shop-2"]
    assert groups[0]["records_per_second"] is None  # of one look
    assert groups[0]["records"] > 0
    assert groups[0]["error"] is None


def test_each_look_reads_the_ledgers_again(tmp_path: Path, capsys: Captured) -> None:
    feed = FolderFeed(tmp_path)
    feed.put("a.json", rows(range(5)))
    assert feed.land() is ExitCode.OK
    url = f"file://{tmp_path}/out"
    capsys.readouterr()

    assert main(["top", url, "--count", "2", "--interval", "1s", "-o", "json"]) == ExitCode.OK

    first, second = looks(capsys)
    assert first[0]["records"] == second[0]["records"] == 5
    assert second[0]["records_per_second"] == 0


def test_the_fastest_comes_first() -> None:
    groups = {name: Watched() for name in ("a", "b", "c")}
    for name, value in (("a", 10), ("b", 1000), ("c", 10)):
        groups[name].records.add(0, 0)
        groups[name].records.add(10, value)

    assert _fastest_first(groups) == ["b", "a", "c"]


def test_groups_are_shown_as_text(root: Path, capsys: Captured) -> None:
    assert main(["top", f"file://{root}", "--once"]) == ExitCode.OK

    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["group", "state", "records/s"]
    assert line.split()[:2] == [GROUP, "held"]
    assert line.rstrip().endswith("ago")


def test_a_root_without_groups_is_said(tmp_path: Path) -> None:
    assert main(["top", "shop", "--count", "1"]) == ExitCode.USAGE
    assert main(["top", f"file://{tmp_path}/none", "--count", "1"]) == ExitCode.NOTHING
