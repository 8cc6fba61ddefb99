"""Envelopes in Protobuf, as Connect's converter writes them: what is not sent is zero, not null."""

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.audit.audited_payloads import AuditedPayloads
from tests.support.audit.auditor_fakes import Message
from tests.support.envelopes import documents, rows

AT = 1_795_233_600_000
TYPES = descriptor_pb2.FieldDescriptorProto
COLUMNS = [
    {"name": "id", "type": "Int64"},
    {"name": "quantity", "type": "Int32"},
    {"name": "note", "type": "String"},
    {"name": "price", "type": "Decimal", "precision": 9, "scale": 2, "encoding": "Base64"},
    {"name": "unit_price", "type": "Float64"},
    {"name": "_op", "type": "String"},
    {"name": "_source_ts", "type": "Timestamp"},
]


def file() -> descriptor_pb2.FileDescriptorProto:
    """The file of the messages; ``note`` has presence, as with ``optional.for.nullables``."""
    made = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    messages: dict[str, list[tuple[str, Any]]] = {
        "Decimal": [("value", TYPES.TYPE_BYTES), ("scale", TYPES.TYPE_INT32)],
        "Key": [("id", TYPES.TYPE_INT64)],
        "Row": [
            ("id", TYPES.TYPE_INT64),
            ("quantity", TYPES.TYPE_INT32),
            ("note", TYPES.TYPE_STRING),
            ("price", "Decimal"),
            ("unit_price", TYPES.TYPE_DOUBLE),
        ],
        "Source": [("connector", TYPES.TYPE_STRING), ("ts_ms", TYPES.TYPE_INT64)],
        "Envelope": [
            ("before", "Row"),
            ("after", "Row"),
            ("source", "Source"),
            ("op", TYPES.TYPE_STRING),
        ],
    }
    for name, fields in messages.items():
        message = made.message_type.add(name=name)
        for number, (field, of) in enumerate(fields, 1):
            one = message.field.add(name=field, number=number, label=TYPES.LABEL_OPTIONAL)
            if isinstance(of, str):
                one.type, one.type_name = TYPES.TYPE_MESSAGE, f".shop.{of}"
            else:
                one.type = of
            if field == "note":
                message.oneof_decl.add(name="_note")
                one.proto3_optional, one.oneof_index = True, 0
    return made


FILE = file()
DESCRIPTORS = base64.b64encode(
    descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
).decode()


def options(message: str) -> dict[str, str]:
    return {"descriptors": DESCRIPTORS, "message": f"shop.{message}"}


VALUES = {"format": "Protobuf", "options": options("Envelope")}
KEY = {"format": "Protobuf", "options": options("Key")}


def encoded(message: str, **fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(FILE)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{message}"))
    content: bytes = kind(**fields).SerializeToString()
    return content


SOURCE = {"connector": "postgresql", "ts_ms": AT}
PRICE = {"value": b"\x30\x39", "scale": 2}
CHANGES = [
    encoded("Envelope", op="c", after={"id": 1, "note": "", "price": PRICE}, source=SOURCE),
    encoded("Envelope", op="u", after={"quantity": 4}, source=SOURCE),
    encoded("Envelope", op="d", source=SOURCE),
    encoded("Envelope", op="t", source=SOURCE),
    None,
]
KEYS = [encoded("Key", id=n) for n in (1, 0, 7, 0, 7)]
TRUNCATED = "debezium: op t: the table was truncated, which names no single rows"


def test_zeros_are_zeros_and_what_has_presence_may_be_null() -> None:
    created, updated, deleted, truncated = rows(
        *CHANGES, keys=KEYS, key=KEY, columns=COLUMNS, **VALUES
    )

    assert (created["id"], created["quantity"], created["note"]) == (1, 0, "")
    assert (str(created["price"]), created["unit_price"], created["_op"]) == ("123.45", 0.0, "c")
    assert created["_source_ts"].timestamp() * 1000 == AT
    assert (updated["id"], updated["quantity"], updated["note"]) == (0, 4, None)
    assert (deleted["id"], deleted["quantity"], deleted["_op"]) == (7, None, "d")
    assert truncated == TRUNCATED


def test_the_key_of_a_deleted_row_may_be_zero() -> None:
    [row] = documents(CHANGES[2], keys=[encoded("Key")], key=KEY, **VALUES)

    assert row == {
        "id": 0,
        "_op": "d",
        "_deleted": True,
        "_source_ts": AT,
        "_source": {"connector": "postgresql", "ts_ms": AT},
    }


def test_an_envelope_without_a_letter_is_bad() -> None:
    [error] = rows(encoded("Envelope", after={"id": 1}), columns=COLUMNS, **VALUES)

    assert error == "debezium: op '' is unknown"


@pytest.mark.parametrize("output", ["Parquet", "Json"])
def test_an_audit_compares_the_rows(output: str, tmp_path: Path) -> None:
    columns = {"columns": COLUMNS} if output == "Parquet" else {}
    messages = [
        Message(offset, value, key, AT + offset)
        for offset, (value, key) in enumerate(zip(CHANGES, KEYS, strict=True))
    ]
    made = AuditedPayloads(
        tmp_path / "root",
        messages,
        decode={**VALUES, "envelope": "Debezium", "key": KEY, **columns},
        output={"format": output},
        badRecords={"maxRatio": "1"},
    )

    findings = made.audit()

    assert (findings.faults, findings.reasons) == ([], {})
