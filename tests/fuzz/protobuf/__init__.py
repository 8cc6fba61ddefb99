"""Decoder Protobuf beside google.protobuf, on random descriptors and payloads.

Compared are the columns of the message, fields and declared columns, and JSON with what
``reference`` says; and what ptars reads with what is read message by message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf import text_format
from hypothesis import reject
from hypothesis import strategies as st

from landfall.formats.columns import storable
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.protobuf import FixedProtobufDecoder
from landfall.pipeline.records import filled
from tests.fuzz.protobuf.descriptors import descriptor_sets
from tests.fuzz.protobuf.payloads import payloads
from tests.fuzz.protobuf.reference import BadError, Reference, enum_name

Rows = dict[int, Any]
"""What is found in each row that is no dead letter."""


@dataclass(frozen=True)
class Case:
    """Payloads of a message of a set of descriptors."""

    files: Any
    message: str
    payloads: tuple[bytes | None, ...]
    proto_names: bool

    def __repr__(self) -> str:
        """All of it, as one can read it."""
        files = "".join(
            f"\n# {file.name}\n{text_format.MessageToString(file)}"
            for file in self.files.file
            if not file.package.startswith("google.")
        )
        rows = [None if payload is None else payload.hex(" ") for payload in self.payloads]
        return f"{files}message {self.message}, protoNames {self.proto_names}: {rows}"

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def cases(draw: Any) -> Case:
    """A random case."""
    files, name = draw(descriptor_sets())
    try:
        reference = Reference(files, name, proto_names=False)
    except TypeError as error:
        import os

        if os.environ.get("SHOW"):
            print(error, Case(files, name, (), False))
        reject()
    types = {
        each: reference.pool.FindMessageTypeByName(each)
        for file in files.file
        for each in _names(file)
    }
    of_one = payloads(reference.descriptor, types, has_bad_text=draw(st.integers(0, 3)) == 0)
    some = draw(st.lists(st.one_of(of_one, of_one, of_one, st.none()), min_size=1, max_size=6))
    return Case(files, name, tuple(some), draw(st.integers(0, 3)) == 0)


def _names(file: Any) -> list[str]:
    return [f"{file.package}.{message.name}" for message in file.message_type]


CASES = cases()


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    reference = Reference(case.files, case.message, proto_names=case.proto_names)
    return [
        *_check_columns(case, reference),
        *_check_declared(case, reference, with_all=False),
        *_check_declared(case, reference, with_all=True),
        *_check_json(case, reference),
    ]


def _decoder(case: Case, wanted: Wanted) -> FixedProtobufDecoder:
    import base64

    descriptors = base64.b64encode(case.files.SerializeToString()).decode()
    return FixedProtobufDecoder.of(
        {
            "message": case.message,
            "descriptors": descriptors,
            "protoNames": case.proto_names,
        },
        wanted,
    )


def _decode(case: Case, decoder: FixedProtobufDecoder) -> Decoded:
    rows = list(case.payloads)
    decoded = decoder.decode(filled(TopicPartition("t", 0), range(len(rows)), rows))
    assert len(decoded.records) + len(decoded.bad) == len(rows)
    return decoded


def _expected(case: Case, reference: Reference, value: Any, absent: Any) -> Rows:
    found: Rows = {}
    for row, payload in enumerate(case.payloads):
        try:
            found[row] = absent if payload is None else value(reference.message(payload))
        except BadError:
            continue
    return found


def _same(found: Rows, expected: Rows, what: str) -> None:
    # As text, for NaN is not equal to itself.
    assert {row: repr(value) for row, value in found.items()} == {
        row: repr(value) for row, value in expected.items()
    }, what


def _check_columns(case: Case, reference: Reference) -> Sequence[str]:
    if not reference.descriptor.fields:
        return ()
    decoder = _decoder(case, Wanted(columns=True, own_columns=True))
    assert decoder.own is not None
    found, errors = _own_rows(_decode(case, decoder))

    absent = {reference.name(field): None for field in reference.descriptor.fields}
    _same(found, _expected(case, reference, reference.columns, absent), "columns of the message")
    if decoder.own.handler is None:
        return ("columns without ptars",)
    alone = replace(decoder, own=replace(decoder.own, handler=None))
    assert _own_rows(_decode(case, alone)) == (found, errors) or "nan" in repr(found)
    return ("columns with ptars",)


def _own_rows(decoded: Decoded) -> tuple[Rows, dict[int, str]]:
    kept = decoded.records.offsets.tolist()
    rows: Rows = {}
    for part in decoded.by_schema or ():
        assert part.columns is not None
        part.columns.validate(full=True)
        values = _numbers(part.columns)
        rows |= {kept[row]: value for row, value in zip(part.rows.tolist(), values, strict=True)}
    return rows, dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def _numbers(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    arrays = [storable(column, _as_number) for column in batch.columns]
    made: list[dict[str, Any]] = pa.RecordBatch.from_arrays(arrays, batch.schema.names).to_pylist()
    return made


def _as_number(column: pa.Array) -> pa.Array:
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


@dataclass(frozen=True)
class Declared:
    """A declared column, or a field that later stages read."""

    path: tuple[Any, ...]
    arrow: pa.DataType

    def value(self, reference: Reference, message: Any) -> Any:
        """What it is of a message."""
        at = message
        for field in self.path[:-1]:
            if not at.HasField(field.name):
                return None
            at = getattr(at, field.name)
        field = self.path[-1]
        if self.arrow is None:
            return self._json(reference, at)
        if field.has_presence and not at.HasField(field.name):
            return None
        value = getattr(at, field.name)
        if field.enum_type is not None and self.arrow == pa.string():
            return enum_name(field, value)
        return value

    def _json(self, reference: Reference, at: Any) -> Any:
        import json

        found = json.loads(reference.json(at))
        name = reference.json_name(self.path[-1])
        if found.get(name) is None:
            return None
        return json.dumps(found[name], ensure_ascii=False, separators=(",", ":"))


def _declared(reference: Reference, *, with_all: bool) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for path in _paths(reference.descriptor, (), with_all):
        column = _of_field(path, with_all)
        if column is not None:
            found[f"c{len(found)}"] = column
    return found


def _paths(descriptor: Any, outside: tuple[Any, ...], with_all: bool) -> list[tuple[Any, ...]]:
    made = []
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1 and not with_all:
            continue
        made.append((*outside, field))
        is_message = not field.is_repeated and field.message_type is not None
        if is_message and len(outside) < 2 and field.message_type.file.package in {"a", "b"}:
            made += _paths(field.message_type, (*outside, field), with_all)
    return made


def _of_field(path: tuple[Any, ...], with_all: bool) -> Declared | None:
    field = path[-1]
    if field.is_repeated or field.message_type is not None:
        return Declared(path, None) if with_all else None
    by_kind = {1: pa.int64(), 3: pa.int64(), 2: pa.int64(), 5: pa.float64(), 7: pa.bool_()}
    if field.enum_type is not None:
        return Declared(path, pa.string() if len(path) % 2 else pa.int64())
    if field.cpp_type == 9:  # CPPTYPE_STRING, which bytes have, too
        return Declared(path, pa.binary() if field.type == 12 else pa.string())
    arrow = by_kind.get(field.cpp_type)
    return None if arrow is None else Declared(path, arrow)


TYPES = {
    pa.int64(): "Int64", pa.float64(): "Float64", pa.bool_(): "Boolean", pa.string(): "String",
    pa.binary(): "Binary",
}  # fmt: skip


def _check_declared(case: Case, reference: Reference, *, with_all: bool) -> Sequence[str]:
    from landfall.api.spec import Column
    from landfall.pipeline.decoders.typed_columns import schema_of

    declared = _declared(reference, with_all=with_all)
    if not declared:
        return ()
    columns = [
        Column(
            name=name,
            type="Json" if column.arrow is None else TYPES[column.arrow],  # type: ignore[arg-type]  # pydantic converts the text
            field=".".join(map(reference.name, column.path)),
        )
        for name, column in declared.items()
    ]
    decoder = _decoder(case, Wanted(schema=schema_of(columns)))
    found, errors = _declared_rows(_decode(case, decoder))

    def values(message: Any) -> dict[str, Any]:
        return {name: column.value(reference, message) for name, column in declared.items()}

    expected = _expected(case, reference, values, dict.fromkeys(declared))
    _same(found, expected, "declared columns")
    if decoder.batches is None:
        return ("declared columns without ptars",)
    alone = replace(decoder, batches=None)
    assert _declared_rows(_decode(case, alone)) == (found, errors) or "nan" in repr(found)
    return ("declared columns with ptars",)


def _declared_rows(decoded: Decoded) -> tuple[Rows, dict[int, str]]:
    assert decoded.columns is not None
    decoded.columns.validate(full=True)
    rows = dict(zip(decoded.records.offsets.tolist(), decoded.columns.to_pylist(), strict=True))
    return rows, dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def _check_json(case: Case, reference: Reference) -> Sequence[str]:
    decoded = _decode(case, _decoder(case, Wanted(json=True)))

    values = decoded.records.values.to_pylist()
    texts = [None if value is None else value.decode() for value in values]
    found = dict(zip(decoded.records.offsets.tolist(), texts, strict=True))
    expected = _expected(case, reference, reference.json, None)
    _same(found, expected, "JSON")
    return ("JSON",)
