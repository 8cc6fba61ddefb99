"""The expected rows of a group, by its group file: columns, or JSON made of payloads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from landfall_audit.payloads import (
    BadPayload,
    ExpectedRows,
    Path,
    Schemas,
    SourceRecord,
    Undecided,
    avro,
    envelopes,
    json_documents,
    messagepack,
    of_json,
    option_files,
    text_documents,
    typed_values,
)
from landfall_audit.spec import AuditedSpec, ColumnSection, ColumnTypeName, DecodeSection

Document: TypeAlias = Mapping[Any, Any]
_MAGIC = b"\0"
_SCHEMA_ID_BYTES = 5
_SCHEMAS_KEPT = 1000


_JSON_LIKE = {ColumnTypeName.JSON, ColumnTypeName.LIST, ColumnTypeName.STRUCT}


@dataclass(frozen=True)
class Payloads:
    """How payloads, or keys, are read.

    Attributes:
        document: the fields of a payload. Raises BadPayload and Undecided.
        is_text: whether values are text, in the grammar of text.
        names: the names of the fields, if they are columns of text: then paths are names.
        json_value: makes a value what is written of it as JSON.
        adapted: makes a value what a column of a type reads of it.
        cannot: types of columns for which there is no rule.
    """

    document: Callable[[bytes], Document]
    is_text: bool = False
    names: Sequence[str] | None = None
    json_value: Callable[[Any], Any] = lambda value: value
    adapted: Callable[[ColumnSection, Any], Any] = lambda _, value: value
    cannot: frozenset[ColumnTypeName] = frozenset()

    def find(self, document: Document, path: Path) -> Any:
        """The value at a path; None if it is absent."""
        if self.names is not None:
            return document.get(".".join(path))
        found: Any = document
        for name in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found


def columns(spec: AuditedSpec, schemas: Schemas) -> ExpectedRows:
    """Return the expected rows with declared columns.

    Raises:
        Undecided: no column can be compared.
    """
    decode = spec.decode
    unchecked: dict[str, str] = {}
    if decode.envelope is not None:
        row_of = _rows_in_envelopes(decode, schemas)
        parts = [_of_documents(Payloads(_no_bytes), decode.payload_columns(), row_of)]
    else:
        of_value = _payloads_or_why(decode, schemas)
        parts = [
            _of_payloads(of_value, decode.payload_columns(), lambda source: source.value, unchecked)
        ]
    if decode.key is not None:
        declared = decode.key_columns()
        of_key = _payloads_or_why(_of_keys(decode), schemas)
        parts.append(_of_payloads(of_key, declared, lambda source: source.key, unchecked))
    parts.append(lambda source: _of_headers(decode.typed_headers(), source))
    names = {column.name for column in decode.columns}

    def of(source: SourceRecord) -> object:
        found = dict(pair for part in parts for pair in part(source).items())
        return tuple(sorted(found.items()))

    if names and names <= unchecked.keys():
        raise Undecided(next(iter(unchecked.values())))
    return ExpectedRows(of, unchecked)


def json_rows(spec: AuditedSpec, schemas: Schemas) -> ExpectedRows:
    """Return the expected rows of JSON that is made of payloads.

    Raises:
        Undecided: there is no decoder.
    """
    if spec.decode.envelope is not None:
        row_of = _rows_in_envelopes(spec.decode, schemas)
        return ExpectedRows(lambda source: of_json(row_of(source)), {})
    if spec.decode.format in _FINDERS:
        find = _FINDERS[spec.decode.format](spec.decode, schemas)
        what = "as_common_json" if spec.decode.is_common else "as_json"
        return ExpectedRows(lambda s: None if s.value is None else _apply(find, what, s.value), {})
    payloads = payloads_of(spec.decode, schemas)

    def of(source: SourceRecord) -> object:
        if source.value is None:
            return None
        return of_json(payloads.json_value(payloads.document(source.value)))

    return ExpectedRows(of, {})


def opened(spec: AuditedSpec, schemas: Schemas) -> Callable[[SourceRecord], Document] | None:
    """Return what makes the row of a record in an envelope; None without one, or a decoder."""
    if spec.decode.envelope is None:
        return None
    try:
        return _rows_in_envelopes(spec.decode, schemas)
    except Undecided:
        return None


def schema_columns(spec: AuditedSpec, schemas: Schemas) -> ExpectedRows:
    """Return the expected rows with the columns of the payloads' schema.

    Raises:
        Undecided: there is no decoder.
    """
    if spec.decode.format not in _FINDERS:
        raise Undecided(f"columns of the schemas of {spec.decode.format}")
    find = _FINDERS[spec.decode.format](spec.decode, schemas)

    def of(source: SourceRecord) -> object:
        if source.value is None:
            raise Undecided("tombstones, in columns of a schema")
        return _apply(find, "columns", source.value)

    return ExpectedRows(of, {})


Find: TypeAlias = Callable[[bytes], tuple[Any, bytes]]
"""Finds the schema's reader for a payload, and the bytes after the schema's id."""


def _apply(find: Find, what: str, payload: bytes) -> Any:
    schema, body = find(payload)
    return getattr(schema, what)(body)


def _avro(decode: DecodeSection, schemas: Schemas) -> Find:
    """Return the function that finds the schema of a payload.

    Raises:
        Undecided: payloads are read as another schema than they were written by.
    """
    options = decode.options
    as_written = options.get("readerSchema", "Writer") == "Writer"
    if not as_written or "maxPrecision" in options or options.get("connectTypes"):
        raise Undecided("Avro that is read otherwise than it was written")
    if decode.registry is None:
        schema = _fixed_schema(options)
        return lambda payload: (schema, payload)
    if options.get("schemaId") == "Header":
        raise Undecided("ids of schemas in record headers")
    return _by_id(decode.registry.urls[0], schemas)


def _fixed_schema(options: Mapping[str, object]) -> avro.AvroPayloads:
    if isinstance(text := options.get("schema"), str):
        return avro.AvroPayloads.of_text(text)
    if "schemaFile" in options:
        return avro.AvroPayloads.of_text(option_files.content(options, "schemaFile").decode())
    raise Undecided("Avro without a schema")


def _by_id(registry: str, schemas: Schemas) -> Find:
    @lru_cache(_SCHEMAS_KEPT)
    def of_id(schema_id: int) -> avro.AvroPayloads:
        stored = schemas.find(registry, schema_id)
        return avro.AvroPayloads.of_text(stored.text, [text for _, text in stored.references])

    def find(payload: bytes) -> tuple[avro.AvroPayloads, bytes]:
        if not payload.startswith(_MAGIC) or len(payload) < _SCHEMA_ID_BYTES:
            raise BadPayload("avro: no id of a schema")
        number = int.from_bytes(payload[1:5], "big", signed=True)
        if number < 0:
            raise BadPayload("avro: no id of a schema")
        return of_id(number), payload[_SCHEMA_ID_BYTES:]

    return find


def _protobuf(decode: DecodeSection, schemas: Schemas) -> Find:
    """Return the finder of a payload's message type, by the libraries of the extra ``protobuf``."""
    from landfall_audit.payloads.protobuf import finder  # noqa: PLC0415

    return finder(decode, schemas)


_FINDERS: Mapping[str, Callable[[DecodeSection, Schemas], Find]] = {
    "Avro": _avro,
    "Protobuf": _protobuf,
}
"""The decoders whose payloads have schemas."""


def payloads_of(decode: DecodeSection, schemas: Schemas) -> Payloads:
    """How payloads are read.

    Raises:
        Undecided: there is no decoder.
    """
    make = _DECODERS.get(decode.format)
    if make is None:
        raise Undecided(f"the auditor has no decoder for {decode.format}")
    return make(decode, schemas)


def _of_text(
    read: Callable[[Mapping[str, object]], tuple[text_documents.Document, Sequence[str]]],
) -> Callable[[DecodeSection, Schemas], Payloads]:
    def make(decode: DecodeSection, _: Schemas) -> Payloads:
        document, names = read(decode.options)
        return Payloads(document, is_text=True, names=names)

    return make


def _of_avro(decode: DecodeSection, schemas: Schemas) -> Payloads:
    find = _avro(decode, schemas)
    return Payloads(
        lambda payload: _apply(find, "document", payload),
        adapted=avro.adapted,
        cannot=frozenset(_JSON_LIKE),
    )


def _of_protobuf(decode: DecodeSection, schemas: Schemas) -> Payloads:
    from landfall_audit.payloads.protobuf import adapted  # noqa: PLC0415

    find = _protobuf(decode, schemas)
    return Payloads(
        lambda payload: _apply(find, "document", payload),
        adapted=adapted,
        cannot=frozenset(_JSON_LIKE),
    )


def _registered(
    decode: DecodeSection, document: Callable[[bytes], Document]
) -> Callable[[bytes], Document]:
    """Reads what comes after the id of a schema, if there is one."""
    if decode.registry is None:
        return document
    if decode.options.get("schemaId") == "Header":
        raise Undecided("ids of schemas in record headers")

    def after_id(payload: bytes) -> Document:
        if not payload.startswith(_MAGIC) or len(payload) < _SCHEMA_ID_BYTES:
            raise BadPayload("no id of a schema")
        return document(payload[_SCHEMA_ID_BYTES:])

    return after_id


_DECODERS: Mapping[str, Callable[[DecodeSection, Schemas], Payloads]] = {
    "Json": lambda _, __: Payloads(json_documents.document),
    "JsonSchema": lambda decode, _: Payloads(_registered(decode, json_documents.document)),
    "Csv": _of_text(text_documents.csv),
    "Delimited": _of_text(text_documents.delimited),
    "Regex": _of_text(text_documents.regex),
    "MessagePack": lambda decode, _: Payloads(
        messagepack.document,
        json_value=messagepack.common_json_value if decode.is_common else messagepack.json_value,
    ),
    "Avro": _of_avro,
    "Protobuf": _of_protobuf,
}
"""How payloads of each decoder are read."""


def _of_keys(decode: DecodeSection) -> DecodeSection:
    """How keys are decoded, as if they were payloads."""
    assert decode.key is not None, "the group decodes keys"
    made = DecodeSection.model_validate(decode.key.model_dump(include={"format", "options"}))
    registry = decode.key.registry or decode.registry
    return made.model_copy(update={"registry": registry, "values": decode.values})


def _no_bytes(_: bytes) -> Document:
    raise Undecided("rows of envelopes are made of whole records")


def _rows_in_envelopes(
    decode: DecodeSection, schemas: Schemas
) -> Callable[[SourceRecord], Document]:
    """Return what makes the row of a record.

    Raises:
        Undecided: there is no decoder.
    """
    open_ = envelopes.opener(decode)
    value_of = _objects(decode, schemas)
    key_of = None if decode.key is None else _objects(_of_keys(decode), schemas)

    def of(source: SourceRecord) -> Document:
        def key() -> Document | None:
            assert key_of is not None, "asked for with keys alone"
            return None if source.key is None else key_of(source.key)

        value = None if source.value is None else value_of(source.value)
        return open_(value, None if key_of is None else key)

    return of


def _objects(decode: DecodeSection, schemas: Schemas) -> Callable[[bytes], Document]:
    """Return what makes an object with common values of a payload. Raises Undecided likewise."""
    if decode.format == "Protobuf":
        options = {"protoNames": True, **decode.options}
        find = _protobuf(decode.model_copy(update={"options": options}), schemas)
        return lambda payload: _apply(find, "plain", payload)
    if decode.format not in {"Json", "JsonSchema"}:
        raise Undecided(f"envelopes in {decode.format}")
    return payloads_of(decode, schemas).document


def _payloads_or_why(decode: DecodeSection, schemas: Schemas) -> Payloads | str:
    try:
        return payloads_of(decode, schemas)
    except Undecided as undecided:
        return str(undecided)


def _of_payloads(
    payloads: Payloads | str,
    declared: Sequence[ColumnSection],
    payload_of: Callable[[SourceRecord], bytes | None],
    unchecked: dict[str, str],
) -> Callable[[SourceRecord], Mapping[str, object]]:
    """Makes the columns of payloads or keys; adds uncompared columns to ``unchecked``."""
    if isinstance(payloads, str):
        unchecked |= dict.fromkeys((column.name for column in declared), payloads)
        return lambda _: {}
    for column in declared:
        if column.type in payloads.cannot:
            unchecked[column.name] = f"the auditor makes no {column.type} of such payloads"
    compared = [column for column in declared if column.name not in unchecked]

    def document_of(source: SourceRecord) -> Document:
        payload = payload_of(source)
        return {} if payload is None else payloads.document(payload)

    return _of_documents(payloads, compared, document_of)


def _of_documents(
    payloads: Payloads,
    declared: Sequence[ColumnSection],
    document_of: Callable[[SourceRecord], Document],
) -> Callable[[SourceRecord], Mapping[str, object]]:
    """Makes the columns of documents, which ``payloads`` finds values in."""

    def of(source: SourceRecord) -> Mapping[str, object]:
        document = document_of(source)
        found = {}
        for column in declared:
            value = payloads.adapted(column, payloads.find(document, column.path))
            if column.type in _JSON_LIKE:
                value = payloads.json_value(value)
            found[column.name] = typed_values.column(column, value, is_text=payloads.is_text)
        return found

    return of


def _of_headers(declared: Sequence[ColumnSection], source: SourceRecord) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for column in declared:
        name = ".".join(column.path)
        values = [value for key, value in source.headers if key == name]
        value = values[-1] if values else None
        if column.type is ColumnTypeName.BINARY:
            found[column.name] = typed_values.column(column, value, is_text=False)
        else:
            text = None if value is None else _utf8(column.name, value)
            found[column.name] = typed_values.column(column, text, is_text=True)
    return found


def _utf8(column: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadPayload(f"column {column}: not UTF-8") from None
