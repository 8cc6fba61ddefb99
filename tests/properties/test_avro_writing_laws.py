"""Landed values of any schema are written as Avro so that they land as the same values again."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from landfall.formats.typed_rows import plain_rows
from landfall.pipeline.decoders.avro.own_columns import own_columns
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.schema import parse_schema
from landfall.pipeline.decoders.avro.writing import encode_value
from tests.support.examples import share
from tests.support.payloads.avro import columns, encoded, records, schemas, values


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, Any]:
    schema = draw(records(schemas()))
    return schema, draw(values(schema))


def landed(schema: Any, payload: bytes) -> dict[str, Any]:
    """The row of a payload in a file with the columns of its schema."""
    column, _, errors = columns(schema, [payload])
    assert not errors
    batch = own_columns(compile_schema(parse_schema(json.dumps(schema))), column)
    return plain_rows(batch)[0]


@settings(
    max_examples=share(300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(case=written())
def test_a_landed_row_is_written_so_that_it_lands_again(case: tuple[Any, Any]) -> None:
    schema, value = case
    before = landed(schema, encoded(schema, value))
    # A record without fields is one column.
    row = before if schema["fields"] else {}

    payload = encode_value(parse_schema(json.dumps(schema)), row)

    assert repr(landed(schema, payload)) == repr(before)
