"""What people ask for while everything breaks: a backfill that gets stuck is discarded."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.chaos import replacing_verbs
from tests.chaos.outcome import NotInjected
from tests.chaos.replacing_verbs import discard, promote
from tests.chaos.schedule import RAW, Fault, Kind

DAY = "clicks/dt=2026-11-21"


class Ended:
    """A process that has ended; ``kill`` is what the end of a ``with`` block does."""

    def __init__(self, code: int) -> None:
        self._code = code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def end(self, _: float) -> int:
        return self._code


class Commands:
    """Takes the place of ``Forks``: records what is started, and what lands a backfill fails."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def __call__(self, _: Path) -> "Commands":
        return self

    def command(self, *arguments: str) -> Ended:
        self.started.append(" ".join(arguments[:2]))
        return Ended(0)

    def backfill(self, _: Path, __: str) -> Ended:
        self.started.append("backfill run")
        return Ended(4)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands()
    monkeypatch.setattr(replacing_verbs, "Forks", made)
    monkeypatch.setattr(replacing_verbs, "PATIENCE", 0)
    return made


def environment(folder: Path, left: Callable[[str], list[str]]) -> Any:
    """A group that has landed a day, and the keys below a side root."""
    keys = {"clicks": [f"{DAY}/1_0_0.json"]}
    bucket = SimpleNamespace(
        keys=lambda prefix: keys.get(prefix) or left(prefix), open_uploads=list
    )
    live = json.dumps({"apiVersion": "v1", "kind": "ConsumerGroup", "spec": {}})
    group = SimpleNamespace(
        scene=SimpleNamespace(bucket=bucket), namespace="n", kubectl=lambda *_: live
    )
    return SimpleNamespace(
        groups={RAW: group},
        prefix="clicks",
        folder=folder,
        stopping=threading.Event(),
        wait=lambda _: None,
    )


def test_a_backfill_that_is_not_landed_is_discarded(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(NotInjected, match="was not landed again"):
        promote(environment(tmp_path, lambda _: []), Fault(0, 0, Kind.PROMOTED, RAW))

    assert commands.started == ["backfill plan", "backfill run", "backfill discard"]


def test_of_a_discarded_backfill_only_its_ledger_is_left(
    commands: Commands, tmp_path: Path
) -> None:
    def ledger(root: str) -> list[str]:
        return [f"{root}_landfall/discarded.json"]

    note = discard(environment(tmp_path, ledger), Fault(0, 0, Kind.DISCARDED, RAW))

    assert commands.started == ["backfill plan", "backfill run", "backfill discard"]
    assert note.startswith(f"{DAY}: b")


def test_a_discarded_backfill_that_leaves_objects_has_not_come_through(
    commands: Commands, tmp_path: Path
) -> None:
    def stays(root: str) -> list[str]:
        return [f"{root}{DAY}/2_0_0.json"]

    with pytest.raises(NotInjected, match="leaves"):
        discard(environment(tmp_path, stays), Fault(0, 0, Kind.DISCARDED, RAW))

    assert commands.started[-1] == "backfill discard"
