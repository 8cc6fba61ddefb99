"""The changes of a publisher's tables for files with other columns, without a destination."""

from typing import Any

import pyarrow as pa
import pytest

from landfall.api.spec.publish import PublisherEntry
from landfall.errors import Reason, Stalled
from landfall.publish.column_changes import ColumnChanges, column_changes

KNOWN = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("_offset", pa.int64())])
OPTIONS: dict[str, dict[str, Any]] = {
    "Iceberg": {"catalog": {"type": "sql"}},
    "Delta": {"table": "s3://lake/{topic}"},
    "Hive": {},
    "Glue": {},
    "BigQuery": {},
}


def changes(type_: str, new: pa.Schema, **options: Any) -> ColumnChanges | None:
    made = {**OPTIONS.get(type_, {}), **options}
    entry = PublisherEntry(name="tables", type=type_, options=made)
    return column_changes(entry, "spec.publish[0]", "orders", KNOWN, new)


def with_id(type_: pa.DataType) -> pa.Schema:
    return KNOWN.set(0, pa.field("id", type_))


@pytest.mark.parametrize("type_", OPTIONS)
def test_a_new_column_is_added(type_: str) -> None:
    found = changes(type_, KNOWN.append(pa.field("note", pa.string())))

    assert found == ColumnChanges(("note",), types_checked=type_ != "BigQuery")


@pytest.mark.parametrize("type_", OPTIONS)
def test_files_that_fit_change_nothing(type_: str) -> None:
    for new in (KNOWN, KNOWN.remove(1)):
        assert changes(type_, new) == ColumnChanges(types_checked=type_ != "BigQuery")


@pytest.mark.parametrize("type_", ["Iceberg", "Delta"])
def test_a_column_is_widened(type_: str) -> None:
    assert changes(type_, with_id(pa.int64())) == ColumnChanges(changed=("id",))


@pytest.mark.parametrize("type_", ["Iceberg", "Delta", "Hive", "Glue"])
def test_a_type_that_does_not_fit_would_stop_the_publisher(type_: str) -> None:
    with pytest.raises(Stalled, match=r"orders: .*id is \w+ in the \w+ and ") as stalled:
        changes(type_, with_id(pa.string()))

    assert "string" in str(stalled.value)
    assert stalled.value.reason is Reason.DESTINATION_CONFLICT


@pytest.mark.parametrize("type_", ["Iceberg", "Delta"])
def test_without_schema_evolution_a_new_column_would_stop_it(type_: str) -> None:
    with pytest.raises(Stalled, match="schemaEvolution: Add") as stalled:
        changes(type_, KNOWN.append(pa.field("note", pa.string())), schemaEvolution="None")

    assert stalled.value.reason is Reason.DESTINATION_CONFLICT


@pytest.mark.parametrize("type_", ["Iceberg", "Delta", "Hive", "BigQuery"])
def test_two_names_that_differ_by_case_would_stop_it(type_: str) -> None:
    with pytest.raises(Stalled) as stalled:
        changes(type_, KNOWN.append(pa.field("Id", pa.int32())))

    assert stalled.value.reason is Reason.DESTINATION_CONFLICT


def test_columns_that_the_user_declares_stay() -> None:
    assert changes("Hive", with_id(pa.string()), columns='{"id": "int"}') == ColumnChanges()


def test_a_publisher_without_tables_and_a_plug_in_are_not_asked() -> None:
    assert changes("Success", KNOWN) is None
    assert changes("my.module:Mine", KNOWN) is None


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(Stalled, match=r"spec\.publish\[0\].*tabel") as stalled:
        changes("Delta", KNOWN, tabel="x")

    assert stalled.value.reason is Reason.SPEC_INVALID
