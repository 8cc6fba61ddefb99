"""The real loop under kills, zombies, lost and late answers, handovers and retention.

A seed decides what happens and in which order.
"""

from collections.abc import Iterable, Iterator

import pytest

from landfall.api.spec import ConsumerGroup
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.process import handover
from landfall.driver.process.loop import Driver
from landfall.schemas.stored import StoredSchemas
from landfall.store import Slots
from landfall.store.memory import MemoryStore
from tests.crashes.machine import Schedule
from tests.crashes.process import Wrong, no_waiting
from tests.support.driver.driver_mutants import (
    CompletesFirst,
    CompletesReplaysFirst,
    DeletesOneTooMany,
    ForgetsWhatIsLost,
    GivesUpInDoubt,
    GivesUpUnasked,
    LandsANamesake,
    ListsWhileItLands,
    NeverComesBack,
    PlansBeforeRecovery,
    RepairsUnrecorded,
    SweepsThoughFenced,
    TakesAnyRange,
    TakesItsOwnForAnothers,
    TakesShortForWhole,
    WaitsForEveryLeader,
)
from tests.support.examples import schedules

SCHEDULES, CHUNKS = schedules(2000), 8
SEARCHED = 20_000
"""Schedules in one of which a broken rule must show."""
MUTANTS = [
    CompletesFirst,
    PlansBeforeRecovery,
    GivesUpInDoubt,
    SweepsThoughFenced,
    ListsWhileItLands,
    TakesItsOwnForAnothers,
    LandsANamesake,
    ForgetsWhatIsLost,
    GivesUpUnasked,
    RepairsUnrecorded,
    CompletesReplaysFirst,
    WaitsForEveryLeader,
    NeverComesBack,
    TakesShortForWhole,
    TakesAnyRange,
    DeletesOneTooMany,
]

FIRST_SEEDS: dict[type[Driver], int] = {
    SweepsThoughFenced: 7_803,
    RepairsUnrecorded: 158,
    CompletesReplaysFirst: 49,
    TakesItsOwnForAnothers: 52,
    LandsANamesake: 42,
    GivesUpUnasked: 38,
    ForgetsWhatIsLost: 23,
    GivesUpInDoubt: 21,
}
"""Where the search begins for a mutant that few schedules find: from 0, it takes minutes."""


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with no_waiting():
        yield


def play(seeds: Iterable[int], kind: type[Driver] = Driver) -> None:
    for seed in seeds:
        try:
            Schedule(seed, kind=kind).run()
        except Wrong as wrong:
            raise AssertionError(
                f"{wrong}\nto see each step: make crash-hunt SEED={seed}"
            ) from wrong


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_happens_every_record_is_landed_once(chunk: int) -> None:
    seeds = range(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)

    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    play(seeds)


@pytest.mark.rest
@pytest.mark.timeout(1800)  # some mutants take a thousand schedules
@pytest.mark.parametrize("kind", MUTANTS)
def test_each_rule_is_needed(kind: type[Driver]) -> None:
    with pytest.raises(AssertionError, match="make crash-hunt"):
        play(range(FIRST_SEEDS.get(kind, 0), SEARCHED), kind)


def test_a_schema_that_is_named_and_not_stored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredSchemas, "_create", lambda *_: None)

    with pytest.raises(AssertionError, match="schema missing"):
        play(range(10))


def test_a_spec_that_is_named_and_not_stored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstored(_: Slots, group: ConsumerGroup, lane: str) -> str:
        return store_spec(MemoryStore(), group, lane)

    monkeypatch.setattr(handover, "store_spec", unstored)

    with pytest.raises(AssertionError, match="spec missing"):
        play(range(1))


def test_a_seed_gives_the_same_schedule_again() -> None:
    steps: list[list[str]] = [[], []]
    for lines in steps:
        Schedule(7, tell=lines.append).run()

    assert steps[0] == steps[1]
    assert len(steps[0]) > 50
