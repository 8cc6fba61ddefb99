"""The sections ``spec.route`` and ``spec.output``: where objects are written, and how."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from landfall.api.pod_spec import Model
from landfall.api.route_pattern import checked_route, checked_topic_path
from landfall.api.spec.roots import Root, Url
from landfall.api.values import Bytes, Name, Settings, TimeZone, built_in


class Route(Model):
    """The output partition that a record is written to."""

    pattern: Annotated[Name, AfterValidator(checked_route)] = "dt={date}"
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


class Output(Root):
    """Where objects are written, and in which format."""

    url: Url
    """Output root, such as ``s3://logs/parsed``. All objects and the ledger are under it.
    ``s3://BUCKET/PREFIX``, ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX`` (Azure),
    ``gs://BUCKET/PREFIX`` (Google), ``hdfs://HOST:PORT/FOLDER`` or ``file:///FOLDER``.
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
    level: int | None = None
    """Level of the compression: 1 to 3 for ``Gzip`` and ``Deflate`` (2 if not set; Parquet has 1 to
    9, and 6), 1 to 19 for ``Zstd`` (3). Higher levels make smaller objects and take more CPU time.
    """
    columns: ColumnSource = ColumnSource.DECLARED
    """Where the columns of Parquet and Orc come from. ``Declared``: from ``decode.columns``, or the
    whole Kafka record's if there are none. ``FromSchema``: from the schema of the payloads, for
    Avro, Protobuf and Thrift; each schema then has objects of its own.
    """
    options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the format."""
    existing_objects: Literal["Refuse", "Keep"] = "Refuse"
    """What to do about objects that the ledger does not know, in the root when a ledger is started
    or in the folder of a topic that is new to it: ``Refuse`` to land, or ``Keep`` them and land
    next to them, as after another program such as Secor. ``generation`` must then be above theirs.
    """
    rotate: Rotate = Rotate()
    """When an object ends and the next one of the same output partition begins."""
