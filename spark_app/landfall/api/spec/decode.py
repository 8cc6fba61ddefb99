"""The sections ``spec.decode`` and ``spec.transforms``: how a payload becomes columns."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef, distinct
from landfall.api.values import Duration, Name, Settings, TimeFormat, TimeZone, built_in, matching


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
    """What happens to a record whose timestamp field is absent or null."""

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
        """The field's path as a tuple of steps; of keys and headers behind an empty step."""
        if self.source is TimestampSource.HEADER:
            return ("", "header", self.field)
        steps = tuple(self.field.split(self.separator)) if self.separator else (self.field,)
        return steps if self.source is TimestampSource.VALUE else ("", "key", *steps)

    @property
    def is_yearless(self) -> bool:
        """Whether ``format`` gives a date without its year."""
        directives = set(re.findall(r"%(.)", self.format or "%Y", re.DOTALL))
        return not directives & set("YyGcx")

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
    """Type of a declared column."""

    STRING = "String"
    INT32 = "Int32"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    BOOLEAN = "Boolean"
    TIMESTAMP = "Timestamp"
    """A time in microseconds, from an integer of milliseconds since 1970 or from ISO 8601 text."""
    DATE = "Date"
    BINARY = "Binary"
    JSON = "Json"
    """Any value, as JSON text."""


class Column(Model):
    """A typed column of the output."""

    name: Name
    """Name of the column in the output."""
    type: ColumnType
    """Type of the column. Timestamp is a time in UTC, to the microsecond, from ISO 8601 text or
    milliseconds since 1970; Json is any value as JSON text.
    """
    field: str | None = None
    """Payload field the column is read from; dots separate the steps of a nested path. The column's
    name is used if not set.
    """
    nullable: bool = True
    """Whether the field may be absent or null."""


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
    """The schema registry that has the schemas of keys. That of payloads if not set."""
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
    columns: Columns = ()
    """Typed columns of the output. Types are never inferred from data."""
    key: DecodeKey | None = None
    """How record keys are decoded. They are not if not set."""
    header_columns: Columns = ()
    """Typed columns of the output that are read from record headers, which are text; ``field`` is
    the name of the header. Of several headers of one name the last counts.
    """

    @model_validator(mode="after")
    def _columns_have_distinct_names(self) -> "Decode":
        of_key = self.key.columns if self.key else ()
        distinct(tuple(c.name for c in (*self.columns, *of_key, *self.header_columns)))
        return self


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
    options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the step, such as ``where`` of Filter; each has a page in the documentation. A
    step of your own takes its own.
    """
