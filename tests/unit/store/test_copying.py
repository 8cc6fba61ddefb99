"""What a copy that fails leaves, and how a store without copies of its own makes one."""

import pytest

from landfall.errors import Retry
from landfall.store.copying import copied, read_exactly
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from tests.support.stores.every_store import uploaded


def store_with(plan: Scripted, **settings: int) -> MemoryStore:
    store = MemoryStore(plan, **settings)
    store.complete(uploaded(store, "data/1", [b"0123456789"]))
    return store


def test_an_upload_that_cannot_be_filled_is_discarded() -> None:
    store = store_with(Scripted({Operation.PUT_COPY: [CallFault.THROTTLED]}))

    with pytest.raises(Retry):
        copied(store, "data/1", 10, "copy", "token-2")

    assert list(store.open_uploads("")) == []


def test_the_failure_is_raised_though_nothing_can_be_discarded() -> None:
    script = {Operation.PUT_COPY: [CallFault.THROTTLED], Operation.ABORT: [CallFault.CONFLICT]}
    store = store_with(Scripted(script))

    with pytest.raises(Retry, match="throttled"):
        copied(store, "data/1", 10, "copy", "token-2")


def test_parts_are_as_large_as_the_store_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.store.copying.PART_BYTES", 3)
    for least, sizes in ((1, [3, 3, 3, 1]), (5, [5, 5]), (20, [10])):
        store = store_with(Scripted(), least_part_bytes=least)

        parts = copied(store, "data/1", 10, "copy", "token-2").parts

        assert [part.size for part in parts] == sizes


def test_exactly_a_range_is_read() -> None:
    store = store_with(Scripted())

    assert read_exactly(store, "data/1", 3, 4) == b"3456"
    with pytest.raises(Retry, match="data/1: 3 bytes from 7 on, not 4"):
        read_exactly(store, "data/1", 7, 4)
    with pytest.raises(FileNotFoundError):
        read_exactly(store, "data/2", 0, 1)
