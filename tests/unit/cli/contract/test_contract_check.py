"""``landfall contract check``: a new schema against the fields, the tables and the rows of a group.

The groups have landed in a folder; nothing here asks a server.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.ledger.contract_group import (
    COUPON,
    ID,
    PRESENT,
    QUANTITY,
    TIME,
    ContractGroup,
    named,
    order,
    orders,
)

COLUMNS = [
    {"name": "id", "type": "Int64"},
    {"name": "at", "type": "Timestamp"},
    {"name": "pieces", "type": "Int32", "field": "quantity"},
]
PARQUET = {"format": "Parquet"}
TABLES = [
    {
        "name": "lake",
        "type": "Iceberg",
        "options": {"catalog": {"type": "sql", "uri": "sqlite://", "warehouse": "file:///none"}},
    },
    {"name": "delta", "type": "Delta", "options": {"table": "file:///none/{topic}"}},
    {"name": "marks", "type": "Success"},
]
REGISTRY = {"registry": {"urls": ["http://127.0.0.1:9"]}}
"""Nothing listens there."""
Document = dict[str, Any]


class Checker:
    """Runs the command."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, group: ContractGroup, new: Any, *more: str) -> tuple[int, str]:
        """The exit code and what is printed."""
        argv = ["contract", "check", group.schema(new), "--against", group.file(), *more]
        code = main(argv)
        return code, self._capsys.readouterr().out.replace(f"{group.folder}/", "")

    def document(self, group: ContractGroup, new: Any, *more: str) -> tuple[int, Document]:
        """The exit code and the JSON of the only topic."""
        code, text = self.text(group, new, "--json", *more)
        (topic,) = json.loads(text)["topics"]
        return code, topic


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Checker:
    return Checker(capsys)


def findings(topic: Document, result: str) -> dict[str, str]:
    """The messages with a result, by their fields."""
    return {of["field"]: of["message"] for of in topic["findings"] if of["result"] == result}


def counts(topic: Document) -> dict[str, int]:
    """How many rows have which outcome, of those that any has."""
    return {outcome: count for outcome, count in topic["rows"]["counts"].items() if count}


def declared(folder: Path, **more: Any) -> ContractGroup:
    """A group that declares columns."""
    return ContractGroup(folder, {"columns": COLUMNS}, PARQUET, **more)


def registered(folder: Path, landed: ContractGroup) -> ContractGroup:
    """A group that has landed, and whose file names a registry instead of the schema."""

    class Registered(ContractGroup):
        @property
        def sections(self) -> dict[str, Any]:
            made = super().sections
            made["decode"] |= REGISTRY
            del made["decode"]["options"]["schema"]
            return made

    return Registered(folder, landed.decode, landed.output, landed.spec)


def test_the_same_schema_fails_nothing(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path, spec={"publish": TABLES}).land(*orders(10))

    code, text = check.text(group, PRESENT)

    assert code == ExitCode.OK
    assert text.splitlines() == [
        "topic orders (spec)",
        "  ok       spec.publish[0] lake (Iceberg): takes the files as they are",
        "  ok       spec.publish[1] delta (Delta): takes the files as they are",
        "  ok       rows: of 10 rows, 10 the same",
        "ok: new.avsc fits the group shop",
    ]


def test_a_field_with_a_default_is_added_to_tables(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path, spec={"publish": TABLES}).land(*orders(3))

    code, topic = check.document(group, order(ID, TIME, QUANTITY, COUPON))

    assert (code, counts(topic)) == (ExitCode.OK, {"Same": 3})
    assert findings(topic, "Changes") == {
        "spec.decode.options.schema": "payloads name no schema, so the group has to change "
        "together with the producer",
        "column coupon": "a new column, string",
        "spec.publish[0] lake (Iceberg)": "adds coupon",
        "spec.publish[1] delta (Delta)": "adds coupon",
    }


def test_a_table_that_would_stop_is_named(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path, spec={"publish": TABLES}).land(*orders(3))

    code, topic = check.document(group, order(ID, TIME, named("quantity", "string")), "--offline")

    stops = "would stop: object of the new schema does not fit table orders: column quantity is "
    assert code == ExitCode.FAULT
    assert findings(topic, "Fails") == {
        "spec.publish[0] lake (Iceberg)": f"{stops}string in the file and int in the table "
        "(Cannot change column type: quantity: int -> string)",
        "spec.publish[1] delta (Delta)": f"{stops}string in the file and integer in the table",
    }
    assert topic["rows"]["skipped"] == "--offline asks no server"


def test_landed_columns_are_compared_with_if_the_group_has_no_schema(
    tmp_path: Path, check: Checker
) -> None:
    landed = ContractGroup(tmp_path, spec={"publish": TABLES[1:]}).land(*orders(2))
    group = registered(tmp_path, landed)
    wider = order(ID, TIME, named("quantity", "long"))

    code, topic = check.document(group, wider)
    offline, unknown = check.document(group, wider, "--offline")

    assert (code, offline, counts(topic)) == (ExitCode.OK, ExitCode.OK, {"Same": 2})
    assert findings(topic, "Changes") == {
        "column quantity": "int32 becomes int64",
        "spec.publish[0] delta (Delta)": "widens quantity",
    }
    assert findings(unknown, "Ok") == {
        "spec.output.columns": "columns and tables are not compared: --offline asks no server"
    }


def test_every_field_that_reads_a_missing_one_is_named(tmp_path: Path, check: Checker) -> None:
    spec = {
        "transforms": [{"use": "Filter", "options": {"drop": "quantity > 100"}}],
        "route": {"pattern": "{schema:id}/dt={date}/q={field:quantity}"},
    }
    group = registered(tmp_path, declared(tmp_path, spec=spec))

    code, topic = check.document(group, order(ID, named("when", "long"), named("Quantity", "int")))

    renamed = "new.avsc has no field quantity, did you mean Quantity?"
    assert code == ExitCode.FAULT
    assert findings(topic, "Fails") == {
        "spec.decode.columns[1]": "new.avsc has no field at",
        "spec.decode.columns[2]": renamed,
        "spec.decode.timestamp.field": "new.avsc has no field at",
        "spec.transforms[0] (Filter)": renamed,
        "spec.route.pattern": renamed,
    }


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        ("string", "column pieces: Int32 cannot be made of string"),
        ("double", "column pieces: Int32 cannot be made of double"),
        ({"type": "array", "items": "int"}, "column pieces: Int32 cannot be made of list<item: "),
        ("long", ""),
        (["null", "int"], ""),
    ],
)
def test_a_type_that_no_column_can_be_made_of_is_named(
    type_: Any, problem: str, tmp_path: Path, check: Checker
) -> None:
    group = declared(tmp_path)

    code, topic = check.document(group, order(ID, TIME, named("quantity", type_)), "--offline")

    fails = findings(topic, "Fails")
    assert code == (ExitCode.FAULT if problem else ExitCode.OK)
    assert [*fails] == (["spec.decode.columns[2]"] if problem else [])
    assert fails.get("spec.decode.columns[2]", "").startswith(
        f"new.avsc: {problem}" if problem else ""
    )


def test_a_record_is_no_time(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path)
    inner = {"type": "record", "name": "Time", "fields": [named("ms", "long")]}

    code, topic = check.document(group, order(ID, named("at", inner), QUANTITY), "--offline")

    assert code == ExitCode.FAULT
    assert findings(topic, "Fails") == {
        "spec.decode.timestamp.field": "new.avsc: at is struct<ms: int64>, which stages cannot read"
    }


def test_a_null_in_a_column_that_takes_none_is_a_warning(tmp_path: Path, check: Checker) -> None:
    columns = [*COLUMNS[:2], {**COLUMNS[2], "nullable": False}]
    group = ContractGroup(tmp_path, {"columns": columns}, PARQUET)
    new = order(ID, TIME, named("quantity", ["null", "int"]))

    code, topic = check.document(group, new, "--offline")

    assert code == ExitCode.OK
    assert findings(topic, "Changes")["spec.decode.columns[2]"] == (
        "column pieces: a null, which new.avsc allows, makes a row bad"
    )


def test_a_reader_schema_that_does_not_resolve_is_named(tmp_path: Path, check: Checker) -> None:
    options = {"readerSchema": json.dumps(PRESENT)}
    group = ContractGroup(tmp_path, {"options": options})

    code, topic = check.document(group, order(ID, TIME), "--offline")

    assert code == ExitCode.FAULT
    assert findings(topic, "Fails") == {
        "spec.decode.options.readerSchema": "payloads of new.avsc cannot be read: quantity: the "
        "writer has no such field, the reader no default"
    }


def test_rows_that_the_schema_cannot_hold_are_named(tmp_path: Path, check: Checker) -> None:
    values = [{**value, "id": 2**40} if value["id"] == 1 else value for value in orders(3)]
    group = declared(tmp_path).land(*values)

    code, text = check.text(group, order(named("id", "int"), TIME, QUANTITY))

    assert code == ExitCode.FAULT
    assert text.splitlines()[-3:] == [
        "  fails    rows: of 3 rows, 2 the same, 1 that the schema cannot hold",
        "  fails    orders/0 offset 1: cannot be written: id: 1099511627776 is no int",
        "1 failure: new.avsc does not fit the group shop",
    ]


def test_rows_that_would_be_dead_letters_are_named(tmp_path: Path, check: Checker) -> None:
    values = [{**value, "quantity": 9} if value["id"] == 1 else value for value in orders(3)]
    columns = [*COLUMNS, {"name": "n", "type": "Int64", "field": "quantity", "nullable": False}]
    group = ContractGroup(tmp_path, {"columns": columns}, PARQUET).land(*values)

    code, topic = check.document(group, order(ID, TIME, named("quantity", "double")))

    assert (code, counts(topic)) == (ExitCode.FAULT, {"DeadLetter": 3})
    assert topic["rows"]["rows"][1] == {
        "place": "orders/0 offset 1",
        "outcome": "DeadLetter",
        "detail": "decode: column pieces: expected Int32, got double",
    }


def test_values_that_change_are_shown_and_fail_nothing(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path).land(*orders(2))

    code, topic = check.document(group, order(ID, TIME))

    assert (code, counts(topic)) == (ExitCode.OK, {"Changed": 2})
    assert topic["rows"]["rows"][1]["detail"] == "quantity: 1 becomes null (the column is gone)"


def test_a_null_that_a_schema_allows_no_more_is_named(tmp_path: Path, check: Checker) -> None:
    spec = {"transforms": [{"use": "Filter", "options": {"drop": "kind == 'new'"}}]}
    columns = [*COLUMNS, {"name": "kind", "type": "String"}]
    present = order(ID, TIME, QUANTITY, named("kind", ["null", "string"]))
    decode = {"columns": columns}
    group = ContractGroup(tmp_path, decode, PARQUET, spec, present).land(*orders(2, kind=None))
    new = order(ID, TIME, QUANTITY, named("kind", "string", default="new"))

    code, topic = check.document(group, new)

    assert (code, counts(topic)) == (ExitCode.FAULT, {"NotHeld": 2})


def test_a_filter_that_reads_a_new_default_leaves_rows_out(tmp_path: Path, check: Checker) -> None:
    spec = {"transforms": [{"use": "Filter", "options": {"drop": "kind == 'new'"}}]}
    present = order(ID, TIME, QUANTITY, named("kind", "string", default="old"))
    group = ContractGroup(tmp_path, spec=spec, present=present).land(*orders(2, kind="old"))
    new = order(ID, TIME, QUANTITY, named("sort", "string"), named("kind", "string", aliases=["k"]))
    same_code, same = check.document(group, new)
    swapped = order(ID, TIME, QUANTITY, named("kind", "string", default="new", aliases=["sort"]))
    group.spec["transforms"][0]["options"]["drop"] = "kind == 'old'"

    code, topic = check.document(group, swapped)

    assert (same_code, counts(same)) == (ExitCode.OK, {"Same": 2})
    assert (code, counts(topic)) == (ExitCode.FAULT, {"LeftOut": 2})
    assert topic["rows"]["rows"][0]["detail"] == "by transforms[0] Filter"


@pytest.mark.parametrize(
    "output",
    [
        {"format": "Orc", "columns": "FromSchema"},
        {"format": "Avro"},
        {"format": "Parquet", "columns": "FromSchema", "options": {"envelope": False}},
    ],
)
def test_rows_of_every_format_with_columns_are_tried(
    output: dict[str, Any], tmp_path: Path, check: Checker
) -> None:
    clock = named("clock", {"type": "int", "logicalType": "time-millis"})
    price = named("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    tags = named("tags", {"type": "array", "items": ["null", "string", "long"]})
    present = order(ID, TIME, QUANTITY, clock, price, tags)
    values = orders(3, clock=7, price=Decimal("1.50"), tags=["a", 7, None])
    group = ContractGroup(tmp_path, output=output, present=present).land(*values)

    code, topic = check.document(group, order(*present["fields"], COUPON))

    assert (code, counts(topic)) == (ExitCode.OK, {"Same": 3}), topic


def test_the_last_rows_are_tried(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path).land(*orders(10))
    narrow = order(ID, TIME, named("quantity", {"type": "enum", "name": "Q", "symbols": ["a"]}))

    _, topic = check.document(group, narrow, "--rows", "2")
    _, none = check.document(group, narrow, "--rows", "0")

    places = [row["place"] for row in topic["rows"]["rows"]]
    assert places == ["orders/0 offset 8", "orders/0 offset 9"]
    assert none["rows"]["skipped"] == "--rows 0"


def test_the_last_rows_may_be_of_several_objects(tmp_path: Path, check: Checker) -> None:
    values = orders(4)
    values[3]["at"] += 86_400_000
    group = ContractGroup(tmp_path).land(*values)

    _, topic = check.document(group, order(ID, TIME), "--rows", "2")

    places = [row["place"] for row in topic["rows"]["rows"]]
    assert places == ["orders/0 offset 2", "orders/0 offset 3"]


def test_a_route_by_the_id_of_the_schema_is_tried(tmp_path: Path, check: Checker) -> None:
    landed = ContractGroup(tmp_path).land(*orders(2))
    landed.spec = {"route": {"pattern": "{schema:id}/dt={date}"}}

    code, topic = check.document(registered(tmp_path, landed), PRESENT)

    assert (code, counts(topic)) == (ExitCode.OK, {"Same": 2})


@pytest.mark.parametrize(
    ("decode", "output", "spec", "why"),
    [
        ({}, {"format": "Json"}, {}, "rows have no columns (spec.output.format Json)"),
        (
            {"columns": COLUMNS[:2]},
            PARQUET,
            {"route": {"pattern": "q={field:quantity}"}},
            "stages read quantity, which no column has",
        ),
        (
            {"columns": COLUMNS},
            PARQUET,
            {"route": {"pattern": "dt={date}/h={header:kind}"}},
            "stages read keys or headers, which rows do not have",
        ),
    ],
)
def test_rows_that_make_no_payloads_are_not_tried(
    decode: Any, output: Any, spec: Any, why: str, tmp_path: Path, check: Checker
) -> None:
    group = ContractGroup(tmp_path, decode, output, spec).land(*orders(2))

    code, topic = check.document(group, PRESENT)

    assert (code, topic["rows"]["skipped"]) == (ExitCode.OK, why)


def test_values_are_not_compared_where_transforms_change_them(
    tmp_path: Path, check: Checker
) -> None:
    spec = {"transforms": [{"use": "Mask", "options": {"fields": ["who"]}}]}
    columns = [*COLUMNS, {"name": "who", "type": "String"}]
    present = order(ID, TIME, QUANTITY, named("who", "string"))
    decode = {"columns": columns}
    group = ContractGroup(tmp_path, decode, PARQUET, spec, present).land(*orders(2, who="ann"))

    code, text = check.text(group, present)

    assert code == ExitCode.OK
    assert "2 the same; transforms change rows, so values are not compared" in text


def test_rows_from_before_the_group_had_columns_are_passed_over(
    tmp_path: Path, check: Checker
) -> None:
    ContractGroup(tmp_path, output={"format": "Json"}).land(*orders(2))

    code, topic = check.document(ContractGroup(tmp_path), PRESENT)

    assert (code, topic["rows"]["skipped"]) == (ExitCode.OK, "no landed row has columns")


def test_a_declared_column_that_earlier_rows_lack_gets_a_value(
    tmp_path: Path, check: Checker
) -> None:
    ContractGroup(tmp_path, {"columns": COLUMNS[:2]}, PARQUET).land(*orders(2))

    code, topic = check.document(declared(tmp_path), PRESENT)

    assert (code, counts(topic)) == (ExitCode.OK, {"Same": 2})


def test_times_are_written_in_the_unit_of_their_field(tmp_path: Path, check: Checker) -> None:
    columns = [*COLUMNS[:1], {"name": "at", "type": "Timestamp", "unit": "Seconds"}]
    decode = {"columns": columns, "timestamp": {"field": "at", "unit": "Seconds"}}
    present = order(ID, named("at", "long"))
    values = [{"id": 1, "at": 1_763_683_200}]
    group = ContractGroup(tmp_path, decode, PARQUET, {}, present).land(*values)

    code, topic = check.document(group, present)

    assert (code, counts(topic)) == (ExitCode.OK, {"Same": 1})


def test_envelopes_are_checked_as_far_as_stages_are_built(tmp_path: Path, check: Checker) -> None:
    group = ContractGroup(tmp_path, {"envelope": "Debezium", "columns": COLUMNS[:1]}, PARQUET)
    del group.decode["columns"]
    group.output = {"format": "Json"}

    code, topic = check.document(group, PRESENT, "--offline")

    assert code == ExitCode.OK
    assert [*findings(topic, "Ok")] == ["spec.decode.envelope"]


def test_a_group_that_has_landed_nothing_is_checked_by_the_schema(
    tmp_path: Path, check: Checker
) -> None:
    code, topic = check.document(declared(tmp_path), order(ID, TIME))

    assert code == ExitCode.FAULT
    assert [*findings(topic, "Fails")] == ["spec.decode.columns[2]"]
    assert topic["rows"]["skipped"] == "nothing of the topic has landed"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("new.proto", "", "schemas of Protobuf cannot be checked yet, only Avro (.avsc)"),
        ("new.json", "{}", "schemas of JSON Schema cannot be checked yet"),
        ("new.txt", "", "expected a schema of Avro, a file .avsc"),
        ("new.avsc", '{"type":"recor"}', "schema: unknown type 'recor'"),
        ("missing.avsc", None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_schema_is_named(
    name: str,
    content: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)

    code = main(["contract", "check", str(path), "--against", declared(tmp_path).file()])

    assert code == ExitCode.USAGE
    assert f"{path}: {message}" in capsys.readouterr().err


def test_topics_of_another_format_are_left_out(tmp_path: Path, check: Checker) -> None:
    spec = {
        "source": {"kafka": {"bootstrapServers": "kafka:1", "topics": ["orders", "clicks"]}},
        "topics": [{"pattern": "clicks", "decode": {"format": "Json"}}],
    }
    group = declared(tmp_path, spec=spec)
    none = declared(
        tmp_path, spec={**spec, "topics": [{"pattern": ".*", "decode": {"format": "Json"}}]}
    )

    _, topic = check.document(group, PRESENT, "--offline")
    other, _ = check.text(group, PRESENT, "--offline", "--topic", "clicks")
    unknown, _ = check.text(group, PRESENT, "--offline", "--topic", "ordres")
    nothing, _ = check.text(none, PRESENT, "--offline")

    assert (topic["topic"], topic["path"]) == ("orders", "spec")
    assert (other, unknown, nothing) == (ExitCode.USAGE, ExitCode.NOTHING, ExitCode.NOTHING)


def test_a_store_that_does_not_answer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    s3 = {"endpoint": "http://127.0.0.1:9", "pathStyle": True}
    group = ContractGroup(tmp_path, output={**PARQUET, "url": "s3://lake/orders", "s3": s3})

    code = main(["contract", "check", group.schema(PRESENT), "--against", group.file()])

    assert code == ExitCode.UNAVAILABLE
    assert "127.0.0.1:9: connection refused" in capsys.readouterr().err


def test_a_wrong_group_is_a_usage_error_that_names_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = {"use": "Filter", "options": {"dorp": "id > 1"}}
    group = ContractGroup(tmp_path, spec={"transforms": [step]})

    code = main(
        ["contract", "check", group.schema(PRESENT), "--against", group.file(), "--offline"]
    )

    assert code == ExitCode.USAGE
    assert "spec.transforms[0].options: unknown option dorp" in capsys.readouterr().err
