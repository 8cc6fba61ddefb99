"""Compares the columns of files under a new schema with those that landed, for readers and tables.

Only where columns follow the payloads' own schema; declared columns stay what they are.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from landfall import registry
from landfall.api.spec import ColumnSource, GroupSpec
from landfall.api.spec.publish import PublisherEntry
from landfall.cli.contract.findings import FindingResult, SchemaFinding
from landfall.cli.contract.new_schema import decoder_options, under
from landfall.errors import Reason, Stalled
from landfall.formats import Block
from landfall.formats.column_files import ColumnFiles
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.avro.own_columns import own_columns
from landfall.pipeline.decoders.avro.rows import compiled, row_schema
from landfall.pipeline.records import of_columns
from landfall.publish.column_changes import ColumnChanges, column_changes
from landfall.schemas.avro import resolved
from landfall.schemas.fixed_text import FixedText


def has_own_columns(spec: GroupSpec) -> bool:
    """Return whether files have the columns of the payloads' schema."""
    return spec.output.columns is ColumnSource.FROM_SCHEMA or spec.output.format == "Avro"


def present_text(spec: GroupSpec) -> str | None:
    """Return the schema of payloads that the group itself has; None if it has none."""
    options = spec.decode.options
    given = (options.get(name) for name in ("schema", "schemaFile"))
    schema, file = (None if text is None else str(text) for text in given)
    try:
        return FixedText.of(schema, file, None).text
    except ValueError:
        return None  # a file that only drivers have


def file_columns(spec: GroupSpec, path: str, text: str) -> pa.Schema:
    """Return the columns of files of payloads of a schema.

    Args:
        spec: of the topic.
        path: of the fields that it is made of.
        text: the schema.

    Raises:
        Stalled: SPEC_INVALID, payloads of this schema cannot be landed.
        ValueError: the schema cannot be read.
    """
    writer, reader = resolved(decoder_options(spec.decode), text)
    common = registry.pipeline(under(spec, text), path).wanted.common
    node = compiled(writer, reader, Wanted(own_columns=True, common=common))
    columns = own_columns(node, pa.nulls(0, node.arrow))
    format_ = registry.pipeline(under(spec, text), path).format
    if not isinstance(format_, ColumnFiles):
        return columns.schema
    none = of_columns(TopicPartition("none", 0), np.empty(0, np.int64), pa.nulls(0, pa.binary()))
    found: pa.Schema = format_.table(Block(none, columns, row_schema(reader or writer))).schema
    return found.remove_metadata()


def column_findings(known: pa.Schema, new: pa.Schema) -> Iterator[SchemaFinding]:
    """Yield the columns that come, that go, and whose type changes."""
    for column in new:
        if column.name not in known.names:
            message = f"a new column, {column.type}"
        elif (before := known.field(column.name).type) != column.type:
            message = f"{before} becomes {column.type}"
        else:
            continue
        yield SchemaFinding(f"column {column.name}", FindingResult.CHANGES, message)
    for name in known.names:
        if name not in new.names:
            yield SchemaFinding(
                f"column {name}", FindingResult.CHANGES, "is gone: null in tables from then on"
            )


def table_findings(
    publishers: Sequence[PublisherEntry], topic: str, known: pa.Schema, new: pa.Schema
) -> Iterator[SchemaFinding]:
    """Yield for each publisher of tables what it does with the new columns.

    Args:
        publishers: of the group.
        topic: whose tables they are.
        known: the columns of the files so far.
        new: the columns of the files that come.

    Raises:
        Stalled: SPEC_INVALID, an option of a publisher is wrong, or its packages are not installed.
    """
    for number, entry in enumerate(publishers):
        if not entry.selects(topic):
            continue
        field = f"spec.publish[{number}]"
        named = f"{field} {entry.name} ({entry.type})"
        try:
            changes = column_changes(entry, field, topic, known, new)
        except Stalled as stalled:
            if stalled.reason is not Reason.DESTINATION_CONFLICT:
                raise
            yield SchemaFinding(named, FindingResult.FAILS, f"would stop: {stalled}")
            continue
        if changes is not None:
            yield _taken(named, changes)


def _taken(named: str, changes: ColumnChanges) -> SchemaFinding:
    what = [
        f"{verb} {', '.join(names)}"
        for verb, names in (("adds", changes.added), ("widens", changes.changed))
        if names
    ]
    text = "; ".join(what) or "takes the files as they are"
    if not changes.types_checked:
        text += "; only its load jobs decide whether types fit"
    return SchemaFinding(named, FindingResult.CHANGES if what else FindingResult.OK, text)
