"""Builds the publishers that a group's spec names."""

from collections.abc import Mapping
from importlib.util import find_spec

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.api.spec.publish import PublisherEntry
from landfall.errors import Reason, Stalled
from landfall.publish import Publisher, PublisherType
from landfall.publish.context import Context
from landfall.registry import import_class, spec_errors
from landfall.store import Store

PUBLISHERS: Mapping[str, str] = {
    "Success": "landfall.publish.success:Success",
    "Hive": "landfall.publish.hive:Hive",
    "Glue": "landfall.publish.glue:Glue",
    "Iceberg": "landfall.publish.iceberg:Iceberg",
    "Delta": "landfall.publish.delta:Delta",
    "BigQuery": "landfall.publish.bigquery:BigQuery",
    "Kafka": "landfall.publish.kafka:Kafka",
    "Webhook": "landfall.publish.webhook:Webhook",
    "OpenLineage": "landfall.publish.openlineage:OpenLineage",
    "Airflow": "landfall.publish.airflow:Airflow",
}
"""Where the class of each built-in type is: one module for each."""

_PACKAGES: Mapping[str, str] = {
    "Iceberg": "pyiceberg",
    "Delta": "deltalake",
    "Hive": "pymetastore",
    "BigQuery": "google.cloud.bigquery",
    "OpenLineage": "openlineage",
}
"""What types need that is an extra of the same name."""

_TABLES_OF_FILES = frozenset({"Iceberg", "Delta", "Hive", "Glue"})
"""Types whose tables consist of the landed files, which they and their readers look into."""
_READABLE = ("s3", "file")
"""The schemes of output roots in which they can."""


def check_publishers(group: ConsumerGroup, store: Store) -> None:
    """Return normally if every publisher that the group names can be built.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    for entry in group.spec.publish:
        publisher(group, entry, store)


def publisher(
    group: ConsumerGroup, entry: PublisherEntry, store: Store, lane: str = LANE
) -> Publisher:
    """Build a publisher of the group, without a request to its destination.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    field = f"spec.publish[{group.spec.publish.index(entry)}]"
    package = _PACKAGES.get(entry.type)
    if package and not _is_installed(package):
        extra = entry.type.lower()
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.type: {entry.type} needs packages that are not installed: "
            f"pip install 'landfall[{extra}]', or an image that is built with PUBLISHERS=yes",
        )
    url = group.spec.output.url
    if entry.type in _TABLES_OF_FILES and url.partition("://")[0] not in _READABLE:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.type: {entry.type} makes tables of files in s3:// and file://, not in {url}",
        )
    kind: PublisherType = import_class(f"{field}.type", "publisher", entry.type, PUBLISHERS)
    with spec_errors(field):
        return kind.of(entry.options, Context(group, entry, lane, store))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
