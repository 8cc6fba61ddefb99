"""The sections ``spec.route`` and ``spec.output``: where objects are written, and how."""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict

from pydantic import AfterValidator, Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.route_pattern import checked_pattern, checked_topic_path
from landfall.api.spec.s3 import S3
from landfall.api.spec.stores import SCHEMES, Azure, Gcs, Hdfs, StoreAccess
from landfall.api.values import Bytes, Name, Settings, TimeZone, built_in, matching


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


class Access(TypedDict, total=False):
    """How stores are accessed, for those that are accessed otherwise than by default."""

    s3: S3
    azure: Azure
    gcs: Gcs
    hdfs: Hdfs


URL_PATTERN = "(s3|gs)://[^/]+(/.*)?|abfss://[^/@]+@[^/@]+(/.*)?|hdfs://[^/]+/.+|file:///.+"
"""The URLs of the stores that Landfall has."""


class Output(Model):
    """Where objects are written, and in which format."""

    url: Annotated[
        str,
        matching(r"[a-z][a-z0-9+.-]*://.+", "a URL such as s3://BUCKET/PREFIX or file:///FOLDER"),
    ]
    """Output root, such as ``s3://logs/parsed``. All objects and the ledger are under it.
    ``s3://BUCKET/PREFIX``, ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX`` (Azure),
    ``gs://BUCKET/PREFIX`` (Google), ``hdfs://HOST:PORT/FOLDER`` or ``file:///FOLDER``.
    """
    store: Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")] | None = None
    """Import path of a custom store, which interprets ``url`` itself."""
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

    azure: Azure = Azure()
    """How to access Azure Blob Storage. Without credentials here, the default chain of Azure's
    library is used, such as workload identity.
    """
    gcs: Gcs = Gcs()
    """How to access Google Cloud Storage. Without credentials here, the application default
    credentials are used, such as workload identity.
    """
    hdfs: Hdfs = Hdfs()
    """How to access HDFS."""

    @property
    def access(self) -> StoreAccess:
        """The section of the store that ``url`` names; ``s3`` for one without a section."""
        access: StoreAccess = getattr(self, self.access_field)
        return access

    @property
    def access_field(self) -> str:
        """The name of that section."""
        return SCHEMES.get(self.url.partition("://")[0], "s3")

    @model_validator(mode="after")
    def _store_is_known(self) -> "Output":
        if not self.store and not re.fullmatch(URL_PATTERN, self.url):
            raise ValueError(
                "url is none of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, "
                "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX and file:///FOLDER, "
                f"and no store of your own is named: {self.url!r}"
            )
        return self
