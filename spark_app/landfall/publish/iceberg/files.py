"""Landed Parquet files as data files of an Iceberg table, by their footers.

A footer contains the columns of a file, and the least and the greatest value of each, by which
readers skip files. Partition values come from these as well: a file belongs to one partition, so
both must have one value there, and nulls must be in no or in all rows. Footers are read
concurrently and dropped at once, so memory does not grow with their size. A file with times in
milliseconds is taken as a copy (``copies``).

Source: https://iceberg.apache.org/spec/#partitioning and #column-projection (name mapping).
"""

import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.api.column_names import same_but_case
from landfall.errors import Reason, Stalled
from landfall.formats.parquet import as_stored_now
from landfall.formats.parquet.float_bounds import from_metadata
from landfall.memory_limit import bounded
from landfall.publish.iceberg.copies import Copies, is_outdated
from landfall.publish.iceberg.names import as_in_table, mapping_of

READERS = 16
"""How many footers are read at once."""


def _concerns_somebody(record: logging.LogRecord) -> bool:
    """Return whether a pyiceberg message is more than that a file has no bounds of a column.

    Landed files have none of floating point numbers, so each footer would log that.
    """
    return "statistics missing for column" not in str(record.msg)


logging.getLogger("pyiceberg.io.pyarrow").addFilter(_concerns_somebody)


@dataclass(frozen=True)
class NewColumns:
    """A file that does not fit its table as it is.

    Attributes:
        url: of the file.
        columns: all columns of the file, under the names that they have in the table.
        why: the reason, such as a column that the table lacks.
    """

    url: str
    columns: pa.Schema
    why: str


def data_files(copies: Copies, metadata: Any, urls: Sequence[str]) -> Iterator[Any]:
    """Yield for each file a ``DataFile``, or ``NewColumns`` instead.

    Args:
        copies: read the files, and make the copies that are used instead.
        metadata: of the table.
        urls: of the files.

    Raises:
        Stalled: a file is missing or damaged, or does not fit the table; the message names the file
            and the column.
        OSError: the store does not answer.
    """
    with ThreadPoolExecutor(min(READERS, len(urls))) as pool:
        mapping = mapping_of(metadata)
        yield from pool.map(lambda url: _data_file(copies, metadata, mapping, url), urls)


def columns_of(io: Any, url: str) -> pa.Schema:
    """The columns of a file, as a table has them.

    Raises:
        Stalled: as ``data_files``.
    """
    return as_stored_now(_footer(io, url)[0].schema.to_arrow_schema())


def first_outdated(io: Any, urls: Sequence[str]) -> str | None:
    """The first of these files that holds milliseconds; None if none does.

    Raises:
        Stalled: as ``data_files``.
        OSError: the store does not answer.
    """
    for start in range(0, len(urls), READERS):
        some = urls[start : start + READERS]
        with ThreadPoolExecutor(len(some)) as pool:
            footers = [*pool.map(lambda url: _footer(io, url)[0], some)]
        for url, footer in zip(some, footers, strict=True):
            if is_outdated(footer.schema.to_arrow_schema()):
                return url
    return None


def _footer(io: Any, url: str) -> tuple[pq.FileMetaData, int]:
    file = io.new_input(url)
    try:
        with file.open() as opened, bounded():
            return pq.read_metadata(opened), len(file)
    except FileNotFoundError:
        raise Stalled(Reason.OBJECT_LOST, f"object {url} is not there") from None
    except pa.ArrowInvalid as error:
        raise Stalled(Reason.OBJECT_LOST, f"object {url} is no Parquet file: {error}") from None


def _data_file(copies: Copies, metadata: Any, mapping: Any, url: str) -> Any:
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415  # an extra
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat  # noqa: PLC0415
    from pyiceberg.table.name_mapping import apply_name_mapping  # noqa: PLC0415

    footer, size = _footer(copies.landed, url)
    found = footer.schema.to_arrow_schema()
    schema = metadata.schema()
    path = url
    of_file = as_stored_now(found)
    columns, why = in_table(url, of_file, schema, mapping)
    if why:
        return NewColumns(url, columns, why)
    if is_outdated(found):
        path = copies.of_file(url)
        footer, size = _footer(copies.own, path)
    paths = parquet_path_to_id_mapping(apply_name_mapping(as_iceberg(of_file), mapping))
    plan = compute_statistics_plan(schema, metadata.properties)
    try:
        statistics = data_file_statistics_from_parquet_metadata(footer, plan, paths)
        for column in unbounded(footer):
            statistics.column_aggregates.pop(paths[column], None)
        _add_floats(statistics, footer, plan, paths)
        spec, partition = _partition(statistics, metadata, {*columns.names})
    except ValueError as error:
        raise Stalled(Reason.DESTINATION_CONFLICT, f"object {url} does not fit: {error}") from None
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
    file.spec_id = spec  # no field of a manifest's entry, so no argument either
    return file


def in_table(url: str, of_file: pa.Schema, schema: Any, mapping: Any) -> tuple[pa.Schema, str]:
    """Return the columns of a file under their names in a table, and why they do not fit it.

    Args:
        url: of the file.
        of_file: its columns.
        schema: of the table.
        mapping: the table's name mapping.

    Raises:
        Stalled: as ``check_cases`` and ``as_iceberg``.
    """
    columns = as_in_table(of_file, schema, mapping)
    check_cases(url, of_file, columns, schema)
    return columns, differences(schema, columns)


def unbounded(footer: pq.FileMetaData) -> set[str]:
    """The columns without bounds in a row group that has values of them, by path.

    Arrow writes no bound of over 4 kB. pyiceberg would give the file the bounds of its other row
    groups, and readers would skip it.
    """
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    return {
        chunk.path_in_schema
        for chunk in chunks
        if (known := chunk.statistics) is not None and known.num_values and not known.has_min_max
    }


def _add_floats(statistics: Any, footer: pq.FileMetaData, plan: Any, paths: Any) -> None:
    """Replace the statistics of columns of floating point numbers by the footer's.

    A column with NaN has no bounds: Iceberg's do not count NaN, and Spark takes NaN for the largest
    number, so that it would miss the row in ``x > 5``. For the same reason an all-NaN column has no
    count of NaN: with it, Iceberg skips the file in every comparison.
    """
    from pyiceberg.io.pyarrow import MetricModeTypes, StatsAggregator  # noqa: PLC0415  # an extra

    floats = from_metadata(footer.metadata)
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        if column.physical_type not in {"FLOAT", "DOUBLE"}:
            continue
        field = paths[column.path]
        mode = plan[field].mode.type
        statistics.column_aggregates.pop(field, None)
        if mode is MetricModeTypes.NONE or (known := floats.get(column.path)) is None:
            continue
        statistics.null_value_counts[field] = known.nulls
        if known.nans < footer.num_rows - known.nulls or not known.nans:
            statistics.nan_value_counts[field] = known.nans
        if mode is MetricModeTypes.COUNTS or known.range is None:
            continue
        bounds = StatsAggregator(plan[field].iceberg_type, column.physical_type)
        bounds.update_min(known.range[0])
        bounds.update_max(known.range[1])
        statistics.column_aggregates[field] = bounds


def _partition(statistics: Any, metadata: Any, columns: set[str]) -> tuple[int, Any]:
    """Return the spec and the partition that a file belongs to.

    That is the table's current spec; a table whose partitioning was changed keeps the earlier ones,
    and the latest that fits is used.

    Raises:
        ValueError: it does not belong to one; the message is about the current spec.
    """
    current = metadata.spec()
    try:
        return current.spec_id, _partition_of(statistics, metadata.schema(), current, columns)
    except ValueError as error:
        earlier = {spec.spec_id: spec for spec in metadata.partition_specs}
        del earlier[current.spec_id]
        for spec_id in sorted(earlier, reverse=True):
            with suppress(ValueError):
                found = _partition_of(statistics, metadata.schema(), earlier[spec_id], columns)
                return spec_id, found
        if not earlier:
            raise
        raise ValueError(f"{error}; it fits none of the table's earlier partition specs") from error


def _partition_of(statistics: Any, schema: Any, spec: Any, columns: set[str]) -> Any:
    """The partition that a file belongs to by one spec.

    Raises:
        ValueError: it does not belong to one.
    """
    for field in spec.fields:
        name = schema.find_column_name(field.source_id)
        if name is None:
            raise ValueError(f"the column of partition field {field.name} was dropped")
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
    return statistics.partition(spec, schema)


def check_cases(url: str, of_file: pa.Schema, columns: pa.Schema, schema: Any) -> None:
    """Return if no column of a file differs from another one, or from the table's, by case only.

    A table may hold both, and then engines that ignore case, such as Spark, read nothing of it any
    more.

    Args:
        url: of the file.
        of_file: its columns.
        columns: the same under their names in the table.
        schema: of the table.

    Raises:
        Stalled: DESTINATION_CONFLICT, with both names.
    """
    of_table = schema.column_names
    if len({*columns.names}) < len(columns.names):
        shared = next(name for name in columns.names if columns.names.count(name) > 1)
        both = [f for f, name in zip(of_file.names, columns.names, strict=True) if name == shared]
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"object {url}: columns {' and '.join(both)} are both column {shared} of the table",
        )
    new = [name for name in as_iceberg(columns).column_names if name not in of_table]
    for known, name in same_but_case((*of_table, *new)):
        if name not in new:
            continue  # the table has both, from before
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"object {url}: column {name} and column {known} differ by case only, and Spark and "
            "other engines could read neither; give the column another name in the group, and for "
            f"what has landed have the table's name mapping find {name} as another column",
        )


def differences(schema: Any, columns: pa.Schema) -> str:
    """Why a file with these columns does not fit a table's schema; "" if it does.

    A file may lack columns, and may have a narrower type, by Iceberg's type promotion.
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
        Stalled: DESTINATION_CONFLICT, a column has a type that Iceberg lacks.
    """
    from pyiceberg.catalog import Catalog  # noqa: PLC0415  # an extra
    from pyiceberg.schema import assign_fresh_schema_ids  # noqa: PLC0415  # an extra

    try:
        return assign_fresh_schema_ids(Catalog._convert_schema_if_needed(columns))  # noqa: SLF001
    except (ValueError, TypeError) as error:
        raise Stalled(
            Reason.DESTINATION_CONFLICT, f"no Iceberg table can have this: {error}"
        ) from None


def has_times(schema: Any) -> bool:
    """Return whether a table has a column of times, at any depth."""
    from pyiceberg.types import TimestampType, TimestamptzType, TimeType  # noqa: PLC0415  # an extra

    kinds = (TimestampType, TimestamptzType, TimeType)
    return any(
        isinstance(schema.find_field(number).field_type, kinds) for number in schema.field_ids
    )


def _fits(of_file: Any, of_table: Any) -> bool:
    """Return whether values of a file's type can be read as a table's type."""
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
