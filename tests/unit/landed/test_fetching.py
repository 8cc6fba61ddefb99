"""Small objects of a range are fetched side by side, in bounded memory, and read in order."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import BinaryIO

import pytest

from landfall.errors import Reason, Retry, Stalled, StoreAway
from landfall.landed import fetching
from landfall.landed.fetching import PARALLEL_FETCHES
from landfall.source import EndsEarly
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import Backup, within

ROWS = [click(o) for o in range(200)]
DEADLINE_SECONDS = 60


class SlowStore(MemoryStore):
    """Answers requests for objects only when so many are in flight, or no more are to come."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted, self.in_flight, self.most, self.ended = 1, 0, 0, 0
        self.sizes: dict[str, int] = {}
        self.most_bytes = 0
        self.failing: dict[str, Exception] = {}
        self._moved = Condition()

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        if not key.startswith("clicks/"):
            with super().open(key) as stream:
                yield stream
            return
        with self._moved:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            self._moved.notify_all()
            assert self._moved.wait_for(lambda: self.most >= self.wanted, DEADLINE_SECONDS)
        try:
            if error := self.failing.get(key):
                raise error
            with super().open(key) as stream:
                yield stream
        finally:
            with self._moved:
                self.in_flight -= 1


def backup() -> tuple[Backup, SlowStore]:
    """Two hundred records in a hundred objects."""
    store = SlowStore()
    return Backup({TP: ROWS}, store=store).land(*range(0, 201, 2)).settle(), store


def test_many_small_objects_are_fetched_at_once_and_read_in_order() -> None:
    landed, store = backup()
    store.wanted = PARALLEL_FETCHES

    assert landed.read(0, 200) == within(ROWS, 0, 200)
    assert store.most == PARALLEL_FETCHES


def test_what_is_fetched_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    landed, store = backup()
    size = max(len(store.read(stat.key) or b"") for stat in store.list_after("clicks/"))
    held = fetching.FetchAhead.__init__.__defaults__
    assert held == (fetching.MAX_BYTES,)
    monkeypatch.setattr(fetching.FetchAhead.__init__, "__defaults__", (3 * size,))
    store.wanted = 3

    assert landed.read(0, 200) == within(ROWS, 0, 200)
    assert store.most == 3


def test_large_objects_are_read_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    landed, store = backup()
    monkeypatch.setattr(fetching, "MAX_OBJECT_BYTES", 10)

    assert landed.read(0, 200) == within(ROWS, 0, 200)
    assert store.most == 1


def test_an_object_that_is_gone_or_refused_stops_the_reader_at_its_first_record() -> None:
    landed, store = backup()
    keys = sorted(stat.key for stat in store.list_after("clicks/"))
    gone = keys[30]
    store.delete(gone)

    with pytest.raises(EndsEarly) as early:
        landed.read(0, 200)
    assert early.value.offset == 60
    with pytest.raises(Stalled) as stalled:
        landed.read(60, 200)
    assert stalled.value.reason is Reason.OBJECT_LOST

    store.failing[keys[40]] = StoreAway("no answer")
    with pytest.raises(Retry, match="no answer"):
        landed.read(64, 200)
