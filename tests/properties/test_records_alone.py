"""What becomes of a record depends on the record alone, not on those that are decoded with it.

For every decoder, type of column and built-in transform: the output partition and the row, or the
stage and the text of the error, are the same for a record alone, among good ones and among bad
ones.
"""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import ColumnType, parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import of_columns
from landfall.task.partitioning import Partitioner
from tests.bench import decoders as contenders
from tests.properties.test_transforms_laws import CHAINS, COLUMNS
from tests.support.kubernetes.groups import document
from tests.support.payloads.declared import column

Payload: TypeAlias = bytes | None
Fate: TypeAlias = object
TYPES = tuple(ColumnType)
AT = len(TYPES)
"""The time of a record follows its columns."""

TIMES = (
    *("2026-11-21T04:00:00Z", "2026-11-21T04:00:00", "2026-11-21 04:00:00.123+01:00", "2026-325"),
    *("0000-06-01T00:00:00Z", "0000-12-31T23:59:59-01:00", "0000-12-31", "2016-12-31T23:59:60Z"),
    *("2026-11-21T04:00:00.1234567Z", "1600-01-01T00:00:00.1234567Z", "2026-11-21T04Z"),
    *("9999-12-31T23:59:59-01:00", "1763697600", "99999999999999999999", "-1.5", "0x10", "soon"),
)
ODD: Mapping[str, Sequence[str]] = {
    "Int32": ("-7", "+1", "007", "0x10", "2147483648", "1.0", " 1", "n/a"),
    "Int64": ("-7", "+1", "0xffffffffffffffff", "9223372036854775808", "1e3", "n/a"),
    "Float64": ("+1", ".5", "1e400", "nan", "inf", "-0", "1e-400", "1,5", "n/a"),
    "Boolean": ("false", "TRUE", "1", "yes"),
    "Timestamp": TIMES,
    "Date": ("2023-02-29", "0000-06-01", "0000-02-29", "20261121", "9999-12-31", "soon"),
    "String": ("", "é", '"', " "),
    "Binary": ("", "YQ==", "é"),
    "Json": ('{"a": 1}', "null", "{", "NaN", "1e400"),
    "Decimal": ("+1", ".5", "1e-39", "1e400", "nan", "1.2345", "1234567", "0x10", "n/a"),
    "List": ("[1, null]", "[", "{}", "[1e400]"),
    "Struct": ('{"b": ["x"]}', '{"b": [2147483648]}', "{", "[]"),
    "at": TIMES,
}
"""Texts for each column that libraries read in several ways, and some that are plainly bad."""
texts = st.one_of(
    st.sampled_from(sorted({text for odd in ODD.values() for text in odd})),
    st.sampled_from(["", "a,b", "a\nb", "b\n"]),
    st.text(max_size=4),
)
values = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**31, 2**53 + 1, 2**63, 1763697600, 1763697600000, 0.5, -0.0, 1e300, 1e16]),
    st.sampled_from([[1], {"a": 1}, {}]),
)
GOOD = (
    *("text", 1, 2, 1.5, True, 1763697600000, "2026-11-21", "YQ==", {"a": 1}),
    *(2.5, [1, "a"], {"a": 1, "b": [1, 2]}, 1763697600),
)
GOOD_TEXTS = (
    *("text", "1", "2", "1.5", "true", "2026-11-21T04:00:00Z", "2026-11-21", "x", "{}"),
    *("2.5", "[1]", '{"a": 1}', "5"),
)
NAMES = (*(str(type_) for type_ in TYPES), "at")


def as_csv(row: Sequence[Any]) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(row)
    return file.getvalue().encode()


def joined(row: Sequence[Any]) -> bytes:
    return "|".join(map(str, row)).encode()


def as_object(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(NAMES, row, strict=True))


def as_json(row: Sequence[Any]) -> bytes:
    return json.dumps(as_object(row)).encode()


def as_message(row: Sequence[Any]) -> bytes:
    packed: bytes = msgpack.packb(
        {
            name: str(v) if type(v) is int and abs(v) >= 2**63 else v
            for name, v in as_object(row).items()
        }
    )
    return packed


SCHEMA = json.dumps({"type": "object", "properties": {"Int32": {"type": ["integer", "string"]}}})
PATTERN = r"\|".join(rf"(?P<{name}>[^|]*)" for name in NAMES)
OPTIONS: Mapping[str, tuple[dict[str, Any], Any]] = {
    "Csv": ({"columns": NAMES}, as_csv),
    "Delimited": ({"columns": NAMES, "separator": "|"}, joined),
    "Delimited with quotes": ({"columns": NAMES, "separator": "|", "quote": '"'}, joined),
    "Regex": ({"pattern": f"^{PATTERN}$"}, joined),
    "Json": ({}, as_json),
    "JsonSchema": ({"schema": SCHEMA}, as_json),
    "MessagePack": ({}, as_message),
}
OF_TEXT = {"Csv", "Delimited", "Delimited with quotes", "Regex"}
BINARY = ("Avro", "Protobuf", "Thrift", "ThriftCompact", "MessagePack")
PARTITIONERS: dict[str, Partitioner] = {}


def partitioner(name: str, spec: Mapping[str, Any]) -> Partitioner:
    if name not in PARTITIONERS:
        PARTITIONERS[name] = Partitioner.of(parse_group(document(**spec)).spec)
    return PARTITIONERS[name]


def of_types(name: str) -> Partitioner:
    """A group whose payloads have a column of each type and a time."""
    options, _ = OPTIONS[name]
    return partitioner(
        name,
        {
            "decode__format": name.removesuffix(" with quotes"),
            "decode__options": options,
            "decode__columns": [
                column(type_, type_).model_dump(mode="json", exclude_none=True) for type_ in TYPES
            ],
            "decode__timestamp": {"field": "at", "missing": "Epoch"},
            "route__pattern": "dt={date}/{field:String}",
            "output__format": "Parquet",
        },
    )


def fates(partitions: Partitioner, payloads: Sequence[Payload], first: int) -> dict[int, Fate]:
    """The output partition and the row, or the stage and the error, by offset."""
    offsets = np.arange(first, first + len(payloads))
    records = of_columns(
        TopicPartition("clicks", 3),
        offsets,
        pa.array(payloads, pa.binary()),
        timestamps=1_763_700_000_000 + offsets,
    )
    chunk = partitions.partition(records)
    found: dict[int, Fate] = {first + bad.row: (bad.stage, bad.error) for bad in chunk.bad}
    for name, batch in chunk.outputs:
        for row in batch.to_pylist():
            found[row["offset"]] = (name, repr(row))
    assert len(found) + chunk.filtered == len(payloads)
    return found


def check(partitions: Partitioner, payload: Payload, others: Sequence[Sequence[Payload]]) -> None:
    alone = fates(partitions, [payload], 3).get(3)
    for neighbours in others:
        together = fates(partitions, [*neighbours[:3], payload, *neighbours[3:]], 0)
        assert together.get(3) == alone


@given(st.sampled_from(sorted(OPTIONS)), st.data())
def test_of_every_type_of_column(name: str, data: st.DataObject) -> None:
    _, encode = OPTIONS[name]
    kinds = texts if name in OF_TEXT else values
    good = GOOD_TEXTS if name in OF_TEXT else GOOD
    # Few columns are odd, so that rows land as well.
    odd = data.draw(st.dictionaries(st.integers(0, AT), kinds, max_size=3))
    row = [odd.get(place, value) for place, value in enumerate(good)]
    bad = [[data.draw(kinds) for _ in good] for _ in range(4)]

    check(of_types(name), encode(row), [[encode(good)] * 6, [*map(encode, bad), b"\xff", b""]])


@pytest.mark.parametrize("name", ["Csv", "Json"])
@pytest.mark.parametrize("odd", ODD)
def test_of_every_odd_text(name: str, odd: str) -> None:
    _, encode = OPTIONS[name]
    good = GOOD_TEXTS if name in OF_TEXT else GOOD
    place = NAMES.index(odd)
    payloads = [encode([*good[:place], text, *good[place + 1 :]]) for text in ODD[odd]]

    for payload in payloads:
        check(of_types(name), payload, [[encode(good)] * 6, [*payloads[::-1], b"", b"\xff", None]])


def of_events(name: str, seed: int) -> tuple[Partitioner, list[bytes]]:
    """A group whose payloads are events, and some of them."""
    chosen = random.Random(seed)
    decode, good = contenders.CONTENDERS[name]([contenders.event(i, chosen) for i in range(6)])
    columns = [
        {"name": path.replace(".", "_"), "type": kind, "field": path}
        for path, kind in contenders.TYPES.items()
    ]
    spec = {
        "decode__format": decode.format,
        "decode__options": decode.options,
        "decode__columns": columns,
        "decode__timestamp": {"field": "ts"},
        "route__pattern": "dt={date}/{field:country}",
        "output__format": "Parquet",
    }
    return partitioner(f"events {name}", spec), good


@given(st.sampled_from(BINARY), st.data())
def test_of_binary_payloads(name: str, data: st.DataObject) -> None:
    partitions, good = of_events(name, data.draw(st.integers(0, 9)))
    damaged = st.builds(
        lambda body, at, octets: body[:at] + octets + body[at + 1 :],
        st.sampled_from(good),
        st.integers(0, 200),
        st.binary(max_size=2),
    )
    cut = st.builds(lambda body, end: body[:end], damaged, st.integers(0, 200))
    payload = data.draw(st.none() | damaged | cut | st.binary(max_size=12))
    bad = data.draw(st.lists(damaged | cut, min_size=6, max_size=6))

    check(partitions, payload, [good, bad])


def test_an_error_of_avro_does_not_come_from_the_next_payload() -> None:
    """A number that the payload cuts off: its last bytes would be those of the next one."""
    partitions, good = of_events("Avro", 0)

    check(partitions, b"\x80" * 5, [good, [b"\xa8" * 8] * 6])


@pytest.mark.parametrize("is_typed", [True, False])
@given(st.sampled_from(sorted(CHAINS)), st.data())
def test_of_every_transform(is_typed: bool, chain: str, data: st.DataObject) -> None:
    if chain == "sql" and not is_typed:
        return
    spec: dict[str, Any] = {"transforms": CHAINS[chain], "decode__format": "Json"}
    if is_typed:
        columns = [{"name": name, "type": type_} for name, type_ in COLUMNS.items()]
        spec |= {"decode__columns": columns, "output__format": "Parquet"}
    kinds = {
        "s": texts,
        "n": st.integers(-3, 3) | values,
        "d": st.floats(-2, 2) | values,
        "ok": st.booleans() | values,
        "at": st.integers(0, 2**41) | texts,
    }
    rows = st.fixed_dictionaries({}, optional=kinds).map(lambda row: json.dumps(row).encode())
    good = json.dumps({"s": "phone", "n": 2, "d": 1.0, "ok": True, "at": 1763697600000}).encode()
    payload = data.draw(st.none() | rows)
    bad = data.draw(st.lists(rows, min_size=6, max_size=6))

    check(partitioner(f"{chain} {is_typed}", spec), payload, [[good] * 6, bad])
