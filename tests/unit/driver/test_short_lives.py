"""Drivers that end once they have caught up roll up old slots that are due, and wait no longer."""

from collections import Counter
from threading import Event
from typing import Any

import pytest

from landfall.api.contract import LANE, DriverPhase, ExitCode
from landfall.driver.http.status import DriverProgress
from landfall.lane import Lane
from landfall.ledger import LaneOwnership
from landfall.ledger.names import object_names
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import ledger_state
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

EVERY, LIVES = 6, 40


class SlowSegments(MemoryStore):
    """A store in which a segment is stored only once the lane is yielded."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.was_yielded = Event(), False

    def create(self, key: str, body: bytes) -> Any:
        if key.endswith(".seg"):
            self.begun.set()
            for _ in range(400):
                self.was_yielded = ledger_state(self).holding is LaneOwnership.YIELDED
                if self.was_yielded:
                    break
                Event().wait(0.05)
        return super().create(key, body)


class CountsDeletions(MemoryStore):
    """A store that counts how often each slot is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted = Counter[str]()

    def delete_slots(self, keys: Any) -> None:
        old = list(keys)
        self.deleted.update(old)
        super().delete_slots(old)


def live(store: MemoryStore, log: FakeLog, life: int, **spec: Any) -> ExitCode:
    """One driver from its OPEN until it has caught up."""
    of = group(tuning={"pollInterval": "5ms", "segmentEvery": EVERY}, **spec)
    return driver(of, store, log, FakeRunner(store), writer=f"w{life}").run()


def test_many_short_lives_leave_few_slots_beside_those_that_stay() -> None:
    store, log = CountsDeletions(), FakeLog().write("a", 10)

    for life in range(LIVES):
        log.write("a", 10 * (life + 1))
        assert live(store, log, life) is ExitCode.OK

    state = ledger_state(store)
    prefix = object_names.ledger_prefix("fake", LANE)
    places = [object_names.parse_slot_key("fake", LANE, s.key) for s in store.list_after(prefix)]
    epochs = Counter(epoch for epoch, _ in places)
    stay = sum(min(slots, 2) for slots in epochs.values())
    assert len(places) - stay <= EVERY
    assert state.seq + 1 - state.epochs[0] <= 3 * EVERY
    # The next life deletes once more, as it cannot know that its predecessor did.
    assert max(store.deleted.values()) <= 2
    assert landed_offsets(store) == written_offsets(log)
    assert Lane(store, "fake", LANE).read() == state


def test_lives_that_find_nothing_roll_up_too() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)

    for life in range(LIVES):
        assert live(store, log, life) is ExitCode.OK

    state = ledger_state(store)
    assert state.seq + 1 - state.epochs[0] <= 3 * EVERY
    assert state.snapshot_seq >= state.segments[-1].first


@pytest.mark.parametrize("ends", ["SIGTERM", "drain timeout"])
def test_a_slow_segment_is_not_waited_for(ends: str) -> None:
    store, log = SlowSegments(), FakeLog().write("a", 10)
    drain = {"drainTimeout": "100s"} if ends == "drain timeout" else {"drainTimeout": "1000d"}
    of = group(tuning={"pollInterval": "5ms", "segmentEvery": 2}, upgrade=drain)
    driver(of, store, log, FakeRunner(store)).writer.seal()  # as by one that died
    one = driver(of, store, log, FakeRunner(store), writer="w2")

    def end(progress: DriverProgress) -> None:
        if progress.phase is DriverPhase.DRAINING and ends == "SIGTERM" and store.begun.wait(20):
            one.stop("SIGTERM")

    one.report = end

    assert one.run() is ExitCode.OK
    assert store.begun.is_set()
    assert store.was_yielded
    assert landed_offsets(store) == written_offsets(log)
