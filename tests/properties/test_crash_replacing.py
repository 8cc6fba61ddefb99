"""The real loop and objects that take the place of others, under all that may become of both."""

from collections.abc import Callable

import pytest

from landfall.driver.core import planned_replacement
from landfall.driver.process.loop import Driver
from landfall.ledger import State
from landfall.ledger.records import Replace
from landfall.ledger.replace import replacing
from tests.crashes import merging
from tests.crashes.playing import play_merges
from tests.support.driver.replacing_mutants import (
    CallsItApplied,
    DeletesAtOnce,
    ForgetsWhatRetires,
    KeepsNothing,
    LeavesWhatItGivesUp,
    PassesWhatIsRefused,
    RetiresFirst,
    SweepsUnknown,
)
from tests.support.examples import schedules

SCHEDULES, CHUNKS = schedules(90), 3
SEARCHED = 400
"""Schedules in one of which a broken rule must show."""


FIRST_SEEDS: dict[type[Driver], int] = {
    LeavesWhatItGivesUp: 130,
    PassesWhatIsRefused: 28,
    SweepsUnknown: 18,
}
"""Where the search begins for a mutant that few schedules find."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_is_replaced_every_record_is_in_one_object(chunk: int) -> None:
    play_merges(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)


@pytest.mark.rest
@pytest.mark.parametrize(
    "kind",
    [
        RetiresFirst,
        CallsItApplied,
        ForgetsWhatRetires,
        KeepsNothing,
        DeletesAtOnce,
        SweepsUnknown,
        LeavesWhatItGivesUp,
        PassesWhatIsRefused,
    ],
)
def test_each_rule_of_drivers_is_needed(kind: type[Driver]) -> None:
    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_merges(FIRST_SEEDS.get(kind, 0), SEARCHED, kind)


@pytest.mark.rest
def test_a_plan_may_be_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    _accept(monkeypatch, lambda *_: "")

    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_merges(0, SEARCHED)


@pytest.mark.rest
def test_to_have_read_a_replacement_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "made_by", lambda state: state.seq)
    _accept(monkeypatch, replacing.why_out_of_date)

    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_merges(0, SEARCHED)


def _accept(patch: pytest.MonkeyPatch, why_out_of_date: Callable[..., str]) -> None:
    """Let a fold accept plans by another rule."""

    def check(state: State, record: Replace) -> None:
        if stale := why_out_of_date(state, record.read_through, record.folders):
            raise ValueError(stale)

    patch.setattr(replacing, "_check_plan", check)
    patch.setattr(planned_replacement, "why_out_of_date", why_out_of_date)
