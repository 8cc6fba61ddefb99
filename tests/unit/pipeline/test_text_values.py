"""The table of texts in docs/decoders/columns.md, by every decoder and step that reads text."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall import registry
from landfall.api.spec import Column, ColumnType, Decode
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.text_values import FORMS, read_column
from landfall.pipeline.decoders.typed_columns import ARROW, schema_of
from landfall.pipeline.records import filled
from landfall.pipeline.transforms.cast import TYPES
from tests.support.markdown import DOCS
from tests.support.transformed import Group

Outcome: TypeAlias = object
DEAD_LETTER = "dead letter"
WITH_TEXTS = sorted(set(ColumnType) - {ColumnType.LIST, ColumnType.STRUCT})
"""All types but those whose text is JSON."""
INTEGERS = {ColumnType.INT32, ColumnType.INT64}
_ROW = re.compile(r'^\| `(\w+)` \| `(".*")` \| (?:`(.*)`|(null|dead letter)) \|$', re.MULTILINE)
TABLE: tuple[tuple[str, str, Outcome], ...] = tuple(
    (type_, json.loads(text), json.loads(value) if value else word.replace("null", "") or None)
    for type_, text, value, word in _ROW.findall((DOCS / "decoders" / "columns.md").read_text())
)
OPTIONS: Mapping[str, dict[str, object]] = {
    "Csv": {"columns": ["x", "y"], "separator": ";"},
    "Delimited": {"columns": ["x", "y"], "separator": ";"},
    "Regex": {"pattern": "^(?P<x>.*);(?P<y>.*)$"},
}


def more(type_: str) -> dict[str, int]:
    """What a type of the page needs beside its name."""
    return {"precision": 10, "scale": 2} if type_ == ColumnType.DECIMAL else {}


def payload(format_: str, text: str) -> bytes:
    quoted = '"{}"'.format(text.replace('"', '""')) if format_ == "Csv" and '"' in text else text
    return f"{quoted};".encode()


def decoded(format_: str, type_: str, *payloads: bytes) -> list[Outcome]:
    """What each payload's column ``x`` is."""
    schema = schema_of([Column.model_validate({"name": "x", "type": type_, **more(type_)})])
    decode = Decode(format=format_, options=OPTIONS.get(format_, {}))
    records = filled(TopicPartition("t", 0), range(len(payloads)), list(payloads))
    found = registry.decoder(decode, Wanted(schema=schema)).decode(records)
    assert found.columns is not None
    values = dict(
        zip(found.records.offsets.tolist(), found.columns.column(0).to_pylist(), strict=True)
    )
    assert all(error.startswith("column x: ") for error in found.bad.errors)
    return [shown(values.get(row, DEAD_LETTER)) for row in range(len(payloads))]


def shown(value: Outcome) -> Outcome:
    """As the page shows a value; a double keeps its sign."""
    match value:
        case datetime():
            text = value.isoformat(timespec="microseconds").removesuffix("+00:00")
            return f"{text}Z".replace(".000000Z", "Z").replace("000Z", "Z")
        case Decimal():
            return format(value, "f")
        case date():
            return str(value)
        case bytes():
            return value.decode()
        case float():
            return repr(value)
    return value


def wanted(value: Outcome) -> Outcome:
    return repr(value) if isinstance(value, float) else value


def rows_of(type_: str) -> tuple[list[str], list[Outcome]]:
    """The texts of a type, and what the page says of each."""
    rows = [(text, wanted(value)) for kind, text, value in TABLE if kind == type_]
    return [text for text, _ in rows], [value for _, value in rows]


def test_the_page_has_every_type() -> None:
    assert {type_ for type_, _, _ in TABLE} == set(WITH_TEXTS)
    assert len(TABLE) > 90


@pytest.mark.parametrize("format_", OPTIONS)
@pytest.mark.parametrize("type_", WITH_TEXTS)
def test_a_decoder_reads_text_as_the_page_says(format_: str, type_: str) -> None:
    texts, values = rows_of(type_)
    payloads = [payload(format_, text) for text in texts]

    together = decoded(format_, type_, *payloads)

    assert dict(zip(texts, together, strict=True)) == dict(zip(texts, values, strict=True))
    assert together == [value for each in payloads for value in decoded(format_, type_, each)]


@pytest.mark.parametrize("type_", ["Date", "Timestamp"])
def test_json_reads_text_as_the_page_says(type_: str) -> None:
    texts, values = rows_of(type_)

    together = decoded("Json", type_, *(json.dumps({"x": text}).encode() for text in texts))

    assert dict(zip(texts, together, strict=True)) == dict(zip(texts, values, strict=True))


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize("type_", TYPES)
def test_cast_reads_text_as_the_page_says(is_typed: bool, type_: str) -> None:
    texts, values = rows_of(type_)
    steps = [{"use": "Cast", "options": {"x": {"type": type_, **more(type_)}}}]

    got = Group(steps, {"x": "String"} if is_typed else None).apply(*({"x": x} for x in texts))

    made: list[Outcome] = [DEAD_LETTER] * len(texts)
    for offset, text in zip(
        got.records.offsets.tolist(), got.records.values.to_pylist(), strict=True
    ):
        value = json.loads(text)["x"]
        if isinstance(value, str) and value.endswith("Z"):
            value = shown(datetime.fromisoformat(value))
        made[offset - 100] = wanted(value)
    assert dict(zip(texts, made, strict=True)) == dict(zip(texts, values, strict=True))
    assert all(error.startswith("cast: x: ") for error in got.bad.errors)


signs = st.sampled_from(["", "-", "+", "--"])
odd = st.text("0123456789+-.eExXaAfFinNtTrRuUlLsS _,\n٣", max_size=24)
texts = st.one_of(
    odd,
    st.builds("{}{}".format, signs, st.integers(0, 2**65)),
    st.builds("{}{}{}".format, signs, st.sampled_from(["0" * 30, "0x", "0X"]), st.integers(0)),
    st.integers(-(2**63) - 2, -(2**63) + 2).map(str),
    st.integers(2**31 - 2, 2**31 + 2).map(str),
    st.floats().map(repr),
    st.dates().map(str),
    st.builds(
        "{:04}-{:02}-{:02}".format, st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32)
    ),
    st.sampled_from(
        ["true", "false", "True", "1", "0", "nan", "1e400", "0000-01-01", "0000-02-29"]
    ),
)


def reference(text: str, type_: ColumnType) -> Outcome:
    """What Python's own types make of the grammar."""
    if type_ is ColumnType.BOOLEAN:
        return {"true": True, "false": False}.get(text, DEAD_LETTER)
    limit = 2 ** (31 if type_ is ColumnType.INT32 else 63)
    value: Outcome = DEAD_LETTER
    with suppress(ValueError):
        if type_ is ColumnType.DATE and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            value = str(date.fromisoformat(text))
        elif type_ is ColumnType.FLOAT64 and re.fullmatch(r"[-+.0-9eE]+", text):
            value = repr(float(text)) if abs(float(text)) < float("inf") else DEAD_LETTER
        elif type_ in INTEGERS and re.fullmatch(r"[-+]?[0-9]+", text):
            value = int(text) if -limit <= int(text) < limit else DEAD_LETTER
    return value


@given(st.sampled_from(sorted(FORMS)), st.lists(st.none() | texts, max_size=8))
def test_a_column_is_what_python_reads_in_each_text(
    type_: ColumnType, column: list[str | None]
) -> None:
    # A slice of a larger column, as ``Cast`` may be given one.
    array = pa.array(["0xff", *column, "0xff"], pa.string()).slice(1, len(column))

    values, bad = read_column(array, type_, ARROW[type_])

    got = [shown(value) for value in values.to_pylist()]
    assert [DEAD_LETTER if row in bad else value for row, value in enumerate(got)] == [
        None if text is None else reference(text, type_) for text in column
    ]


@given(st.sampled_from(sorted(FORMS)), texts)
def test_a_strict_cast_took_well_formed_text_only(type_: ColumnType, text: str) -> None:
    form, column = FORMS[type_], pa.array([text])
    try:
        values = column.cast(ARROW[type_])
    except pa.ArrowInvalid:
        return

    if form.is_strict(column, values):
        assert pc.match_substring_regex(column, rf"\A(?:{form.pattern})\z").to_pylist() == [True]
