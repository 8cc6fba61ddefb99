"""Landed Parquet files as data files of an Iceberg table, by their footers.

A footer says which columns a file has, and for each the least and the greatest value, which readers
skip files by. Partition values come from these as well: a file belongs to one partition, so both
must have one value there, and nulls must be in no or in all rows. Footers are read side by side and
forgotten at once, so memory does not grow with their size.

Source: https://iceberg.apache.org/spec/#partitioning and #column-projection (name mapping).
"""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.errors import Reason, Stalled

READERS = 16
"""How many footers are read at once."""


@dataclass(frozen=True)
class NewColumns:
    """A file that does not fit its table as it is.

    Attributes:
        url: of the file.
        columns: all columns of the file.
        why: it does not fit, such as a column that the table has not.
    """

    url: str
    columns: pa.Schema
    why: str


def data_files(io: Any, metadata: Any, urls: Sequence[str]) -> Iterator[Any]:
    """What each file is in a table: a ``DataFile``, or ``NewColumns`` in its place.

    Args:
        io: a pyiceberg ``FileIO`` that reads them.
        metadata: of the table.
        urls: of the files.

    Raises:
        Stalled: a file is not there or damaged, or does not fit the table; the message names the
            file and the column.
        OSError: the store does not answer.
    """
    with ThreadPoolExecutor(min(READERS, len(urls))) as pool:
        yield from pool.map(lambda url: _data_file(io, metadata, url), urls)


def columns_of(io: Any, url: str) -> pa.Schema:
    """The columns of a file.

    Raises:
        Stalled: as ``data_files``.
    """
    return _footer(io, url)[0].schema.to_arrow_schema()


def _footer(io: Any, url: str) -> tuple[pq.FileMetaData, int]:
    file = io.new_input(url)
    try:
        with file.open() as opened:
            return pq.read_metadata(opened), len(file)
    except FileNotFoundError:
        raise Stalled(Reason.OBJECT_LOST, f"object {url} is not there") from None
    except pa.ArrowInvalid as error:
        raise Stalled(Reason.OBJECT_LOST, f"object {url} is no Parquet file: {error}") from None


def _data_file(io: Any, metadata: Any, url: str) -> Any:
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415  # an extra
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat  # noqa: PLC0415

    footer, size = _footer(io, url)
    columns, schema = footer.schema.to_arrow_schema(), metadata.schema()
    if why := differences(schema, columns):
        return NewColumns(url, columns, why)
    paths = parquet_path_to_id_mapping(schema)
    plan = compute_statistics_plan(schema, metadata.properties)
    try:
        statistics = data_file_statistics_from_parquet_metadata(footer, plan, paths)
        partition = _partition(statistics, metadata, {*columns.names})
    except ValueError as error:
        raise Stalled(Reason.DESTINATION_CONFLICT, f"object {url} does not fit: {error}") from None
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=url,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _partition(statistics: Any, metadata: Any, columns: set[str]) -> Any:
    """The partition that a file belongs to.

    Raises:
        ValueError: it does not belong to one.
    """
    schema = metadata.schema()
    for field in metadata.spec().fields:
        name = schema.find_column_name(field.source_id)
        nulls = statistics.null_value_counts.get(field.source_id)
        if name.partition(".")[0] not in columns:
            continue  # all rows are null
        if nulls is None or field.source_id not in statistics.column_aggregates:
            raise ValueError(
                f"column {name}, which the table is partitioned by, has no statistics; table "
                f"property write.metadata.metrics.column.{name} must be full or truncate(16)"
            )
        if 0 < nulls < statistics.record_count:
            raise ValueError(
                f"column {name}, which the table is partitioned by, is null in {nulls} of "
                f"{statistics.record_count} rows; a file belongs to one partition"
            )
    return statistics.partition(metadata.spec(), schema)


def differences(schema: Any, columns: pa.Schema) -> str:
    """Why a file with these columns does not fit a table's schema; "" if it does.

    A file may leave columns out, and may have a narrower type, as Iceberg's type promotion has it.
    """
    from pyiceberg.types import NestedField  # noqa: PLC0415  # an extra

    table = {field.name: field for field in schema.fields}
    texts = []
    for field in as_iceberg(columns).fields:
        known: NestedField | None = table.pop(field.name, None)
        if known is None:
            texts.append(f"column {field.name} is not in the table")
        elif not _fits(field.field_type, known.field_type):
            texts.append(
                f"column {field.name} is {_text(field.field_type)} in the file and "
                f"{_text(known.field_type)} in the table"
            )
        elif known.required and not field.required:
            texts.append(f"column {field.name} may be null in the file, but not in the table")
    texts += [f"column {name} is required" for name, left in table.items() if left.required]
    return "; ".join(texts)


def as_iceberg(columns: pa.Schema) -> Any:
    """The columns as a schema of Iceberg, with numbers of its own.

    Raises:
        Stalled: DESTINATION_CONFLICT, a column has a type that Iceberg has not.
    """
    from pyiceberg.catalog import Catalog  # noqa: PLC0415  # an extra
    from pyiceberg.schema import assign_fresh_schema_ids  # noqa: PLC0415  # an extra

    try:
        return assign_fresh_schema_ids(Catalog._convert_schema_if_needed(columns))  # noqa: SLF001
    except (ValueError, TypeError) as error:
        raise Stalled(
            Reason.DESTINATION_CONFLICT, f"no Iceberg table can have this: {error}"
        ) from None


def _fits(of_file: Any, of_table: Any) -> bool:
    """Whether values of a file's type can be read as those of a table's."""
    from pyiceberg.exceptions import ResolveError  # noqa: PLC0415  # an extra
    from pyiceberg.schema import promote  # noqa: PLC0415  # an extra
    from pyiceberg.types import ListType, MapType, StructType  # noqa: PLC0415  # an extra

    match of_file, of_table:
        case StructType(), StructType():
            members = {field.name: field.field_type for field in of_table.fields}
            return all(
                field.name in members and _fits(field.field_type, members[field.name])
                for field in of_file.fields
            )
        case ListType(), ListType():
            return _fits(of_file.element_type, of_table.element_type)
        case MapType(), MapType():
            return _fits(of_file.key_type, of_table.key_type) and _fits(
                of_file.value_type, of_table.value_type
            )
    try:
        return bool(of_file == of_table or promote(of_file, of_table) == of_table)
    except ResolveError:
        return False


def _text(kind: Any) -> str:
    """A type without the numbers of its fields."""
    return re.sub(r"-?\b\d+: ", "", str(kind))
