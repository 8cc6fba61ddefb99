"""Two lanes of the same ranges, compared row by row."""

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Output
from landfall.errors import Stalled
from landfall.ledger.names import object_names
from landfall.reading.comparing import Amount, ComparedLane, FolderDifference, differences, total
from landfall.reading.files import File
from landfall.store.memory import MemoryStore
from tests.support.ledger.readable import BODIES, EXTENSIONS, parquet

FOLDER = "clicks/dt=2026-11-21"


def lane(format_: str, *objects: tuple[str, Sequence[Any]], **output: Any) -> ComparedLane:
    """A lane with these objects, by folder and rows."""
    store, files = MemoryStore(), []
    for n, (folder, rows) in enumerate(objects):
        letters = folder.startswith("_landfall/")
        extension = ".parquet" if letters else EXTENSIONS.get(format_, "")
        key = f"{folder}/2_0_{n:020}{extension}"
        body = parquet(rows) if letters else BODIES[format_](rows)
        store.create(key, body)
        files.append(File(key, 1, len(rows), len(body)))
    made_by = Output(url="file:///none", format=format_, **output)
    return ComparedLane(store, files, lambda _: made_by)


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in ids]


def compared(old: ComparedLane, new: ComparedLane, sample: int = 2) -> list[FolderDifference]:
    return list(differences(old, new, sample))


@pytest.mark.parametrize("format_", ["Json", "Text", "Parquet", "Avro", "Orc"])
def test_the_same_rows_are_the_same_in_any_order_and_in_any_objects(format_: str) -> None:
    old = lane(format_, (FOLDER, rows(1, 2)), (FOLDER, rows(3)))
    new = lane(format_, (FOLDER, rows(3, 1, 2)))

    (found,) = compared(old, new)

    assert found.is_same
    assert (found.old.objects, found.old.rows) == (2, 3)
    assert (found.new.objects, found.new.rows) == (1, 3)


def test_rows_are_the_same_in_milliseconds_and_in_microseconds() -> None:
    """A backfill lands again what an earlier version landed (ADR 0038)."""
    at = datetime(2026, 11, 21, 4, 5, 6, 789000, UTC)
    table = pa.table({"at": [at, None], "clock": [at.time(), None]})
    coarse = pa.schema({"at": pa.timestamp("ms", "UTC"), "clock": pa.time32("ms")})
    fine = pa.schema({"at": pa.timestamp("us", "UTC"), "clock": pa.time64("us")})
    lanes = []
    for schema in (coarse, fine):
        of_rows, body = lane("Parquet", (FOLDER, [{"at": at}, {}])), io.BytesIO()
        pq.write_table(table.cast(schema), body)
        of_rows.store.overwrite(of_rows.files[0].key, body.getvalue())
        lanes.append(of_rows)

    (found,) = compared(*lanes)

    assert found.is_same


def test_times_of_years_that_python_does_not_have_are_compared() -> None:
    year_20000, lanes = 568_971_820_800_000_000, []
    for times in ([year_20000, 0], [0, year_20000 + 1]):
        of_rows, body = lane("Parquet", (FOLDER, rows(1, 2))), io.BytesIO()
        pq.write_table(pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))}), body)
        of_rows.store.overwrite(of_rows.files[0].key, body.getvalue())
        lanes.append(of_rows)

    (found,) = compared(*lanes)

    assert (found.only_old, found.only_new) == (1, 1)
    assert [each.text for each in found.old_sample] == [f"{{'at': {year_20000}}}"]
    assert [each.text for each in found.new_sample] == [f"{{'at': {year_20000 + 1}}}"]


def test_a_table_of_somebody_else_is_no_object_of_dead_letters() -> None:
    folder = object_names.dead_letters_prefix("shop", "clicks").rstrip("/")
    forged = lane("Json", (folder, rows(1)))

    with pytest.raises(Stalled, match="these are no dead letters"):
        compared(forged, forged)


@pytest.mark.parametrize("format_", ["Json", "Text", "Parquet", "Avro", "Orc"])
def test_rows_that_only_one_lane_has_are_counted_and_shown(format_: str) -> None:
    old = lane(format_, (FOLDER, rows(1, 2, 3, 4)))
    new = lane(format_, (FOLDER, rows(1, 5)))

    (found,) = compared(old, new)

    assert (found.only_old, found.only_new) == (3, 1)
    assert [each.row for each in found.old_sample] == [2, 3]
    assert "2" in found.old_sample[0].text
    assert [each.row for each in found.new_sample] == [2]


def test_a_row_that_is_there_twice_is_another() -> None:
    (found,) = compared(
        lane("Json", (FOLDER, rows(1))), lane("Json", (FOLDER, rows(1)), (FOLDER, rows(1)))
    )

    assert (found.only_old, found.only_new) == (0, 1)
    assert [each.key[-12:] for each in found.new_sample] == ["0000.json.gz"]


def test_rows_of_another_folder_are_missing_here_and_new_there() -> None:
    found = compared(
        lane("Json", ("clicks/dt=1970-01-01", rows(1, 2))), lane("Json", (FOLDER, rows(1, 2)))
    )

    assert [(each.folder, each.only_old, each.only_new) for each in found] == [
        ("clicks/dt=1970-01-01", 2, 0),
        (FOLDER, 0, 2),
    ]
    assert found[1].old == Amount(0, 0, 0)
    assert total(found).has_moved


def test_rows_that_have_changed_have_not_moved() -> None:
    found = compared(
        lane("Json", ("clicks/dt=1970-01-01", rows(1, 2))), lane("Json", (FOLDER, rows(1, 3)))
    )

    assert not total(found).has_moved
    assert (total(found).only_old, total(found).only_new) == (2, 2)


def test_of_dead_letters_the_error_does_not_count() -> None:
    folder = object_names.dead_letters_prefix("shop", "clicks").rstrip("/")
    letter = {"topic": "clicks", "partition": 0, "offset": 7, "value": b"x"}

    (found,) = compared(
        lane("Json", (folder, [letter | {"error": "before"}])),
        lane("Json", (folder, [letter | {"error": "after"}])),
    )

    assert found.is_same
    assert found.has_dead_letters


def test_offsets_are_shown_where_they_are_kept() -> None:
    old = [{"offset": 7, "value": b"x"}, {"offset": 8, "value": b"y"}]
    new = [{"offset": 7, "value": b"x"}, {"offset": 8, "value": b"z"}]

    (found,) = compared(lane("Parquet", (FOLDER, old)), lane("Parquet", (FOLDER, new)))

    assert [(each.offset, each.text) for each in found.old_sample] == [(8, "y")]
    assert [(each.offset, each.text) for each in found.new_sample] == [(8, "z")]


def test_nan_is_the_same_as_nan() -> None:
    one = lane("Parquet", (FOLDER, [{"x": float("nan")}]))

    assert compared(one, one)[0].is_same


def test_an_object_that_is_gone_is_no_difference(tmp_path: Path) -> None:
    old = lane("Json", (FOLDER, rows(1)))
    old.store.delete_slots([old.files[0].key])

    with pytest.raises(Stalled, match="it is not there"):
        compared(old, lane("Json", (FOLDER, rows(1))))


def test_what_is_damaged_is_compared_as_far_as_it_can_be_read_if_that_is_allowed() -> None:
    old, new = lane("Json", (FOLDER, rows(1, 2))), lane("Json", (FOLDER, rows(1, 2)))
    (file,) = old.files
    old = replace(old, files=[replace(file, rows=1)])
    with pytest.raises(Stalled, match="2 rows, but the ledger records 1"):
        compared(old, new)

    (found,) = compared(replace(old, may_be_damaged=True), new)

    assert (found.only_old, found.only_new, found.is_same, found.has_moved) == (0, 0, False, False)
    assert found.damaged == (f"{file.key}: 2 rows, but the ledger records 1",)
    assert total([found]).damaged == found.damaged
    with pytest.raises(Stalled, match="but the ledger records 1"):
        compared(new, old)
