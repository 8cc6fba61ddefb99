"""How often a store is asked to delete what was replaced."""

from collections import Counter

from landfall.api.contract import LANE
from landfall.driver.replacing.cleaning_up import ObjectRetirement
from landfall.ledger.names import object_names
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind
from landfall.objects import Upload
from landfall.store.memory import MemoryStore, Operation
from tests.support.waiting import wait_for
from tests.unit.driver.test_replacements import GROUP, NoDelete, Scene

KEY = "a/dt=1/1_0_00000000000000000000.json"
DELETED = {Operation.DROP: 1, Operation.STAT: 1, Operation.RETIRE: 1}
"""What is left of the upload is dropped; then the object is looked at, and deleted."""


def requests(*, copies: bool, is_kept: bool = False) -> dict[Operation, int]:
    """What it takes to retire an object of one part."""
    store = MemoryStore()
    opened = store.begin(KEY, "token")
    upload = Upload(KEY, opened, (store.put_part(KEY, opened, 1, b"row"),), "token")
    store.complete(upload)
    before = Counter(store.requests)
    retiring = DecidedObject(1, LandedObject(upload, ObjectKind.DATA, 1, 0, 0, 0))

    ObjectRetirement(store, GROUP, LANE, 5, copies=copies).retire(retiring, is_kept=is_kept)

    kept = store.read(object_names.retired_key(GROUP, LANE, 5, KEY))
    assert (store.read(KEY), kept) == (None, b"row" if copies and not is_kept else None)
    return {each: n for each, n in (store.requests - before).items() if each != Operation.READ}


def test_a_copy_is_kept_by_four_requests_and_an_object_deleted_by_three() -> None:
    kept = {Operation.BEGIN: 1, Operation.PUT_COPY: 1, Operation.COMPLETE: 1}

    assert requests(copies=True) == {**DELETED, **kept, Operation.STAT: 2}


def test_where_the_way_back_has_expired_an_object_is_only_deleted() -> None:
    assert requests(copies=False) == DELETED


def test_what_is_kept_already_is_only_deleted() -> None:
    assert requests(copies=True, is_kept=True) == DELETED


def test_the_next_driver_lists_what_former_ones_have_kept() -> None:
    store = NoDelete()
    scene = Scene(store)
    first = scene.landed()
    scene.planners[-1].may = True
    wait_for(lambda: bool(first.statuses) and bool(scene.kept()), "copies")
    wait_for(lambda: len(scene.kept()) == len(scene.objects()) - 1, "every copy")
    first.stop()
    copies = store.requests[Operation.PUT_COPY]

    store.denies = False
    second = scene.start("r2")
    scene.until_done()

    assert store.requests[Operation.PUT_COPY] == copies
    assert len(scene.objects()) == 1
    second.stop()
