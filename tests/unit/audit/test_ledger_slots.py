"""How the auditor reads the slots of a ledger: in order, and several at a time."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Barrier
from typing import BinaryIO

import pytest

from landfall_audit.ledger.slots import _AHEAD, _READERS, slots

SLOTS = 3 * _AHEAD
KEYS = [f"_landfall/shop/0/0000000001/{n:010d}.json" for n in range(SLOTS)]


@dataclass
class Slots:
    """A bucket of slots whose bytes are their keys, and which of them were read."""

    together: Barrier | None = None
    fails_at: str = ""
    opened: list[str] = field(default_factory=list)

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        return ((key, 1) for key in KEYS if key.startswith(prefix))

    def open(self, key: str) -> BinaryIO:
        self.opened.append(key)
        if self.together:
            self.together.wait(30)
        if key == self.fails_at:
            raise FileNotFoundError(key)
        return io.BytesIO(key.encode())


def test_slots_are_read_several_at_a_time_and_come_in_order() -> None:
    bucket = Slots(Barrier(_READERS))  # fewer readers would wait for each other for ever

    found = list(slots(bucket, "shop"))

    assert [body.decode() for _, body in found] == KEYS
    assert found[1][0] == "0000000001/0000000001.json"


def test_only_so_many_slots_are_read_ahead() -> None:
    bucket, taken = Slots(), 5
    found = slots(bucket, "shop")

    for _ in range(taken):
        next(found)

    assert len(bucket.opened) <= _AHEAD + taken + 1
    found.close()  # type: ignore[attr-defined]  # a generator


def test_a_slot_that_cannot_be_read_is_an_error_at_its_place() -> None:
    found = slots(Slots(fails_at=KEYS[70]), "shop")

    read = [next(found)[1].decode() for _ in range(70)]

    assert read == KEYS[:70]
    with pytest.raises(FileNotFoundError):
        next(found)
