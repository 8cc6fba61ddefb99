"""Keys and headers: fields for routes and times, typed columns, and what makes a record bad."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall import registry
from landfall.api.spec import parse_group
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.task.partitioning import PartitionedChunk, Partitioner
from tests.support.kubernetes.groups import document

TP = TopicPartition("clicks", 3)
Headers = Sequence[tuple[str, bytes | None]]
Row = tuple[bytes | None, bytes | None, Headers]
KEY = {"format": "Json", "columns": [{"name": "customer", "type": "Int64", "field": "id"}]}


def records(*rows: Row) -> Records:
    """Records of payload, key and headers, from offset 100 on."""
    values, keys, headers = zip(*rows, strict=True) if rows else ((), (), ())
    return of_columns(
        TP,
        np.arange(100, 100 + len(rows)),
        pa.array(values, pa.binary()),
        timestamps=np.full(len(rows), 1_763_697_600_000),
        keys=pa.array(keys, pa.binary()),
        headers=pa.array([None if h is None else list(h) for h in headers], HEADERS),
    )


def spec(**sections: Any) -> Any:
    made = document("keys")
    output = {"url": "file:///tmp/out", "format": "Json"} | sections.pop("output", {})
    made["spec"] |= {"route": {"pattern": "all"}, **sections, "output": output}
    return parse_group(made).spec


def landed(of: Any, *rows: Row) -> dict[str, list[dict[str, Any]]]:
    """The offsets and the typed columns of each output partition."""
    chunk = partition(of, *rows)
    return {
        name: [
            {
                column.removeprefix("_"): value
                for column, value in row.items()
                if column == "offset" or column.startswith("_")
            }
            for row in batch.to_pylist()
        ]
        for name, batch in chunk.outputs
    }


def partition(of: Any, *rows: Row) -> PartitionedChunk:
    return Partitioner.of(of).partition(records(*rows))


def bad(chunk: PartitionedChunk) -> dict[int, str]:
    return {record.row: f"{record.stage}: {record.error}" for record in chunk.bad}


def test_a_field_of_the_key_is_a_directory() -> None:
    of = spec(
        decode={"format": "Json", "key": {"format": "Json"}},
        route={"pattern": "customer={key:customer.id}"},
    )

    found = landed(
        of,
        (b"{}", b'{"customer":{"id":7}}', ()),
        (b"{}", None, ()),
        (b"{}", b'{"customer":{"id":7}}', ()),
    )

    assert found == {
        "customer=7": [{"offset": 100}, {"offset": 102}],
        "customer=__HIVE_DEFAULT_PARTITION__": [{"offset": 101}],
    }


def test_the_whole_key_is_text_and_needs_no_decoder() -> None:
    of = spec(
        decode={"format": "Raw"}, output={"format": "SequenceFile"}, route={"pattern": "k={key}"}
    )

    chunk = partition(of, (b"x", b"a/b", ()), (b"x", b"\xff", ()), (b"x", b"", ()))

    assert [name for name, _ in chunk.outputs] == ["k=a%2Fb", "k=__HIVE_DEFAULT_PARTITION__"]
    assert bad(chunk) == {1: "decode: key: not UTF-8: invalid start byte at byte 0"}


def test_columns_come_from_payload_key_and_headers() -> None:
    of = spec(
        decode={
            "format": "Json",
            "columns": [{"name": "price", "type": "Float64"}],
            "key": KEY,
            "headerColumns": [
                {"name": "trace", "type": "String", "field": "x-trace"},
                {"name": "attempt", "type": "Int32"},
                {"name": "token", "type": "Binary"},
            ],
        },
        output={"format": "Parquet"},
    )

    found = landed(
        of,
        (b'{"price":1.5}', b'{"id":7}', [("x-trace", b"a"), ("token", b"\xff"), ("x-trace", b"b")]),
        (b"{}", None, [("attempt", b"3"), ("x-trace", None)]),
    )

    nothing = {"price": None, "customer": None, "trace": None, "attempt": None, "token": None}
    assert found == {
        "all": [
            {**nothing, "offset": 100, "price": 1.5, "customer": 7, "trace": "b", "token": b"\xff"},
            {**nothing, "offset": 101, "attempt": 3},
        ]
    }


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((b"{", b'{"id":1}', ()), "decode: json: "),
        ((b"{}", b"{", ()), "decode: key: json: "),
        ((b"{}", b'{"id":"x"}', ()), "decode: key: json: id: "),
        ((b"{}", None, [("attempt", b"x")]), "decode: column attempt: expected Int32, got 'x'"),
        ((b"{}", None, [("attempt", b"\xff")]), "decode: header attempt: not UTF-8"),
        ((b"{}", None, None), "decode: a header's name is not UTF-8"),
        ((b"{", b"{", None), "decode: json: "),
    ],
)
def test_a_record_of_which_a_part_cannot_be_read_is_a_dead_letter(row: Row, error: str) -> None:
    decode = {"format": "Json", "key": KEY, "headerColumns": [{"name": "attempt", "type": "Int32"}]}
    of = spec(decode=decode, output={"format": "Parquet"})

    good: Row = (b"{}", b'{"id":1}', [("attempt", b"1")])
    chunk = partition(of, good, row, good)

    assert {*bad(chunk)} == {1}
    assert bad(chunk)[1].startswith(error)
    ((_, batch),) = chunk.outputs
    assert batch.column("_customer").to_pylist() == [1, 1]


def test_a_column_that_must_not_be_null_may_be_of_a_key() -> None:
    column = {"name": "customer", "type": "Int64", "field": "id", "nullable": False}
    of = spec(
        decode={"format": "Json", "key": {**KEY, "columns": [column]}}, output={"format": "Parquet"}
    )

    assert bad(partition(of, (b"{}", b'{"id":1}', ()), (b"{}", None, ()))) == {
        1: "decode: key: column customer: null"
    }


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("Key", (b"{}", b'{"at":1763697660000}', ())),
        ("Header", (b"{}", None, [("at", b"1763697660000")])),
        ("Value", (b'{"at":1763697660000}', None, ())),
    ],
)
def test_the_event_time_may_be_in_any_part(source: str, row: Row) -> None:
    timestamp = {"field": "at", "source": source, "unit": "Milliseconds"}
    of = spec(
        decode={"format": "Json", "timestamp": timestamp, "key": {"format": "Json"}},
        route={"pattern": "%H-%M"},
    )

    chunk = partition(of, row, (b"{}", None, ()))

    assert [name for name, _ in chunk.outputs] == ["04-01"]
    assert bad(chunk) == {1: "route: timestamp: no field 'at'"}


def test_steps_see_the_columns_of_all_parts() -> None:
    of = spec(
        decode={"format": "Json", "columns": [{"name": "price", "type": "Int64"}], "key": KEY},
        transforms=[{"use": "Filter", "options": {"where": "customer > 1"}}],
        output={"format": "Parquet"},
    )

    found = landed(of, (b"{}", b'{"id":1}', ()), (b'{"price":5}', b'{"id":2}', ()))

    assert found == {"all": [{"offset": 101, "price": 5, "customer": 2}]}


def test_keys_and_headers_that_nobody_reads_are_not_built() -> None:
    def never() -> Any:
        raise AssertionError("a column was built that costs CPU per record")

    made = records((b"{}", b"{", ()))
    lazy = Records(
        made.topic_partition, made.offsets, made.values, type(made.columns)(never, never, never)
    )
    of = spec(decode={"format": "Json", "key": {"format": "Json"}})

    assert not registry.pipeline(of).decoder.decode(lazy).bad


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"route": {"pattern": "{key:id}"}, "decode": {"format": "Json"}},
            "spec.decode.key is needed to read {key:id}",
        ),
        (
            {"decode": {"key": {"format": "Jsson"}}, "route": {"pattern": "{key:id}"}},
            "spec.decode.key.format: must be Raw,",
        ),
        (
            {"decode": {"format": "Json", "key": {**KEY, "options": {"x": 1}}}},
            "spec.decode.key.options: unknown option x",
        ),
        (
            {"decode": {"key": KEY, "columns": [{"name": "customer", "type": "String"}]}},
            "spec.decode: ",
        ),
        (
            {
                "decode": {"format": "Avro", "options": {"schema": '"int"'}, "key": KEY},
                "output": {"format": "Parquet", "columns": "FromSchema"},
            },
            "spec.output.columns: FromSchema takes the columns of the payloads' own schemas",
        ),
        (
            {"decode": {"format": "Json"}, "route": {"pattern": "{key:}"}},
            "spec.route.pattern: invalid field path: {key:}",
        ),
        (
            {
                "decode": {
                    "key": {**KEY, "format": "Avro", "options": {"schemaFile": "/dev/null"}}
                },
                "output": {"format": "Parquet"},
            },
            "spec.decode.key.options.schemaFile: ",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_field(
    sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(Stalled) as refused:
        registry.pipeline(spec(**sections))

    assert refused.value.reason is Reason.SPEC_INVALID
    assert str(refused.value).startswith(message)


PAYLOADS = st.sampled_from([None, b"{}", b'{"price":1}', b'{"price":2.5}', b'{"price":"x"}', b"{"])
KEYS = st.sampled_from([None, b"", b'{"id":1}', b'{"id":2}', b'{"id":"x"}', b"\xff", b"{"])
VALUES = st.sampled_from([None, b"", b"1", b"2", b"x", b"\xff"])
ROWS = st.lists(
    st.tuples(
        PAYLOADS,
        KEYS,
        st.none() | st.lists(st.tuples(st.sampled_from(["n", "m"]), VALUES), max_size=3),
    ),
    max_size=8,
)


@given(ROWS)
def test_a_record_is_decoded_as_if_it_were_alone(rows: list[Row]) -> None:
    of = spec(
        decode={
            "format": "Json",
            "columns": [{"name": "price", "type": "Float64"}],
            "key": KEY,
            "headerColumns": [{"name": "n", "type": "Int64"}],
        },
        route={"pattern": "n={key:id}"},
        output={"format": "Parquet"},
    )
    together, alone = _outcomes(of, rows), [_outcomes(of, [row])[0] for row in rows]

    assert [together[i] for i in range(len(rows))] == alone


def _outcomes(of: Any, rows: list[Row]) -> dict[int, str]:
    chunk = partition(of, *rows)
    found = bad(chunk)
    for name, batch in chunk.outputs:
        for row in batch.to_pylist():
            position = row.pop("offset") - 100
            assert position not in found
            found[position] = f"{name} {json.dumps(row, default=repr)}"
    assert {*found} == {*range(len(rows))}
    return found
