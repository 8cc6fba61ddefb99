"""A value is the same from all decoders with ``values: Common``, and the page "Values" is true."""

import json
import os
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import ColumnType, Decode
from landfall.api.spec.decode import ValueForm
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline import common_values
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import filled
from landfall.registry import decoder
from tests.support.pages.markdown import DOCS
from tests.support.payloads.avro import encoded
from tests.support.payloads.logical_values import BAD, NO_SINGLE_VALUE, SAMPLES, Sample, same

PAGE = DOCS / "decoders/values.md"
BEGIN, END = "<!-- table: test_logical_values.py, LANDFALL_SNAPSHOTS=write -->\n", "<!-- end -->\n"
WHOLE_NUMBERS = {ColumnType.INT32, ColumnType.INT64}
UNITS_SHOW = {"time of day", "instant, milliseconds", "time without a zone"}
"""Logical types whose number in a column of integers is in the unit of the payload's schema."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_common_field_is_the_same_from_all_decoders(sample: Sample) -> None:
    assert same(sample.as_field("Common"), sample.field)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_common_json_is_the_same_from_all_decoders(sample: Sample) -> None:
    assert sample.as_json("Common") == sample.json


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_field_is_what_its_common_json_is_read_as(sample: Sample) -> None:
    # A step that rewrites JSON reads fields again from it.
    if isinstance(sample.field, float) and not np.isfinite(sample.field):
        pytest.skip("JSON has no such number")
    if sample.field == NO_SINGLE_VALUE:
        pytest.skip("JSON is all there is of it")

    assert same(sample.as_json("Common"), sample.as_field("Common"))


def test_no_two_decoders_read_other_values_into_a_column() -> None:
    found = defaultdict(set)
    for sample in SAMPLES:
        for type_, value in sample.columns.items():
            if not (type_ in WHOLE_NUMBERS and sample.logical in UNITS_SHOW):
                found[sample.logical, type_].add(repr(value))

    # Text of Avro has the bytes of its UTF-8 as a Binary column; other decoders refuse that.
    assert {key: values for key, values in found.items() if len(values) > 1} == {}


def test_each_logical_type_has_samples_of_one_value() -> None:
    formats = {sample.format for sample in SAMPLES}

    assert formats == {"Avro", "Protobuf", "Thrift", "MessagePack", "Json"}
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)


@pytest.mark.parametrize(
    ("logical", "number"),
    [
        ("timestamp-millis", 253_402_300_800_000),
        ("timestamp-micros", -62_135_596_800_000_001),
        ("local-timestamp-millis", 2**63 - 1),
    ],
)
def test_a_time_outside_of_the_calendar_is_a_dead_letter(logical: str, number: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "long"}]}
    payload = encoded(schema, {"v": number})
    schema["fields"] = [{"name": "v", "type": {"type": "long", "logicalType": logical}}]
    options = {"schema": json.dumps(schema)}
    decode = Decode.model_validate({"format": "Avro", "options": options, "values": "Common"})

    decoded = decoder(decode, Wanted(fields=(("v",),))).decode(
        filled(TopicPartition("t", 0), range(1), [payload])
    )

    assert decoded.bad.errors == [f"avro: v: {common_values.OUT_OF_CALENDAR}"]


def test_the_last_times_of_the_calendar_are_text() -> None:
    days = pa.array([-719_162, 2_932_896, None], pa.date32())
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    times = pa.array([first, last, None], pa.timestamp("us", "UTC"))

    for column, texts in (
        (days, ["0001-01-01", "9999-12-31", None]),
        (times, ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", None]),
    ):
        assert common_values.out_of_calendar(column).tolist() == []
        assert common_values.texts(column).to_pylist() == texts


@pytest.mark.parametrize(
    ("column", "outside"),
    [
        (pa.array([-719_163, 0, 2_932_897], pa.date32()), [0, 2]),
        (pa.array([-62_135_596_800_001, 253_402_300_800_000], pa.timestamp("ms")), [0, 1]),
        (pa.array([-62_135_596_800_000_001, 0], pa.timestamp("us", "UTC")), [0]),
        (pa.array([-(2**63), 2**63 - 1], pa.timestamp("ns")), []),
    ],
)
def test_rows_outside_of_the_calendar_are_found(column: pa.Array, outside: list[int]) -> None:
    assert common_values.out_of_calendar(column).tolist() == outside


def test_a_spec_without_the_field_is_stored_without_it() -> None:
    # Software before it reads stored specs, and their digests stay what they are.
    plain = Decode.model_validate({"format": "Json", "values": "ByDecoder"})

    assert "values" not in plain.model_dump(mode="json", by_alias=True)
    assert Decode(values=ValueForm.COMMON).model_dump(mode="json")["values"] == "Common"


# ------------------------------------------------------------------------------------ the page


def test_the_page_has_the_values_that_there_are() -> None:
    head, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin
    assert end
    made = f"{head}{BEGIN}\n{tables()}\n{END}{tail}"
    if os.environ.get("LANDFALL_SNAPSHOTS") == "write":
        PAGE.write_text(made)

    assert PAGE.read_text() == made


def tables() -> str:
    return "\n".join(
        [
            "| value | decoder | type | field | JSON | common field | common JSON | columns |",
            "|---|---|---|---|---|---|---|---|",
            *(row(sample) for sample in SAMPLES),
            "",
        ]
    )


def row(sample: Sample) -> str:
    own = (sample.as_field("ByDecoder"), sample.as_json("ByDecoder"))
    common = (sample.as_field("Common"), sample.as_json("Common"))
    cells = [
        *map(cell, own),
        *(
            "the same" if same(before, now) else f"**{cell(now)}**"
            for before, now in zip(own, common, strict=True)
        ),
        ", ".join(f"`{type_}`" for type_ in sample.columns) or "none",
    ]
    return f"| {sample.logical} | `{sample.format}` | `{sample.type}` | {' | '.join(cells)} |"


def cell(value: object) -> str:
    if isinstance(value, str) and value in (BAD, NO_SINGLE_VALUE):
        return value
    return "absent" if value is None else f"`{json.dumps(value)}`"
