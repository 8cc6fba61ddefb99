"""The part of a ``ConsumerGroup`` that the auditor needs, read from the document by itself.

These models hold the locations of objects, how to log in, and what objects hold, with the defaults
of the reference of fields (``docs/reference/fields.md``). They do not judge a spec: a field that is
not here is ignored, as it changes nothing that is compared. ``landfall check`` names what a driver
would refuse. A document that these models cannot read raises ``ValueError``.

``tests/unit/audit/test_spec.py`` compares them with what the writer reads in the same documents.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)
from pydantic.alias_generators import to_camel

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+", str(value), re.ASCII):
        raise ValueError(f"not a duration such as 90s, 5m or 1h30m: {value!r}")
    terms = re.findall(r"([\d.]+)(ms|s|m|h|d)", str(value))
    return timedelta(milliseconds=int(sum(Fraction(n) * _MILLISECONDS[unit] for n, unit in terms)))


def _duration_text(value: timedelta) -> str:
    return f"{value // timedelta(milliseconds=1)}ms"


Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(_duration_text)]
Scalar = str | int | float | bool | None
Options = dict[str, Scalar | list[Scalar]]


class SpecSection(BaseModel):
    """Base of every section: immutable, camelCase in YAML, unknown fields are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class SecretSection(SpecSection):
    """A Kubernetes Secret; elsewhere a folder with one file per key."""

    name: str


class StoreSection(SpecSection):
    """The common fields of the sections of all stores."""

    endpoint: str | None = None
    credentials_secret_ref: SecretSection | None = None
    max_attempts: int = 5
    connect_timeout: Duration = timedelta(seconds=5)
    read_timeout: Duration = timedelta(seconds=60)


class AssumeRoleSection(SpecSection):
    """An IAM role to assume."""

    role_arn: str
    session_name: str = "landfall"
    external_id: str | None = None


class S3Section(StoreSection):
    """How to access an S3 bucket."""

    region: str | None = None
    path_style: bool = False
    use_fips: bool = False
    use_dual_stack: bool = False
    proxy: str | None = None
    requester_pays: bool = False
    profile: str | None = None
    assume_role: AssumeRoleSection | None = None


class AzureSection(StoreSection):
    """How to access Azure Blob Storage."""


class GcsSection(StoreSection):
    """How to access Google Cloud Storage."""


class HdfsSection(StoreSection):
    """How to access HDFS."""

    user: str | None = None
    principal: str | None = None


class LocationSection(SpecSection):
    """A URL of a store, and how the store is accessed."""

    url: str
    s3: S3Section = S3Section()
    azure: AzureSection = AzureSection()
    gcs: GcsSection = GcsSection()
    hdfs: HdfsSection = HdfsSection()

    @property
    def access(self) -> StoreSection:
        """The section of the store that ``url`` names; ``s3`` for one without a section."""
        match self.url.partition("://")[0]:
            case "abfss":
                return self.azure
            case "gs":
                return self.gcs
            case "hdfs":
                return self.hdfs
        return self.s3


class RootSection(LocationSection):
    """A root of the group."""

    section: ClassVar[str] = "output"

    store: str | None = None


class LedgerSection(RootSection):
    """The root of the ledger, if it is not the output root."""

    section: ClassVar[str] = "ledger"


_SIDE = re.compile("/_landfall/[^/]+/side/[^/]+$")
"""The end of the root of a backfill."""


class LettersSection(RootSection):
    """A place of dead letters."""

    section: ClassVar[str] = "badRecords"

    @property
    def id(self) -> str:
        """The name of this place in keys of dead letters; a backfill's place in it has the same."""
        url = _SIDE.sub("", self.url.rstrip("/"))
        text = json.dumps([url, self.access.endpoint or ""])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class BadRecordsSection(SpecSection):
    """Where dead letters are."""

    url: str | None = None
    store: str | None = None
    s3: S3Section = S3Section()
    azure: AzureSection = AzureSection()
    gcs: GcsSection = GcsSection()
    hdfs: HdfsSection = HdfsSection()
    former_places: tuple[LettersSection, ...] = ()

    @property
    def places(self) -> tuple[LettersSection, ...]:
        """The places of dead letters, the present one first, without the output root."""
        if self.url is None:
            return self.former_places
        present = LettersSection(
            url=self.url,
            store=self.store,
            s3=self.s3,
            azure=self.azure,
            gcs=self.gcs,
            hdfs=self.hdfs,
        )
        return (present, *self.former_places)


class FeedSection(LocationSection):
    """Files of other programs, which are landed as a topic."""

    topic: str
    process: Literal["Land", "External"] = "Land"
    include: str | None = None
    exclude: str | None = None
    settle: Duration = timedelta(seconds=60)
    reader: str = "Lines"
    reader_options: Options = Field(default_factory=dict)


class KafkaSection(SpecSection):
    """The Kafka cluster."""

    bootstrap_servers: str
    group_id: str | None = None
    properties: dict[str, Scalar] = Field(default_factory=dict)
    properties_secret_ref: SecretSection | None = None


class LandedSection(SpecSection):
    """Another group, whose objects are the source."""

    group: str


class SourceSection(SpecSection):
    """Where records are read from."""

    kafka: KafkaSection | None = None
    files: tuple[FeedSection, ...] = ()
    landed: LandedSection | None = None

    @model_validator(mode="after")
    def _has_one_kind(self) -> "SourceSection":
        if [bool(self.kafka), bool(self.files), bool(self.landed)].count(True) != 1:
            raise ValueError("exactly one of kafka, files and landed is needed")
        return self


class TimeUnitName(StrEnum):
    """How a payload encodes a time."""

    AUTO = "Auto"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"
    ISO8601 = "Iso8601"
    CUSTOM = "Custom"


class MissingTimestampPolicy(StrEnum):
    """The handling of a record without the timestamp field."""

    DEAD_LETTER = "DeadLetter"
    KAFKA_TIMESTAMP = "KafkaTimestamp"
    EPOCH = "Epoch"


class TimestampSection(SpecSection):
    """The field that holds a record's event time."""

    field: str
    source: Literal["Value", "Key", "Header"] = "Value"
    separator: str = "."
    unit: TimeUnitName = TimeUnitName.AUTO
    format: str | None = None
    timezone: str = "UTC"
    missing: MissingTimestampPolicy = MissingTimestampPolicy.DEAD_LETTER

    @property
    def path(self) -> tuple[str, ...]:
        """The steps to the field, in the part of the record that ``source`` names."""
        if self.source == "Header" or not self.separator:
            return (self.field,)
        return tuple(self.field.split(self.separator))

    @property
    def is_yearless(self) -> bool:
        """Return whether ``format`` gives a date without its year."""
        directives = set(re.findall("%(.)", self.format or "%Y", re.DOTALL))
        return directives.isdisjoint("YyGcx")


class ColumnTypeName(StrEnum):
    """Type of a declared column, or of what a list or a struct holds."""

    STRING = "String"
    INT32 = "Int32"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    BOOLEAN = "Boolean"
    TIMESTAMP = "Timestamp"
    DATE = "Date"
    BINARY = "Binary"
    JSON = "Json"
    DECIMAL = "Decimal"
    LIST = "List"
    STRUCT = "Struct"


class ColumnUnitName(StrEnum):
    """How a payload encodes a column of type Timestamp or Date."""

    AUTO = "Auto"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"
    ISO8601 = "Iso8601"
    CUSTOM = "Custom"
    DAYS = "Days"


class DecimalEncodingName(StrEnum):
    """How text holds a Decimal."""

    DIGITS = "Digits"
    BASE64 = "Base64"


class ValueTypeSection(SpecSection):
    """The type of a value, and how a payload encodes it."""

    type: ColumnTypeName
    unit: ColumnUnitName | None = None
    format: str | None = None
    timezone: str | None = None
    precision: int | None = None
    scale: int | None = None
    encoding: DecimalEncodingName | None = None
    items: Union["ItemSection", None] = None
    fields: tuple["ColumnSection", ...] = ()


class ItemSection(ValueTypeSection):
    """The items of a list."""

    nullable: bool = True


class ColumnSection(ValueTypeSection):
    """A column of the output, or a field of a struct in one."""

    name: str
    field: str | None = None
    nullable: bool = True

    @property
    def path(self) -> tuple[str, ...]:
        """The steps to the column's value in the payload."""
        return tuple(self.field.split(".")) if self.field else (self.name,)

    @property
    def key(self) -> str:
        """The name in the payload, for a field of a struct."""
        return self.field or self.name


class RegistrySection(SpecSection):
    """A schema registry; the ledger has what it answered, by its first URL."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)]


class DecodeKeySection(SpecSection):
    """How record keys are decoded."""

    format: str
    options: Options = Field(default_factory=dict)
    registry: RegistrySection | None = None
    columns: tuple[ColumnSection, ...] = ()


class EnvelopeFieldsSection(SpecSection):
    """Where an envelope has its parts."""

    op: str
    insert: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    row: str | None = None
    before: str | None = None
    key: str | None = None
    timestamp: str | None = None
    unit: Literal["Seconds", "Milliseconds", "Microseconds", "Nanoseconds"] = "Milliseconds"
    tombstone: Literal["Delete", "Skip"] = "Delete"

    def letter(self, op: str) -> str | None:
        """The letter of the change that an operation makes; None if it makes none."""
        of = {"c": self.insert, "r": self.read, "u": self.update, "d": self.delete}
        return next((letter for letter, values in of.items() if op in values), None)


class DecodeSection(SpecSection):
    """How record payloads are decoded."""

    format: str = "Raw"
    timestamp: TimestampSection | None = None
    options: Options = Field(default_factory=dict)
    registry: RegistrySection | None = None
    values: Literal["ByDecoder", "Common"] = "ByDecoder"
    envelope: Literal["Debezium", "DebeziumFlattened", "Maxwell", "Canal", "Fields"] | None = None
    envelope_fields: EnvelopeFieldsSection | None = None
    columns: tuple[ColumnSection, ...] = ()
    key: DecodeKeySection | None = None
    header_columns: tuple[ColumnSection, ...] = ()

    @property
    def is_common(self) -> bool:
        """Return whether values are the same from all decoders."""
        return self.values == "Common"

    def payload_columns(self) -> tuple[ColumnSection, ...]:
        """The columns of payloads; the event time's own field is read as the event time is."""
        return tuple(self._timed(column, "Value", column.path) for column in self.columns)

    def key_columns(self) -> tuple[ColumnSection, ...]:
        """The columns of keys, likewise."""
        columns = self.key.columns if self.key else ()
        return tuple(self._timed(column, "Key", column.path) for column in columns)

    def typed_headers(self) -> tuple[ColumnSection, ...]:
        """The columns of headers, likewise."""
        return tuple(
            self._timed(column, "Header", (column.field or column.name,))
            for column in self.header_columns
        )

    def _timed(self, column: ColumnSection, source: str, path: tuple[str, ...]) -> ColumnSection:
        event = self.timestamp
        if event is None or event.source != source:
            return column
        if column.type is ColumnTypeName.STRUCT:
            fields = (self._timed(inner, source, (*path, inner.key)) for inner in column.fields)
            return column.model_copy(update={"fields": tuple(fields)})
        is_event = path == event.path and column.type is ColumnTypeName.TIMESTAMP
        # Without a year, a time needs the Kafka timestamp of its record: only the route has that.
        if not is_event or event.is_yearless:
            return column
        unit = ColumnUnitName(event.unit)
        return column.model_copy(
            update={"unit": unit, "format": event.format, "timezone": event.timezone}
        )


class RouteSection(SpecSection):
    """The output partition that a record is written to."""

    pattern: str = "dt={date}"
    timezone: str = "UTC"
    topic_path: str | None = None


class CodecName(StrEnum):
    """Compression of objects."""

    NONE = "None"
    GZIP = "Gzip"
    ZSTD = "Zstd"
    DEFLATE = "Deflate"
    SNAPPY = "Snappy"


class ColumnSourceName(StrEnum):
    """Where the columns of typed output come from."""

    DECLARED = "Declared"
    FROM_SCHEMA = "FromSchema"


class OutputSection(RootSection):
    """Where objects are, and in which format."""

    format: str = "Json"
    codec: CodecName | None = None
    columns: ColumnSourceName = ColumnSourceName.DECLARED
    options: Options = Field(default_factory=dict)
    existing_objects: Literal["Refuse", "Keep"] = "Refuse"


class TuningSection(SpecSection):
    """How long to wait for Kafka."""

    read_timeout: Duration = timedelta(seconds=60)


class TableSection(SpecSection):
    """The options of a publisher of tables by which a table has its rows."""

    table: str = "lake.{topic}"
    mode: Literal["Append", "Keyed"] = "Append"
    key: tuple[str, ...] = ()
    order: str | None = None
    deleted: str = "_deleted"
    catalog: dict[str, Scalar] = Field(default_factory=dict)
    storage: dict[str, Scalar] = Field(default_factory=dict)
    start_at: str | int = "Beginning"
    skip: tuple[str, ...] = ()


class PublisherSection(SpecSection):
    """A publisher; its options are read as its type needs them."""

    name: str
    type: str
    topics: tuple[str, ...] = ()
    secret_ref: SecretSection | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def selects(self, topic: str) -> bool:
        """Return whether it publishes a topic."""
        return not self.topics or any(re.fullmatch(pattern, topic) for pattern in self.topics)


class AuditedSpec(SpecSection):
    """A consumer group: what it lands, where, and how."""

    source: SourceSection
    decode: DecodeSection = DecodeSection()
    transforms: tuple[dict[str, Any], ...] = ()
    route: RouteSection = RouteSection()
    output: OutputSection
    ledger: LedgerSection | None = None
    topics: tuple[dict[str, Any], ...] = ()
    """Entries as they are written: their values are laid over the group's own fields."""
    bad_records: BadRecordsSection = BadRecordsSection()
    tuning: TuningSection = TuningSection()
    publish: tuple[PublisherSection, ...] = ()

    @property
    def ledger_root(self) -> RootSection:
        """Where the ledger is."""
        return self.ledger or self.output

    @property
    def roots(self) -> tuple[RootSection, ...]:
        """The output root, the ledger's root if it is another one, and places of dead letters."""
        return (self.output, *([self.ledger] if self.ledger else ()), *self.bad_records.places)

    @model_validator(mode="before")
    @classmethod
    def _format_fits_the_decoder(cls, document: Any) -> Any:
        """The document with the output format that goes with its decoder, if it names none."""
        match document:
            case {"output": Mapping() as output} if "format" not in output:
                decode = document.get("decode") or {}
                is_raw = isinstance(decode, Mapping) and decode.get("format", "Raw") == "Raw"
                made = "SequenceFile" if is_raw else "Json"
                return {**document, "output": {**output, "format": made}}
        return document


class MetadataSection(SpecSection):
    """The name of the group."""

    name: str
    namespace: str = "default"


class AuditedGroup(SpecSection):
    """A set of topics that is landed in an object store."""

    api_version: Literal["landfall.dev/v1alpha1"]
    kind: Literal["ConsumerGroup"]
    metadata: MetadataSection
    spec: AuditedSpec

    @property
    def kafka_group_id(self) -> str:
        """The Kafka group id that the brokers may grant rights to."""
        own = self.spec.source.kafka and self.spec.source.kafka.group_id
        return own or f"{self.metadata.namespace}.{self.metadata.name}"


@dataclass(frozen=True)
class AuditedTopics:
    """The spec of every topic: the group's, with the first entry whose pattern matches the name.

    Attributes:
        group: the spec of topics that no entry matches.
        entries: patterns with the specs of the topics that match, in order.
    """

    group: AuditedSpec
    entries: tuple[tuple[re.Pattern[str], AuditedSpec], ...]

    @classmethod
    def of(cls, spec: AuditedSpec) -> "AuditedTopics":
        """Lay the entries of a spec over its own fields.

        Raises:
            ValueError: an entry does not fit the group.
        """
        alone = spec.model_copy(update={"topics": ()})
        return cls(
            alone, tuple((re.compile(e["pattern"]), _laid_over(alone, e)) for e in spec.topics)
        )

    def for_topic(self, topic: str) -> AuditedSpec:
        """The spec of a topic."""
        return next((s for pattern, s in self.entries if pattern.fullmatch(topic)), self.group)


_OF_ENTRIES = ("decode", "transforms", "route", "output")


def _laid_over(spec: AuditedSpec, entry: Mapping[str, Any]) -> AuditedSpec:
    document = spec.model_dump(mode="json", by_alias=True)
    own = {name: entry[name] for name in _OF_ENTRIES if entry.get(name) is not None}
    return AuditedSpec.model_validate(_merged(document, own))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two sections as one: mappings by key, anything else is replaced.

    Options belong to a format: with another one, those below do not count.
    """
    both = dict(below)
    if above.get("format") not in {None, below.get("format")} and "options" in below:
        both["options"] = {}
    for name, value in above.items():
        lower = both.get(name)
        if name == "options" and isinstance(value, Mapping):
            both[name] = {**(lower or {}), **value}
        elif isinstance(value, Mapping) and isinstance(lower, Mapping):
            both[name] = _merged(lower, value)
        elif value is not None:  # a null in an entry sets nothing
            both[name] = value
    return both
