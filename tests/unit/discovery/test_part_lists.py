"""Part lists in a store: what was stored is read back, and nothing else is taken for it."""

from dataclasses import replace

import msgspec
import pytest

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys, through_of
from landfall.errors import Reason, Stalled
from landfall.ledger import PartList, digest
from landfall.ledger.feeds.part_lists import ListedPart, encode_list
from landfall.store.memory import MemoryStore

KEYS = FeedKeys("shop", "0", "orders")
NAMES = ("a.json", "ä/\n\x00\u2028 .json", "😀" * 256)
PARTS = (
    ListedPart(NAMES[0], '"e1"', 20, 1000, 0, 10),
    ListedPart(NAMES[0], '"e1"', 20, 1000, 10, 20),
    ListedPart(NAMES[1], "e2", 0, 1001, 0, 0),
    ListedPart(NAMES[2], "", 5, 1002, 0, 5, former=3, attempt=12, skip=2),
)


def test_a_list_is_read_back_as_it_was_written() -> None:
    store = MemoryStore()

    named = part_lists.write(store, KEYS, 7, PARTS)

    assert part_lists.read(store, KEYS, named) == PARTS
    sha256 = digest(store.read(named.key) or b"")
    assert named == PartList(KEYS.part_list(7, sha256), sha256, 7, 11, 3, 25)


def test_a_list_that_is_written_twice_is_the_same() -> None:
    store = MemoryStore()

    first, second = (part_lists.write(store, KEYS, 7, parts) for parts in (PARTS, [*PARTS]))

    assert first == second
    assert [stat.key for stat in store.list_after(KEYS.prefix)] == [first.key]


def test_other_bytes_under_the_key_are_refused() -> None:
    store = MemoryStore()
    named, _ = encode_list("shop", "0", "orders", 7, PARTS)
    store.create(named.key, b"other")

    with pytest.raises(Stalled, match="is there with other bytes") as raised:
        part_lists.write(store, KEYS, 7, PARTS)

    assert raised.value.reason is Reason.LEDGER_BROKEN


def test_a_list_that_is_gone_or_changed_is_named() -> None:
    store = MemoryStore()
    named = part_lists.write(store, KEYS, 7, PARTS)
    store.delete(named.key)

    with pytest.raises(Stalled, match=rf"{named.key}: is named by the ledger, but gone"):
        part_lists.read(store, KEYS, named)
    store.create(named.key, encode_list("shop", "0", "orders", 7, PARTS[:3])[1])
    with pytest.raises(Stalled, match=rf"{named.key}: has SHA-256 .*, expected {named.sha256}"):
        part_lists.read(store, KEYS, named)


@pytest.mark.parametrize("change", [{"first": 6}, {"end": 12}, {"files": 4}, {"bytes": 24}])
def test_a_list_that_is_not_as_the_ledger_says_is_refused(change: dict[str, int]) -> None:
    store = MemoryStore()
    named = part_lists.write(store, KEYS, 7, PARTS)
    wrong = msgspec.structs.replace(named, **change)

    with pytest.raises(Stalled, match=rf"^{named.key}: lists .*, the ledger records") as raised:
        part_lists.read(store, KEYS, wrong)

    assert raised.value.reason is Reason.LEDGER_BROKEN


def test_the_list_of_another_feed_is_refused() -> None:
    store = MemoryStore()
    named = part_lists.write(store, KEYS, 7, PARTS)

    with pytest.raises(Stalled, match=r"lists .*, the ledger records"):
        part_lists.read(store, replace(KEYS, topic="clicks"), named)


def test_keys_of_feeds_are_apart() -> None:
    sha256 = "ab" * 32

    assert KEYS.index(5, sha256).removeprefix(KEYS.prefix) == f"known/{5:020d}-{'ab' * 8}.json.gz"
    assert KEYS.part_list(5, sha256).removeprefix(KEYS.prefix) == f"{5:020d}-{'ab' * 8}.json.gz"
    assert through_of(KEYS.piece(5, sha256)) == 5
    assert not KEYS.piece(5, sha256).startswith(KEYS.index_prefix)
    with pytest.raises(ValueError, match="not a topic name"):
        replace(KEYS, topic="a/b")
    with pytest.raises(ValueError, match="not a lane name"):
        replace(KEYS, lane="0-files")
    with pytest.raises(ValueError, match="not a number and a SHA-256"):
        KEYS.index(-1, sha256)
    with pytest.raises(ValueError, match="not the key of an index"):
        through_of("known/5.json.gz")
