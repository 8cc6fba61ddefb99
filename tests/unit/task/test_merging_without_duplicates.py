"""Of rows with the same key one is kept, and all rows without one."""

import json

import pyarrow as pa
import pytest

from landfall.api.spec import Keep
from landfall.errors import Reason, Stalled
from landfall.formats.merged_columns import column_keys
from landfall.formats.merging import NotMergeableError
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import Section
from landfall.task.merging import NotMerged
from tests.support.ledger.merging import MergedFolder


def row(key: object, n: int) -> bytes:
    return json.dumps({"id": key, "n": n}).encode()


def shop() -> MergedFolder:
    """Ids that are there twice within an object, across objects and across partitions."""
    return (
        MergedFolder.of("Json")
        .land(0, 10, row("a", 1), row("b", 2), row("a", 3))
        .land(0, 20, row("c", 4), row(None, 5), b"{}", row("b", 6))
        .land(1, 0, row("a", 7), row(None, 8), row("d", 9))
    )


def numbers(objects: MergedFolder) -> list[int]:
    rows = objects.rows(objects.merged().new.landed)
    return [json.loads(each.value or b"").get("n", 0) for each in rows]


def test_the_first_is_kept() -> None:
    assert numbers(shop().deduped("id")) == [1, 2, 4, 5, 0, 8, 9]


def test_the_last_is_kept() -> None:
    assert numbers(shop().deduped("id", Keep.LAST)) == [4, 5, 0, 6, 7, 8, 9]


def test_what_is_left_out_is_counted_and_sections_know_their_rows() -> None:
    merged = shop().deduped("id").merged()

    assert (merged.duplicates, merged.new.landed.rows, merged.new.mixed) == (3, 7, True)
    assert merged.new.sections == (
        Section(0, 2, 10, 12),
        Section(0, 3, 20, 23),
        Section(1, 2, 0, 2),
    )


def test_a_single_object_with_duplicates_is_written_again() -> None:
    objects = MergedFolder.of("Json").land(0, 0, row("a", 1), row("a", 2)).deduped("id")

    assert numbers(objects) == [1]


def test_a_single_object_without_duplicates_stays() -> None:
    objects = MergedFolder.of("Json").land(0, 0, row("a", 1), row("b", 2)).deduped("id")

    assert objects.results() == []
    assert list(objects.store.open_uploads("")) == []


def test_without_duplicates_blocks_are_copied() -> None:
    objects = MergedFolder.of("Json").land(0, 0, row("a", 1)).land(0, 5, row("b", 2)).deduped("id")

    merged = objects.merged()

    assert (merged.duplicates, merged.new.mixed) == (0, False)


def test_late_rows_are_compared_with_what_was_merged() -> None:
    objects = shop().deduped("id")
    new = objects.merged().new
    late = MergedFolder(objects.output, objects.dedupe, objects.store)
    late.sources = [Mergeable(9, new.landed, "", new.sections, new.mixed)]
    late.land(1, 3, row("d", 10), row("e", 11))

    assert numbers(late) == [1, 2, 4, 5, 0, 8, 9, 11]


VALUES = {
    "numbers as they are written": (b'{"id":1}', b'{"id":1.0}', b'{"id":"1"}'),
    "large numbers": (b'{"id":12345678901234567890123}', b'{"id":12345678901234567890124}'),
    "no objects": (b"1", b"1", b"[1]", b"[1]"),
    "another type at a step": (b'{"id":{"x":1}}', b'{"id":[1]}', b'{"x":1}', b'{"x":1}'),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_different_values_and_missing_ones_are_no_duplicates(values: tuple[bytes, ...]) -> None:
    objects = MergedFolder.of("Json").land(0, 0, *values).deduped("id")

    assert objects.results() == []


def test_a_nested_key_and_an_escaped_text() -> None:
    values = (b'{"meta":{"id":"a\\u0062"},"n":1}', b'{"n":2,"meta":{"id":"ab"}}')
    objects = MergedFolder.of("Json").land(0, 0, *values).deduped("meta.id")

    assert numbers(objects) == [1]


@pytest.mark.parametrize("format_", ["Parquet", "Orc"])
@pytest.mark.parametrize(("keep", "kept"), [(Keep.FIRST, [0, 1]), (Keep.LAST, [7, 8])])
def test_envelopes_are_compared_by_their_columns(format_: str, keep: Keep, kept: list[int]) -> None:
    objects = MergedFolder.of(format_).land(0, 0, b"a", b"b").land(0, 7, b"a", b"b")

    merged = objects.deduped("value", keep).merged()

    assert [each.offset for each in objects.rows(merged.new.landed)] == kept
    assert merged.duplicates == 2


@pytest.mark.parametrize("format_", ["Text", "SequenceFile"])
def test_rows_without_fields_are_not_merged(format_: str) -> None:
    objects = MergedFolder.of(format_).land(0, 0, b"a").land(0, 7, b"a").deduped("value")

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert isinstance(result.error, Stalled)
    assert result.error.reason is Reason.SPEC_INVALID
    assert "rows have no fields" in str(result.error)


def test_rows_that_were_sorted_cannot_be_compared_again() -> None:
    objects = MergedFolder.of("Parquet", options={"sortBy": "value"})
    objects.land(0, 0, b"b", b"a").land(0, 7, b"a", b"c").deduped("value")
    new = objects.merged().new
    late = MergedFolder(objects.output, objects.dedupe, objects.store)
    late.sources = [Mergeable(9, new.landed, "", new.sections, new.mixed)]
    late.land(0, 9, b"a")

    (result,) = late.results()

    assert isinstance(result, NotMerged)
    assert "it was merged and sorted" in str(result.error)


def test_a_column_that_has_no_single_value_is_refused() -> None:
    objects = MergedFolder.of("Parquet").land(0, 0, b"a").land(0, 7, b"a").deduped("headers")

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert "rows cannot be compared by headers, which is a list" in str(result.error)


@pytest.mark.parametrize("type_", [pa.binary(3), pa.large_binary(), pa.binary_view(), pa.binary()])
def test_any_bytes_are_compared_as_they_are(type_: pa.DataType) -> None:
    values = [b"\xff\x00\x80", b"\xff\x00\x81", None]
    batch = pa.record_batch({"id": pa.array(values, type_)})

    assert column_keys(batch, ("id",)) == values


def test_a_key_that_cannot_be_compared_is_no_damage() -> None:
    intervals = pa.array([pa.MonthDayNano([1, 2, 3])])

    with pytest.raises(NotMergeableError, match="rows cannot be compared by id, which is a month"):
        column_keys(pa.record_batch({"id": intervals}), ("id",))
