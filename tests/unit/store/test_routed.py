"""A ledger in one store and its objects in another: which keys are where, and what is refused."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from landfall.api.spec import ConsumerGroup
from landfall.driver.process.ledger_root import check_roots
from landfall.errors import (
    LettersDenied,
    LettersUnreachable,
    Reason,
    Stalled,
    StoreAway,
    StoreDenied,
)
from landfall.lane import claim_output_root
from landfall.lane.seen import SeenObjects
from landfall.lane.stores import as_one, open_stores, with_ledger
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.names.roots import side_root
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall.store import Created, Store
from landfall.store.copying import copied
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults
from landfall.store.probe import probe, probe_replacing
from landfall.store.routed import LettersStore, RoutedStore
from tests.support.driver.fakes import group
from tests.support.stores.every_store import uploaded

LEDGER_KEYS = [
    "_landfall/clicks/0-head.json",
    "_landfall/clicks/0-snapshots/00000000000000000001.json",
    "_landfall/clicks/0/0000000000/0000000000.json",
    "_landfall/output.json",
    "_landfall/owner.json",
]
OBJECT_KEYS = [
    object_names.retired_key("clicks", "0", 7, "orders/1_0_00000000000000000000.json.gz"),
    object_names.dead_letter_key("clicks", "orders", 1, 0, 0),
    "_landfall/ledger.json",
    "db=shop/_landfall/owner.json",
    "orders/dt=2026-11-23/1_0_00000000000000000000.json.gz",
    "orders/dt=2026-11-23/_SUCCESS",
]


class Careless(MemoryStore):
    """Ignores the condition of a create."""

    def create(self, key: str, body: bytes) -> Created:
        self.overwrite(key, body)
        return Created.WON


def elsewhere(url: str = "file:///ledger", output: str = "file:///out") -> ConsumerGroup:
    return group(output={"url": output}, ledger={"url": url})


def keys(store: Store, prefix: str = "", after: str = "") -> list[str]:
    return [found.key for found in store.list_after(prefix, after)]


def test_each_key_is_in_its_own_store() -> None:
    ledger, objects = MemoryStore(), MemoryStore()
    both = with_ledger(ledger, objects)
    for key in [*OBJECT_KEYS, *LEDGER_KEYS]:
        assert both.create(key, key.encode()) is Created.WON
        assert both.create(key, b"other") is Created.TAKEN

    assert (keys(ledger), keys(objects)) == (LEDGER_KEYS, OBJECT_KEYS)
    assert keys(both) == sorted([*LEDGER_KEYS, *OBJECT_KEYS])
    assert [both.read(key) for key in keys(both)] == [key.encode() for key in keys(both)]
    for prefix in ("", "_", "_landfall/", "_landfall/clicks/", "_landfall/clicks/0", "orders/"):
        for after in ("", *LEDGER_KEYS, *OBJECT_KEYS):
            expected = [k for k in keys(both) if k.startswith(prefix) and k > after]
            assert keys(both, prefix, after) == expected, (prefix, after)
    both.delete_slots([LEDGER_KEYS[0], OBJECT_KEYS[-1]])
    assert (keys(ledger), keys(objects)) == (LEDGER_KEYS[1:], OBJECT_KEYS[:-1])


def test_a_copy_of_a_retired_object_is_where_the_object_was() -> None:
    ledger, objects = MemoryStore(), MemoryStore()
    both = with_ledger(ledger, objects)
    retiring = uploaded(both, "orders/1_0_00000000000000000000.json.gz")
    both.complete(retiring)
    kept = object_names.retired_key("clicks", "0", 7, retiring.key)

    both.complete(copied(both, retiring.key, 4, kept, "token-2"))
    both.retire(retiring)

    assert (keys(ledger), keys(objects)) == ([], [kept])
    assert both.read(kept) == b"body"


def test_what_is_left_in_the_other_store_is_not_looked_at() -> None:
    ledger, objects = MemoryStore(), MemoryStore()
    ledger.create("orders/dt=2026-11-23/1_0_00000000000000000000.json.gz", b"x")
    objects.create("_landfall/clicks/0/0000000000/0000000000.json", b"x")
    both = with_ledger(ledger, objects)

    assert keys(both) == []
    assert both.read("_landfall/clicks/0/0000000000/0000000000.json") is None


def test_reading_the_ledger_asks_its_store_alone() -> None:
    objects = MemoryStore()
    both = with_ledger(MemoryStore(), objects)

    keys(both, object_names.ledger_prefix("clicks", "0"))
    both.read(object_names.head_key("clicks", "0"))

    assert not objects.requests


def test_uploads_are_all_in_the_objects_store() -> None:
    ledger, objects = MemoryStore(), MemoryStore()
    both = with_ledger(ledger, objects)
    upload = uploaded(both, object_names.dead_letter_key("clicks", "orders", 1, 0, 0))

    both.complete(upload)

    assert (keys(ledger), keys(objects)) == ([], [upload.key])
    assert both.stat(upload.key) == objects.stat(upload.key)


def test_a_store_without_conditions_may_keep_objects_but_no_ledger() -> None:
    probe(with_ledger(MemoryStore(), Careless()))

    with pytest.raises(Stalled, match="racing creates"):
        probe(with_ledger(Careless(), MemoryStore()))
    with pytest.raises(Stalled, match="racing creates"):
        probe(Careless())


def test_objects_can_be_replaced_beside_a_ledger_elsewhere() -> None:
    ledger, objects = MemoryStore(), MemoryStore()

    probe_replacing(with_ledger(ledger, objects), "probe-1")

    assert objects.requests["retire"] == 2
    assert not ledger.requests


def test_a_claim_in_a_store_without_conditions_is_not_replaced() -> None:
    both = with_ledger(MemoryStore(), Careless())
    both.create("db=shop/_landfall/owner.json", b"first")

    assert both.create("db=shop/_landfall/owner.json", b"second") is Created.TAKEN
    assert both.read("db=shop/_landfall/owner.json") == b"first"


def test_both_roots_name_each_other() -> None:
    ledger, objects = MemoryStore(), MemoryStore()
    both = with_ledger(ledger, objects)

    check_roots(both, elsewhere().spec)
    check_roots(both, elsewhere("file:///ledger/").spec)

    assert objects.read("_landfall/ledger.json") == b'{"url": "file:///ledger"}'
    assert ledger.read("_landfall/output.json") == b'{"url": "file:///out"}'


def test_another_ledger_for_an_output_root_is_refused() -> None:
    objects = MemoryStore()
    check_roots(with_ledger(MemoryStore(), objects), elsewhere().spec)

    for store, spec in (
        (with_ledger(MemoryStore(), objects), elsewhere("file:///other").spec),
        (objects, group(output={"url": "file:///out"}).spec),
    ):
        with pytest.raises(Stalled, match=r"ledger of file:///out is in file:///ledger") as refused:
            check_roots(store, spec)
        assert refused.value.reason is Reason.SPEC_INVALID


def test_a_ledger_of_another_output_root_is_refused() -> None:
    ledger = MemoryStore()
    check_roots(with_ledger(ledger, MemoryStore()), elsewhere().spec)

    with pytest.raises(Stalled, match="in file:///ledger is in file:///out, not in file:///new"):
        check_roots(with_ledger(ledger, MemoryStore()), elsewhere(output="file:///new").spec)


def test_a_group_that_has_landed_keeps_its_ledger() -> None:
    objects = MemoryStore()
    claim_output_root(objects, "shop/clicks")

    with pytest.raises(Stalled, match=r"file:///out has a ledger of its own"):
        check_roots(with_ledger(MemoryStore(), objects), elsewhere().spec)


@pytest.mark.parametrize(
    ("ledger", "output"),
    [("file:///a", "file:///a/"), ("file:///a/b", "file:///a"), ("file:///a", "file:///a/b")],
)
def test_roots_are_not_in_each_other(ledger: str, output: str) -> None:
    with pytest.raises(Stalled, match=r"ledger\.url: .* must not be in each other"):
        elsewhere(ledger, output)


def test_a_group_opens_one_store_or_two() -> None:
    both = open_stores(elsewhere().spec)

    assert both.is_apart
    assert repr(both.ledger) == "FileStore(/ledger)"
    assert not open_stores(group(output={"url": "file:///out"}).spec).is_apart


PLACE, FORMER = "0123456789abcdef", "fedcba9876543210"
SIDE = side_root("clicks", "fix")
COPY = object_names.retired_key(
    "clicks", "0", 7, object_names.dead_letter_key("clicks", "orders", 1, 0, 9, place=PLACE)
)
LETTERS_KEYS = [
    COPY,
    object_names.dead_letter_key("clicks", "orders", 1, 0, 0, place=PLACE),
    f"{SIDE}/{COPY}",
    f"{SIDE}/{object_names.dead_letter_key('clicks', 'orders', 2, 0, 0, place=PLACE)}",
]
UNKNOWN = object_names.dead_letter_key("clicks", "orders", 1, 0, 0, place=FORMER)


def with_letters(*places: str) -> tuple[RoutedStore, Mapping[str, MemoryStore]]:
    stores = {name: MemoryStore() for name in ("objects", "ledger", *places)}
    letters = {place: LettersStore(stores[place], "spec.badRecords.url") for place in places}
    return as_one(stores["objects"], stores["ledger"], letters), stores


@pytest.mark.parametrize("key", LETTERS_KEYS)
def test_dead_letters_and_their_copies_are_in_their_own_place(key: str) -> None:
    store, stores = with_letters(PLACE, FORMER)
    upload = uploaded(store, key)
    assert [each.key for each in store.open_uploads("_landfall/clicks/")] == [key]

    store.complete(upload)

    assert [name for name in stores if keys(stores[name])] == [PLACE]
    assert (store.read(key), store.read_range(key, 1, 2)) == (b"body", b"od")
    for prefix in (key[:end] for end in range(len(key) + 1)):
        assert keys(store, prefix) == [key], prefix
    store.retire(upload)
    assert store.stat(key) is None
    store.abort(key, uploaded(store, key).upload_id)
    assert not [*store.open_uploads("")]
    assert not stores["objects"].requests.keys() - {"list", "open-uploads"}


def test_one_listing_and_one_deletion_have_the_keys_of_all_stores() -> None:
    store, stores = with_letters(PLACE)
    for key in [*LEDGER_KEYS, *OBJECT_KEYS]:
        store.create(key, b"x")
    for key in LETTERS_KEYS:
        store.complete(uploaded(store, key))
    everything = sorted([*LEDGER_KEYS, *OBJECT_KEYS, *LETTERS_KEYS])

    assert keys(store) == everything
    store.delete_slots([LEDGER_KEYS[0], OBJECT_KEYS[0], LETTERS_KEYS[0]])
    assert len(keys(store)) == len(everything) - 3
    assert keys(stores[PLACE]) == sorted(LETTERS_KEYS[1:])


def test_a_copy_from_another_place_is_sent_from_here() -> None:
    store, stores = with_letters(PLACE, FORMER)
    store.complete(uploaded(store, UNKNOWN))

    store.complete(copied(store, UNKNOWN, 4, LETTERS_KEYS[1], "token-2"))

    assert stores[PLACE].read(LETTERS_KEYS[1]) == b"body"


@pytest.mark.parametrize("ledger", [None, MemoryStore()])
def test_what_is_in_an_unknown_place_is_unreachable_and_not_absent(ledger: Store | None) -> None:
    objects = MemoryStore()
    objects.create(UNKNOWN, b"left in the wrong store")
    store = as_one(objects, ledger)
    upload = Upload(UNKNOWN, "id", (), "token")

    for call in (
        lambda: store.stat(UNKNOWN),
        lambda: store.read(UNKNOWN),
        lambda: store.open(UNKNOWN),
        lambda: store.begin(UNKNOWN, "token"),
        lambda: store.complete(upload),
        lambda: store.retire(upload),
        lambda: store.abort(UNKNOWN, "id"),
        lambda: store.delete_slots([UNKNOWN]),
    ):
        with pytest.raises(LettersUnreachable, match=f"unreachable, not lost: .* {FORMER}"):
            call()
    assert keys(store) == []
    letters = LandedObject(upload, ObjectKind.DEAD_LETTERS, 1, 0, 0, 0)
    state = State(seq=7, applied_through=6, unapplied=MappingProxyType({7: (letters,)}))
    assert SeenObjects(store.stat).through(state) == 6


class Refuses(NoFaults):
    def before(self, call: Call) -> CallFault | None:
        raise StoreDenied(f"{call.operation} {call.key}: 403 AccessDenied")


def test_a_place_that_refuses_is_named_and_is_no_outage_of_the_store() -> None:
    letters = {PLACE: LettersStore(MemoryStore(plan=Refuses()), "spec.badRecords.url")}
    store = as_one(MemoryStore(), letters=letters)

    with pytest.raises(LettersDenied, match=r"spec\.badRecords\.url: begin .* 403") as refused:
        store.begin(LETTERS_KEYS[1], "token")

    assert not isinstance(refused.value, StoreAway)
    store.begin(OBJECT_KEYS[-2], "token")
