"""The index of a keyed table: it has the newest row of each key, in any order of rows."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.publish.keyed.fold import Fold, OrderUnknown, counted
from landfall.publish.keyed.index import FOLDER, IndexLost, IndexSizes, KeyIndex
from landfall.publish.keyed.rows import ENTRY, ROW, KeyedRows, row_at
from landfall.store.memory import MemoryStore

SMALL = IndexSizes(part=3, fresh=5, fan=2, least_run=2, group=2)
Row = tuple[int, int, bool]
"""A key, an offset, and whether it deletes the key."""


def hash_of(key: int) -> tuple[int, int]:
    """Hashes of which some share their first half, as one of 2^64 does."""
    return key // 3 * 1000, key % 3


def part_of(rows: Iterable[Row], *, has_key: bool = True) -> KeyedRows:
    found = [(*hash_of(key), offset, row_at(0, offset), deleted) for key, offset, deleted in rows]
    array = np.array(found, ROW)
    return KeyedRows(array["row"].copy(), array, np.full(len(array), has_key))


def folded(parts: Iterable[Sequence[Row]], index: KeyIndex) -> tuple[KeyIndex, set[int]]:
    fold, uncounted = Fold(index), set[int]()
    for rows in parts:
        uncounted |= {int(row) for row in fold.add(part_of(rows))}
    return fold.index, uncounted


def by_a_dict(rows: Iterable[Row]) -> set[int]:
    """The offsets of rows that do not count."""
    newest = {key: (offset, deleted) for key, offset, deleted in sorted(rows, key=lambda r: r[1])}
    count = {offset for offset, deleted in newest.values() if not deleted}
    return {offset for _, offset, _ in rows} - count


ROWS = st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=40).map(
    lambda drawn: [(key, offset, deleted) for offset, (key, deleted) in enumerate(drawn)]
)


@given(ROWS, st.randoms(use_true_random=False))
def test_rows_in_any_order_and_in_any_parts_count_as_by_a_dict(
    rows: list[Row], chosen: random.Random
) -> None:
    index, shuffled = KeyIndex(MemoryStore(), sizes=SMALL), chosen.sample(rows, len(rows))
    uncounted = set[int]()
    while shuffled:
        size = chosen.randrange(1, 9)
        part, shuffled = shuffled[:size], shuffled[size:]
        index, more = folded([part], index)
        uncounted |= more
        if chosen.random() < 0.5:
            written = index.written()
            index = KeyIndex(index.slots, sizes=SMALL).named(written.text)

    assert uncounted == by_a_dict(rows)
    left = {int(row) for row in counted(part_of(rows), index)}
    assert left == {offset for _, offset, _ in rows} - by_a_dict(rows)


@given(st.sets(st.integers(0, 200), max_size=80), st.randoms(use_true_random=False))
def test_runs_that_become_one_lose_no_key(keys: set[int], chosen: random.Random) -> None:
    index = KeyIndex(MemoryStore(), sizes=SMALL)
    for number, key in enumerate(chosen.sample(sorted(keys), len(keys))):
        index, _ = folded([[(key, number, False)]], index)
        index = index.written()

    entries = np.sort(np.array([(*hash_of(key), 0, 0) for key in {*keys, 999}], ENTRY))
    known, _ = index.newest(entries)

    assert known.sum() == len(keys)
    assert sum(part.keys for run in index.runs for part in run) == len(keys)
    assert len(index.runs) <= 8
    assert all(part.keys <= SMALL.part for run in index.runs for part in run)


def test_a_hash_that_begins_as_the_next_part_does_is_found_before_it() -> None:
    rows = [(key, key, False) for key in range(1, 6)]
    index = folded([rows], KeyIndex(MemoryStore(), sizes=SMALL))[0].written()
    (run,) = index.runs
    assert [part.first for part in run] == [0, 1000]

    known, found = index.newest(np.array([(*hash_of(3), 0, 0)], ENTRY))

    assert (known.tolist(), found["row"].tolist()) == ([True], [3])


def test_an_index_is_named_by_a_text_and_read_by_it() -> None:
    index, _ = folded([[(1, 5, False), (2, 6, True)]], KeyIndex(MemoryStore()))
    written = index.written()

    again = KeyIndex(written.slots).named(written.text)

    assert again.names == written.names
    assert {f"{FOLDER}/{name}" for name in again.names} == {
        stat.key for stat in written.slots.list_after("")
    }
    known, found = again.newest(np.array([(*hash_of(2), 0, 0)], ENTRY))
    assert (known.tolist(), found["row"].tolist()) == ([True], [6])


@pytest.mark.parametrize("text", ["", "x", "!!!!", "eJxTAAAAAQ=="])
def test_a_text_that_names_no_index_is_refused(text: str) -> None:
    with pytest.raises(IndexLost, match="the index is not named"):
        KeyIndex(MemoryStore()).named(text)


@pytest.mark.parametrize(("body", "what"), [(None, "not there"), (b"PAR1", "damaged")])
def test_a_part_that_is_not_what_it_was_is_lost(body: bytes | None, what: str) -> None:
    store = MemoryStore()
    index = folded([[(1, 5, False)]], KeyIndex(store))[0].written()
    (key,) = (stat.key for stat in store.list_after(""))
    store.delete_slots([key])
    if body is not None:
        store.create(key, body)

    with pytest.raises(IndexLost, match=f"is {what}"):
        folded([[(1, 6, False)]], KeyIndex(store).named(index.text))


def test_rows_of_a_key_in_two_partitions_have_no_order_by_offsets() -> None:
    both = part_of([(1, 5, False), (1, 6, False)])
    both.rows["row"][1] = both.ids[1] = row_at(1, 2)

    with pytest.raises(OrderUnknown, match="offset 5 of partition 0 and offset 2 of partition 1"):
        Fold(KeyIndex(MemoryStore())).add(both)
    first = Fold(KeyIndex(MemoryStore()))
    first.add(both.only(np.array([True, False])))
    with pytest.raises(OrderUnknown, match="offset 5 of partition 0 and offset 2 of partition 1"):
        first.add(both.only(np.array([False, True])))
    by_column = Fold(KeyIndex(MemoryStore(), is_ordered=True))
    assert by_column.add(both).tolist() == [5], "the one with the smaller order"


def test_an_order_by_a_column_is_kept_in_files() -> None:
    later = part_of([(1, 5, False)])
    later.rows["order"] = 100
    index = Fold(KeyIndex(MemoryStore(), is_ordered=True))
    index.add(later)
    written = index.index.written()

    again = Fold(KeyIndex(written.slots, is_ordered=True).named(written.text))

    assert again.add(part_of([(1, 99, False)])).tolist() == [99], "its order is 99"


def test_a_row_that_comes_in_again_counts_as_before() -> None:
    index, _ = folded([[(1, 5, False), (2, 6, True)]], KeyIndex(MemoryStore()))

    again, uncounted = folded([[(1, 5, False), (2, 6, True)]], index)

    assert uncounted == {6}
    assert len(again.fresh) == 2


def test_rows_without_a_key_are_no_rows_of_each_other() -> None:
    fold = Fold(KeyIndex(MemoryStore()))
    keyless = part_of([(1, 5, False), (1, 6, False), (1, 7, True)], has_key=False)

    assert fold.add(keyless).tolist() == [7], "a deletion of nothing is no row"
    assert counted(keyless, fold.index).tolist() == [5, 6]


def test_what_is_written_twice_is_one_file(tmp_path: Path) -> None:
    store = MemoryStore()
    for _ in range(2):
        folded([[(key, key, False) for key in range(9)]], KeyIndex(store))[0].written()

    assert len([*store.list_after(f"{FOLDER}/")]) == 1
