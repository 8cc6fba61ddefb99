"""The ``ConsumerGroup`` resource: what a user writes, checked.

Both halves of Landfall read this model and nothing else: the operator makes the CRD from it, the
driver runs by it, and ``landfall run group.yaml`` takes the same file. Field names are camelCase in
YAML. An unknown field is refused with its path; so is a value out of range. Secrets appear by
reference only.

Quantities are written as Kubernetes does (``256Mi``, ``1G``), durations as ``90s``, ``5m``,
``1h30m``.
"""

import re
from collections.abc import Iterator, Mapping
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

from landfall.api.pod_spec import DriverPod, ExecutorPod, Model
from landfall.api.spec_errors import VARIANT, spec_errors
from landfall.api.values import (
    Bytes,
    DnsName,
    Duration,
    Instant,
    Name,
    Pattern,
    Ratio,
    Setting,
    Settings,
    TimeFormat,
    TimeZone,
    matching,
)
from landfall.errors import Reason, Stalled

MAX_EXECUTORS = 1000
"""Of one group; more is a typing error."""


class SecretRef(Model):
    """A Kubernetes Secret, or on a bare machine a folder with one file per key."""

    name: DnsName
    """Of a Secret in the group's own namespace."""


# ------------------------------------------------------------------------------------------- source


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    return names


def _not_dots(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError(f"no topic can be called {name!r}")
    return name


TopicName = Annotated[
    str,
    matching(r"[a-zA-Z0-9._-]{1,249}", "a topic name (letters, digits, . _ - only)"),
    AfterValidator(_not_dots),
]
PartitionNumber = Annotated[
    str, matching(r"0|[1-9][0-9]{0,8}", "a Kafka partition number in quotes")
]


class StartAtOffsets(Model):
    """Explicit starting offsets: topic, then Kafka partition (as text), then offset; the rest starts at Earliest."""

    offsets: dict[TopicName, dict[PartitionNumber, Annotated[int, Field(ge=0)]]]
    """By topic, then Kafka partition."""


class StartAtTime(Model):
    """Start at the first record whose Kafka timestamp is at or after this instant."""

    timestamp: Instant
    """As in ``2026-11-21T00:00:00Z``."""


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
    """Addresses of some brokers, as in ``kafka-0:9092,kafka-1:9092``."""
    topics: Annotated[tuple[TopicName, ...], AfterValidator(_distinct)] = ()
    """Names of the topics to land; either this or ``topicPattern``."""
    topic_pattern: Pattern | None = None
    """Regular expression that matches the whole names of topics; new ones are found within
    ``discoveryInterval``.
    """
    exclude: Pattern | None = None
    """Regular expression that matches the whole names of topics that are left out."""
    starting_offsets: StartingOffsets = "Earliest"
    """Where topic partitions begin that the ledger does not know yet: Earliest, Latest,
    ``{timestamp:
    TIME}`` or ``{offsets: {TOPIC: {'PARTITION': OFFSET}}}``.
    """
    on_data_loss: Literal["Stall", "SkipAndRecord"] = "Stall"
    """When offsets expired before they were landed: Stall waits for a person, SkipAndRecord leaves
    a hole and says so in the ledger.
    """
    group_id: str | None = None
    """Kafka group id of the offset mirror, for other tools to see; ``<namespace>.<name>`` when left
    out.
    """
    properties: dict[str, Setting] = Field(default_factory=dict)
    """Plain librdkafka properties, such as ``security.protocol``."""
    properties_secret_ref: SecretRef | None = None
    """Secret properties: a file ``properties`` with key=value lines, any other file is the property
    of its name.
    """
    discovery_interval: Duration = timedelta(seconds=30)
    """How often to look for new topics and Kafka partitions."""

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
                raise ValueError(
                    f"startingOffsets names topics that are not landed: {', '.join(strangers)}"
                )
        return self


class Source(Model):
    """The ordered log the group lands."""

    kafka: Kafka
    """A Kafka cluster and topics of it."""


# ------------------------------------------------------------------------------------------- decode


class TimeUnit(StrEnum):
    """How a payload field tells the time."""

    AUTO = "Auto"
    """A number whose size tells its unit, by Secor's rule; text is read as ISO-8601, digits as a
    number.
    """
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
    """Name of the field; dots part a nested path, as in ``meta.ts``."""
    separator: str = "."
    """What parts a nested path; empty for a field name that holds dots."""
    unit: TimeUnit = TimeUnit.AUTO
    """How the field tells the time. Auto: the size of a number tells its unit, text is read as
    ISO-8601. Custom: by ``format``.
    """
    format: TimeFormat | None = None
    """With unit Custom: strptime directives, as in ``%d/%b/%Y:%H:%M:%S``."""
    timezone: TimeZone = "UTC"
    """IANA time zone of times that are written without one."""
    missing: MissingTimestamp = MissingTimestamp.DEAD_LETTER
    """What becomes of a record without the field: it is a dead letter, or dated by Kafka, or 1970.
    """

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
            raise ValueError(
                f"field {self.field!r} has an empty step; separator: '' takes it as one name"
            )
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
    """Name of the column, as readers see it."""
    type: ColumnType
    """Its type. Timestamp is milliseconds since 1970 in UTC, Json is anything as text."""
    field: str | None = None
    """Payload field, dots part a nested path; the column's own name when left out."""
    nullable: bool = True
    """Whether a record may lack it."""


def _distinct_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    _distinct(tuple(column.name for column in columns))
    return columns


class Decode(Model):
    """How to read payloads: ``Raw``, ``Json``, ``Delimited``, ``Regex``, or your own ``package.module:Name``."""

    format: Name = "Raw"
    """Decoder: ``Raw``, ``Json``, ``Delimited``, ``Regex``, or your own ``package.module:Name``."""
    timestamp: Timestamp | None = None
    """The payload field that dates a record; without one, the Kafka timestamp does."""
    options: dict[str, Settings] = Field(default_factory=dict)
    """Of the decoder. Delimited: separator, columns. Regex: pattern (named groups). Yours: whatever
    it takes.
    """
    columns: Annotated[tuple[Column, ...], AfterValidator(_distinct_columns)] = ()
    """Typed columns; they are never inferred from data."""


class TransformStep(Model):
    """A step of your own between decoding and routing."""

    use: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")]
    """Where it is found on the Python path, as in ``shop.steps:Anonymise``."""
    options: dict[str, Settings] = Field(default_factory=dict)
    """Whatever it takes."""


# ------------------------------------------------------------------------------------ route, output


class Route(Model):
    """Which output partition a record goes to."""

    pattern: Name = "dt={date}"
    """Folders between topic and file, from event times and payload fields, as in
    ``dt={date}/hr={hour}``.
    """
    timezone: TimeZone = "UTC"
    """IANA time zone of dates and hours in names."""


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    """Kind of encryption."""
    kms_key_id: str | None = None
    """Id of the KMS key; the bucket's own when left out."""

    @model_validator(mode="after")
    def _key_is_for_kms(self) -> "Sse":
        if self.kms_key_id and self.type == "AES256":
            raise ValueError("kmsKeyId goes with type aws:kms or aws:kms:dsse")
        return self


class AssumeRole(Model):
    """A role to take before talking to S3."""

    role_arn: str
    """ARN of the role."""
    session_name: str = "landfall"
    """What the session is called in audit logs."""
    external_id: str | None = None
    """External id, if the role asks for one."""


class S3(Model):
    """How to reach an S3 bucket; without credentials here, boto3's default chain is used."""

    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://s3.example.com")]
        | None
    ) = None
    """Address of a store that is not AWS."""
    region: str | None = None
    """AWS region of the bucket."""
    path_style: bool = False
    """Put the bucket into the path of requests, as many S3 clones need it."""
    profile: str | None = None
    """Profile in boto3's configuration files."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and
    ``AWS_SESSION_TOKEN`` if there is one.
    """
    assume_role: AssumeRole | None = None
    """A role to take before talking to S3."""
    sse: Sse | None = None
    """Encryption that each object asks for; the bucket's own when left out."""
    part_bytes: Annotated[Bytes, Field(ge=5 * 2**20, le=5 * 2**30)] = 16 * 2**20
    """Size of the parts of a multipart upload."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """Tries of one request before the store counts as away."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Longest wait for a connection."""
    read_timeout: Duration = timedelta(seconds=60)
    """Longest wait for an answer."""


class Codec(StrEnum):
    """Compression of landed objects."""

    NONE = "None"
    GZIP = "Gzip"
    ZSTD = "Zstd"
    DEFLATE = "Deflate"
    SNAPPY = "Snappy"


class Output(Model):
    """Where objects go and what they look like: ``Text``, ``Json``, ``SequenceFile``, ``Parquet``, or your own."""

    url: Annotated[
        str,
        matching(r"[a-z][a-z0-9+.-]*://.+", "a URL such as s3://BUCKET/PREFIX or file:///FOLDER"),
    ]
    """Root of everything that is landed, and of the ledger, as in ``s3://logs/parsed``."""
    store: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")] | None = None
    """A store of your own, which reads ``url`` as it likes; without one, that is
    ``s3://bucket/prefix`` or ``file:///folder``.
    """
    format: Name = "Json"
    """Format of objects: ``Text``, ``Json``, ``SequenceFile``, ``Parquet``, or your own
    ``package.module:Name``.
    """
    codec: Codec | None = None
    """Compression; the format's usual one when left out."""
    options: dict[str, Setting] = Field(default_factory=dict)
    """Options of the format."""
    s3: S3 = S3()
    """How to reach an S3 bucket; without credentials here, boto3's default chain is used."""

    @model_validator(mode="after")
    def _we_know_the_store(self) -> "Output":
        if not self.store and not re.fullmatch(r"s3://[^/]+(/.*)?|file:///.+", self.url):
            raise ValueError(
                f"url is neither s3://BUCKET/PREFIX nor file:///FOLDER, and no store of your own is named: {self.url!r}"
            )
        return self


# ----------------------------------------------------------------------------------------- policies


class Override(Model):
    """An upload policy of its own for some topics."""

    topics: Pattern
    """Regular expression that matches the whole names of topics."""
    max_bytes: Bytes | None = None
    """Instead of the group's ``maxBytes``."""
    max_age: Duration | None = None
    """Instead of the group's ``maxAge``."""


class UploadPolicy(Model):
    """When an unlanded range is due, whichever comes first; the first override that matches a topic counts."""

    max_bytes: Bytes = 256 * 2**20
    """Estimated payload bytes of a topic partition that are worth an object."""
    max_age: Duration = timedelta(minutes=5)
    """How long a record may wait to be landed."""
    overrides: tuple[Override, ...] = ()
    """Upload policies of some topics; the first that matches counts."""


class BadRecords(Model):
    """What becomes of a record that cannot be decoded, routed or encoded."""

    policy: Literal["DeadLetter", "Fail"] = "DeadLetter"
    """DeadLetter lands it with its error beside the others, Fail stops its topic partition at once.
    """
    max_ratio: Ratio = 0.001
    """Share of a topic partition's records in one batch; over it, that topic partition stops before
    anything is committed.
    """


class Autoscaling(Model):
    """How many executors, when the operator decides."""

    min_replicas: Annotated[int, Field(ge=0, le=MAX_EXECUTORS)] = 1
    """Executors at least; what an idle group shrinks to."""
    max_replicas: Annotated[int, Field(ge=1, le=MAX_EXECUTORS)] = 10
    """Executors at most."""
    target_lag: Duration = timedelta(minutes=2)
    """How long records may be overdue before it counts as falling behind."""
    catch_up: Duration = timedelta(minutes=30)
    """In what time a backlog should be worked off."""

    @model_validator(mode="after")
    def _ordered(self) -> "Autoscaling":
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"minReplicas {self.min_replicas} is over maxReplicas {self.max_replicas}"
            )
        return self


class Rollback(Model):
    """When a new generation is taken back."""

    window: Duration = timedelta(hours=2)
    """How long after its first commit it is watched."""
    max_commit_failures: Annotated[int, Field(ge=1)] = 5
    """Failures in a row that take it back."""


class Upgrade(Model):
    """How one generation hands over to the next."""

    strategy: Literal["HandOver", "Recreate"] = "HandOver"
    """HandOver warms the next driver up beside the running one; Recreate stops that first and needs
    no room for two.
    """
    drain_timeout: Duration = timedelta(minutes=10)
    """How long a driver may finish what it has begun; then it is fenced, and what it had not
    committed is landed again.
    """
    rollback: Rollback = Rollback()
    """When a new generation is taken back by itself."""


class Tuning(Model):
    """Knobs with good defaults."""

    poll_interval: Duration = timedelta(seconds=1)
    """How often the driver looks at the log."""
    task_memory: Annotated[Bytes, Field(ge=64 * 2**20)] = 256 * 2**20
    """What one task may hold in output buffers."""
    max_rounds: Annotated[int, Field(ge=1, le=64)] = 4
    """Rounds under way at once."""
    max_unapplied: Annotated[int, Field(ge=1, le=64)] = 4
    """Commits whose objects are not all visible yet."""
    max_round_bytes: Bytes = 2 * 2**30
    """Estimated payload bytes of a round at most."""
    read_timeout: Duration = timedelta(seconds=60)
    """A reader that makes no progress for this long gives its slice up."""
    orphan_age: Annotated[Duration, Field(ge=timedelta(hours=1))] = timedelta(hours=24)
    """Age at which uploads that no commit names are aborted."""
    snapshot_every: Annotated[int, Field(ge=2)] = 500
    """Ledger records between two snapshots."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Where a driver on a bare machine serves status and metrics; in a cluster that is always 8080.
    """
    spark_conf: dict[str, str] = Field(default_factory=dict)
    """Properties of Spark; they win over Landfall's own."""


class GroupSpec(Model):
    """What a consumer group lands, how and where."""

    generation: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    """Label in file names; raise it for an incompatible change."""
    image: Name | None = None
    """Image of driver and executors; that of the operator's own release when left out."""
    state: Literal["Running", "Suspended"] = "Running"
    """Suspended drains, hands the lane over and stops; Running goes on where it stopped."""
    replicas: Annotated[int, Field(ge=0, le=MAX_EXECUTORS)] = 1
    """Executors; ``kubectl scale``, HPA and KEDA write it. Not read where ``autoscaling`` is given.
    """
    source: Source
    """Which topics to land, from where on."""
    decode: Decode = Decode()
    """How to read payloads, and what dates a record."""
    transforms: tuple[TransformStep, ...] = ()
    """Steps of your own between decoding and routing, in order."""
    route: Route = Route()
    """Which output partition a record goes to."""
    output: Output
    """Where objects go and what they look like."""
    upload_policy: UploadPolicy = UploadPolicy()
    """When records are due to be landed: when enough bytes have gathered or the oldest is old
    enough, whichever comes first.
    """
    bad_records: BadRecords = BadRecords()
    """What becomes of a record that cannot be decoded, routed or encoded."""
    autoscaling: Autoscaling | None = None
    """Lets the operator decide how many executors there are."""
    upgrade: Upgrade = Upgrade()
    """How one generation hands over to the next."""
    driver: DriverPod = DriverPod()
    """The driver's pod; its container is called ``driver``."""
    executor: ExecutorPod = ExecutorPod()
    """Pods of executors; their container is called ``executor``."""
    tuning: Tuning = Tuning()
    """Knobs with good defaults."""


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
        Stalled: SPEC_INVALID, with a line per fault: the path to the field, then what is wrong with
            it.
    """
    try:
        return ConsumerGroup.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, _FIELDS))) from None


def _models(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    for kind in model.__subclasses__():
        yield from _models(kind)


_FIELDS = sorted(
    set(chain.from_iterable(map(to_camel, model.model_fields) for model in _models(Model)))
)
