"""``landfall ls`` lists the groups whose ledgers are in a root."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.names import object_names
from landfall.ledger.names.roots import LEDGER_MARK
from landfall.store.file import FileStore
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import Landed

Captured = pytest.CaptureFixture[str]
OTHERS = ("shop-2", "shop.a", "shop0")
"""They sort before and after the folder of ``shop``."""


@pytest.fixture
def root(landed: Callable[[str], Landed]) -> Path:
    return landed("Json").root


def copy(root: Path, other: str) -> None:
    """Give another group the slots of ``shop``."""
    store = FileStore(root)
    for stat in [*store.list_after(object_names.ledger_prefix(GROUP, LANE))]:
        key = stat.key.replace(f"/{GROUP}/", f"/{other}/")
        store.create(key, store.read(stat.key) or b"")


def test_groups_of_a_root_are_listed(root: Path, capsys: Captured) -> None:
    for other in OTHERS:
        copy(root, other)
    store = FileStore(root)
    for key in (object_names.owner_key(), "_landfall/_probe/0/a", "_landfall/empty/x.json"):
        store.create(key, b"{}")

    assert main(["ls", f"file://{root}", "--json"]) == ExitCode.OK

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(each["group"] for each in found) == sorted([GROUP, *OTHERS])
    assert next(each for each in found if each["group"] == GROUP) == {
        "group": GROUP,
        "state": "held",
        "generation": 1,
        "topics": 1,
        "slots": 3,
        "last_commit": "2026-11-21T05:00:00+00:00",
        "error": None,
    }


def test_groups_are_listed_as_text(root: Path, capsys: Captured) -> None:
    assert main(["ls", f"file://{root}"]) == ExitCode.OK

    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["group", "state", "generation", "topics", "slots", "last", "commit"]
    assert line.split() == [GROUP, "held", "1", "1", "3", "2026-11-21T05:00:00Z"]


def test_a_broken_ledger_hides_no_other_group(root: Path, capsys: Captured) -> None:
    copy(root, "broken")
    FileStore(root).delete_slots([object_names.slot_key("broken", LANE, 1, 0)])

    assert main(["ls", f"file://{root}"]) == ExitCode.FAULT

    _, broken, whole = capsys.readouterr().out.splitlines()
    assert broken.startswith("broken ")
    assert "ledger slot 1: missing" in broken
    assert whole.startswith(GROUP)


def test_a_mark_leads_to_the_ledger(root: Path, tmp_path: Path, capsys: Captured) -> None:
    mark = json.dumps({"url": f"file://{root}"}).encode()
    FileStore(tmp_path / "objects").create(LEDGER_MARK, mark)

    assert main(["ls", f"file://{tmp_path}/objects"]) == ExitCode.OK

    assert GROUP in capsys.readouterr().out


def test_without_a_group_there_is_nothing_to_list(tmp_path: Path, capsys: Captured) -> None:
    assert main(["ls", f"file://{tmp_path}/none"]) == ExitCode.NOTHING
    assert "no group has its ledger there" in capsys.readouterr().err
    assert main(["ls", "group.yaml"]) == ExitCode.USAGE
    assert "not a URL" in capsys.readouterr().err
