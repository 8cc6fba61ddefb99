"""The real loop and another group that has what Kafka loses, under all that may become of both."""

import pytest

from landfall.driver.landing import recovery
from landfall.driver.process.loop import Driver
from tests.crashes.playing import play_losses
from tests.support.driver.losing_mutants import (
    AsksNobody,
    ReadsOn,
    TakesUnconfirmedForAbsent,
    TellsNoTask,
)
from tests.support.examples import schedules

SCHEDULES = schedules(40)
SEARCHED = 200
"""Schedules in one of which a broken rule must show."""
FIRST_SEEDS: dict[type[Driver], int] = {TakesUnconfirmedForAbsent: 77}
"""Where the search begins for a mutant that few schedules find."""


@pytest.mark.law
def test_whatever_kafka_loses_every_record_is_landed_once_or_nobody_has_it() -> None:
    play_losses(0, SCHEDULES)


@pytest.mark.rest
@pytest.mark.parametrize("kind", [AsksNobody, ReadsOn, TellsNoTask, TakesUnconfirmedForAbsent])
def test_each_rule_of_drivers_is_needed(kind: type[Driver]) -> None:
    with pytest.raises(AssertionError, match="make crash-hunt LOSSES=1"):
        play_losses(FIRST_SEEDS.get(kind, 0), SEARCHED, kind)


@pytest.mark.rest
def test_lost_uploads_are_made_again_from_where_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_from_backup", lambda *_: ())

    with pytest.raises(AssertionError, match="given up"):
        play_losses(49, SEARCHED)
