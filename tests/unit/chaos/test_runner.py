"""Verbs that replace objects are asked for until they come through, and others when it is time."""

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import runner
from tests.chaos.outcome import VERBS, FaultResult, NotInjected, missing_verbs
from tests.chaos.runner import MAX_DELAY, Runner
from tests.chaos.schedule import RAW, Fault, Kind
from tests.unit.chaos.test_table import OUTCOME, result

PLAYED = tuple(result(kind, RAW, 1, 2) for kind in VERBS)


def started(
    patch: pytest.MonkeyPatch, attempt: Callable[[Fault], str], *kinds: Kind
) -> tuple[Runner, list[FaultResult]]:
    """A runner whose faults of these kinds are attempts, and what it reports."""
    injectors = {kind: lambda _, fault: attempt(fault) for kind in kinds}
    patch.setattr(runner, "INJECTORS", injectors)
    patch.setattr(runner, "VERBS_PAUSE", 0.0)
    environment: Any = SimpleNamespace(stopping=threading.Event(), wait=lambda _: None)
    reported = list[FaultResult]()
    return Runner(environment, (), reported.append), reported


def test_a_verb_is_asked_for_until_it_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Fault]()

    def attempt(fault: Fault) -> str:
        asked.append(fault)
        if len(asked) < 4:
            raise NotInjected("the driver is away")
        return "recorded in slot 7"

    one, reported = started(monkeypatch, attempt, *VERBS)

    one.play_missing_verbs()

    assert not missing_verbs(one.results)
    assert len(reported) == len(asked) == 3 + len(VERBS)
    assert {fault.kind for fault in asked} == {*VERBS}
    one.play_missing_verbs()
    assert len(asked) == 3 + len(VERBS)


def test_a_run_does_not_ask_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(_: Fault) -> str:
        raise NotInjected("refused")

    monkeypatch.setattr(runner, "VERBS_SECONDS", 0.0)
    one, _ = started(monkeypatch, attempt, *VERBS)

    one.play_missing_verbs()

    assert [*missing_verbs(one.results)] == [*VERBS]


@pytest.mark.parametrize(("kind", "is_injected"), [(Kind.SCALED, False), (Kind.UNDONE, True)])
def test_a_verb_may_come_late(
    kind: Kind, is_injected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = started(monkeypatch, lambda _: "", kind)

    found = one._inject(Fault(0, one.now - MAX_DELAY - 1, kind, RAW))

    assert found.injected is is_injected


def test_a_run_has_played_what_replaces_objects() -> None:
    assert [*OUTCOME.not_played] == [
        "none came through: merge or promotion undone",
        "none came through: folder landed again and promoted",
        "none came through: stuck backfill discarded",
    ]
    assert not replace(OUTCOME, results=PLAYED).not_played
    idle = replace(OUTCOME.groups[RAW], retired=0)
    assert [*replace(OUTCOME, results=PLAYED, groups={RAW: idle}).not_played] == [
        "raw: nothing was merged"
    ]
