"""The auditor opens envelopes as the writer does, also those that are broken in any way."""

import copy
import importlib
import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from landfall.api.spec import parse_group
from landfall_audit.payloads import AuditLeftOut, BadPayload, SourceRecord, Undecided
from landfall_audit.payloads.expected import json_rows
from landfall_audit.payloads.landed import json_form
from landfall_audit.spec import AuditedSpec
from tests.support.audit.auditor_fakes import Message
from tests.support.audit.routes import assert_routed_alike
from tests.support.envelopes import decoded
from tests.support.kubernetes.groups import document

example: Any = importlib.import_module("examples.cdc.changes")
KEY = {"format": "Json"}
FIELDS: dict[str, Any] = {
    "op": "type",
    "insert": ["insert"],
    "update": ["update", "5"],
    "delete": ["delete"],
    "skip": ["x"],
    "row": "data",
    "before": "old",
    "key": "pk",
    "timestamp": "ts",
    "unit": "Nanoseconds",
}
DECODES: dict[str, dict[str, Any]] = {
    **{name: {"envelope": "Debezium", "key": KEY} for name in ("postgres", "mysql", "mongodb")},
    "sqlserver": {"envelope": "Debezium"},
    "flattened": {"envelope": "DebeziumFlattened", "key": KEY},
    "maxwell": {"envelope": "Maxwell", "key": KEY},
    "canal": {"envelope": "Canal"},
}
SINGLE = st.sampled_from(
    [
        *(None, True, 0, -5, 1.5, 10**18, "", "x", "5", "c", "d", "u", "insert", "DELETE"),
        *("__debezium_unavailable_value", '{"_id": {"$oid": "1"}}', '{"$numberLong": "7"}', "[]"),
        *('{"_id": NaN, "v": [-Infinity, 0.10]}', '{"_id": "NaN\\ud83d"}', '{"_id": Infinity'),
    ]
)
VALUES = st.recursive(
    SINGLE,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "note", "_op", "$numberLong", "updatedFields", "payload"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=4,
)
RECORDS = {source: [*example.records(source)] for source in DECODES}


@st.composite
def records(draw: st.DrawFn, source: str) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record some of whose members are replaced, or gone."""
    key, value = copy.deepcopy(draw(st.sampled_from(RECORDS[source])))
    for _ in range(draw(st.integers(0, 2))):
        value = changed(draw, value)
    if draw(st.integers(0, 3)) == 0:
        key = draw(VALUES)
    return as_json(key), as_json(value)


def changed(draw: st.DrawFn, value: Any) -> Any:
    """A value with something else in a place."""
    if not isinstance(value, dict) or not value or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    name = draw(st.sampled_from([*value, "updateDescription", "pk", "old", "payload"]))
    if draw(st.booleans()) and isinstance(value.get(name), dict):
        return {**value, name: changed(draw, value[name])}
    if draw(st.booleans()):
        return {of: inner for of, inner in value.items() if of != name}
    return {**value, name: draw(VALUES)}


def as_json(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def of_writer(decode: dict[str, Any], key: bytes | None, value: bytes | None) -> object:
    """The row that the writer lands, or what else it does with the record."""
    found = decoded([value], [key], "Json", **decode)
    if found.filtered:
        return "left out"
    return "bad" if len(found.bad) else json_form(found.records.values[0].as_py())


def of_auditor(decode: dict[str, Any], key: bytes | None, value: bytes | None) -> object:
    """Return what the auditor expects."""
    spec = AuditedSpec.model_validate(
        {
            "source": {"kafka": {"bootstrapServers": "k:9092", "topics": ["t"]}},
            "decode": {"format": "Json", **decode},
            "output": {"url": "file:///tmp/out", "format": "Json"},
        }
    )
    try:
        return json_rows(spec, None).of(SourceRecord(value, key, (), 0))  # type: ignore[arg-type]  # none is asked
    except AuditLeftOut:
        return "left out"
    except BadPayload:
        return "bad"
    except Undecided:
        assume(False)
        raise


@given(st.data(), st.sampled_from([*DECODES]), st.booleans())
def test_both_make_the_same_of_any_record(data: st.DataObject, source: str, is_plain: bool) -> None:
    key, value = data.draw(records(source))
    described = {"envelope": "Fields", "envelopeFields": FIELDS, "key": KEY}
    decode = described if is_plain and source == "maxwell" else DECODES[source]

    assert of_writer(decode, key, value) == of_auditor(decode, key, value)


PATTERNS = [
    "dt={date}/op={field:_op}",
    "{field:_deleted}/{field:id}/{field:note}",
    "{field:_source.ts_ms}/hr={hour}",
    "{field:quantity}",
    "all",
]
TIMES: list[dict[str, Any]] = [
    {},
    {"timestamp": {"field": "_source_ts"}},
    {"timestamp": {"field": "_source_ts", "unit": "Milliseconds", "missing": "KafkaTimestamp"}},
    {"timestamp": {"field": "id", "missing": "Epoch"}},
]


@given(st.data(), st.sampled_from([*DECODES]), st.sampled_from(PATTERNS), st.sampled_from(TIMES))
def test_both_choose_the_same_output_partition(
    data: st.DataObject, source: str, pattern: str, timestamp: dict[str, Any]
) -> None:
    key, value = data.draw(records(source))
    made = parse_group(
        document(
            "cdc",
            decode={"format": "Json", **timestamp, **DECODES[source]},
            route={"pattern": pattern},
            output={"url": "file:///tmp/out", "format": "Json"},
        )
    )

    assert_routed_alike(made.spec, [Message(7, value, key, timestamp_ms=1_795_233_600_001)])


def test_most_of_what_is_compared_is_landed() -> None:
    landed = 0
    for source, decode in DECODES.items():
        made = parse_group(
            document(
                "cdc",
                decode={"format": "Json", **decode},
                route={"pattern": "dt={date}/op={field:_op}"},
                output={"url": "file:///tmp/out", "format": "Json"},
            )
        )
        found = [
            Message(number, as_json(value), as_json(key), timestamp_ms=1_795_233_600_001)
            for number, (key, value) in enumerate(RECORDS[source])
        ]
        landed += assert_routed_alike(made.spec, found)

    assert landed >= len(DECODES) * example.CHANGES
