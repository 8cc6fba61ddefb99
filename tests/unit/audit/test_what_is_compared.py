"""The table of what an audit compares, in the page on decoders, is what the auditor does."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from landfall.api.spec import ColumnType, parse_group
from landfall_audit.objects.rows import rows_of
from tests.support.audit.audited_spec import for_auditor
from tests.support.kubernetes.groups import document
from tests.support.pages.markdown import DOCS
from tests.unit.audit.test_wrong_protobuf import descriptors

PAGE = (DOCS / "decoders/index.md").read_text()
ROW = re.compile(r"\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|")
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "Csv": {"columns": [f"c{type_}" for type_ in ColumnType]},
    "Delimited": {"columns": [f"c{type_}" for type_ in ColumnType]},
    "Avro": {"schema": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'},
    "Protobuf": {"message": "shop.M", "descriptors": descriptors()},
    "Thrift": {"idl": "struct S { 1: i32 a }", "struct": "S"},
    "Regex": {"pattern": "(?P<a>.*)"},
}
MORE: Mapping[ColumnType, Mapping[str, object]] = {
    ColumnType.DECIMAL: {"precision": 9},
    ColumnType.LIST: {"items": {"type": "String"}},
    ColumnType.STRUCT: {"fields": [{"name": "a", "type": "String"}]},
}
COLUMNS = [{"name": f"c{type_}", "type": type_, **MORE.get(type_, {})} for type_ in ColumnType]


def table() -> Mapping[str, tuple[str, ...]]:
    section = PAGE.partition("## What an audit compares")[2].partition("A column is right")[0]
    return {name: cells for name, *cells in ROW.findall(section)}


def group(decoder: str, *, is_declared: bool = False, **output: object) -> Any:
    decode = {"format": decoder, "options": OPTIONS.get(decoder, {})}
    if is_declared:
        decode["columns"] = COLUMNS
    made = document(output__format="Parquet")
    made["spec"]["decode"] = decode
    made["spec"]["output"] |= output
    return parse_group(made).spec


def outcome(spec: Any) -> str:
    rows = rows_of(for_auditor(spec))
    if rows.hash_of is None:
        return "not compared"
    if rows.content_of is None:
        return "every byte"
    left_out = sorted(name.removeprefix("c") for name in rows.unchecked)
    return f"all but {', '.join(f'`{n}`' for n in left_out)}" if left_out else "compared"


@pytest.mark.parametrize("decoder", table())
def test_the_table_is_what_is_done(decoder: str) -> None:
    declared, by_schema, as_json = table()[decoder]

    assert outcome(group(decoder, is_declared=True)) == declared
    assert outcome(group(decoder, format="Json")) == as_json
    if by_schema != "–":  # noqa: RUF001  # as it is shown
        assert outcome(group(decoder, columns="FromSchema")) == by_schema


def test_every_decoder_that_lands_something_else_is_in_the_table() -> None:
    pages = {re.sub("[^a-z]", "", path.stem) for path in (DOCS / "decoders").glob("*.md")}
    known = {name.lower() for name in table()}

    assert known <= pages
    assert {"csv", "delimited", "json", "thrift", "regex", "avro", "protobuf"} <= known
