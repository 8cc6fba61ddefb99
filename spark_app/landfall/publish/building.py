"""Builds the publishers that a group's spec names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInType:
    """A type of publisher that Landfall brings along.

    Attributes:
        path: the module and the class.
        package: what its module imports and only its extra installs; the extra has the type's name
            in small letters. None if nothing.
        has_tables: whether its destination has tables.
        of_files: whether these consist of the landed files, which they and their readers open.
        schemes: with ``of_files``, the schemes of output roots whose files they can be made of.
        follows_replacements: whether its destination stays correct when objects are replaced.
    """

    path: str
    package: str | None = None
    has_tables: bool = False
    of_files: bool = False
    schemes: tuple[str, ...] = ("s3", "file")
    follows_replacements: bool = True


BUILT_IN: Mapping[str, BuiltInType] = {
    "Success": BuiltInType(path="landfall.publish.success:Success"),
    "Hive": BuiltInType(
        path="landfall.publish.catalog.hive:Hive",
        package="pymetastore",
        has_tables=True,
        of_files=True,
    ),
    "Glue": BuiltInType(path="landfall.publish.catalog.glue:Glue", has_tables=True, of_files=True),
    "Iceberg": BuiltInType(
        path="landfall.publish.iceberg:Iceberg",
        package="pyiceberg",
        has_tables=True,
        of_files=True,
    ),
    "Delta": BuiltInType(
        path="landfall.publish.delta:Delta",
        package="deltalake",
        has_tables=True,
        of_files=True,
        schemes=("s3", "file", "abfss", "gs", "hdfs"),
    ),
    "BigQuery": BuiltInType(
        path="landfall.publish.bigquery:BigQuery",
        package="google.cloud.bigquery",
        has_tables=True,
        follows_replacements=False,
    ),
    "Kafka": BuiltInType(path="landfall.publish.events.kafka:KafkaEvents"),
    "Webhook": BuiltInType(path="landfall.publish.events.webhook:Webhook"),
    "OpenLineage": BuiltInType(
        path="landfall.publish.events.openlineage:OpenLineage", package="openlineage"
    ),
    "Airflow": BuiltInType(path="landfall.publish.events.airflow:Airflow"),
}
"""The types of ``spec.publish`` that are no plug-ins, by name."""

_PATHS: Mapping[str, str] = {name: kind.path for name, kind in BUILT_IN.items()}


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
    check_installed(field, entry.type)
    built_in = BUILT_IN.get(entry.type)
    url = group.spec.output.url
    if built_in and built_in.of_files and url.partition("://")[0] not in built_in.schemes:
        *most, last = (f"{scheme}://" for scheme in built_in.schemes)
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.type: {entry.type} makes tables of files in {', '.join(most)} and {last}, "
            f"not in {url}",
        )
    if problems := entry_problems(group, entry):
        raise Stalled(Reason.SPEC_INVALID, problems[0])
    kind: PublisherType = import_class(f"{field}.type", "publisher", entry.type, _PATHS)
    with spec_errors(field):
        return kind.of(entry.options, Context(group, entry, lane, store))


def check_installed(field: str, name: str) -> None:
    """Return if the packages are installed that a type of publisher needs.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    built_in = BUILT_IN.get(name)
    if built_in and built_in.package and not _is_installed(built_in.package):
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.type: {name} needs packages that are not installed: "
            f"{how_to_install(name.lower())}, or take an image that is built with PUBLISHERS=yes",
        )


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


def has_tables(name: str) -> bool:
    """Return whether destinations of a type may have tables; a plug-in shows it once built."""
    built_in = BUILT_IN.get(name)
    return built_in is None or built_in.has_tables


def _follows_replacements(field: str, name: str) -> bool:
    if name in BUILT_IN:  # without the packages that only its module needs
        return BUILT_IN[name].follows_replacements
    return bool(
        getattr(import_class(field, "publisher", name, _PATHS), "follows_replacements", False)
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
