"""The ``ConsumerGroup`` resource: what a user writes, checked.

Both halves of Landfall read this model and nothing else: the operator makes the CRD from it, the driver runs by it, and
``landfall run group.yaml`` takes the same file. Field names are camelCase in YAML. An unknown field is refused with its
path; so is a value out of range. Secrets appear by reference only.

Quantities are written as Kubernetes does (``256Mi``, ``1G``), durations as ``90s``, ``5m``, ``1h30m``.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import chain
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from landfall.errors import Reason, Stalled
from landfall.faults import VARIANT, faults
from landfall.values import (
    Bytes,
    Duration,
    Instant,
    Pattern,
    Ratio,
    Setting,
    Settings,
    TimeFormat,
    TimeZone,
    matching,
)

Name = Annotated[str, Field(min_length=1)]
DnsName = Annotated[
    str, matching(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", "lower case letters, digits, - and . (63 at most)")
]


class Model(BaseModel):
    """The common ground: frozen, camelCase, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class SecretRef(Model):
    """A Kubernetes Secret, or on a bare machine a folder with one file per key."""

    name: str


# --------------------------------------------------------------------------------------------------------- source


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    return names


TopicName = Annotated[str, matching(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", "a topic name (letters, digits, . _ - only)")]
PartitionNumber = Annotated[str, matching(r"0|[1-9]\d{0,8}", "a Kafka partition number in quotes")]


class StartAtOffsets(Model):
    """Explicit starting offsets: topic, then Kafka partition (as text), then offset; the rest starts at Earliest."""

    offsets: dict[TopicName, dict[PartitionNumber, Annotated[int, Field(ge=0)]]]


class StartAtTime(Model):
    """Start at the first record whose Kafka timestamp is at or after this instant."""

    timestamp: Instant


def _variant(value: object) -> str | None:
    """Which way to say where to start this is, by its shape."""
    if isinstance(value, StartAtTime) or (isinstance(value, Mapping) and "timestamp" in value):
        return f"{VARIANT}time"
    if isinstance(value, StartAtOffsets) or (isinstance(value, Mapping) and "offsets" in value):
        return f"{VARIANT}offsets"
    return f"{VARIANT}name" if value in ("Earliest", "Latest") else None


StartingOffsets = Annotated[
    Annotated[Literal["Earliest", "Latest"], Tag(f"{VARIANT}name")]
    | Annotated[StartAtTime, Tag(f"{VARIANT}time")]
    | Annotated[StartAtOffsets, Tag(f"{VARIANT}offsets")],
    Discriminator(
        _variant,
        custom_error_type="starting_offsets",
        custom_error_message="should be Earliest, Latest, {timestamp: TIME} or {offsets: {TOPIC: {'PARTITION': OFFSET}}}",
    ),
]


class Kafka(Model):
    """Which topics, of which Kafka, from where on."""

    bootstrap_servers: Name
    topics: Annotated[tuple[TopicName, ...], AfterValidator(_distinct)] = ()
    topic_pattern: Pattern | None = None
    exclude: Pattern | None = None
    starting_offsets: StartingOffsets = "Earliest"
    on_data_loss: Literal["Stall", "SkipAndRecord"] = "Stall"
    group_id: str | None = None
    """Kafka group id of the offset mirror; ``<namespace>.<name>`` when left out."""
    properties: dict[str, Setting] = Field(default_factory=dict)
    """Plain librdkafka properties, such as ``security.protocol``."""
    properties_secret_ref: SecretRef | None = None
    discovery_interval: Duration = timedelta(seconds=30)

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> "Kafka":
        if bool(self.topics) == bool(self.topic_pattern):
            raise ValueError("exactly one of topics and topicPattern is needed")
        return self

    @model_validator(mode="after")
    def _starts_where_it_lands(self) -> "Kafka":
        if self.topics and isinstance(self.starting_offsets, StartAtOffsets):
            strangers = sorted(self.starting_offsets.offsets.keys() - set(self.topics))
            if strangers:
                raise ValueError(f"startingOffsets names topics that are not landed: {', '.join(strangers)}")
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

    field: Name
    separator: str = "."
    """What parts a nested path; empty for a field name that holds dots."""
    unit: TimeUnit = TimeUnit.AUTO
    format: TimeFormat | None = None
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

    @model_validator(mode="after")
    def _path_has_no_hole(self) -> "Timestamp":
        if not all(self.path):
            raise ValueError(f"field {self.field!r} has an empty step; separator: '' takes it as one name")
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

    name: Name
    type: ColumnType
    field: str | None = None
    """Payload field, dots part a nested path; the column's own name when left out."""
    nullable: bool = True


def _distinct_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    _distinct(tuple(column.name for column in columns))
    return columns


class Decode(Model):
    """How to read payloads: ``Raw``, ``Json``, ``Delimited``, ``Regex``, or your own ``package.module:Name``."""

    format: str = "Raw"
    timestamp: Timestamp | None = None
    """Without one, the Kafka timestamp dates a record."""
    options: dict[str, Settings] = Field(default_factory=dict)
    """Delimited: separator, columns. Regex: pattern (named groups). Yours: whatever it takes."""
    columns: Annotated[tuple[Column, ...], AfterValidator(_distinct_columns)] = ()
    """Typed columns; they are never inferred from data."""


class TransformStep(Model):
    """A step of your own between decoding and routing."""

    use: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")]
    options: dict[str, Settings] = Field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------- route, output


class Route(Model):
    """Which output partition a record goes to."""

    pattern: str = "dt={date}"
    timezone: TimeZone = "UTC"


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    kms_key_id: str | None = None

    @model_validator(mode="after")
    def _key_is_for_kms(self) -> "Sse":
        if self.kms_key_id and self.type == "AES256":
            raise ValueError("kmsKeyId goes with type aws:kms or aws:kms:dsse")
        return self


class AssumeRole(Model):
    """A role to take before talking to S3."""

    role_arn: str
    session_name: str = "landfall"
    external_id: str | None = None


class S3(Model):
    """How to reach an S3 bucket; without credentials here, boto3's default chain is used."""

    endpoint: Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://s3.example.com")] | None = None
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

    url: Annotated[str, matching(r"[a-z][a-z0-9+.-]*://.+", "a URL such as s3://BUCKET/PREFIX or file:///FOLDER")]
    store: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")] | None = None
    """A store of your own, which reads ``url`` as it likes; without one, that is ``s3://bucket/prefix`` or ``file:///folder``."""
    format: str = "Json"
    codec: Codec | None = None
    """The format's usual one when left out."""
    options: dict[str, Setting] = Field(default_factory=dict)
    s3: S3 = S3()

    @model_validator(mode="after")
    def _we_know_the_store(self) -> "Output":
        if not self.store and not re.fullmatch(r"s3://[^/]+(/.*)?|file:///.+", self.url):
            raise ValueError(
                f"url is neither s3://BUCKET/PREFIX nor file:///FOLDER, and no store of your own is named: {self.url!r}"
            )
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
    max_ratio: Ratio = 0.001
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
    orphan_age: Annotated[Duration, Field(ge=timedelta(hours=1))] = timedelta(hours=24)
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
    name: DnsName
    namespace: DnsName = "default"


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
        return ConsumerGroup.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(faults(error, _FIELDS))) from None


_FIELDS = sorted(set(chain.from_iterable(map(to_camel, model.model_fields) for model in Model.__subclasses__())))
