"""The values that were used last, up to a number of bytes."""

from landfall.pipeline.bounded_cache import _ENTRY_BYTES, BoundedCache


def test_the_oldest_entries_are_dropped() -> None:
    cache = BoundedCache[int, str](3 * _ENTRY_BYTES + 30)
    for key in range(3):
        cache.add(key, str(key), 10)

    assert cache.get(0) == "0"  # used last from here on
    cache.add(3, "3", 10)

    assert [key for key in range(4) if key in cache] == [0, 2, 3]


def test_an_entry_that_is_added_again_counts_once() -> None:
    cache = BoundedCache[int, str](2 * _ENTRY_BYTES + 20)
    for _ in range(10):
        cache.add(1, "a", 10)

    cache.add(2, "b", 10)

    assert (cache.get(1), cache.get(2)) == ("a", "b")


def test_the_last_one_is_kept_however_large_it_is() -> None:
    cache = BoundedCache[int, str](10)
    cache.add(1, "a", 1)

    assert cache.add(2, "b", 10**9) == "b"
    assert [cache.get(1), cache.get(2), len(cache)] == [None, "b", 1]
