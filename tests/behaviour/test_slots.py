"""Slots and listings of every store. S3 is a real server; the others must behave as it does."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from landfall.store import Created, Store
from tests.support.stores.every_store import StoreUnderTest, concurrently, content, uploaded


def test_a_slot_is_created_once_and_keeps_its_first_body(store: Store) -> None:
    first = store.create("slots/0", b"first")
    second = store.create("slots/0", b"second")

    assert (first, second) == (Created.WON, Created.TAKEN)
    assert store.read("slots/0") == b"first"


def test_creating_the_same_bytes_again_is_still_taken(store: Store) -> None:
    store.create("slots/0", b"same")

    assert store.create("slots/0", b"same") is Created.TAKEN


@pytest.mark.parametrize("attempt", range(5))
def test_of_sixteen_racing_writers_one_wins_and_its_body_stays(store: Store, attempt: int) -> None:
    bodies = [f"writer {n}".encode() for n in range(16)]

    answers = concurrently(
        *(lambda body=body: store.create("slots/raced", body) for body in bodies)
    )

    winners = [body for body, answer in zip(bodies, answers, strict=True) if answer is Created.WON]
    assert winners == [store.read("slots/raced")]


def test_an_absent_slot_reads_as_none(store: Store) -> None:
    store.create("slots/0", b"")

    assert (store.read("slots/1"), store.read("slots"), store.read("slots/0/x")) == (
        None,
        None,
        None,
    )


def test_an_empty_slot_reads_as_empty(store: Store) -> None:
    store.create("slots/0", b"")

    assert store.read("slots/0") == b""


def test_a_hint_is_overwritten(store: Store) -> None:
    store.overwrite("hints/HEAD", b"1")
    store.overwrite("hints/HEAD", b"2")

    assert store.read("hints/HEAD") == b"2"


def test_unusual_keys_are_listed_unchanged_and_in_order(tested: StoreUnderTest) -> None:
    store, unusual = tested.store, tested.unusual_keys()
    keys = [key for key in unusual if not any(other.startswith(f"{key}/") for other in unusual)]
    for key in reversed(keys):
        assert store.create(key, key.encode()) is Created.WON

    assert [found.key for found in store.list_after("")] == keys
    assert [store.read(key) for key in keys] == [key.encode() for key in keys]


def test_unusual_keys_can_be_uploaded(tested: StoreUnderTest) -> None:
    store, keys = tested.store, [key for key in tested.unusual_keys() if key != "a"]
    for key in keys:
        store.complete(uploaded(store, key, [key.encode()]))

    assert [content(store, key) for key in keys] == [key.encode() for key in keys]
    assert list(store.open_uploads("")) == []


def test_a_listing_has_only_keys_with_its_prefix_after_a_key(tested: StoreUnderTest) -> None:
    store, keys = tested.store, [key for key in tested.unusual_keys() if key != "a"]
    for key in keys:
        store.create(key, b"x")

    for prefix in ("", "a", "a/", "a/b", "a/ä/", "nothing"):
        for after in ("", "0", "a/", "a/b", "a/b!", "a/dt=2026-11-21", "a/zzz", *keys):
            expected = [key for key in keys if key.startswith(prefix) and key > after]
            assert [found.key for found in store.list_after(prefix, after)] == expected, (
                prefix,
                after,
            )


def test_a_listing_has_the_sizes_of_slots_and_no_tokens(store: Store) -> None:
    store.create("slots/0", b"")
    store.create("slots/1", b"four")

    assert [(found.key, found.size, found.token) for found in store.list_after("slots/")] == [
        ("slots/0", 0, ""),
        ("slots/1", 4, ""),
    ]


def test_a_listing_of_more_than_a_thousand_keys_has_them_all(store: Store) -> None:
    keys = [f"slots/{n:020d}.json" for n in range(1050)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda key: store.create(key, b"x"), keys))

    assert [found.key for found in store.list_after("slots/")] == keys
    assert [found.key for found in store.list_after("slots/", keys[10])] == keys[11:]


def test_a_folder_is_not_an_object(store: Store) -> None:
    store.create("folder/key", b"x")

    assert (store.stat("folder"), store.read("folder")) == (None, None)
    with pytest.raises(FileNotFoundError):
        store.open("folder")


@pytest.mark.parametrize(
    ("start", "length", "found"),
    [(0, 3, b"012"), (7, 9, b"789"), (-4, 2, b"67"), (-4, 9, b"6789"), (-99, 3, b"012")],
)
def test_a_range_of_a_value_is_read(store: Store, start: int, length: int, found: bytes) -> None:
    store.create("slots/range", b"0123456789")

    assert store.read_range("slots/range", start, length) == found


def test_a_range_of_nothing_is_none_and_one_behind_the_end_is_empty(store: Store) -> None:
    store.create("slots/range", b"0123456789")

    assert store.read_range("slots/absent", 0, 5) is None
    assert store.read_range("slots/range", 10, 5) == b""


def test_deleted_slots_are_gone_and_others_stay(store: Store) -> None:
    keys = [f"slots/{n:04d}" for n in range(3)]
    for key in keys:
        store.create(key, b"x")

    store.delete_slots([keys[0], keys[2], "slots/absent"])
    store.delete_slots([keys[0]])
    store.delete_slots([])

    assert [found.key for found in store.list_after("slots/")] == [keys[1]]
    assert store.read(keys[0]) is None
    assert store.create(keys[0], b"again") is Created.WON
