"""How Iceberg tables are partitioned, so that every landed file belongs to one partition.

Landed files have records of one output partition, so a table can be partitioned by the fields that
the route separates: the day or hour of the event time in UTC, a payload field, and the topic or the
Kafka partition, one per object. Anything else is refused when the publisher is built.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall.api.column_names import in_iceberg
from landfall.api.route_pattern import TokenKind, tokens
from landfall.api.spec import GroupSpec, MissingTimestamp, TimeUnit
from landfall.api.spec.decode import TimestampSource
from landfall.errors import Reason, Stalled
from landfall.publish.iceberg.files import as_iceberg

_FIELD = re.compile(r"(?:(year|month|day|hour)\((.+)\)|([^()]+))")
_DATES = ({"%Y", "%m", "%d"}, {"%Y", "%b", "%d"}, {"%Y", "%j"}, {"%F"}, {"%G", "%V", "%u"})
"""Directives that name a day together."""
_ONE = {"_topic", "_partition", "_kafka_partition", "topic", "partition"}
"""Columns that have one value per object."""
_COMPARABLE = {TimeUnit.AUTO, TimeUnit.MILLISECONDS, TimeUnit.ISO8601}
"""Units that a column of type Timestamp reads in the same way."""


@dataclass(frozen=True)
class PartitionField:
    """A part of a partition spec.

    Attributes:
        column: the source, with dots for nested ones.
        transform: ``identity``, ``year``, ``month``, ``day`` or ``hour``.
    """

    column: str
    transform: str = "identity"

    @classmethod
    def of(cls, text: str) -> "PartitionField":
        """Read ``day(ts)`` or ``country``.

        Raises:
            ValueError: it is neither; buckets, for example, cannot be derived from a file.
        """
        match = _FIELD.fullmatch(text)
        if not match:
            raise ValueError(
                f"option partitionBy: expected a column, or year, month, day or hour of one, such "
                f"as day(ts), got {text!r}"
            )
        return cls(in_iceberg(match[2] or match[3]), match[1] or "identity")

    @property
    def name(self) -> str:
        """The name of the partition field, as Spark gives it."""
        column = self.column.replace(".", "_")
        return self.column if self.transform == "identity" else f"{column}_{self.transform}"


def derived(spec: GroupSpec) -> tuple[PartitionField, ...]:
    """The partition fields that surely hold by the route; none if the route has no days in UTC."""
    column, finest = _event_time(spec)
    if column is None or (spec.decode.timestamp and not _has_column(spec, column)):
        return ()
    return (PartitionField(column, finest),) if finest else ()


def checked(fields: Sequence[PartitionField], spec: GroupSpec) -> tuple[PartitionField, ...]:
    """Return the fields, if by the route a file has one value of each.

    Raises:
        ValueError: it may have several.
    """
    column, finest = _event_time(spec)
    parts = tokens(spec.route.pattern)
    routed = {token.text for token in parts if token.kind is TokenKind.FIELD} | _ONE
    hour = ("year", "month", "day", "hour")
    holds = hour[: hour.index(finest) + 1] if finest else ()
    for field in fields:
        if field.transform == "identity" and field.column not in routed:
            raise ValueError(
                f"option partitionBy: a file may have several values of {field.column}; "
                f"route.pattern needs {field.column}={{field:{field.column}}}"
            )
        if field.transform != "identity" and (
            field.column != column or field.transform not in holds
        ):
            raise ValueError(
                f"option partitionBy: a file may have several values of {field.transform}("
                f"{field.column}); route.pattern {spec.route.pattern} in {spec.route.timezone} "
                f"must name the {field.transform} in UTC, of the event time in that column "
                "(decode.timestamp with missing: DeadLetter, or _timestamp without it)"
            )
    return tuple(fields)


def present(fields: Sequence[PartitionField], columns: pa.Schema) -> tuple[PartitionField, ...]:
    """The fields whose columns a file has, as times."""
    return tuple(
        field
        for field in fields
        if field.column in columns.names and pa.types.is_timestamp(columns.field(field.column).type)
    )


def _event_time(spec: GroupSpec) -> tuple[str | None, str]:
    """The column of the event time, and the finest of day and hour that the route separates.

    None if no column surely has it; "" if the route does not name days in UTC.
    """
    timestamp = spec.decode.timestamp
    directives = {t.text for t in tokens(spec.route.pattern) if t.kind is TokenKind.DIRECTIVE}
    names_days = any(date <= directives for date in _DATES) and spec.route.timezone == "UTC"
    finest = ("hour" if "%H" in directives else "day") if names_days else ""
    if timestamp is None:
        is_typed = spec.decode.columns or spec.output.columns != "Declared"
        return ("_timestamp" if is_typed else "timestamp"), finest
    is_exact = timestamp.source is TimestampSource.VALUE and timestamp.unit in _COMPARABLE
    if not is_exact or timestamp.missing is not MissingTimestamp.DEAD_LETTER:
        return None, finest
    named = [c.name for c in spec.decode.columns if (c.field or c.name) == timestamp.field]
    return (named[0] if named else timestamp.field), finest


def _has_column(spec: GroupSpec, name: str) -> bool:
    """Return whether a column of type Timestamp is declared, which no step may change."""
    types = {column.name: column.type for column in spec.decode.columns}
    return types.get(name) == "Timestamp" and not spec.transforms


@dataclass(frozen=True)
class NewTable:
    """Definition of a new table: a ``Schema`` and a ``PartitionSpec`` of pyiceberg."""

    schema: Any
    spec: Any


def table_of_columns(columns: Any, fields: Sequence[PartitionField]) -> NewTable:
    """Return a table with the columns of a file, all of them optional.

    Raises:
        Stalled: DESTINATION_CONFLICT, a column is missing, or has a type that Iceberg lacks.
    """
    from pyiceberg.partitioning import PartitionField as Field  # noqa: PLC0415  # an extra
    from pyiceberg.partitioning import PartitionSpec  # noqa: PLC0415  # an extra
    from pyiceberg.transforms import parse_transform  # noqa: PLC0415  # an extra

    schema, made = optional(as_iceberg(columns)), []
    for number, field in enumerate(fields):
        try:
            source = schema.find_field(field.column)
        except ValueError:
            raise _unpartitioned(field, "there is none") from None
        transform = parse_transform(field.transform)
        if not transform.can_transform(source.field_type):
            raise _unpartitioned(field, f"it is a {source.field_type}")
        made.append(Field(source.field_id, 1000 + number, transform, field.name))
    return NewTable(schema, PartitionSpec(*made))


def _unpartitioned(field: PartitionField, why: str) -> Stalled:
    text = f"option partitionBy: {field.transform} of column {field.column}: {why}"
    return Stalled(Reason.DESTINATION_CONFLICT, text)


def optional(schema: Any) -> Any:
    """A schema whose columns may be null: a later file may lack any of them."""
    from pyiceberg.schema import Schema  # noqa: PLC0415  # an extra

    fields = [field.model_copy(update={"required": False}) for field in schema.fields]
    return Schema(*fields, schema_id=schema.schema_id)
