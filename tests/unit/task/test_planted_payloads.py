"""What a bad payload holds is in its dead letter, and in nothing else that is said about it.

``tests/integration/test_planted_secrets.py`` searches what a whole driver logs and serves.
"""

import io
import json
import logging
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgpack
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import ColumnType
from landfall.errors import Reason, Stalled
from landfall.ledger import Commit, Header, encode
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.logs import JsonFormatter, TextFormatter
from landfall.pipeline.decoders import Decoded
from landfall.store.memory import MemoryStore
from landfall.task.landing import _as_landfall_error
from tests.support.driver.slice_landing import SLICE, content, land_rows
from tests.support.payloads.avro import encoded
from tests.support.payloads.ways import AVRO, COLUMNS, WAYS

SSN = "078-05-1120"
HEADER = Header(3, "", 1, "w", "2026-11-21T00:00:00Z", -1)
DATED: dict[str, object] = {"route": {"pattern": "dt={date}"}}
ANN = {"id": 1, "who": SSN, "amount": 0.5, "ok": True}


class Indiscreet:
    """A transform of a user: it rejects a record, or fails, and quotes the payload."""

    fields = ()

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Indiscreet":
        return cls(fails=bool(options.get("fails")))

    def apply(self, decoded: Decoded) -> Decoded:
        if self._fails:
            try:
                dict[str, str]()[SSN]
            except KeyError as error:
                raise ValueError(f"cast: {SSN}: expected Int64") from error
        return decoded.reject(dict.fromkeys(range(len(decoded.records)), f"{SSN}: column {SSN}"))


def indiscreet(decoded: Decoded) -> Decoded:
    return Indiscreet(fails=False).apply(decoded)


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("indiscreet_plugin")
    module.Indiscreet = Indiscreet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "indiscreet_plugin", module)


def typed(type_: str, /, **more: object) -> list[dict[str, object]]:
    return [{"name": "n", "type": type_, **more}]


def step(use: str, /, **options: object) -> dict[str, object]:
    return {"transforms": [{"use": use, "options": options}]}


def decode(format_: str, columns: object = (), /, **options: object) -> dict[str, object]:
    return {"format": format_, "columns": columns, "options": options}


Case = tuple[str, dict[str, object], dict[str, object], bytes]
"""A name, ``spec.decode``, more of the spec, and a payload."""
N = json.dumps({"n": SSN}).encode()
NESTED: dict[str, dict[str, Any]] = {
    "List": {"items": {"type": "Int64"}},
    "Struct": {"fields": [{"name": SSN, "type": "Int64"}]},
    "Decimal": {"precision": 9, "scale": 2},
}
OF_TYPE: list[Case] = [
    (f"a {format_} for {t}", decode(format_, typed(t, **NESTED.get(t, {})), **options), {}, payload)
    for t in ColumnType
    for format_, options, payload in (
        ("Json", {}, json.dumps({"n": [SSN] if t in {"String", "Binary"} else SSN}).encode()),
        ("Csv", {"columns": ["n"]}, SSN.encode()),
        ("MessagePack", {}, msgpack.packb({"n": [SSN] if t == "String" else SSN})),
    )
    if t != "Json" and (format_ != "Csv" or t not in {"String", "List", "Struct"})
    if (format_, t) not in {("MessagePack", "Binary"), ("Csv", "Binary")}
]
"""A value that is none of its type, for each type, decoded in three ways."""
JSON = decode("Json")
STRING = decode("Json", typed("String"))
BAD: list[Case] = [
    *OF_TYPE,
    *(
        (
            f"cut-off {format_}",
            decode(format_, COLUMNS if way.has_columns else (), **way.options),
            {},
            SSN.encode() + b"|" + way.encode(ANN)[:-3] + b"\xff",
        )
        for format_, ways in WAYS.items()
        for way in ways[:1]
        if format_ != "Raw"
    ),
    ("no Json", JSON, {}, f'{{"n": {SSN} }}'.encode()),
    ("twice", JSON, step("Rename", n="m"), f'{{"{SSN}": '.encode()),
    ("no Regex", decode("Regex", pattern="(?P<n>[a-z]+)"), {}, SSN.encode()),
    ("two values", decode("Csv", columns=["n", "m", "o"]), {}, f"{SSN},{SSN}".encode()),
    ("a quote", decode("Csv", columns=["n", "m"]), {}, f'{SSN},"{SSN}'.encode()),
    ("Avro", decode("Avro", schema=json.dumps(AVRO)), {}, encoded(AVRO, ANN)[:9]),
    ("event time", {**JSON, "timestamp": {"field": "n"}}, DATED, N),
    (
        "custom time",
        {**JSON, "timestamp": {"field": "n", "unit": "Custom", "format": "%d/%b/%Y"}},
        DATED,
        N,
    ),
    (
        "yearless",
        {**JSON, "timestamp": {"field": "n", "unit": "Custom", "format": "%b %d"}},
        DATED,
        N,
    ),
    ("Cast", JSON, step("Cast", n="Int64"), N),
    ("Cast a column", STRING, step("Cast", n="Int64"), N),
    ("Cast a time", STRING, step("Cast", n="Timestamp"), N),
    ("Cast a decimal", JSON, step("Cast", n={"type": "Decimal", "precision": 5}), N),
    ("Mask", JSON, step("Mask", fields=["n"]), f"[{SSN!r}]".encode()),
    ("Flatten", JSON, step("Flatten"), f'{{"{SSN}": {{"a": 1}}, "{SSN}_a": 2}}'.encode()),
    ("Set", JSON, step("Set", **{"n.m": "x"}), N),
    ("Sql", STRING, step("Sql", query="SELECT n::INT AS n FROM records"), N),
    (
        "route",
        {"format": "Json"},
        {"route": {"pattern": "a={field:n}"}},
        json.dumps({"n": [SSN]}).encode(),
    ),
    (
        "long route",
        {"format": "Json"},
        {"route": {"pattern": "a={field:n}"}},
        json.dumps({"n": SSN * 200}).encode(),
    ),
    ("a line break", decode("Raw"), {"output": {"url": "s3://b", "format": "Text"}}, b"a\n" + N),
    ("own step", JSON, {"transforms": [{"use": "indiscreet_plugin:Indiscreet"}]}, N),
    (
        "own step fails",
        JSON,
        {"transforms": [{"use": "indiscreet_plugin:Indiscreet", "options": {"fails": True}}]},
        N,
    ),
]


def spec_of(decoder: object, more: Mapping[str, object], policy: str) -> dict[str, Any]:
    return {
        "decode": decoder,
        "route": {"pattern": "all"},
        "badRecords": {"policy": policy},
        **more,
    }


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """The log of this test, as pods write it."""
    formatters = (JsonFormatter(), TextFormatter())
    return "\n".join(f.format(record) for f in formatters for record in caplog.records)


@pytest.mark.parametrize(("_", "decoder", "more", "payload"), BAD, ids=[each[0] for each in BAD])
def test_a_payload_is_in_its_dead_letter_only(
    _: str, decoder: object, more: dict[str, object], payload: bytes, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    store = MemoryStore()

    result = land_rows([(150, payload)], store, **spec_of(decoder, more, "DeadLetter"))
    stopped = land_rows([(150, payload)], MemoryStore(), **spec_of(decoder, more, "Fail"))

    assert isinstance(result, LandedSlice), result
    assert isinstance(stopped, FailedSlice)
    assert isinstance(stopped.error, Stalled)
    assert stopped.error.reason is Reason.BAD_RECORDS
    (key, body), *data = content(result, store).items()
    assert ("/dead-letters/" in key, data) == (True, [])
    (letter,) = pq.read_table(io.BytesIO(body)).to_pylist()
    assert (letter["offset"], letter["value"]) == (150, payload)
    commit = encode(Commit(header=HEADER, token="token", slices=(result,)))
    public = [*result.errors, commit.decode(), str(stopped.error), logged(caplog)]
    assert [part for part in ("078-", "-1120") if any(part in text for text in public)] == []
    assert result.errors[0].startswith(f"offset 150: {letter['stage']}")
    assert str(stopped.error).endswith(f"{result.errors[0]}; landfall try shows its value")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("a Json for Int64", "decode: json: column n: expected Int64"),
        ("a Csv for Timestamp", "decode: column n: expected Timestamp"),
        ("a Csv for Decimal", "decode: column n: expected Decimal(9,2)"),
        ("a MessagePack for Struct", "decode: column n: expected Struct"),
        ("Cast", "transform: cast: n: expected Int64"),
        ("Sql", "transform: sql"),
        ("event time", "route: timestamp: expected a number or ISO-8601 text"),
        ("no Json", "decode: json"),
        ("own step", "transform"),
    ],
)
def test_what_everyone_may_read_says_what_was_expected(case: str, reason: str) -> None:
    ((_, decoder, more, payload),) = (each for each in BAD if each[0] == case)

    result = land_rows([(150, payload)], MemoryStore(), **spec_of(decoder, more, "DeadLetter"))

    assert isinstance(result, LandedSlice)
    assert result.errors == (f"offset 150: {reason}",)


def test_an_unexpected_error_is_its_kind_and_place(caplog: pytest.LogCaptureFixture) -> None:
    try:
        Indiscreet(fails=True).apply(None)  # type: ignore[arg-type]
    except ValueError as found:
        error = _as_landfall_error(found, SLICE)

    assert "unexpected ValueError at task/test_planted_payloads.py:" in str(error)
    assert "ValueError, raised in\n" in logged(caplog).replace("\\n", "\n")
    assert "after KeyError, raised in" in logged(caplog)
    assert "test_planted_payloads.py:" in logged(caplog)
    assert SSN not in str(error) + logged(caplog)


def test_an_error_of_the_system_says_what_it_is() -> None:
    error = _as_landfall_error(OSError(28, SSN), SLICE)

    assert str(error) == f"{SLICE}: unexpected OSError: No space left on device"
