"""Slots below a folder of others."""

from landfall.store import Created
from landfall.store.below import SlotsBelow
from landfall.store.memory import MemoryStore

ROOT = "_landfall/clicks/side/fix"


def test_all_that_is_done_is_done_below_the_folder() -> None:
    store = MemoryStore()
    store.create("a", b"above")
    store.create(f"{ROOT}-2/a", b"beside")
    below = SlotsBelow(store, ROOT)

    assert below.create("a", b"1") is Created.WON
    assert below.create("a", b"2") is Created.TAKEN
    below.overwrite("b/c", b"345")

    assert store.read(f"{ROOT}/a") == below.read("a") == b"1"
    assert below.read_range("b/c", -2, 9) == b"45"
    assert below.read("c") is None
    assert [stat.key for stat in below.list_after("")] == ["a", "b/c"]
    assert [stat.key for stat in below.list_after("", "a")] == ["b/c"]
    assert [stat.key for stat in below.list_after("b/")] == ["b/c"]
    below.delete_slots(["a"])
    assert (below.read("a"), store.read("a")) == (None, b"above")
