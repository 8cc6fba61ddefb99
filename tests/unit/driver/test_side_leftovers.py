"""What is left of side lanes that are discarded is deleted by somebody."""

from datetime import timedelta

import pytest

from landfall.driver.backfill.side_lane import DISCARDED, PLAN, discard
from landfall.driver.backfill.side_leftovers import KEPT, DiscardedLanes, delete_leftovers
from landfall.errors import StoreDenied
from landfall.ledger.names import object_names, roots
from landfall.store.below import SlotsBelow
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import NOW, FakeLog, group
from tests.support.ledger.sample_ledger import SampleLedger
from tests.support.waiting import wait_for

GROUP = group().metadata.name


class Below(SlotsBelow):
    """The store of a side lane."""

    def open_uploads(self, prefix: str) -> object:  # noqa: ARG002  # of the protocol
        return iter(())


def lane(store: MemoryStore, name: str, *, discarded: bool = True) -> str:
    """A side lane with a plan and a ledger; returns its root."""
    root = roots.side_root(GROUP, name)
    below = Below(store, root)
    below.create(PLAN, b"{}")
    key = object_names.slot_key(GROUP, "0", 0, 0)
    source = SampleLedger().open()
    below.create(key, source.store.read(object_names.slot_key("shop", "0", 0, 0)) or b"")
    if discarded:
        below.create(DISCARDED, b'{"at": "%s"}' % NOW.isoformat().encode())
    return root


def keys(store: MemoryStore, prefix: str = "_landfall/") -> list[str]:
    return [stat.key for stat in store.list_after(prefix)]


def test_all_but_the_mark_of_a_discarded_side_lane_goes_after_a_while() -> None:
    store = MemoryStore()
    root, other, younger = (lane(store, name) for name in ("fix", "fix-2", "g"))
    lived = lane(store, "lives", discarded=False)
    store.overwrite(f"{younger}/{DISCARDED}", b'{"at": "%s"}' % b"2200-01-01T00:00:00+00:00")
    before = keys(store)

    assert delete_leftovers(store, GROUP, NOW + KEPT) == 0
    assert keys(store) == before

    assert delete_leftovers(store, GROUP, NOW + KEPT + timedelta(days=1)) == 4

    left = [f"{root}/{DISCARDED}", f"{other}/{DISCARDED}"]
    assert [key for key in keys(store) if key.startswith((f"{root}/", f"{other}/"))] == sorted(left)
    assert [key for key in before if key.startswith((f"{younger}/", f"{lived}/"))] == [
        key for key in keys(store) if key.startswith((f"{younger}/", f"{lived}/"))
    ]
    assert delete_leftovers(store, GROUP, NOW + 2 * KEPT) == 0


@pytest.mark.parametrize("mark", [b"", b"[]", b"{}", b'{"at": 3}', b'{"at": "soon"}'])
def test_a_mark_that_says_no_time_deletes_nothing(mark: bytes) -> None:
    store = MemoryStore()
    root = lane(store, "fix")
    store.overwrite(f"{root}/{DISCARDED}", mark)

    assert delete_leftovers(store, GROUP, NOW + 2 * KEPT) == 0


def test_what_the_store_refuses_stays_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Denies(MemoryStore):
        def delete_slots(self, keys: object) -> None:  # noqa: ARG002  # of the protocol
            raise StoreDenied("AccessDenied")

    store = Denies()
    lane(store, "fix")

    assert delete_leftovers(store, GROUP, NOW + 2 * KEPT) == 0
    assert "leftovers of discarded backfills not deleted" in caplog.text


def test_each_side_lane_is_looked_up_once() -> None:
    store = MemoryStore()
    root, lived = lane(store, "fix"), lane(store, "lives", discarded=False)
    lanes = DiscardedLanes(store, GROUP)

    assert lanes.have(f"{root}/a/dt=1/1_0_{0:020}.json")
    assert not lanes.have(f"{lived}/a/dt=1/1_0_{0:020}.json")
    assert not lanes.have(f"a/dt=1/1_0_{0:020}.json")
    store.delete_slots([f"{root}/{DISCARDED}"])
    assert lanes.have(f"{root}/b")


def test_uploads_that_a_task_begins_after_discarding_are_aborted_by_the_live_driver() -> None:
    """The command has listed what is open; a task of `backfill run` elsewhere begins another."""
    store, log = MemoryStore(), FakeLog().write("a", 5)
    root, lived = lane(store, "fix", discarded=False), lane(store, "lives", discarded=False)
    discard(group(), Below(store, root), "fix", lambda: NOW)  # type: ignore[arg-type]  # as a store
    for side in (root, lived):
        store.begin(f"{side}/a/dt=1/1_0_{0:020}.json", "token")

    driver = DriverThread(store, log, "r1").start()
    driver.until_landed()
    wait_for(lambda: len([*store.open_uploads(root)]) == 0, "an upload that is aborted")
    driver.stop()

    assert [each.key for each in store.open_uploads("")] == [f"{lived}/a/dt=1/1_0_{0:020}.json"]
