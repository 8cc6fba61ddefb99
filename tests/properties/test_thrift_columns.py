"""Whole Thrift structs as columns: what thriftpy2 wrote, and what reading one by one finds."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.row_schemas import SCHEMA_NAME
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.pipeline.records import filled
from tests.properties.test_thrift_properties import FLAT, FULL, METAS
from tests.support.payloads.damage import damaged
from tests.support.payloads.thrift_payloads import IDL, packed

# Without containers and types inside themselves, so that cursors read it.
PLAIN_IDL = IDL[: IDL.index("10: Meta meta,")] + "10: Meta meta, 300: string far\n}\n"
WANTED = Wanted((SCHEMA_NAME,), columns=True, own_columns=True)
PLAIN = {name: values for name, values in FLAT.items() if name != "numbers"}
ROWS = st.fixed_dictionaries({}, optional={**PLAIN, "meta": METAS})
FULL_ROWS = st.fixed_dictionaries({}, optional=FULL)
NAMES = ["id", "user", "amount", "ok", "tiny", "small", "medium", "raw", "color", "meta", "far"]
COLORS = {1: "RED", 5: "BLUE"}


def decode(idl: str, protocol: str, values: list[bytes | None]) -> Decoded:
    decoder = ThriftDecoder.of({"idl": idl, "struct": "Event", "protocol": protocol}, WANTED)
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    if not decoded.by_schema:
        return []
    (found,) = decoded.by_schema
    assert found.columns is not None
    found.columns.validate(full=True)
    assert found.rows.tolist() == list(range(len(decoded.records)))
    made: list[dict[str, Any]] = found.columns.to_pylist()
    return made


def expected(values: dict[str, Any]) -> dict[str, Any]:
    """The columns of the plain fields."""
    made = {name: values.get(name) for name in NAMES}
    if made["color"] is not None:
        made["color"] = COLORS[made["color"]]
    if made["meta"] is not None:
        made["meta"] = {"host": None, "ts": None, **made["meta"]}
    return made


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_columns_are_what_was_written(values: list[dict[str, Any]]) -> None:
    for protocol in ("Binary", "Compact"):
        payloads: list[bytes | None] = [packed(each, protocol=protocol) for each in values]

        decoded = decode(PLAIN_IDL, protocol, [*payloads, None])

        assert rows(decoded) == [*map(expected, values), dict.fromkeys(NAMES)]
        assert decoded.fields[SCHEMA_NAME].to_pylist()[0] == "Event"  # type: ignore[union-attr]  # an Arrow array


@given(st.lists(damaged(ROWS.map(packed)), min_size=1, max_size=6))
def test_cursors_find_what_reading_one_by_one_finds(payloads: list[bytes | None]) -> None:
    by_cursor = ThriftDecoder.of({"idl": PLAIN_IDL, "struct": "Event"}, WANTED)
    # JSON makes the same decoder read one by one.
    alone = ThriftDecoder.of({"idl": PLAIN_IDL, "struct": "Event"}, Wanted(json=True))
    records = filled(TopicPartition("t", 0), range(len(payloads)), payloads)

    found, one_by_one = by_cursor.decode(records), alone.decode(records)

    assert found.bad.rows.tolist() == one_by_one.bad.rows.tolist()
    objects = [
        None if v is None else orjson.loads(v) for v in one_by_one.records.values.to_pylist()
    ]
    for row, object_ in zip(rows(found), objects, strict=True):
        for name in ("id", "user", "ok", "tiny", "small", "medium", "far"):
            assert row[name] == (object_ or {}).get(name)
        assert (row["meta"] is None) == ("meta" not in (object_ or {}))


@given(st.lists(FULL_ROWS, min_size=1, max_size=4), st.sampled_from(["Binary", "Compact"]))
def test_containers_and_recursive_structs_are_kept(
    values: list[dict[str, Any]], protocol: str
) -> None:
    found = rows(decode(IDL, protocol, [packed(each, protocol=protocol) for each in values]))

    for row, each in zip(found, values, strict=True):
        assert {name: row[name] for name in NAMES} == expected(each)
        assert row["numbers"] == each.get("numbers")
        by = each.get("by")
        in_map = None if row["by"] is None else dict(row["by"])
        assert in_map == (
            None if by is None else {k: [COLORS[c] for c in v] for k, v in by.items()}
        )
        assert row["tags"] is None if each.get("tags") is None else set(row["tags"]) == each["tags"]
        tree = each.get("tree")
        if tree is None:
            assert row["tree"] is None
        else:
            inner = tree.get("inner")
            as_json = None if inner is None else orjson.dumps(inner).decode()
            assert row["tree"] == {"v": tree.get("v"), "inner": as_json, "kids": None}
