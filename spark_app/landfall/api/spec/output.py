"""The sections ``spec.route`` and ``spec.output``: where objects are written, and how."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.route_pattern import checked_pattern, checked_topic_path
from landfall.api.spec.shared import SecretRef
from landfall.api.values import Bytes, Duration, Name, Settings, TimeZone, built_in, matching


class Route(Model):
    """Which output partition a record is written to."""

    pattern: Annotated[Name, AfterValidator(checked_pattern)] = "dt={date}"
    """Template of the folders between topic and object name, from event time and payload fields,
    such as ``dt={date}/hr={hour}``.
    """
    timezone: TimeZone = "UTC"
    """IANA time zone of the dates and hours in the template."""
    topic_path: Annotated[Name, AfterValidator(checked_topic_path)] | None = None
    """Template of the folders from the output root to the topic's own, by which records choose
    their destination, such as ``db={field:app}/{topic}``. The topic's folder is in the root if not
    set.
    """


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    """Encryption type, as in the S3 API."""
    kms_key_id: str | None = None
    """ID of the KMS key. The bucket's default key if not set."""

    @model_validator(mode="after")
    def _key_is_for_kms(self) -> "Sse":
        if self.kms_key_id and self.type == "AES256":
            raise ValueError("kmsKeyId goes with type aws:kms or aws:kms:dsse")
        return self


class AssumeRole(Model):
    """An IAM role to assume for access to S3."""

    role_arn: str
    """ARN of the role."""
    session_name: str = "landfall"
    """Session name that appears in audit logs."""
    external_id: str | None = None
    """External ID, if the role requires one."""


class S3(Model):
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""

    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://s3.example.com")]
        | None
    ) = None
    """URL of an S3-compatible store. AWS if not set."""
    region: str | None = None
    """AWS region of the bucket."""
    path_style: bool = False
    """Put the bucket name into the path of the URL instead of the host name. Many S3-compatible
    stores need this.
    """
    profile: str | None = None
    """Profile in boto3's configuration files."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``.
    """
    assume_role: AssumeRole | None = None
    """An IAM role to assume for access to S3."""
    sse: Sse | None = None
    """Server-side encryption requested for each object. The bucket's default if not set."""
    part_bytes: Annotated[Bytes, Field(ge=5 * 2**20, le=5 * 2**30)] = 16 * 2**20
    """Part size of multipart uploads, in bytes."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """How often a request is attempted before the store is considered unavailable."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Timeout for opening a connection."""
    read_timeout: Duration = timedelta(seconds=60)
    """Timeout for a response."""


class Codec(StrEnum):
    """Compression of landed objects."""

    NONE = "None"
    GZIP = "Gzip"
    ZSTD = "Zstd"
    DEFLATE = "Deflate"
    SNAPPY = "Snappy"


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class Rotate(Model):
    """When an object ends and the next one of the same output partition begins.

    Without limits here, a batch writes one object for each range and output partition, within what
    the store allows.
    """

    max_object_bytes: Bytes | None = None
    """Size at which an object ends. It may exceed this by a block of the format."""
    max_records: Annotated[int, Field(ge=1)] | None = None
    """Number of records at which an object ends."""


class ColumnSource(StrEnum):
    """Where the columns of typed output come from."""

    DECLARED = "Declared"
    """From ``decode.columns``."""
    FROM_SCHEMA = "FromSchema"
    """From the schema of the payloads."""


class Output(Model):
    """Where objects are written, and in which format."""

    url: Annotated[
        str,
        matching(r"[a-z][a-z0-9+.-]*://.+", "a URL such as s3://BUCKET/PREFIX or file:///FOLDER"),
    ]
    """Output root, such as ``s3://logs/parsed``. All objects and the ledger are under it."""
    store: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")] | None = None
    """Import path of a custom store, which interprets ``url`` itself. Without one, ``url`` is
    ``s3://BUCKET/PREFIX`` or ``file:///FOLDER``.
    """
    # The default depends on the decoder, so the schema has none: ``GroupSpec`` fills it in.
    format: Annotated[
        str,
        built_in("Text", "Json", "SequenceFile", "Parquet", "Orc", "Avro"),
        Field(json_schema_extra=_without_default),
    ] = "Json"
    """Object format: ``Text``, ``Json``, ``SequenceFile``, ``Parquet``, ``Orc``, ``Avro``, or a
    custom
    ``package.module:Name``. If not set, ``SequenceFile`` for ``decode.format: Raw``, which keeps
    every payload, key and offset as it is, and ``Json`` for any other decoder.
    """
    codec: Codec | None = None
    """Compression. The default of the format if not set."""
    columns: ColumnSource = ColumnSource.DECLARED
    """Where the columns of Parquet and Orc come from. ``Declared``: from ``decode.columns``, or
    those of the whole Kafka record if there are none. ``FromSchema``: from the schema of the
    payloads, for Avro, Protobuf and Thrift; each schema then has objects of its own.
    """
    options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the format."""
    existing_objects: Literal["Refuse", "Keep"] = "Refuse"
    """What to do about objects that the ledger does not know, in the root when a ledger is started
    or in the folder of a topic that is new to it: ``Refuse`` to land, or ``Keep`` them and land
    beside them, as after another program such as Secor. ``generation`` must then be above theirs.
    """
    rotate: Rotate = Rotate()
    """When an object ends and the next one of the same output partition begins."""
    s3: S3 = S3()
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""

    @model_validator(mode="after")
    def _store_is_known(self) -> "Output":
        if not self.store and not re.fullmatch(r"s3://[^/]+(/.*)?|file:///.+", self.url):
            raise ValueError(
                "url is neither s3://BUCKET/PREFIX nor file:///FOLDER, "
                f"and no store of your own is named: {self.url!r}"
            )
        return self
