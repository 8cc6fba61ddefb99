"""The sections ``spec.decode`` and ``spec.transforms``: how a payload becomes columns."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef, distinct
from landfall.api.values import (
    Duration,
    MappedSettings,
    Name,
    Settings,
    TimeFormat,
    TimeZone,
    built_in,
    matching,
)

_MAPPING = {"type": "object", "additionalProperties": True}
_ANY_MAPPING = WithJsonSchema(_MAPPING)
_ANY_MAPPINGS = WithJsonSchema({"type": "array", "items": _MAPPING})
"""A structural schema has no recursion: what is inside of lists and structs is left to the model.
"""
_PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f]+')


def is_yearless(time_format: str) -> bool:
    """Return whether a strptime format gives a date without its year."""
    return not set(re.findall(r"%(.)", time_format, re.DOTALL)) & set("YyGcx")


class TimeUnit(StrEnum):
    """How the timestamp field of a payload encodes the time."""

    AUTO = "Auto"
    """The magnitude of a number selects its unit, by Secor's rule. Text is parsed as ISO 8601, and
    text of digits only as a number.
    """
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"
    ISO8601 = "Iso8601"
    CUSTOM = "Custom"


class MissingTimestamp(StrEnum):
    """The treatment of a record whose timestamp field is absent or null."""

    DEAD_LETTER = "DeadLetter"
    KAFKA_TIMESTAMP = "KafkaTimestamp"
    EPOCH = "Epoch"


class TimestampSource(StrEnum):
    """The part of a record that holds its event time."""

    VALUE = "Value"
    KEY = "Key"
    HEADER = "Header"


class Timestamp(Model):
    """The field that holds a record's event time."""

    field: Name
    """Name of the field. Dots separate the steps of a nested path, such as ``meta.ts``."""
    source: TimestampSource = TimestampSource.VALUE
    """Where the field is: in the payload, in the key (as ``decode.key`` decodes it), or a header of
    this name.
    """
    separator: str = "."
    """What separates the steps of a nested path. Empty if the field's own name contains dots."""
    unit: TimeUnit = TimeUnit.AUTO
    """How the field encodes the time. Auto derives the unit of a number from its magnitude and
    parses text as ISO 8601. Custom parses text by ``format``.
    """
    format: TimeFormat | None = None
    """strptime format for unit Custom, such as ``%d/%b/%Y:%H:%M:%S``. If it has no year, as in
    syslog, the year is the one that brings the time nearest to the record's Kafka timestamp.
    """
    timezone: TimeZone = "UTC"
    """IANA time zone of times that carry none, such as ``Europe/Berlin``."""
    missing: MissingTimestamp = MissingTimestamp.DEAD_LETTER
    """What happens to a record without the field. DeadLetter lands it as a dead letter,
    KafkaTimestamp dates it by its Kafka timestamp, Epoch dates it 1970-01-01.
    """

    @property
    def path(self) -> tuple[str, ...]:
        """The field's path as a tuple of steps; of keys and headers after an empty step."""
        if self.source is TimestampSource.HEADER:
            return ("", "header", self.field)
        steps = tuple(self.field.split(self.separator)) if self.separator else (self.field,)
        return steps if self.source is TimestampSource.VALUE else ("", "key", *steps)

    @property
    def is_yearless(self) -> bool:
        """True if ``format`` gives a date without its year."""
        return is_yearless(self.format or "%Y")

    @model_validator(mode="after")
    def _custom_has_a_format(self) -> "Timestamp":
        if (self.unit is TimeUnit.CUSTOM) != (self.format is not None):
            raise ValueError("unit Custom needs a format, and only Custom has one")
        return self

    @model_validator(mode="after")
    def _format_has_a_day(self) -> "Timestamp":
        directives = set(re.findall(r"%(.)", self.format or "", re.DOTALL))
        has_day = "j" in directives or ("d" in directives and directives & set("mbB"))
        if self.is_yearless and not has_day:
            raise ValueError(
                f"format {self.format!r} has neither a year nor a day of the year; "
                "use one with both, such as %Y-%m-%d, or with the day, such as %b %d"
            )
        return self

    @model_validator(mode="after")
    def _path_has_no_empty_step(self) -> "Timestamp":
        of_parts = 0 if self.source is TimestampSource.VALUE else 2
        if not all(self.path[of_parts:]):
            raise ValueError(
                f"field {self.field!r} has an empty step; separator: '' takes it as one name"
            )
        return self


class ColumnType(StrEnum):
    """Type of a declared column, or of what a list or a struct holds."""

    STRING = "String"
    INT32 = "Int32"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    BOOLEAN = "Boolean"
    TIMESTAMP = "Timestamp"
    """An instant, from a number in the column's ``unit``, or from text."""
    DATE = "Date"
    BINARY = "Binary"
    JSON = "Json"
    """Any value, as JSON text."""
    DECIMAL = "Decimal"
    """A number of ``precision`` digits, ``scale`` of them after the point."""
    LIST = "List"
    """Any number of values, each as ``items`` declares."""
    STRUCT = "Struct"
    """Named values, as ``fields`` declares them."""


class ColumnUnit(StrEnum):
    """How a payload encodes a column of type Timestamp or Date: ``TimeUnit``, and days."""

    AUTO = "Auto"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"
    ISO8601 = "Iso8601"
    CUSTOM = "Custom"
    DAYS = "Days"
    """A Date as the number of days since 1970-01-01, as Debezium and Avro count them."""


class DecimalEncoding(StrEnum):
    """How text holds the number of a Decimal."""

    DIGITS = "Digits"
    BASE64 = "Base64"
    """Base64 of the unscaled number, an integer in big-endian two's complement, as the JSON of
    Kafka Connect and Debezium has decimals.
    """


MAX_PRECISION = 38
"""Digits of the widest decimal that Iceberg, Delta, Spark and Hive have."""
_OF_DECIMALS = ("precision", "scale", "encoding")
_OF_TIMES = ("unit", "format", "timezone")
_MORE_SETTINGS = (*_OF_TIMES, *_OF_DECIMALS, "items", "fields")
_SETTINGS: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.TIMESTAMP: _OF_TIMES,
    ColumnType.DATE: ("unit",),
    ColumnType.DECIMAL: _OF_DECIMALS,
    ColumnType.LIST: ("items",),
    ColumnType.STRUCT: ("fields",),
}
"""What goes with a type."""


class ValueType(Model):
    """The type of a value, and how a payload encodes it."""

    type: ColumnType
    """Type of the value. Json is any value as JSON text."""
    unit: ColumnUnit | None = None
    """How the payload encodes a Timestamp, in the words of ``decode.timestamp.unit``. If it is not
    set: as ``decode.timestamp``, if that reads the same field, else Milliseconds. Text is read as
    ISO 8601 in each unit but Custom. For a Date, Days reads numbers as days since 1970-01-01.
    """
    format: TimeFormat | None = None
    """strptime format of a Timestamp with unit Custom, with a year, such as ``%d/%b/%Y:%H:%M:%S``.
    """
    timezone: TimeZone | None = None
    """IANA time zone of a Timestamp's text that carries none. The one of ``decode.timestamp``, if
    it reads the same field, else UTC.
    """
    precision: Annotated[int, Field(ge=1, le=MAX_PRECISION)] | None = None
    """Digits of a Decimal, 38 at most. Required for one."""
    scale: Annotated[int, Field(ge=0, le=MAX_PRECISION)] | None = None
    """Digits of a Decimal after the point; 0 if not set. A value with more of them is a dead
    letter; none is rounded.
    """
    encoding: DecimalEncoding | None = None
    """How text holds a Decimal. Base64 is of the unscaled number, as in the JSON of Kafka
    Connect and Debezium: ``scale`` must be the one they scale by. Digits if not set.
    """
    items: Annotated["Item | None", _ANY_MAPPING] = None
    """What a List holds: ``type``, ``nullable``, and the fields that go with the type, as a column
    has them.
    """
    fields: Annotated[tuple["Column", ...], _ANY_MAPPINGS] = ()
    """What a Struct holds, each declared as a column is."""

    @model_validator(mode="after")
    def _has_what_its_type_has(self) -> "ValueType":
        for name in _MORE_SETTINGS:
            if getattr(self, name) not in {None, ()} and name not in _SETTINGS.get(self.type, ()):
                raise ValueError(f"{name} is not for type {self.type}")
        if self.type is ColumnType.LIST and self.items is None:
            raise ValueError("type List needs items, such as items: {type: String}")
        if self.type is ColumnType.STRUCT and not self.fields:
            raise ValueError("type Struct needs fields, such as fields: [{name: a, type: String}]")
        return self

    @model_validator(mode="after")
    def _times_have_a_unit(self) -> "ValueType":
        if (self.unit is ColumnUnit.CUSTOM) != (self.format is not None):
            raise ValueError("unit Custom needs a format, and only Custom has one")
        if (self.unit is ColumnUnit.DAYS) != (
            self.unit is not None and self.type is ColumnType.DATE
        ):
            raise ValueError("unit Days is for type Date, and the only one that Date has")
        if self.format is not None and is_yearless(self.format):
            raise ValueError(f"format {self.format!r} has no year, which only decode.timestamp may")
        return self

    @model_validator(mode="after")
    def _decimals_have_digits(self) -> "ValueType":
        if self.type is not ColumnType.DECIMAL:
            return self
        if self.precision is None:
            raise ValueError("type Decimal needs a precision, such as precision: 10, scale: 2")
        if (self.scale or 0) > self.precision:
            raise ValueError(f"scale {self.scale} is above precision {self.precision}")
        return self

    @model_validator(mode="after")
    def _fields_are_distinct(self) -> "ValueType":
        # Hive and Spark do not distinguish names by case.
        distinct(tuple(field.name.casefold() for field in self.fields))
        for field in self.fields:
            if not _PLAIN_NAME.fullmatch(field.key):
                raise ValueError(
                    f"fields: {field.name}: {field.key!r} has characters that JSON escapes"
                )
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what is not set, so that software without these fields reads stored specs."""
        whole: dict[str, object] = handler(self)
        return {
            k: v for k, v in whole.items() if k not in _MORE_SETTINGS or v not in (None, (), [])
        }


class Item(ValueType):
    """The type of a list's items."""

    nullable: bool = True
    """Whether an item may be null."""


class Column(ValueType):
    """A typed column of the output, or a field of a struct in one."""

    name: Name
    """Name of the column in the output."""
    field: str | None = None
    """Payload field the column is read from; dots separate the steps of a nested path, but not in
    a Struct. The column's name is used if not set.
    """
    nullable: bool = True
    """Whether the field may be absent or null."""

    @property
    def path(self) -> tuple[str, ...]:
        """Where the column is in the payload."""
        return tuple(self.field.split(".")) if self.field else (self.name,)

    @property
    def key(self) -> str:
        """Name in the payload, for a field of a struct."""
        return self.field or self.name


def _distinct_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    distinct(tuple(column.name for column in columns))
    return columns


RegistryUrl = Annotated[
    str,
    matching(
        r"https?://[^/@\s?#]+(/[^@\s?#]*)?",
        "a URL without credentials, such as http://registry:8081",
    ),
]


class SchemaRegistry(Model):
    """A schema registry with Confluent's API, such as Confluent's own, Apicurio or Karapace."""

    urls: Annotated[tuple[RegistryUrl, ...], Field(min_length=1, max_length=16)]
    """Base URLs of the API, without credentials. The next one is asked where one does not answer.
    """
    secret_ref: SecretRef | None = None
    """Secret with ``username`` and ``password``, or ``token``, or for mutual TLS ``tls.crt`` and
    ``tls.key``; in each case with ``ca.crt`` if the authority is a private one.
    """
    timeout: Duration = timedelta(seconds=5)
    """How long to wait for a connection, and again for an answer."""


class ValueForm(StrEnum):
    """The values of fields, and of JSON that is made of payloads."""

    BY_DECODER = "ByDecoder"
    COMMON = "Common"


class Envelope(StrEnum):
    """The form of payloads that hold a row among other things."""

    DEBEZIUM = "Debezium"
    DEBEZIUM_FLATTENED = "DebeziumFlattened"
    """Records of Debezium's ``ExtractNewRecordState``, with fields such as ``__deleted``."""
    MAXWELL = "Maxwell"
    CANAL = "Canal"
    """Flat messages of Canal."""
    FIELDS = "Fields"
    """Any other, as ``envelopeFields`` describes it."""


class TombstoneMeaning(StrEnum):
    """The meaning of a record without a payload."""

    DELETE = "Delete"
    SKIP = "Skip"


class EnvelopeFields(Model):
    """Where an envelope has its parts, as paths whose steps dots separate."""

    op: Name
    """The operation. It is compared as text, also a number."""
    insert: tuple[str, ...] = ()
    """Values of an insert; ``_op`` is ``c``."""
    read: tuple[str, ...] = ()
    """Values of a row that a snapshot has read; ``_op`` is ``r``."""
    update: tuple[str, ...] = ()
    """Values of an update, whose row is the whole row; ``_op`` is ``u``."""
    delete: tuple[str, ...] = ()
    """Values of a deletion; ``_op`` is ``d``."""
    skip: tuple[str, ...] = ()
    """Values of what is no change of a row; such records are left out. Any other is a dead letter.
    """
    row: Name | None = None
    """The row. If not set, the payload is the row, and the other fields are not part of it."""
    before: Name | None = None
    """The row before a deletion. ``row`` is read if not set, or null."""
    key: Name | None = None
    """The key of a deleted row, an object: the row has what is absent or null in it of this, and
    then of the key of the record, if ``decode.key`` is set.
    """
    timestamp: Name | None = None
    """When the change was made, for ``_source_ts``: a number, or text of a time."""
    unit: Literal["Seconds", "Milliseconds", "Microseconds", "Nanoseconds"] = "Milliseconds"
    """Unit of a timestamp that is a number."""
    tombstone: TombstoneMeaning = TombstoneMeaning.DELETE
    """Delete: a record without a payload deletes the row of its key. Skip: it is left out, for
    producers that send a deletion before it.
    """

    def by_letter(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the values of the operation by the letter of their change."""
        return (("c", self.insert), ("r", self.read), ("u", self.update), ("d", self.delete))

    @model_validator(mode="after")
    def _each_operation_is_one_change(self) -> "EnvelopeFields":
        every = tuple(value for _, values in self.by_letter() for value in values)
        if not every:
            raise ValueError("give the values of op, such as insert: [I], delete: [D]")
        distinct((*every, *self.skip))
        return self

    @model_validator(mode="after")
    def _paths_are_paths(self) -> "EnvelopeFields":
        for name in ("op", "row", "before", "key", "timestamp"):
            path = getattr(self, name)
            if path is not None and not all(path.split(".")):
                raise ValueError(f"{name} {path!r} has an empty step")
        if self.before is not None and self.row is None:
            raise ValueError("before needs row: without it, the payload is the row")
        return self


DecoderName = Annotated[
    str,
    built_in(
        *("Raw", "Json", "Delimited", "Regex", "MessagePack", "Csv", "Thrift", "Avro"),
        *("Protobuf", "JsonSchema"),
    ),
]
Columns = Annotated[tuple[Column, ...], AfterValidator(_distinct_columns)]


class DecodeKey(Model):
    """How record keys are decoded. ``{key:path}`` in the route is a field of the key."""

    format: DecoderName
    """Decoder, as of payloads."""
    options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the decoder."""
    registry: SchemaRegistry | None = None
    """The schema registry that has the schemas of keys. The payloads' registry if not set."""
    columns: Columns = ()
    """Typed columns of the output that are read from the key."""


class Decode(Model):
    """How record payloads are decoded, and which field holds the event time."""

    format: DecoderName = "Raw"
    """Decoder: ``Raw``, ``Json``, ``Delimited``, ``Regex``, ``MessagePack``, ``Csv``, ``Thrift``,
    ``Avro``, ``Protobuf``, ``JsonSchema``, or a custom ``package.module:Name``.
    """
    timestamp: Timestamp | None = None
    """The payload field that holds the event time. The Kafka timestamp is used if not set."""
    options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the decoder, such as ``separator`` of Delimited; each has a page in the
    documentation. A custom decoder takes its own.
    """
    registry: SchemaRegistry | None = None
    """The schema registry that has the schemas of payloads, for Avro, Protobuf and JsonSchema."""
    values: ValueForm = ValueForm.BY_DECODER
    """Values of fields, for routes and transforms, and of JSON made of payloads. ByDecoder: as on
    the page of the decoder. Common: the same from all decoders, such as ISO 8601 text of a time.
    """
    envelope: Envelope | None = None
    """Payloads are changes of rows; a row is the state after one, with ``_op`` and more columns.
    DebeziumFlattened: records of ExtractNewRecordState. Fields: as ``envelopeFields`` describes.
    """
    envelope_fields: EnvelopeFields | None = None
    """Where an envelope has its parts; for ``envelope: Fields``, which needs it."""
    columns: Columns = ()
    """Typed columns of the output. Types are never inferred from data."""
    key: DecodeKey | None = None
    """How record keys are decoded. They are not if not set."""
    header_columns: Columns = ()
    """Typed columns of the output that are read from record headers, which are text; ``field`` is
    the name of the header. Of several headers of one name the last counts.
    """

    @model_serializer(mode="wrap")
    def _without_the_default_form(
        self, handler: SerializerFunctionWrapHandler
    ) -> dict[str, object]:
        """Leave out what is not set, so that software without these fields reads stored specs."""
        whole: dict[str, object] = handler(self)
        unset = {
            "values": ValueForm.BY_DECODER,
            **dict.fromkeys(("envelope", "envelope_fields", "envelopeFields")),
        }
        return {k: v for k, v in whole.items() if k not in unset or v != unset[k]}

    @model_validator(mode="after")
    def _columns_have_distinct_names(self) -> "Decode":
        of_key = self.key.columns if self.key else ()
        distinct(tuple(c.name for c in (*self.columns, *of_key, *self.header_columns)))
        return self

    @model_validator(mode="after")
    def _deleted_rows_are_marked(self) -> "Decode":
        paths = {column.path for column in self.columns}
        if self.envelope is not None and paths and not paths & {("_op",), ("_deleted",)}:
            raise ValueError(
                f"envelope {self.envelope}: a deleted row would look like any other; declare a "
                "column {name: _deleted, type: Boolean} or {name: _op, type: String}"
            )
        return self

    @model_validator(mode="after")
    def _fields_describe_their_envelope(self) -> "Decode":
        if (self.envelope is Envelope.FIELDS) != (self.envelope_fields is not None):
            raise ValueError("envelope Fields needs envelopeFields, and only Fields has them")
        return self

    @model_validator(mode="after")
    def _no_field_has_two_times(self) -> "Decode":
        for section, columns in (
            ("columns", self.payload_columns),
            ("key.columns", self.key_columns),
            ("headerColumns", self.typed_headers),
        ):
            try:
                columns()
            except ValueError as error:
                raise ValueError(f"{section}: {error}") from None
        return self

    def payload_columns(self) -> tuple[Column, ...]:
        """Return ``columns``; one that is the event time is read as ``timestamp`` declares.

        Raises:
            ValueError: a column contradicts it; the validation of the spec asks.
        """
        return tuple(_as_event_time(column, column.path, self.timestamp) for column in self.columns)

    def key_columns(self) -> tuple[Column, ...]:
        """Return the columns of keys, as ``payload_columns`` does."""
        columns = self.key.columns if self.key else ()
        return tuple(
            _as_event_time(column, ("", "key", *column.path), self.timestamp) for column in columns
        )

    def typed_headers(self) -> tuple[Column, ...]:
        """Return ``header_columns``, as ``payload_columns`` does."""
        return tuple(
            _as_event_time(header, ("", "header", ".".join(header.path)), self.timestamp)
            for header in self.header_columns
        )


def _as_event_time(column: Column, path: tuple[str, ...], event: Timestamp | None) -> Column:
    """Return a column in which the event time's own field is read as the event time is."""
    if event is None:
        return column
    if column.type is ColumnType.STRUCT:
        fields = (_as_event_time(field, (*path, field.key), event) for field in column.fields)
        return column.model_copy(update={"fields": tuple(fields)})
    return with_event_time(column, column.name, event) if path == event.path else column


_Typed = TypeVar("_Typed", bound=ValueType)


def with_event_time(declared: _Typed, name: str, event: Timestamp) -> _Typed:
    """Return what declares the event time's own field, read as the event time is.

    A format without a year is not taken over: it needs a record's Kafka timestamp.

    Raises:
        ValueError: it is declared to be read in another way.
    """
    if declared.type is not ColumnType.TIMESTAMP:
        return declared
    times = {setting: getattr(event, setting) for setting in _OF_TIMES}
    for setting, of_event in times.items():
        own = getattr(declared, setting)
        if own is not None and own != of_event:
            raise ValueError(
                f"{name}: {setting} {own}, but decode.timestamp reads the same field "
                f"{event.field!r} with {setting} {of_event}: a field has one time, so give both "
                "the same, or leave the column's out"
            )
    if event.is_yearless:
        return declared
    return declared.model_copy(update=times | {"unit": ColumnUnit(event.unit)})


TRANSFORMS = (
    "Filter",
    "Select",
    "Rename",
    "Cast",
    "Set",
    "Flatten",
    "Mask",
    "Hash",
    "LogId",
    "Sql",
    "Lookup",
    "GeoIp",
)
"""The built-in steps of ``spec.transforms``."""


class TransformStep(Model):
    """A step between decoding and routing."""

    use: Annotated[str, built_in(*TRANSFORMS)]
    """Name of the step, such as ``Filter``, or the import path of your own, such as
    ``shop.steps:Anonymise``.
    """
    options: dict[str, MappedSettings] = Field(default_factory=dict)
    """Options of the step, such as ``where`` of Filter; each has a page in the documentation. A
    step of your own takes its own.
    """
