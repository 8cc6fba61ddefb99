"""How an Iceberg table changes for files with other columns.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from landfall.errors import Reason, Stalled
from landfall.formats.parquet import as_stored_now
from landfall.publish.iceberg.files import NewColumns, as_iceberg, differences, in_table
from landfall.publish.iceberg.names import as_in_table, mapping_of
from landfall.publish.iceberg.partitions import optional


def refusal(table: str, file: NewColumns) -> str:
    """Return the message about a file that does not fit a table."""
    return f"object {file.url} does not fit table {table}: {file.why}"


def check_evolves(table: str, file: NewColumns, schema_evolution: str) -> None:
    """Return if columns may be added for a file.

    Raises:
        Stalled: DESTINATION_CONFLICT, the option ``schemaEvolution`` does not allow it.
    """
    if schema_evolution == "None":
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"{refusal(table, file)}; change the table, or set schemaEvolution: Add",
        )


def add_columns(transaction: Any, file: NewColumns) -> None:
    """Add and widen the columns of a table that a file needs; raises as ``union_by_name``."""
    with transaction.update_schema() as update:
        update.union_by_name(optional(as_iceberg(file.columns)))


@contextmanager
def checked_commit(table: str, file: NewColumns) -> Iterator[None]:
    """Turn what pyiceberg raises when it cannot change a column into an error of the file.

    Raises:
        Stalled: DESTINATION_CONFLICT.
    """
    try:
        yield
    except (ValueError, TypeError, ValidationError) as error:
        text = f"{refusal(table, file)} ({error})"
        raise Stalled(Reason.DESTINATION_CONFLICT, text) from None


def check_fits(table: str, schema: Any, file: NewColumns) -> None:
    """Return if a file fits a table after its columns were added.

    Raises:
        Stalled: DESTINATION_CONFLICT, it does not.
    """
    if left := differences(schema, file.columns):
        text = f"object {file.url} does not fit table {table}: {left}"
        raise Stalled(Reason.DESTINATION_CONFLICT, text)


def changed_columns(
    table: str, known: pa.Schema, file: NewColumns, schema_evolution: str
) -> tuple[list[str], list[str]]:
    """Return the columns that a table gets for a file, and those whose type gets wider.

    Nothing is asked: the table is one that files with the known columns have made.

    Args:
        table: its name, for messages.
        known: the columns of its files.
        file: the name of the new file, for messages, and its columns.
        schema_evolution: the option of the publisher.

    Raises:
        Stalled: DESTINATION_CONFLICT, the file would stop the publisher.
    """
    first = optional(as_iceberg(as_in_table(as_stored_now(known), Schema(), ())))
    metadata = new_table_metadata(
        first, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location=""
    )
    before = metadata.schema()
    of_file = as_stored_now(file.columns)
    columns, why = in_table(file.url, of_file, before, mapping_of(metadata))
    if not why:
        return [], []
    new = NewColumns(file.url, columns, why)
    check_evolves(table, new, schema_evolution)
    # What opens a table's files, and what commits to its catalog, is never called.
    io: Any = None
    transaction = Transaction(Table((table,), metadata, "", io, NoopCatalog("none")))
    with checked_commit(table, new):
        add_columns(transaction, new)
    after = transaction.table_metadata.schema()
    check_fits(table, after, new)
    types = {field.name: field.field_type for field in before.fields}
    added = [field.name for field in after.fields if field.name not in types]
    changed = [f.name for f in after.fields if f.name in types and types[f.name] != f.field_type]
    return added, changed
