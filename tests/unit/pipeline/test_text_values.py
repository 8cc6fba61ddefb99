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
from landfall.api.spec import Column, ColumnType, Decode, ValueType
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted, decimal_columns
from landfall.pipeline.decoders.text_values import FORMS, read_column
from landfall.pipeline.decoders.texts import utf8
from landfall.pipeline.decoders.typed_columns import ARROW, schema_of
from landfall.pipeline.odd_rows import FEW_ROWS
from landfall.pipeline.records import filled
from landfall.pipeline.transforms.cast import TYPES
from tests.support.driver.transformed import Group
from tests.support.pages.markdown import DOCS

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
def test_a_cast_names_the_text_that_is_no_value(type_: ColumnType, text: str) -> None:
    form, column = FORMS[type_], pa.array([text])
    try:
        values = column.cast(ARROW[type_])
    except pa.ArrowInvalid:
        return

    is_misread = 0 in form.misread(column, values)
    assert is_misread == (reference(text, type_) is DEAD_LETTER)


GOOD = {"Int32": "-{}", "Int64": "{}", "Float64": "{}.5", "Boolean": "true", "Date": "{}-02-03"}


@given(
    st.sampled_from(sorted(GOOD)),
    st.dictionaries(st.integers(0, 999), st.none() | texts, max_size=4),
    st.booleans(),
)
def test_a_long_column_is_what_python_reads_in_each_text(
    type_: str, odd: dict[int, str | None], few_distinct: bool
) -> None:
    """Odd rows are looked for by characters, distinct texts and halves."""
    column: list[str | None] = [
        GOOD[type_].format(1000 + (row % 7 if few_distinct else row)) for row in range(1_000)
    ]
    for row, text in odd.items():
        column[row] = text
    kind = ColumnType(type_)

    values, bad = read_column(pa.array(["x", *column], pa.string()).slice(1), kind, ARROW[kind])

    expected = {row: reference(text, kind) for row, text in odd.items() if text is not None}
    assert bad.tolist() == sorted(row for row, value in expected.items() if value is DEAD_LETTER)
    assert values.null_count == len(bad) + sum(text is None for text in odd.values())
    got = {
        row: shown(values[row].as_py())
        for row, value in expected.items()
        if value is not DEAD_LETTER
    }
    assert got == {row: value for row, value in expected.items() if value is not DEAD_LETTER}


@pytest.mark.parametrize("type_", sorted(GOOD))
def test_one_bad_text_in_many_has_no_pattern_matched_by_all(
    type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matched: list[int] = []
    match = pc.match_substring_regex

    def counted(column: pa.StringArray, pattern: str) -> pa.BooleanArray:
        matched.append(len(column))
        return match(column, pattern)

    monkeypatch.setattr(pc, "match_substring_regex", counted)
    kind = ColumnType(type_)
    for text in ("n/a", "0000-00-00", "12x", "1e400"):
        column = [GOOD[type_].format(1000 + row % 8000) for row in range(10_000)]
        column[7_777] = text

        _, bad = read_column(pa.array(column), kind, ARROW[kind])

        assert bad.tolist() == [7_777]

    assert sum(matched) <= 2 * FEW_ROWS


def test_one_bad_decimal_in_many_has_few_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    decimal = decimal_columns._decimal
    monkeypatch.setattr(
        decimal_columns, "_decimal", lambda value, to: (read.append(value), decimal(value, to))[1]
    )
    declared = ValueType.model_validate({"type": "Decimal", "precision": 9, "scale": 2})
    column = pa.array(["n/a" if row == 7_777 else f"{row}.25" for row in range(10_000)])

    values, errors = decimal_columns.convert("d", declared, column)

    assert errors == {7_777: "column d: expected Decimal(9,2), got 'n/a'"}
    assert values.null_count == 1
    assert len(read) <= FEW_ROWS


def test_one_payload_without_utf8_in_many_has_few_decoded_one_by_one() -> None:
    payloads = [b"\xff" if row == 7_777 else str(row).encode() for row in range(10_000)]

    read, errors = utf8(pa.array(payloads, pa.binary()))

    assert errors == {7_777: "not UTF-8: invalid start byte at byte 0"}
    assert read.to_pylist() == [None if row == 7_777 else str(row) for row in range(10_000)]
