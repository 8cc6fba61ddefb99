"""Hostile changes of Debezium: none stops its slice, and sound ones next to them land."""

import json
from collections.abc import Mapping

import pytest

from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import TP, land_rows

N = 50_000
SOUND = b'{"op":"c","after":{"a":7},"source":{"ts_ms":1767225600000}}'
COLUMNS = [
    {"name": "a", "type": "Int64"},
    {"name": "_op", "type": "String"},
    {"name": "_source_ts", "type": "Timestamp"},
]
OWN = ("_op", "_deleted", "_source_ts", "_source", "_unavailable", "_patch")


def change(row: bytes, op: str = "c", source: bytes = b"{}") -> bytes:
    """A change with a row that is any text."""
    side = "before" if op == "d" else "after"
    return b'{"op":"%s","%s":%s,"source":%s}' % (op.encode(), side.encode(), row, source)


def with_schema(schema: bytes) -> bytes:
    return b'{"schema":%s,"payload":%s}' % (schema, SOUND)


def field(name: str, scale: str = "0") -> bytes:
    """A schema of an envelope whose row has a column ``a`` of a type."""
    of = {"field": "a", "name": name, "parameters": {"scale": scale}}
    return json.dumps({"fields": [{"field": "after", "fields": [of]}]}).encode()


PAYLOADS: Mapping[str, bytes] = {
    "nested": change(b'{"a":' * N + b"1" + b"}" * N),
    "nested lists": change(b'{"b":' + b"[" * N + b"]" * N + b"}"),
    "nested without end": change(b'{"a":' * N),
    "nested source": change(b'{"a":1}', source=b'{"a":' * N + b"1" + b"}" * N),
    "nested envelopes": b'{"payload":' * N + SOUND + b"}" * N,
    "nested schema": with_schema(b'{"fields":[' * N + b"]}" * N),
    "a huge schema": with_schema(b'{"fields":[%s]}' % b",".join([b'{"field":"x"}'] * N)),
    "a huge name of a type": with_schema(field("io.debezium.time." + "x" * 1_000_000)),
    "a huge scale": with_schema(field("org.apache.kafka.connect.data.Decimal", "9" * 1_000_000)),
    "a schema of another shape": with_schema(b'{"fields":{"a":1}}'),
    "a schema that is a list": with_schema(b"[]"),
    "a huge name": change(b'{"%s":1}' % (b"x" * 1_000_000)),
    "names without end": change(b"{%s}" % b",".join(b'"k%d":0' % i for i in range(N))),
    "one name again": change(b"{%s}" % b",".join([b'"a":1'] * N)),
    "op again": b"{%s}" % b",".join([b'"op":"c"'] * N),
    "op of any length": change(b'{"a":1}', op="c" * 1_000_000),
    "op that ends the object": b'{"op":"c\\"}","after":{"a":1}}',
    "a row that is text": change(b'"{\\"a\\":1}"'),
    "a row that is a list": change(b"[[1]]"),
    "an empty row": change(b"{}"),
    "a row with blanks": change(b"{ \t\r\n }"),
    "source is a list": change(b'{"a":1}', source=b"[1]"),
    "source is text": change(b'{"a":1}', source=b'"x"'),
    "no such time": change(b'{"a":1}', source=b'{"ts_ms":%d}' % 2**62),
    "a time of any size": change(b'{"a":1}', source=b'{"ts_ms":%s}' % (b"9" * 5_000)),
    "a time before all": change(b'{"a":1}', source=b'{"ts_ms":-9223372036854775808}'),
    "values that were not logged": change(
        b"{%s}" % b",".join(b'"k%d":"__debezium_unavailable_value"' % i for i in range(N))
    ),
    "a document, nested": change(json.dumps('{"a":' * N + "1" + "}" * N).encode()),
    "a document with lists, nested": change(
        json.dumps('{"a":' + "[" * 900 + "]" * 900 + "}").encode()
    ),
    "a document with a time of any size": change(
        json.dumps('{"a":{"$date":{"$numberLong":"%s"}}}' % ("9" * 5_000)).encode()
    ),
    "a document with one name again": change(
        json.dumps("{" + ",".join(['"a":{"$oid":"x"}'] * N) + "}").encode()
    ),
    "a document with half a pair": change(b'"{\\"a\\":\\"\\\\ud83d\\"}"'),
    "a patch of text": b'{"op":"u","updateDescription":"x","source":{}}',
    "a patch of no document": b'{"op":"u","updateDescription":{"updatedFields":"[1]"}}',
    "no UTF-8": change(b'{"a":1,"\xff":2}'),
    "half a pair": change(b'{"a":1,"\\ud83d":"\\ude00"}'),
    "control characters": change(b'{"a":1,"\\u001b]0;x\\u0007":"\\u202e"}'),
    "a deletion without anything": b'{"op":"d"}',
    "no object": b"[]",
    "nothing": b"",
    **{f"a column {name}": change(b'{"a":1,"%s":"forged"}' % name.encode()) for name in OWN},
    **{
        f"a column {name}, escaped": change(b'{"a":1,"\\u005F%s":"x"}' % name[1:].encode())
        for name in OWN
    },
}


def landed(payloads: list[bytes], *, has_columns: bool, has_keys: bool) -> LandedSlice:
    result = land_rows(
        [*enumerate(payloads)],
        MemoryStore(),
        slice_=Slice(TP, OffsetRange(0, len(payloads))),
        decode={
            "format": "Json",
            "envelope": "Debezium",
            **({"columns": COLUMNS} if has_columns else {}),
            **({"key": {"format": "Json"}} if has_keys else {}),
        },
        output={"url": "s3://b", "format": "Json"},
        route={"pattern": "{field:a}"},
        badRecords={"maxRatio": "1"},
    )
    assert isinstance(result, LandedSlice), result
    return result


@pytest.mark.timeout(120)
@pytest.mark.parametrize("has_columns", [False, True], ids=["fields", "columns"])
@pytest.mark.parametrize("has_keys", [False, True], ids=["", "keys"])
def test_each_change_is_a_record_or_a_dead_letter(*, has_columns: bool, has_keys: bool) -> None:
    payloads = [each for bad in PAYLOADS.values() for each in (bad, SOUND)]

    result = landed(payloads, has_columns=has_columns, has_keys=has_keys)

    assert sum(each.rows for each in result.objects) == len(payloads)
    assert result.landed >= len(PAYLOADS)


@pytest.mark.parametrize("name", [each for each in PAYLOADS if each.startswith("a column ")])
def test_no_column_of_a_table_is_taken_for_a_member_of_ours(name: str) -> None:
    result = landed([PAYLOADS[name]], has_columns=True, has_keys=False)

    assert (result.landed, result.dead_lettered) == (0, 1)
