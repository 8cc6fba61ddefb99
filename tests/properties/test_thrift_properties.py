"""Thrift reads what thriftpy2 writes and what Apache Thrift reads, and no other payload."""

import re
from unittest.mock import patch

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.native import HotPath, hot_path
from landfall.pipeline.decoders import Decoded, Decoder, Wanted, thrift
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.examples import share
from tests.support.payloads.damage import damaged
from tests.support.payloads.decoded import as_list, results
from tests.support.payloads.thrift_payloads import IDL, apache_reads, packed

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=6)
METAS = st.fixed_dictionaries({}, optional={"host": TEXTS, "ts": INT64})
FLAT = {
    "id": INT64,
    "user": TEXTS,
    "amount": st.floats(allow_nan=False, allow_infinity=False),
    "ok": st.booleans(),
    "tiny": st.integers(-128, 127),
    "small": st.integers(-(2**15), 2**15 - 1),
    "medium": INT32,
    "color": st.sampled_from([1, 5]),
    "meta": METAS,
    "numbers": st.lists(INT32, max_size=3),
    "far": TEXTS,
}
FULL = {
    **FLAT,
    "tags": st.sets(TEXTS, max_size=2),
    "tree": st.fixed_dictionaries({}, optional={"v": INT32, "inner": st.just({"v": 1})}),
    "by": st.dictionaries(TEXTS, st.lists(st.sampled_from([1, 5]), max_size=2), max_size=2),
}
ROWS = st.one_of(st.fixed_dictionaries({}, optional=FLAT), st.fixed_dictionaries({}, optional=FULL))
PROTOCOLS = st.sampled_from(["Binary", "Compact"])
PATHS = (("id",), ("user",), ("amount",), ("ok",), ("tiny",), ("small",), ("meta", "ts"))
SCHEMA = schema_of(
    [
        *(Column(name=name, type="Int64") for name in ("id", "tiny", "small", "medium")),
        *(Column(name=name, type="String") for name in ("user", "color", "far")),
        Column(name="host", type="String", field="meta.host"),
        Column(name="amount", type="Float64"),
        Column(name="raw", type="Binary"),
    ]
)


def decoder(protocol: str, wanted: Wanted) -> Decoder:
    return ThriftDecoder.of({"idl": IDL, "struct": "Event", "protocol": protocol}, wanted)


def decode(decoder: Decoder, values: list[bytes | None]) -> Decoded:
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


DECODERS = {
    (protocol, kind): decoder(protocol, wanted)
    for protocol in ("Binary", "Compact")
    for kind, wanted in {
        "columns": Wanted(PATHS, SCHEMA),
        "json": Wanted(json=True),
        "nothing": Wanted(),
    }.items()
}


@given(st.lists(ROWS, min_size=1, max_size=8), PROTOCOLS)
def test_fields_are_what_was_written(rows: list[dict[str, object]], protocol: str) -> None:
    got = decode(DECODERS[protocol, "columns"], [packed(row, protocol=protocol) for row in rows])

    flat = [{**row, "ts": (row.get("meta") or {}).get("ts")} for row in rows]  # type: ignore[attr-defined]  # a mapping
    assert [as_list(got.fields[path]) for path in PATHS] == [
        [row.get(path[-1]) for row in flat] for path in PATHS
    ]


@given(st.data(), PROTOCOLS, st.sampled_from(["columns", "json", "nothing"]))
def test_a_row_is_returned_once_and_independently_of_the_others(
    data: st.DataObject, protocol: str, kind: str
) -> None:
    payloads = damaged(ROWS.map(lambda row: packed(row, protocol=protocol)))
    values = data.draw(st.lists(payloads, min_size=1, max_size=8))
    together = decode(DECODERS[protocol, kind], values)

    assert len(together.records) + len(together.bad) == len(values)
    assert results(together) == {
        row: results(decode(DECODERS[protocol, kind], [value]))[0]
        for row, value in enumerate(values)
    }


@pytest.mark.skipif(hot_path().module is None, reason="the extension is not installed")
@given(st.data())
def test_compact_payloads_are_the_same_without_the_extension(data: st.DataObject) -> None:
    payloads = damaged(ROWS.map(lambda row: packed(row, protocol="Compact")))
    values = data.draw(st.lists(payloads, min_size=1, max_size=8))
    native = results(decode(DECODERS["Compact", "columns"], values))

    with patch.object(thrift, "hot_path", lambda: HotPath(None, None, "of the test")):
        assert results(decode(DECODERS["Compact", "columns"], values)) == native


@pytest.mark.skipif(hot_path().module is None, reason="the extension is not installed")
def test_plain_compact_payloads_are_read_together() -> None:
    row = {"id": -(2**63), "user": "é", "amount": 0.1, "ok": False, "tiny": -128, "small": -1}
    row |= {"medium": 2**31 - 1, "color": 5, "meta": {"ts": 9}, "numbers": [-1, 300], "far": "x"}
    values = [packed(row, protocol="Compact"), None, packed({}, protocol="Compact")]

    with patch.object(thrift, "read", side_effect=AssertionError("read one by one")):
        got = decode(DECODERS["Compact", "columns"], values)

    assert not got.bad
    assert [as_list(got.fields[path])[0] for path in PATHS] == [*list(row.values())[:6], 9]


STRICTER = re.compile(r"in place of|do not fit|more than \d+ (bits|levels)|unknown type")
"""Where Apache's reader looks less closely: it trusts types of items, and wraps large numbers."""


@settings(max_examples=share(400))
@given(st.data(), PROTOCOLS)
def test_a_damaged_payload_is_what_apache_makes_of_it(data: st.DataObject, protocol: str) -> None:
    payload = data.draw(damaged(ROWS.map(lambda row: packed(row, protocol=protocol))))
    assume(payload is not None)
    assert payload is not None
    got = decode(DECODERS[protocol, "columns"], [payload])

    try:
        read = apache_reads(payload, "Event", protocol)
    except UnicodeDecodeError:
        return  # Apache looks at all text, also where nobody reads it.
    except Exception:  # noqa: BLE001  # the reader raises whatever it meets
        assert got.bad
        return

    if got.bad:
        assert STRICTER.search(got.bad.errors[0])
        return
    read = {**read, "ts": (read.get("meta") or {}).get("ts")}
    assert [as_list(got.fields[path])[0] for path in PATHS] == [
        read.get(path[-1]) for path in PATHS
    ]


@given(st.lists(ROWS, min_size=1, max_size=4), PROTOCOLS)
def test_json_holds_what_was_written(rows: list[dict[str, object]], protocol: str) -> None:
    got = decode(DECODERS[protocol, "json"], [packed(row, protocol=protocol) for row in rows])

    names = {1: "RED", 5: "BLUE"}
    for row, value in zip(rows, got.records.values.to_pylist(), strict=True):
        written = dict(row)
        if "color" in written:
            written["color"] = names[written["color"]]  # type: ignore[index]  # a number
        if "by" in written:
            written["by"] = {
                key: [names[each] for each in inner] for key, inner in row["by"].items()
            }  # type: ignore[attr-defined]  # a mapping
        read = orjson.loads(value)
        if "tags" in written:
            written["tags"], read["tags"] = sorted(row["tags"]), sorted(read["tags"])  # type: ignore[call-overload]  # a set
        assert read == written
