"""Merged rows are sorted by a field: numbers, then texts, then what has none; nothing is lost."""

import io
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Keep
from landfall.errors import Reason, Stalled
from landfall.formats import external_sort
from landfall.formats.external_sort import ExternalSort
from landfall.formats.sort_keys import column_sort_keys
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import Section
from landfall.task.merging import Merged, NotMerged
from tests.support.ledger.merging import MergedFolder


def row(key: object, n: int) -> bytes:
    return json.dumps({"ts": key, "n": n}).encode()


def shop(**output: object) -> MergedFolder:
    return (
        MergedFolder.of("Json", **output)
        .land(0, 10, row(10, 1), row("b", 2), row(2, 3), b'{"n":4}')
        .land(0, 20, row(2.5, 5), row(None, 6), row("a", 7), row(-1, 8))
        .land(1, 0, row(2, 9), row("\u00e9", 10), row(10, 11), row(True, 12))
        .sorted("ts")
    )


def numbers(objects: MergedFolder) -> list[int]:
    rows = objects.rows(objects.merged().new.landed)
    return [json.loads(each.value or b"")["n"] for each in rows]


SORTED = [8, 3, 9, 5, 1, 11, 7, 2, 10, 12, 4, 6]


@pytest.mark.parametrize("codec", ["Gzip", "Zstd", "None"])
def test_numbers_come_first_then_texts_and_rows_without_the_field_last(codec: str) -> None:
    assert numbers(shop(codec=codec)) == SORTED


def test_sections_know_which_ranges_the_rows_are_from() -> None:
    merged = shop().merged()

    assert (merged.new.mixed, merged.new.sorted, merged.duplicates) == (True, True, 0)
    assert merged.new.sections == (
        Section(0, 4, 10, 13),
        Section(0, 4, 20, 23),
        Section(1, 4, 0, 3),
    )


def test_duplicates_are_left_out_and_the_rest_is_sorted() -> None:
    objects = shop().deduped("ts", Keep.LAST)

    assert numbers(objects) == [8, 9, 5, 11, 7, 2, 10, 12, 4, 6]


VALUES = [
    b"-1e999",
    b"-9007199254740993",
    b"-9007199254740992",
    b"-1",
    b"-0.5",
    b"0",
    b"1e-3",
    b"1",
    b"9007199254740992",
    b"9007199254740993",
    b"12345678901234567890",
    b"1e300",
    b"1" + b"0" * 400,
    b'""',
    b'"10"',
    b'"9"',
    b'"\\u00e9"',
    b'"\xf0\x9f\x98\x80"',
    b"[2]",
    b"false",
    b"null",
]


def test_numbers_of_any_size_and_texts_with_escapes_have_their_order() -> None:
    rows = [b'{"a":{"b":' + value + b"}}" for value in VALUES]
    objects = MergedFolder.of("Json").sorted("a.b")
    objects.land(0, 0, *rows[::-2]).land(0, 100, *rows[-2::-2])

    merged = objects.merged()

    assert [each.value for each in objects.rows(merged.new.landed)] == rows


@pytest.mark.parametrize("format_", ["Parquet", "Orc"])
def test_envelopes_are_sorted_by_a_column(format_: str) -> None:
    objects = MergedFolder.of(format_).sorted("value")
    objects.land(0, 0, b"c", b"a", None).land(0, 7, b"b", b"a")

    merged = objects.merged()

    rows = objects.rows(merged.new.landed)
    assert [each.offset for each in rows] == [1, 8, 7, 0, 2]


TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "int8": (pa.int8(), [3, -128, 127, None, 0]),
    "uint64": (pa.uint64(), [2**63, 1, 2**64 - 1, None, 0]),
    "float": (pa.float64(), [1.5, -2.0, float("inf"), None, -0.5]),
    "decimal": (pa.decimal128(20, 2), [None, 5, -7, 100, 0]),
    "timestamp": (pa.timestamp("us", "UTC"), [5, -3, None, 2**40, 0]),
    "date": (pa.date32(), [5, -3, None, 20_000, 0]),
    "bool": (pa.bool_(), [True, False, None, True, False]),
    "string": (pa.string(), ["b", "", None, "\u00e9", "a"]),
}


@pytest.mark.parametrize(("kind", "values"), TYPES.values(), ids=TYPES)
def test_columns_are_sorted_as_arrow_sorts_them(kind: pa.DataType, values: list[object]) -> None:
    column = pa.array(values, kind) if not pa.types.is_temporal(kind) else _times(values, kind)
    batch = pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays([column], ["at"]), pa.array(range(5))], ["meta", "n"]
    )
    sort = ExternalSort(2**20)
    sort.add(column_sort_keys(batch, ("meta", "at")), batch)

    (table,) = sort.tables()

    assert table.to_pylist() == batch.take(pc.sort_indices(column)).to_pylist()


def _times(values: list[object], kind: pa.DataType) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).cast(kind)


@pytest.mark.parametrize("fan_in", [2, 3, 64])
def test_rows_that_do_not_fit_into_memory_are_sorted_and_stay_in_order(
    monkeypatch: pytest.MonkeyPatch, fan_in: int
) -> None:
    monkeypatch.setattr(external_sort, "FAN_IN", fan_in)
    monkeypatch.setattr(external_sort, "BATCH_BYTES", 100)
    keys = [b"%d" % (each * 7919 % 10) for each in range(500)]
    sort = ExternalSort(600)
    for at in range(0, 500, 5):
        rows = pa.RecordBatch.from_arrays([pa.array(range(at, at + 5))], ["n"])
        sort.add(pa.array(keys[at : at + 5], pa.binary()), rows)

    found = [n for table in sort.tables() for n in table["n"].to_pylist()]
    sort.close()

    assert found == sorted(range(500), key=lambda n: keys[n])


def test_nothing_is_nothing_sorted() -> None:
    assert list(ExternalSort(1).tables()) == []


def test_a_sorted_file_says_so_and_its_row_groups_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort, "BATCH_BYTES", 256)
    objects = MergedFolder.of("Parquet", options={"rowGroupBytes": "1Ki", "sortBy": "-offset"})
    objects.sorted("value")
    for start in range(0, 200, 20):
        objects.land(0, start, *(b"%03d" % (n * 77 % 200) for n in range(start, start + 20)))

    merged = objects.merged()

    file = pq.ParquetFile(io.BytesIO(objects.body(merged.new.landed)))
    groups = [file.read_row_group(n)["value"].to_pylist() for n in range(file.num_row_groups)]
    assert [value for group in groups for value in group] == [b"%03d" % n for n in range(200)]
    assert len(groups) > 1
    (sorting,) = file.metadata.row_group(0).sorting_columns
    assert file.schema_arrow.names[sorting.column_index] == "value"
    assert not sorting.descending


@pytest.mark.parametrize(
    ("format_", "field", "expected"),
    [
        ("Text", "value", "rows have no fields"),
        ("SequenceFile", "value", "rows of SequenceFile cannot be sorted"),
        ("Parquet", "headers", "rows cannot be sorted by headers, which is a list"),
        ("Parquet", "offset.x", "rows have no field offset.x"),
    ],
)
def test_what_cannot_be_sorted_stays(format_: str, field: str, expected: str) -> None:
    objects = MergedFolder.of(format_).land(0, 0, b"a").land(0, 7, b"a").sorted(field)

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert isinstance(result.error, Stalled)
    assert result.error.reason is Reason.SPEC_INVALID
    assert expected in str(result.error)
    assert list(objects.store.open_uploads("")) == []


def test_a_damaged_object_is_found_while_rows_are_sorted() -> None:
    objects = shop(codec="None")
    key = objects.sources[1].key
    objects.upload(key, objects.body(objects.sources[1].landed).replace(b"2.5", b"3.5"))

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert result.error.reason is Reason.OBJECT_LOST  # type: ignore[attr-defined]
    assert key in str(result.error)


def late(objects: MergedFolder, change: Callable[[MergedFolder], object]) -> MergedFolder:
    """Another object comes into a folder that was merged."""
    new = objects.merged().new
    found = MergedFolder(objects.output, objects.dedupe, objects.store, sort=objects.sort)
    found.sources = [Mergeable(9, new.landed, "", new.sections, new.mixed, new.sorted)]
    change(found.land(1, 9, row(0, 13)))
    return found


def test_late_rows_are_sorted_in() -> None:
    objects = late(shop(), lambda _: None)

    assert numbers(objects) == [SORTED[0], 13, *SORTED[1:]]


def test_what_was_sorted_once_stays_known_as_sorted() -> None:
    objects = late(shop(), lambda folder: folder.sorted(""))

    (result,) = objects.results()

    assert isinstance(result, Merged)
    assert (result.new.mixed, result.new.sorted) == (True, True)


@pytest.mark.parametrize("field", ["", "ts"])
def test_duplicates_of_sorted_rows_cannot_be_left_out_any_more(field: str) -> None:
    objects = late(shop().deduped("n"), lambda folder: folder.sorted(field))
    objects.land(1, 10, row(5, 13))

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert "it was merged and sorted" in str(result.error)
