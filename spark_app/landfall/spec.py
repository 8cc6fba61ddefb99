"""The ``ConsumerGroup`` resource: what a user writes, checked.

Both halves of Landfall read this model and nothing else: the operator makes the CRD from it, the driver runs by it, and
``landfall run group.yaml`` takes the same file. Field names are camelCase in YAML. An unknown field is refused with its
path; so is a value out of range. Secrets appear by reference only.

Quantities are written as Kubernetes does (``256Mi``, ``1G``), durations as ``90s``, ``5m``, ``1h30m``.
"""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from landfall.errors import Reason, Stalled

_BINARY = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def quantity(text: object) -> int:
    """Bytes from ``256Mi``, ``1G`` or a plain number.

    Raises:
        ValueError: it is neither.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(|k|M|G|T|Ki|Mi|Gi|Ti)", str(text))
    if not match:
        raise ValueError(f"not a quantity such as 256Mi or 1G: {text!r}")
    return int(float(match[1]) * _BINARY[match[2]])


def duration(text: object) -> timedelta:
    """A length of time from ``90s``, ``5m``, ``1h30m``, ``500ms``.

    Raises:
        ValueError: it is not one.
    """
    if isinstance(text, timedelta):
        return text
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+", str(text)):
        raise ValueError(f"not a duration such as 90s, 5m or 1h30m: {text!r}")
    return timedelta(
        seconds=sum(float(n) * _SECONDS[unit] for n, _, unit in re.findall(r"(\d+(\.\d+)?)(ms|s|m|h|d)", str(text)))
    )


def _written(value: timedelta) -> str:
    milliseconds = round(value / timedelta(milliseconds=1))
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {text!r}: {error}") from error
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"not an IANA time zone: {text!r}") from error
    return text


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than zero")
    return value


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


Bytes = Annotated[int, BeforeValidator(quantity), Field(gt=0)]
Duration = Annotated[timedelta, BeforeValidator(duration), AfterValidator(_positive), PlainSerializer(_written)]
Pattern = Annotated[str, AfterValidator(_pattern)]
TimeZone = Annotated[str, AfterValidator(_zone)]
Instant = Annotated[datetime, AfterValidator(_aware)]
Scalar = str | int | float | bool | None


class Model(BaseModel):
    """The common ground: frozen, camelCase, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class SecretRef(Model):
    """A Kubernetes Secret, or on a bare machine a folder with one file per key."""

    name: str


# --------------------------------------------------------------------------------------------------------- source


class StartAtOffsets(Model):
    """Explicit starting offsets: topic, then Kafka partition (as text), then offset; the rest starts at Earliest."""

    offsets: dict[str, dict[str, Annotated[int, Field(ge=0)]]]


class StartAtTime(Model):
    """Start at the first record whose Kafka timestamp is at or after this instant."""

    timestamp: Instant


class Kafka(Model):
    """Which topics, of which Kafka, from where on."""

    bootstrap_servers: Annotated[str, Field(min_length=1)]
    topics: tuple[str, ...] = ()
    topic_pattern: Pattern | None = None
    exclude: Pattern | None = None
    starting_offsets: Literal["Earliest", "Latest"] | StartAtTime | StartAtOffsets = "Earliest"
    on_data_loss: Literal["Stall", "SkipAndRecord"] = "Stall"
    group_id: str | None = None
    """Kafka group id of the offset mirror; ``<namespace>.<name>`` when left out."""
    properties: dict[str, Scalar] = Field(default_factory=dict)
    """Plain librdkafka properties, such as ``security.protocol``."""
    properties_secret_ref: SecretRef | None = None
    discovery_interval: Duration = timedelta(seconds=30)

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> "Kafka":
        if bool(self.topics) == bool(self.topic_pattern):
            raise ValueError("exactly one of topics and topicPattern is needed")
        return self


class Source(Model):
    """The ordered log the group lands."""

    kafka: Kafka


# --------------------------------------------------------------------------------------------------------- decode


class TimeUnit(StrEnum):
    """How a payload field tells the time."""

    AUTO = "Auto"
    """A number whose size tells its unit, by Secor's rule; text is read as ISO-8601, digits as a number."""
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"
    ISO8601 = "Iso8601"
    CUSTOM = "Custom"


class MissingTimestamp(StrEnum):
    """What becomes of a record whose time field is absent or null."""

    DEAD_LETTER = "DeadLetter"
    KAFKA_TIMESTAMP = "KafkaTimestamp"
    EPOCH = "Epoch"


class Timestamp(Model):
    """The payload field that dates a record."""

    field: Annotated[str, Field(min_length=1)]
    separator: str = "."
    """What parts a nested path; empty for a field name that holds dots."""
    unit: TimeUnit = TimeUnit.AUTO
    format: str | None = None
    """With unit Custom: strptime directives."""
    timezone: TimeZone = "UTC"
    """Of times written without one."""
    missing: MissingTimestamp = MissingTimestamp.DEAD_LETTER

    @property
    def path(self) -> tuple[str, ...]:
        """The field's path, parted by the separator."""
        return tuple(self.field.split(self.separator)) if self.separator else (self.field,)

    @model_validator(mode="after")
    def _custom_has_a_format(self) -> "Timestamp":
        if (self.unit is TimeUnit.CUSTOM) != (self.format is not None):
            raise ValueError("unit Custom needs a format, and only Custom has one")
        return self


class ColumnType(StrEnum):
    """Types of declared columns."""

    STRING = "String"
    INT32 = "Int32"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    BOOLEAN = "Boolean"
    TIMESTAMP = "Timestamp"
    """Milliseconds since 1970, UTC; from an integer of milliseconds or ISO-8601 text."""
    DATE = "Date"
    BINARY = "Binary"
    JSON = "Json"
    """Anything, as JSON text."""


class Column(Model):
    """One typed column."""

    name: Annotated[str, Field(min_length=1)]
    type: ColumnType
    field: str | None = None
    """Payload field, dots part a nested path; the column's own name when left out."""
    nullable: bool = True


class Decode(Model):
    """How to read payloads: ``Raw``, ``Json``, ``Delimited``, ``Regex``, or your own ``package.module:Name``."""

    format: str = "Raw"
    timestamp: Timestamp | None = None
    """Without one, the Kafka timestamp dates a record."""
    options: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Delimited: separator, columns. Regex: pattern (named groups). Yours: whatever it takes."""
    columns: tuple[Column, ...] = ()
    """Typed columns; they are never inferred from data."""


class TransformStep(Model):
    """A step of your own between decoding and routing."""

    use: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    options: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------- route, output


class Route(Model):
    """Which output partition a record goes to."""

    pattern: str = "dt={date}"
    timezone: TimeZone = "UTC"


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    kms_key_id: str | None = None


class AssumeRole(Model):
    """A role to take before talking to S3."""

    role_arn: str
    session_name: str = "landfall"
    external_id: str | None = None


class S3(Model):
    """How to reach an S3 bucket; without credentials here, boto3's default chain is used."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    profile: str | None = None
    credentials_secret_ref: SecretRef | None = None
    assume_role: AssumeRole | None = None
    sse: Sse | None = None
    part_bytes: Annotated[Bytes, Field(ge=5 * 2**20, le=5 * 2**30)] = 16 * 2**20
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    connect_timeout: Duration = timedelta(seconds=5)
    read_timeout: Duration = timedelta(seconds=60)


class Codec(StrEnum):
    """Compression of landed objects."""

    NONE = "None"
    GZIP = "Gzip"
    ZSTD = "Zstd"
    DEFLATE = "Deflate"
    SNAPPY = "Snappy"


class Output(Model):
    """Where objects go and what they look like: ``Text``, ``Json``, ``SequenceFile``, ``Parquet``, or your own."""

    url: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://.+$")]
    store: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """A store of your own, which reads ``url`` as it likes; without one, that is ``s3://bucket/prefix`` or ``file:///folder``."""
    format: str = "Json"
    codec: Codec | None = None
    """The format's usual one when left out."""
    options: dict[str, Scalar] = Field(default_factory=dict)
    s3: S3 = S3()

    @model_validator(mode="after")
    def _we_know_the_store(self) -> "Output":
        if not self.store and not re.fullmatch(r"s3://[^/]+(/.*)?|file:///.+", self.url):
            raise ValueError("url is neither s3://bucket/prefix nor file:///folder, and no store of your own is named")
        return self


# -------------------------------------------------------------------------------------------------------- policies


class Override(Model):
    """An upload policy of its own for some topics."""

    topics: Pattern
    max_bytes: Bytes | None = None
    max_age: Duration | None = None


class UploadPolicy(Model):
    """When an unlanded range is due, whichever comes first; the first override that matches a topic counts."""

    max_bytes: Bytes = 256 * 2**20
    max_age: Duration = timedelta(minutes=5)
    overrides: tuple[Override, ...] = ()


class BadRecords(Model):
    """What becomes of a record that cannot be decoded, routed or encoded."""

    policy: Literal["DeadLetter", "Fail"] = "DeadLetter"
    max_ratio: Annotated[float, BeforeValidator(float), Field(ge=0, le=1)] = 0.001
    """Of a topic partition's records in one batch; over it, that topic partition stops before anything is committed."""


class Autoscaling(Model):
    """How many executors, when the operator decides."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    max_replicas: Annotated[int, Field(ge=1)] = 10
    target_lag: Duration = timedelta(minutes=2)
    catch_up: Duration = timedelta(minutes=30)

    @model_validator(mode="after")
    def _ordered(self) -> "Autoscaling":
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas {self.min_replicas} is over maxReplicas {self.max_replicas}")
        return self


class Rollback(Model):
    """When a new generation is taken back."""

    window: Duration = timedelta(hours=2)
    max_commit_failures: Annotated[int, Field(ge=1)] = 5


class Upgrade(Model):
    """How one generation hands over to the next."""

    strategy: Literal["HandOver", "Recreate"] = "HandOver"
    drain_timeout: Duration = timedelta(minutes=10)
    rollback: Rollback = Rollback()


class Tuning(Model):
    """Knobs with good defaults."""

    poll_interval: Duration = timedelta(seconds=1)
    task_memory: Annotated[Bytes, Field(ge=64 * 2**20)] = 256 * 2**20
    """What one task may hold in output buffers."""
    max_rounds: Annotated[int, Field(ge=1, le=64)] = 4
    """Rounds under way at once."""
    max_unapplied: Annotated[int, Field(ge=1, le=64)] = 4
    """Commits whose objects are not all visible yet."""
    max_round_bytes: Bytes = 2 * 2**30
    read_timeout: Duration = timedelta(seconds=60)
    """A reader that makes no progress for this long gives its slice up."""
    orphan_age: Duration = timedelta(hours=24)
    """Uploads older than this that no commit names are aborted."""
    snapshot_every: Annotated[int, Field(ge=2)] = 500
    """Ledger records between two snapshots."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    spark_conf: dict[str, str] = Field(default_factory=dict)


class GroupSpec(Model):
    """What a consumer group lands, how and where."""

    generation: Annotated[int, Field(ge=0)] = 1
    image: str | None = None
    state: Literal["Running", "Suspended"] = "Running"
    replicas: Annotated[int, Field(ge=0)] = 1
    source: Source
    decode: Decode = Decode()
    transforms: tuple[TransformStep, ...] = ()
    route: Route = Route()
    output: Output
    upload_policy: UploadPolicy = UploadPolicy()
    bad_records: BadRecords = BadRecords()
    autoscaling: Autoscaling | None = None
    upgrade: Upgrade = Upgrade()
    tuning: Tuning = Tuning()


class Metadata(BaseModel):
    """The part of Kubernetes' metadata that Landfall reads; the rest is let through."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
    namespace: str = "default"


class ConsumerGroup(Model):
    """The resource."""

    api_version: Literal["landfall.dev/v1alpha1"]
    kind: Literal["ConsumerGroup"]
    metadata: Metadata
    spec: GroupSpec
    status: dict[str, object] | None = Field(default=None, exclude=True)

    @property
    def kafka_group_id(self) -> str:
        """The Kafka group whose committed offsets mirror the ledger."""
        return self.spec.source.kafka.group_id or f"{self.metadata.namespace}.{self.metadata.name}"


def parse_group(document: object) -> ConsumerGroup:
    """The resource in a parsed YAML or JSON document.

    Raises:
        Stalled: SPEC_INVALID, with a line per fault: the path to the field, then what is wrong with it.
    """
    try:
        return ConsumerGroup.model_validate(document)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(_faults(error))) from None


def _faults(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in fault['loc']) or 'document'}: {_said(fault['type'], fault['msg'])}"
        for fault in error.errors()
    ]


def _said(kind: str, message: str) -> str:
    return "unknown field" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
