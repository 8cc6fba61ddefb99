"""Keyed tables: the newest row of each key counts, after merges, backfills and undos."""

import io
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.ledger.entries import Decision
from landfall.ledger.names.object_names import ObjectName, dead_letter_key, parse_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice
from landfall.publish.choice import TableChoice
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.tables import TablePublisher
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.ledger.sample_ledger import GROUP
from tests.support.ledger.sample_replacing import Merge, Undo
from tests.support.publishers.keyed import (
    SCHEMA,
    Change,
    Changes,
    KeyedLake,
    listed,
    random_changes,
)
from tests.support.publishers.keyed_delta import KeyedDeltaLake
from tests.support.publishers.keyed_iceberg import KeyedIcebergLake
from tests.support.publishers.lake import CLICKS

KINDS: dict[str, type[KeyedLake]] = {"Delta": KeyedDeltaLake, "Iceberg": KeyedIcebergLake}
LETTERS = dead_letter_key(GROUP, "clicks", 1, 0, 0)
Make = Callable[[Changes], KeyedLake]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return partial(KINDS[request.param], tmp_path)


@pytest.fixture
def lake(make: Make) -> KeyedLake:
    return make(Changes(random_changes(1)))


@pytest.mark.parametrize("seed", range(3))
def test_every_pass_leads_to_the_table_that_a_dict_has(make: Make, seed: int) -> None:
    chosen, lake = random.Random(seed), make(Changes(random_changes(seed)))
    merges = list[Merge]()

    for step in range(14):
        kind = take_step(lake, chosen, step, merges)
        if chosen.random() < 0.7:
            lake.publish(at_once=chosen.random() < 0.5)
            assert lake.shown() == lake.expected(), f"step {step}, {kind}"
            lake.delete_retired()


def take_step(lake: KeyedLake, chosen: random.Random, step: int, merges: list[Merge]) -> str:
    """Change what is landed, and return how."""
    kinds = ["land", "land", "merge", "undo", "again", "begin"]
    kind = chosen.choice(kinds) if step > 3 else "land"
    if kind == "land":
        for _ in range(chosen.randrange(1, 4)):
            lake.land(chosen.randrange(1, 9))
    elif kind == "merge" and len(numbers := of_one_generation(lake)) > 2:
        numbers = chosen.sample(numbers, 2)
        # What is left out has a duplicate, so a key that it deletes stays deleted.
        first = lake.rows_of(lake.live()[numbers[0]].key)[0]
        left_out = () if first["_deleted"] else chosen.choice([(), (first["_offset"],)])
        merges.append(lake.merge(*sorted(numbers), left_out=left_out))
    elif kind == "again" and (numbers := of_one_generation(lake)):
        land_again(lake, chosen.choice(numbers), seed=step)
    elif kind == "begin":
        lake.begin_again(random_changes(1000 * step))
    elif kind == "undo" and merges:
        undo_if_possible(lake, merges)
    return kind


def of_one_generation(lake: KeyedLake) -> list[int]:
    """The numbers of the live objects of the last generation."""
    last = lake.landed.sample.state.generation
    return [n for n, o in enumerate(lake.live()) if parse_key(o.key).generation == last]


def undo_if_possible(lake: KeyedLake, merges: list[Merge]) -> None:
    merge = merges.pop()
    if merge.new.landed.key in {o.key for o in lake.live()}:
        Undo(merge).record().complete().keep_copies().sample.shown()


def land_again(lake: KeyedLake, number: int, seed: int) -> None:
    """Land the range of a live object again, with other changes, if it has all of a range."""
    old, sample = lake.live()[number], lake.landed.sample
    offsets = sorted(sample.rows[old.key])
    if offsets != [*range(offsets[0], offsets[-1] + 1)]:
        return
    changes, lake.changes.at = lake.changes.at, random_changes(1000 + seed)
    again = Again(CLICKS, offsets[0], offsets[-1] + 1)
    generation = sample.state.generation or 1
    Backfill(sample, [(old.slot, old.landed)], again, generation=generation).record().complete()
    sample.shown()
    lake.changes.at = changes


def test_an_older_row_that_comes_late_does_not_count(make: Make) -> None:
    lake = make(listed(Change(1), Change(2), Change(1), Change(2, deleted=True)))
    letters = land_with_letters(lake, [2, 3], [0, 1])
    lake.publish()
    assert lake.shown() == {1: (0, 2)}

    replay(lake, letters)
    lake.publish()

    assert lake.shown() == lake.expected() == {1: (0, 2)}


def land_with_letters(lake: KeyedLake, good: list[int], bad: list[int]) -> LandedObject:
    """Land a range of which some records are dead letters; returns the object of these."""
    sample, rows = lake.landed.sample, len(good) + len(bad)
    letters = sample.upload(LETTERS, bad, ObjectKind.DEAD_LETTERS)
    data = sample.upload(ObjectName("clicks", "dt=2026-11-21", 1, 0, 0, ".parquet").key, good)
    piece = Slice(CLICKS, OffsetRange(0, rows))
    counts = len(good), 0, len(bad), 0, 9 * rows
    sample.commit(LandedSlice(piece, (letters, data), *counts))
    lake.landed.settle()
    return letters


def replay(lake: KeyedLake, letters: LandedObject) -> None:
    """Land dead letters again, by a new generation."""
    sample, offsets = lake.landed.sample, lake.landed.sample.rows[letters.key]
    sample.open(2)
    made = sample.upload(ObjectName("clicks", "dt=2026-11-21", 2, 0, 0, ".parquet").key, offsets)
    piece = Slice(CLICKS, OffsetRange(0, offsets[-1] + 1))
    slice_ = ReplayedSlice(letters.key, piece, len(offsets), (made,), len(offsets), 0, 0)
    decision = Decision("replay", "kim", "a test", "t")
    token = made.upload.token
    sample.append(
        lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=decision)
    )
    sample.store.complete(made.upload)
    sample.shown()


def test_rows_without_a_key_stay_and_delete_nothing(make: Make) -> None:
    changes = [Change(1), Change(None), Change(None), Change(None, deleted=True), Change(1)]
    lake = make(listed(*changes))
    lake.land(5)

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows(["_offset"])) == [1, 2, 4]


def test_a_landed_file_without_offsets_stops_the_table(lake: KeyedLake) -> None:
    lake.land(6)
    lake.publish()
    lake.land(6)
    lake.land(6)
    lake.merge(1, 2, columns=("id", "_offset"))

    with pytest.raises(Stalled, match="it has rows without _partition and _offset") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT
    assert lake.shown() == {key: row for key, row in lake.shown().items() if row[1] < 6}


def test_rows_of_a_key_in_two_kafka_partitions_stop_the_table_unless_a_column_orders_them(
    make: Make,
) -> None:
    def change(partition: int, offset: int) -> Change:
        return Change(1, at=[30, 20][partition] + offset)

    lake = make(Changes(change))
    lake.land(2)
    lake.publish()
    lake.landed.sample.add(TopicPartition("clicks", 1))
    lake.land(2, partition=1)

    with pytest.raises(Stalled, match="offset 1 of partition 0 and offset 1 of partition 1") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT
    assert lake.shown() == {1: (0, 1)}

    lake.keys = KeySettings(("id",), order="at")
    lake.publish()

    assert lake.shown() == {1: (0, 1)}, "which has the later time"


@pytest.mark.parametrize("is_landed_again", [True, False])
def test_files_without_the_column_of_the_order_have_a_way_out(
    make: Make, is_landed_again: bool
) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 3)))
    whole, old = lake.landed.sample.body, [name for name in SCHEMA.names if name != "at"]
    lake.landed.sample.body = lambda offsets: only_columns(whole(offsets), old)
    lake.land(4)
    lake.publish()
    start = lake.landed.sample.state.seq
    lake.landed.sample.body = whole
    lake.keys = KeySettings(("id",), order="at")
    lake.land(2)
    with pytest.raises(Stalled, match="it has no column at: correct option key or order; or land"):
        lake.publish()

    if is_landed_again:
        land_again(lake, 0, seed=1)
        start = 0
    left = replace(lake.publisher(), choice=TableChoice(start))
    left.reset(lake.landed.follower())

    assert lake.shown() == (lake.expected() if is_landed_again else {1: (0, 4), 2: (0, 5)})


def only_columns(body: bytes, names: list[str]) -> bytes:
    """A file with some of the columns of another one."""
    pq.write_table(pq.read_table(io.BytesIO(body), columns=names), found := io.BytesIO())
    return found.getvalue()


def test_another_key_folds_the_table_again(make: Make) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 3, name=f"n{offset % 2}")))
    lake.land(6)
    lake.publish()
    assert len(lake.rows()) == 3
    lake.keys = KeySettings(("name",))
    lake.land(1)

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows(["_offset"])) == [5, 6]


@pytest.mark.parametrize("body", [None, b"other bytes"])
def test_an_index_that_is_lost_is_made_again_of_the_files(
    lake: KeyedLake, body: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    lake.land(20)
    lake.publish()
    for part in lake.index.iterdir():
        part.unlink() if body is None else part.write_bytes(body)
    lake.land(20)

    lake.publish()

    assert lake.shown() == lake.expected()
    assert [record.message for record in caplog.records] == ["index lost"]
    lake.land(20)
    lake.publish()
    assert lake.shown() == lake.expected()
    assert len(caplog.records) == 1


def test_a_damaged_index_is_replaced_by_one_of_the_same_name(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 4, at=100 - offset)))
    lake.keys = KeySettings(("id",), order="at")
    lake.land(4)
    lake.publish()
    (part,) = lake.index.iterdir()
    body = part.read_bytes()
    part.write_bytes(body[:20])

    for _ in range(2):
        lake.land(1)
        lake.publish()

    assert part.read_bytes() == body
    assert [record.message for record in caplog.records] == ["index lost"]


def test_a_version_that_is_restored_brings_its_index_along(lake: KeyedLake) -> None:
    for _ in range(3):
        before = lake.shown() if lake.landed.sample.rows else {}
        lake.land(8)
        lake.publish()
    lake.roll_back()
    assert lake.shown() == before

    lake.publish()

    assert lake.shown() == lake.expected()


def test_a_rebuild_finds_again_which_rows_count(lake: KeyedLake) -> None:
    for _ in range(3):
        lake.land(8)
    lake.publish()
    lake.lose_deletes()
    lake.land(8)

    lake.publisher().reset(lake.landed.follower())

    assert lake.shown() == lake.expected()
    lake.land(8)
    lake.publish()
    assert lake.shown() == lake.expected()


def test_what_does_not_count_and_is_lost_stops_the_table(lake: KeyedLake) -> None:
    lake.land(20)
    lake.publish()
    lake.lose_deletes()
    lake.land(20)

    with pytest.raises(Stalled, match="--rebuild") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT


def test_what_another_program_deletes_stays_deleted_by_a_merge(lake: KeyedLake) -> None:
    lake.changes.at = lambda _, offset: Change(offset % 4)
    lake.land(6)
    lake.land(3)
    lake.publish()
    lake.delete_as_others(1, 0)
    assert sorted(lake.shown()) == [0, 1, 3]

    lake.merge(0, 1)
    lake.publish()

    assert sorted(lake.shown()) == [0, 1, 3]
    lake.land(3)
    lake.publish()
    assert lake.shown() == lake.expected()


def test_what_another_program_updates_stays_updated_by_a_merge_and_its_undo(
    lake: KeyedLake,
) -> None:
    lake.changes.at = lambda _, offset: Change(offset % 8)
    lake.land(4)
    lake.land(4)
    lake.publish()
    lake.update_as_others(0, 2, "updated")
    updated = {**names_of(lake), 2: "updated"}

    merge = lake.merge(0, 1)
    lake.publish()
    assert names_of(lake) == updated
    Undo(merge).record().complete().keep_copies().sample.shown()
    lake.publish()
    assert names_of(lake) == updated

    lake.land(3)
    lake.publish()
    assert names_of(lake) == {**updated, 0: "n8", 1: "n9", 2: "n10"}


def test_a_row_that_another_program_has_updated_is_there_once_if_keys_are_folded_again(
    lake: KeyedLake,
) -> None:
    lake.changes.at = lambda _, offset: Change(offset)
    lake.land(4)
    lake.publish()
    lake.update_as_others(0, 2, "updated")
    for part in lake.index.iterdir():
        part.unlink()
    lake.land(1)

    lake.publish()

    assert lake.shown() == lake.expected()
    assert names_of(lake)[2] == "n2", "as it was landed"
    lake.land(1)
    lake.publish()
    assert lake.shown() == lake.expected()


def names_of(lake: KeyedLake) -> dict[int, str]:
    """The name in the row of each id."""
    return {row["id"]: row["name"] for row in lake.rows(["id", "name"])}


def test_an_older_row_counts_again_once_a_merge_has_left_the_newest_one_out(
    make: Make,
) -> None:
    lake = make(listed(Change(1), Change(1), Change(2), Change(2), Change(3)))
    lake.land(1)
    lake.land(1)
    lake.land(3)
    lake.publish()
    assert lake.shown() == {1: (0, 1), 2: (0, 3), 3: (0, 4)}
    lake.merge(1, 2, left_out=[1, 3])

    lake.publish()

    assert lake.shown() == lake.expected() == {1: (0, 0), 2: (0, 2), 3: (0, 4)}


def test_rows_that_are_moved_and_get_old_in_one_pass_do_not_count(make: Make) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 3)))
    lake.land(2)
    lake.land(2)
    lake.publish()
    lake.merge(0, 1)
    lake.land(2)

    lake.publish(at_once=True)

    assert lake.shown() == lake.expected() == {0: (0, 3), 1: (0, 4), 2: (0, 5)}


def test_a_row_that_another_program_has_moved_is_found_there(lake: KeyedLake) -> None:
    lake.land(12)
    lake.land(12)
    lake.publish()
    lake.rewrite_as_others()
    lake.merge(0, 1)
    lake.land(12)

    lake.publish()

    assert lake.shown() == lake.expected()


def test_a_topic_that_was_created_again_goes_on(make: Make) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 5, name=f"old {offset}")))
    lake.land(20)
    lake.publish()
    lake.begin_again(
        lambda _, offset: Change(4 - offset % 5, deleted=offset == 3, name=f"new {offset}")
    )
    lake.land(4)

    lake.publish()

    rows = sorted((row["id"], row["name"]) for row in lake.rows(["id", "name"]))
    assert rows == [(0, "old 15"), (2, "new 2"), (3, "new 1"), (4, "new 0")]
    assert lake.shown() == lake.expected()


def test_records_that_are_landed_again_after_a_reset_are_there_once(make: Make) -> None:
    changes = random_changes(7)
    lake = make(Changes(changes))
    lake.land(20)
    lake.publish()
    before = lake.shown()
    for _ in range(2):
        lake.begin_again(changes)
        lake.land(20)
        lake.publish()
        assert lake.shown() == before == lake.expected()


def test_offsets_of_two_meanings_in_files_of_other_programs_stop_the_table(make: Make) -> None:
    lake = make(Changes(lambda _, offset: Change(offset)))
    lake.land(12)
    lake.publish()
    lake.rewrite_as_others()
    lake.begin_again(lambda _, offset: Change(offset))
    lake.land(3)

    with pytest.raises(Stalled, match="another program wrote it") as error:
        lake.publish()
    assert error.value.reason is Reason.DESTINATION_CONFLICT
    lake.publisher().reset(lake.landed.follower())
    lake.land(3)
    lake.publish()

    assert lake.shown() == lake.expected()


@pytest.mark.parametrize(
    ("first", "second"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_a_keyed_table_has_the_rows_of_one_group(
    make: Make, tmp_path: Path, first: bool, second: bool
) -> None:
    lake = make(Changes(lambda _, offset: Change(offset % 4)))
    (tmp_path / "other").mkdir()
    other = type(lake)(tmp_path / "other", lake.changes)
    lake.land(6)
    other.land(4)
    tables = lake.tables() if first else lake.tables_of_all_rows()
    lake.publisher(tables).publish(lake.landed.follower())
    publisher, rows = other.in_tables_of(lake, keyed=second), 4 if first else 6

    if first or second:
        with pytest.raises(Stalled, match="and a keyed table has rows of one group") as error:
            publisher.publish(other.landed.follower())
        assert error.value.reason is Reason.DESTINATION_CONFLICT
    else:
        publisher.publish(other.landed.follower())
        rows += 4
    assert len(lake.rows()) == rows
    with pytest.raises(Stalled, match=r"drop (it|this one)"):
        publisher.reset(other.landed.follower())
    assert len(lake.rows()) == rows


def test_rows_that_another_program_has_added_stay(lake: KeyedLake) -> None:
    lake.land(12)
    lake.publish()
    lake.add_as_others(1, 100)
    for is_rebuilt in (False, True):
        lake.land(12)
        if is_rebuilt:
            lake.publisher().reset(lake.landed.follower())
        else:
            lake.publish()
            assert sorted(r["id"] for r in lake.rows() if r["_offset"] is None) == [1, 100]
        rows = [row for row in lake.rows() if row["_offset"] is not None]
        assert {r["id"]: (0, r["_offset"]) for r in rows} == lake.expected()


def test_a_table_of_all_rows_becomes_a_keyed_one_and_not_back_by_itself(lake: KeyedLake) -> None:
    def all_rows() -> TablePublisher:
        return lake.publisher(lake.tables_of_all_rows())

    lake.land(12)
    all_rows().publish(lake.landed.follower())
    assert len(lake.rows()) == 12
    lake.land(12)

    lake.publish()
    assert lake.shown() == lake.expected()
    lake.land(12)
    with pytest.raises(Stalled, match="is keyed, and option mode is Append"):
        all_rows().publish(lake.landed.follower())
    assert lake.shown() != lake.expected()

    all_rows().reset(lake.landed.follower())
    assert len(lake.rows()) == 36
