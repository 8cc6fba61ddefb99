"""The changes of a publisher's tables for files with other columns, by the publisher's own rules.

No destination is asked. A table is taken for one that has the columns of the files so far; what
another program has changed in it is not known here.
"""

from dataclasses import dataclass

import pyarrow as pa

from landfall.api.spec.publish import PublisherEntry
from landfall.errors import Reason, Stalled
from landfall.pipeline.decoders.options import read_options
from landfall.publish.building import check_installed
from landfall.registry import spec_errors

NEW_FILE = "of the new schema"
"""Stands for the URL of a file that does not exist yet, in messages about the object."""


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes of a table.

    Attributes:
        added: the columns that it gets.
        changed: the columns that get another type, which holds the values of the earlier one.
        types_checked: whether types are known here to fit; if not, the destination decides.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    types_checked: bool = True


def column_changes(
    entry: PublisherEntry, field: str, topic: str, known: pa.Schema, new: pa.Schema
) -> ColumnChanges | None:
    """Return how a publisher changes a table for files with other columns.

    Args:
        entry: the publisher.
        field: the path of its entry, such as ``spec.publish[0]``.
        topic: whose table it is.
        known: the columns of the files that the table has.
        new: the columns of the files that come.

    Returns:
        The changes; None if the publisher has no tables, or is a plug-in.

    Raises:
        Stalled: DESTINATION_CONFLICT, the publisher would stop; SPEC_INVALID, an option is wrong,
            or the packages that it needs are not installed.
    """
    changes = _CHANGES.get(entry.type)
    if changes is None:
        return None
    check_installed(f"{field}.type", entry.type)
    with spec_errors(field):
        return changes(entry, topic, known, new)


def _delta(entry: PublisherEntry, topic: str, known: pa.Schema, new: pa.Schema) -> ColumnChanges:
    from deltalake import Schema  # noqa: PLC0415  # an extra

    from landfall.publish.delta import DeltaOptions  # noqa: PLC0415  # as above
    from landfall.publish.delta.columns import DoesNotFit, columns_for  # noqa: PLC0415
    from landfall.publish.delta.files import DeltaFile  # noqa: PLC0415

    evolves = read_options(entry.options, DeltaOptions).schema_evolution != "None"
    file = DeltaFile(key="", url=NEW_FILE, columns=new, size=0, statistics="")
    try:
        found = columns_for(topic, Schema.from_arrow(known).fields, [file], evolves=evolves)
    except DoesNotFit as error:
        raise Stalled(Reason.DESTINATION_CONFLICT, str(error)) from None
    return ColumnChanges(tuple(column.name for column in found.added), found.widened)


def _iceberg(entry: PublisherEntry, topic: str, known: pa.Schema, new: pa.Schema) -> ColumnChanges:
    from landfall.publish.iceberg.evolution import changed_columns  # noqa: PLC0415
    from landfall.publish.iceberg.files import NewColumns  # noqa: PLC0415
    from landfall.publish.iceberg.options import IcebergOptions  # noqa: PLC0415  # an extra

    evolution = read_options(entry.options, IcebergOptions).schema_evolution
    added, changed = changed_columns(topic, known, NewColumns(NEW_FILE, new, ""), evolution)
    return ColumnChanges(tuple(added), tuple(changed))


def _catalog(entry: PublisherEntry, topic: str, known: pa.Schema, new: pa.Schema) -> ColumnChanges:
    from landfall.publish.catalog.hive_types import columns_of, missing  # noqa: PLC0415

    if entry.options.get("columns"):
        return ColumnChanges()  # the user's columns, regardless of the files
    try:
        return ColumnChanges(tuple(missing(columns_of(known), columns_of(new))))
    except ValueError as error:
        raise Stalled(Reason.DESTINATION_CONFLICT, f"table {topic}: {error}") from None


def _bigquery(entry: PublisherEntry, topic: str, known: pa.Schema, new: pa.Schema) -> ColumnChanges:
    from landfall.publish.bigquery.kinds import problem_of_names  # noqa: PLC0415

    del entry
    if problem := problem_of_names(new.names):
        raise Stalled(Reason.DESTINATION_CONFLICT, f"BigQuery: table {topic}: {problem}")
    added = tuple(name for name in new.names if name not in known.names)
    return ColumnChanges(added, types_checked=False)


_CHANGES = {
    "Delta": _delta,
    "Iceberg": _iceberg,
    "Hive": _catalog,
    "Glue": _catalog,
    "BigQuery": _bigquery,
}
"""By the type of the publisher. A plug-in's rules are its own."""
