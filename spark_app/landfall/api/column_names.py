"""Reserved column names of destinations, and the names that their tables have instead. Pure.

Destinations keep names for columns of their own: a table that has one as well is written without an
error and fails when it is read. Engines compare names without regard to case, for any table format,
so two columns that differ by case only are one name.

=============  ======================================================================
publisher      names that its tables cannot have, in any case
=============  ======================================================================
``Iceberg``    Iceberg's metadata columns, ``_file`` to ``_commit_snapshot_id``
``Delta``      names of the change data feed, and ``_metadata``, which Spark adds
``Hive``       ``_metadata``; the folders of the route, which are partition keys
``Glue``       as ``Hive``
``BigQuery``   what begins with ``_TABLE_``, ``_FILE_``, ``_PARTITION`` and so on
=============  ======================================================================

The declared columns of a group are checked with the group. Columns of a schema are not known then:
the publisher checks them when it sees them.

Sources: https://iceberg.apache.org/spec/#reserved-field-ids (names of ``MetadataColumns``),
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-data-files,
https://cloud.google.com/bigquery/docs/schemas#column_names,
https://spark.apache.org/docs/latest/sql-data-sources-metadata-columns.html.
"""

from collections.abc import Iterable, Iterator, Mapping

from landfall.api.route_pattern import TokenKind, tokens
from landfall.api.spec import ColumnSource, ConsumerGroup, GroupSpec, TopicSpecs
from landfall.api.spec.publish import PublisherEntry

ENVELOPE = ("_topic", "_partition", "_offset", "_timestamp")
"""The columns of the record's coordinates, as files have them."""
_ICEBERG_NAMES = {"_partition": "_kafka_partition"}
"""Names in Iceberg tables of envelope columns whose names are reserved."""
DELETED = "_deleted"
"""The column of envelopes of changes that is true for a deleted row; ``_deleted_`` in Iceberg."""
_SPARK = frozenset({"_metadata"})
_RESERVED: Mapping[str, frozenset[str]] = {
    "Iceberg": frozenset(
        {
            "_file",
            "_pos",
            "_deleted",
            "_spec_id",
            "_partition",
            "_row_id",
            "_last_updated_sequence_number",
            "_change_type",
            "_change_ordinal",
            "_commit_snapshot_id",
        }
    ),
    "Delta": _SPARK | {"_change_type", "_commit_version", "_commit_timestamp"},
    "Hive": _SPARK,
    "Glue": _SPARK,
    "BigQuery": frozenset(),
}
"""Reserved names of table columns, by the type of the publisher."""
_RESERVED_PREFIXES = {
    "BigQuery": (
        "_table_",
        "_file_",
        "_partition",
        "_row_timestamp",
        "__root__",
        "_colidentifier",
    )
}
_ENVELOPED = {"Parquet", "Orc"}
"""Formats whose files have the envelope's columns after declared ones."""
_FOLDERS_ARE_KEYS = {"Hive", "Glue"}
"""Types whose partition keys are the folders of the route."""


def is_reserved(destination: str, column: str) -> bool:
    """Return whether tables of a type of publisher cannot have a column of this name."""
    name = column.casefold()
    return name in _RESERVED.get(destination, ()) or name.startswith(
        _RESERVED_PREFIXES.get(destination, ())
    )


def in_iceberg(column: str) -> str:
    """Return the name in an Iceberg table of a new column of a landed file.

    ``_partition`` of the envelope is ``_kafka_partition``; another reserved name, which comes from
    a schema, gets an underscore at its end.
    """
    if not is_reserved("Iceberg", column):
        return column
    return _ICEBERG_NAMES.get(column, f"{column}_")


def in_files(column: str) -> str:
    """Return the name in landed files of a column that ``in_iceberg`` may have renamed."""
    if column in _ICEBERG_NAMES.values():
        return next(name for name, renamed in _ICEBERG_NAMES.items() if renamed == column)
    shorter = column.removesuffix("_")
    return shorter if in_iceberg(shorter) == column else column


def same_but_case(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of an earlier name and one that equals it but for case."""
    found = dict[str, str]()
    for name in names:
        if (folded := name.casefold()) in found:
            yield found[folded], name
        found.setdefault(folded, name)


def column_problems(group: ConsumerGroup) -> list[str]:
    """Return why declared columns cannot be columns of the tables that the group publishes to.

    Each begins with the path of a field. Columns changed by transforms are not known here.
    """
    return [problem for entry in group.spec.publish for problem in entry_problems(group, entry)]


def entry_problems(group: ConsumerGroup, entry: PublisherEntry) -> list[str]:
    """The part of ``column_problems`` that concerns one entry of ``spec.publish``."""
    if entry.type not in _RESERVED:
        return []
    publisher = f"spec.publish[{group.spec.publish.index(entry)}]"
    return [
        problem
        for path, spec in _published(TopicSpecs.of(group.spec), entry)
        for problem in _problems(publisher, entry.type, path, spec)
    ]


def _published(specs: TopicSpecs, entry: PublisherEntry) -> Iterator[tuple[str, GroupSpec]]:
    """Yield the specs that a publisher's topics may have, after the path of their field."""
    if not specs.topics:
        yield from specs.used()
        return
    for number in {specs.entry_of(topic): None for topic in specs.topics if entry.selects(topic)}:
        if number is None:
            yield "spec", specs.group
        else:
            yield f"spec.topics[{number}]", specs.entries[number][1]


def _problems(publisher: str, type_: str, path: str, spec: GroupSpec) -> Iterator[str]:
    columns = declared_columns(spec)
    of_changes = {DELETED} if spec.decode.envelope else set()
    for name in columns:
        if is_reserved(type_, name) and name not in of_changes:
            yield (
                f"{path}.decode.columns: {name} is a name that {type_} reserves ({publisher}); "
                "give the column another name, and its field in `field`"
            )
    envelope: list[str] = []
    has_envelope = spec.output.options.get("envelope", True) is not False
    if columns and has_envelope and spec.output.format in _ENVELOPED:
        envelope = [in_iceberg(name) if type_ == "Iceberg" else name for name in ENVELOPE]
    for two in same_but_case((*columns, *envelope)):
        of_envelope = " of the envelope" if two[1] in envelope else ""
        yield (
            f"{path}.decode.columns: {two[0]} and {two[1]}{of_envelope} are one name in {type_} "
            f"({publisher}), which does not distinguish upper and lower case; give the column "
            "another name, and its field in `field`"
        )
    if type_ in _FOLDERS_ARE_KEYS:
        folders = {folder.casefold() for folder in _folders(spec.route.pattern)}
        for name in columns:
            if name.casefold() in folders:
                yield (
                    f"{path}.decode.columns: {name} is a folder of route.pattern, too, which is a "
                    f"partition key in {type_} ({publisher}); rename one of them"
                )


def declared_columns(spec: GroupSpec) -> list[str]:
    """The names of the columns that files surely have; none if steps may change them."""
    if spec.transforms or spec.output.columns is not ColumnSource.DECLARED:
        return []
    key = spec.decode.key.columns if spec.decode.key else ()
    return [column.name for column in (*spec.decode.columns, *key)]


def _folders(pattern: str) -> list[str]:
    """The names of a route's folders, such as ``dt`` of ``dt={date}``."""
    text = "".join(t.text if t.kind is TokenKind.TEXT else "x" for t in tokens(pattern))
    return [name for name, equals, _ in (f.partition("=") for f in text.split("/")) if equals]
