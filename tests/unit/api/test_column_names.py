"""Which names of columns a destination cannot have, as the group says them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.column_names import column_problems, in_files, in_iceberg, is_reserved
from landfall.api.spec import parse_group
from landfall_operator.api.validation import parsed
from tests.support.kubernetes.groups import document

FIELD = "spec.publish[0]"


def described(type_: str, *columns: str, **spec: Any) -> dict[str, Any]:
    declared = [{"name": name, "type": "String"} for name in columns]
    fields: dict[str, Any] = {
        "decode": {"format": "Json", "columns": declared},
        "output__format": "Parquet",
        "publish": [{"name": "lake", "type": type_}],
    }
    return document(**(fields | spec))


def problems(type_: str, *columns: str, **spec: Any) -> list[str]:
    return column_problems(parse_group(described(type_, *columns, **spec)))


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("Iceberg", "_file"),
        ("Iceberg", "_Spec_Id"),
        ("Iceberg", "_row_id"),
        ("Delta", "_commit_version"),
        ("Delta", "_change_type"),
        ("Hive", "_metadata"),
        ("Glue", "_metadata"),
        ("BigQuery", "_TABLE_x"),
        ("BigQuery", "_partition_key"),
        ("BigQuery", "__ROOT__a"),
    ],
)
def test_a_name_that_the_destination_reserves_is_refused(type_: str, column: str) -> None:
    (text,) = problems(type_, "id", column, output__options={"envelope": False})

    assert text == (
        f"spec.decode.columns: {column} is a name that {type_} reserves ({FIELD}); give the column "
        "another name, and its field in `field`"
    )


def test_the_column_of_deleted_rows_has_another_name_in_an_iceberg_table() -> None:
    columns = [{"name": "id", "type": "Int64"}, {"name": "_deleted", "type": "Boolean"}]
    decode = {"format": "Json", "columns": columns}
    changes = {**decode, "envelope": "Debezium", "key": {"format": "Json"}}

    assert len(problems("Iceberg", decode=decode)) == 1
    assert problems("Iceberg", decode=changes) == []
    assert in_iceberg("_deleted") == "_deleted_"


@pytest.mark.parametrize("type_", ["Iceberg", "Delta", "Hive", "Glue", "BigQuery"])
def test_columns_that_differ_by_case_only_are_refused(type_: str) -> None:
    (text,) = problems(type_, "userId", "userid", output__options={"envelope": False})

    assert text == (
        f"spec.decode.columns: userId and userid are one name in {type_} ({FIELD}), which does not "
        "distinguish upper and lower case; give the column another name, and its field in `field`"
    )


@pytest.mark.parametrize(
    ("type_", "column", "envelope"),
    [
        ("Delta", "_Topic", "_topic"),
        ("Hive", "_OFFSET", "_offset"),
        ("Iceberg", "_kafka_partition", "_kafka_partition"),
    ],
)
def test_a_column_with_the_name_of_one_of_the_envelope_is_refused(
    type_: str, column: str, envelope: str
) -> None:
    (text,) = problems(type_, column)

    assert text.startswith(
        f"spec.decode.columns: {column} and {envelope} of the envelope are one name in {type_} ("
    )
    assert problems(type_, column, output__options={"envelope": False}) == []


def test_a_column_with_the_name_of_a_folder_is_refused_where_folders_are_keys() -> None:
    route = {"route__pattern": "dt={date}/Country={field:country}"}

    assert problems("Hive", "country", **route)[0] == (
        "spec.decode.columns: country is a folder of route.pattern, too, which is a partition key "
        f"in Hive ({FIELD}); rename one of them"
    )
    assert problems("Iceberg", "country", **route) == []
    assert problems("Delta", "country", **route) == []


def test_what_is_not_published_to_a_table_may_have_any_name() -> None:
    assert problems("Success", "_file", "a", "A") == []
    assert problems("Iceberg", "_file", publish=[]) == []
    other = [{"name": "lake", "type": "Iceberg", "topics": ["orders"]}]
    assert problems("", "_file", publish=other) == []


def test_the_columns_of_a_topic_are_checked_with_its_entry() -> None:
    entry = {"pattern": "cl.*", "decode": {"columns": [{"name": "_pos", "type": "String"}]}}

    (text,) = problems("Iceberg", "id", topics=[entry])

    assert text.startswith("spec.topics[0].decode.columns: _pos is a name that Iceberg reserves")


def test_what_transforms_make_of_columns_is_left_to_the_publisher() -> None:
    step = {"use": "Rename", "options": {"_file": "file"}}

    assert problems("Iceberg", "_file", transforms=[step]) == []


def test_the_operator_refuses_the_resource() -> None:
    assert parsed(described("Iceberg", "id"))[1] == ""
    assert parsed(described("Iceberg", "_file", "_pos")) == (
        None,
        "\n".join(problems("Iceberg", "_file", "_pos")),
    )


@given(
    st.text(st.sampled_from("_partionkafPARTION"), max_size=20) | st.sampled_from(["_partition"])
)
def test_the_name_in_files_is_found_by_the_one_in_the_table(name: str) -> None:
    renamed = in_iceberg(name)

    assert not is_reserved("Iceberg", renamed)
    if renamed != name:
        assert in_files(renamed) == name
