"""Builds the publishers that a group's spec names."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from landfall.api.column_names import entry_problems
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.api.spec.publish import PublisherEntry
from landfall.errors import LandfallError, Reason, Stalled, how_to_install
from landfall.publish import Publisher, PublisherType
from landfall.publish.context import Context
from landfall.registry import import_class, spec_errors
from landfall.store import Store

PUBLISHERS: Mapping[str, str] = {
    "Success": "landfall.publish.success:Success",
    "Hive": "landfall.publish.catalog.hive:Hive",
    "Glue": "landfall.publish.catalog.glue:Glue",
    "Iceberg": "landfall.publish.iceberg:Iceberg",
    "Delta": "landfall.publish.delta:Delta",
    "BigQuery": "landfall.publish.bigquery:BigQuery",
    "Kafka": "landfall.publish.events.kafka:KafkaEvents",
    "Webhook": "landfall.publish.events.webhook:Webhook",
    "OpenLineage": "landfall.publish.events.openlineage:OpenLineage",
    "Airflow": "landfall.publish.events.airflow:Airflow",
}
"""The module with the class of each built-in type."""

_PACKAGES: Mapping[str, str] = {
    "Iceberg": "pyiceberg",
    "Delta": "deltalake",
    "Hive": "pymetastore",
    "BigQuery": "google.cloud.bigquery",
    "OpenLineage": "openlineage",
}
"""Packages that types need, from an extra of the same name."""

_FOLLOW_REPLACEMENTS = frozenset(
    {"Success", "Hive", "Glue", "Delta", "Iceberg", "Kafka", "Webhook", "OpenLineage", "Airflow"}
)
"""Types whose destinations stay correct when objects are replaced."""
_TABLES_OF_FILES = frozenset({"Iceberg", "Delta", "Hive", "Glue"})
"""Types whose tables consist of the landed files, which they and their readers open."""
_READABLE = ("s3", "file")
"""The schemes of output roots whose files they can open."""


def check_publishers(group: ConsumerGroup, store: Store) -> None:
    """Return normally if every publisher that the group names can be built, and follow its merges.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    for fault in publisher_faults(group, store):
        raise fault


def publisher_faults(group: ConsumerGroup, store: Store) -> Iterator[LandfallError]:
    """Yield why publishers cannot be built, or cannot follow merges; each begins with the field."""
    for entry in group.spec.publish:
        try:
            publisher(group, entry, store)
        except LandfallError as fault:
            yield fault
    if group.spec.compacts:
        try:
            problems = replacement_problems(group)
        except Stalled:
            return  # of a class that cannot be imported, as above
        yield from (Stalled(Reason.SPEC_INVALID, problem) for problem in problems)


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
            f"{how_to_install(extra)}, or take an image that is built with PUBLISHERS=yes",
        )
    url = group.spec.output.url
    if entry.type in _TABLES_OF_FILES and url.partition("://")[0] not in _READABLE:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.type: {entry.type} makes tables of files in s3:// and file://, not in {url}",
        )
    if problems := entry_problems(group, entry):
        raise Stalled(Reason.SPEC_INVALID, problems[0])
    kind: PublisherType = import_class(f"{field}.type", "publisher", entry.type, PUBLISHERS)
    with spec_errors(field):
        return kind.of(entry.options, Context(group, entry, lane, store))


def replacement_problems(group: ConsumerGroup) -> list[str]:
    """Why objects of the group cannot be replaced, by its publishers; each begins with the field.

    Raises:
        Stalled: SPEC_INVALID, the class of a plug-in cannot be imported.
    """
    return [
        f"spec.publish[{number}].type: {entry.type} cannot follow when objects are replaced, "
        "as in a compaction: publish to a table of another type, or replace none"
        for number, entry in enumerate(group.spec.publish)
        if not _follows_replacements(f"spec.publish[{number}].type", entry.type)
    ]


def _follows_replacements(field: str, name: str) -> bool:
    if name in PUBLISHERS:  # without the packages that only its module needs
        return name in _FOLLOW_REPLACEMENTS
    return bool(
        getattr(import_class(field, "publisher", name, PUBLISHERS), "follows_replacements", False)
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
