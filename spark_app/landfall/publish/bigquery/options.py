"""The options of the publisher ``BigQuery``, checked. Pure.

A name in a template is ``{topic}``, or the name of a folder in an object's key: ``{db}`` is
``shop`` of an object below ``db=shop``.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

import msgspec

from landfall.api.spec import ConsumerGroup
from landfall.api.spec.effective import TopicSpecs
from landfall.ledger.names.object_names import ObjectName
from landfall.pipeline.decoders.options import read_options
from landfall.publish.bigquery.kinds import AVRO, FORMATS, JSON
from landfall.publish.bigquery.warehouse import BigQueryTableSettings

MAX_URIS = 10_000
"""BigQuery's limit of source URIs in a load job ("Quotas and limits", load jobs)."""
MAX_BYTES = 15 * 2**40
"""BigQuery's limit of bytes in a load job, the same page."""
MIN_INTERVAL = timedelta(minutes=1)
"""A table takes 1,500 loads a day, the same page."""
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{0,61}[a-z0-9]")
_STAGING = re.compile(r"gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/[^*]*)?")
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
DEFAULT_TABLE = "{topic}"
"""The option ``table`` of a publisher without it."""
_UPDATES = {
    "AllowFieldAddition": "ALLOW_FIELD_ADDITION",
    "AllowFieldRelaxation": "ALLOW_FIELD_RELAXATION",
}
_REGIONS = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


class Partitioning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How new tables are partitioned by time."""

    type: Literal["Hour", "Day", "Month", "Year"] = "Day"
    column: str = ""
    expiration_days: Annotated[int, msgspec.Meta(ge=1)] | None = None


class BigQueryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options as they are written."""

    project: str
    dataset: str
    table: str = DEFAULT_TABLE
    job_project: str = ""
    staging: str = ""
    keep_staged: bool = False
    create_table: bool = True
    create_dataset_in: str = ""
    partitioning: Partitioning | None = None
    clustering: Annotated[tuple[str, ...], msgspec.Meta(max_length=4)] = ()
    schema_update: tuple[Literal["AllowFieldAddition", "AllowFieldRelaxation"], ...] = (
        "AllowFieldAddition",
    )
    start_at: Literal["Beginning", "Now"] | Annotated[int, msgspec.Meta(ge=0)] = "Beginning"
    skip: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] = ()
    max_objects: Annotated[int, msgspec.Meta(ge=1, le=MAX_URIS)] = MAX_URIS
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_BYTES)] = 2**40
    parallel: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    labels: dict[str, str] = {}
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 60
    endpoint: str = ""
    storage_endpoint: str = ""

    @property
    def table_settings(self) -> BigQueryTableSettings:
        """How tables are made and changed."""
        by_time = self.partitioning
        days = by_time.expiration_days if by_time else None
        return BigQueryTableSettings(
            creates=self.create_table,
            partitioning=(by_time.type.upper(), by_time.column) if by_time else None,
            expiration_ms=days * 86_400_000 if days else None,
            clustering=self.clustering,
            updates=tuple(_UPDATES[update] for update in self.schema_update),
            dataset_location=self.create_dataset_in,
        )


def checked(
    options: Mapping[str, object], group: ConsumerGroup, interval: timedelta
) -> BigQueryOptions:
    """The options of an entry of ``spec.publish``.

    Raises:
        ValueError: an option is wrong, or does not fit the group.
    """
    read = read_options(options, BigQueryOptions)
    _check_names(read)
    _check_places(read, group.spec.output.url)
    if interval < MIN_INTERVAL:
        raise ValueError(
            "options: BigQuery takes 1,500 loads of a table a day: set minInterval to 1m or more"
        )
    for path, spec in TopicSpecs.of(group.spec).used():
        _check_output(path, spec.output.format, str(spec.output.codec), spec.output.options)
    return read


def _check_names(read: BigQueryOptions) -> None:
    for name, project in (("project", read.project), ("jobProject", read.job_project)):
        if (project or name == "project") and not _PROJECT.fullmatch(project):
            raise ValueError(f"option {name}: no id of a project: {project!r}")
    for name, template in (("dataset", read.dataset), ("table", read.table)):
        _check_template(name, template)
    for key, value in read.labels.items():
        if not _LABEL.fullmatch(key) or key.startswith("landfall_") or not _is_label_value(value):
            raise ValueError(f"option labels: not a label of BigQuery: {key}={value}")


def _check_places(read: BigQueryOptions, output: str) -> None:
    if read.staging and not _STAGING.fullmatch(read.staging):
        raise ValueError(f"option staging: no gs://BUCKET/PREFIX: {read.staging!r}")
    if not read.staging and not output.startswith("gs://"):
        raise ValueError(
            f"option staging: BigQuery does not read {output}: name a gs:// prefix to copy objects "
            "to"
        )
    if read.create_dataset_in and not _REGIONS.fullmatch(read.create_dataset_in):
        raise ValueError(f"option createDatasetIn: no location: {read.create_dataset_in!r}")


def _is_label_value(value: str) -> bool:
    return bool(re.fullmatch(r"[a-z0-9_-]{0,63}", value))


def _check_template(name: str, template: str) -> None:
    left = _PLACEHOLDER.sub("x", template)
    if not left or re.search(r"[{}]", left):
        raise ValueError(f"option {name}: not a template such as events_{{topic}}: {template!r}")
    allowed = r"[A-Za-z0-9_]+" if name == "dataset" else r"[\w -]+"
    if not re.fullmatch(allowed, left):
        raise ValueError(f"option {name}: BigQuery has no such name: {template!r}")


def _check_output(path: str, format_: str, codec: str, options: Mapping[str, object]) -> None:
    kind = FORMATS.get(format_)
    if kind is None:
        raise ValueError(
            f"options: {path}.output.format: BigQuery loads Avro, Parquet and Json, not {format_}"
        )
    if kind == JSON and codec == "Zstd":
        raise ValueError(f"options: {path}.output.codec: BigQuery reads Json as Gzip or None")
    if kind != JSON and options.get("envelope", True) is not False:
        raise ValueError(
            f"options: {path}.output.options.envelope: must be false: BigQuery has no columns "
            "whose names begin with _PARTITION, as the envelope's _partition does"
        )


def table_name(options: BigQueryOptions, name: ObjectName) -> str:
    """The table of an object, ``project.dataset.table``.

    Characters that BigQuery does not allow become underscores.

    Raises:
        ValueError: the object has no such folder.
    """
    folders = f"{name.destination}/{name.output_partition}".split("/")
    values = {key: value for key, has, value in (f.partition("=") for f in folders) if has}
    values["topic"] = name.topic

    def rendered(template: str, forbidden: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in values:
                raise ValueError(f"{name.key} has no folder {found[1]}=…, which {template!r} names")
            return re.sub(forbidden, "_", values[found[1]])

        return _PLACEHOLDER.sub(value, template)

    dataset = rendered(options.dataset, r"[^A-Za-z0-9_]")
    return f"{options.project}.{dataset}.{rendered(options.table, r'[^A-Za-z0-9_-]')}"


def format_of(group: ConsumerGroup, topic: str) -> str:
    """The format of a topic's objects, as BigQuery calls it."""
    return FORMATS.get(TopicSpecs.of(group.spec).for_topic(topic).output.format, AVRO)
