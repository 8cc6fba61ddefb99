"""Compares typed columns with the schema that JSON of Kafka Connect contains. Pure.

A number in JSON names no unit. Where payloads have their schema (``schemas.enable``), it
names the type of each field, such as ``io.debezium.time.MicroTimestamp``. A column that reads such
a field in another unit would have wrong values, so the row is bad and the reason names the remedy.

Sources: Debezium 3.6, "PostgreSQL connector", "Data type mappings"; Kafka 4.3,
``org.apache.kafka.connect.data`` (``Date``, ``Decimal``, ``Time``, ``Timestamp``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from landfall.api.spec import ColumnType, ColumnUnit, DecimalEncoding, ValueType
from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders.typed_columns import TypedColumn

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_UNITS: Mapping[str, ColumnUnit] = {
    f"{_DEBEZIUM}Timestamp": ColumnUnit.MILLISECONDS,
    f"{_DEBEZIUM}MicroTimestamp": ColumnUnit.MICROSECONDS,
    f"{_DEBEZIUM}NanoTimestamp": ColumnUnit.NANOSECONDS,
    f"{_CONNECT}Timestamp": ColumnUnit.MILLISECONDS,
}
"""Times since 1970, by the names of their types."""
_DAYS = frozenset({f"{_DEBEZIUM}Date", f"{_CONNECT}Date"})
_NO_INSTANTS = frozenset(
    {
        *_DAYS,
        *(f"{_DEBEZIUM}{name}" for name in ("Time", "MicroTime", "NanoTime", "Year")),
        *(f"{_DEBEZIUM}{name}" for name in ("MicroDuration", "NanoDuration")),
        f"{_CONNECT}Time",
    }
)
"""Numbers that are no time since 1970."""
_DECIMAL = f"{_CONNECT}Decimal"


class _Field(msgspec.Struct, gc=False):
    """A field of a schema."""

    field: str | None = None
    name: str | None = None
    fields: "tuple[_Field, ...]" = ()
    parameters: dict[str, str] | None = None


_SCHEMA = msgspec.json.Decoder(_Field | None)


@dataclass(frozen=True)
class ConnectTypes:
    """Finds columns that read a field in another unit than its schema names.

    Attributes:
        columns: by the name of the field, its column's name and declared type.
    """

    columns: Mapping[str, tuple[str, ValueType]]
    _problems: BoundedCache[tuple[bytes, bool], str] = field(
        default_factory=BoundedCache, repr=False, compare=False
    )

    @classmethod
    def of(cls, columns: Sequence[TypedColumn]) -> "ConnectTypes":
        """Take the columns that read a field of the row itself."""
        single = (column for column in columns if len(column.path) == 1)
        return cls({column.path[0]: (column.name, column.declared) for column in single})

    def problem(self, schema: bytes, *, of_row: bool = False) -> str:
        """Return what is wrong with payloads of an envelope's schema; empty if nothing is.

        Args:
            schema: the schema as JSON, ``null`` if there is none.
            of_row: whether it is the schema of the row itself, and of no envelope.
        """
        known = self._problems.get((schema, of_row))
        if known is None:
            found = self._problem(schema, of_row=of_row)
            known = self._problems.add((schema, of_row), found, len(schema))
        return known

    def _problem(self, schema: bytes, *, of_row: bool) -> str:
        try:
            envelope = _SCHEMA.decode(schema)
        except (msgspec.DecodeError, RecursionError) as error:
            return f"schema: {error}"
        inside = envelope.fields if envelope else ()
        rows = [member.fields for member in inside if member.field == "after"]
        for member in inside if of_row else next(iter(rows), ()):
            if member.name is None or member.field not in self.columns:
                continue
            name, declared = self.columns[member.field]
            if remedy := _remedy(member.name, member.parameters or {}, declared):
                return f"column {name}: its schema names {member.name}: {remedy}"
        return ""


def _remedy(name: str, parameters: Mapping[str, str], declared: ValueType) -> str:
    """Return how a column of a type of this name must be declared; empty if it is so."""
    if declared.type is ColumnType.TIMESTAMP and name in _NO_INSTANTS:
        wanted = "Date with unit: Days" if name in _DAYS else "Int64"
        return f"no instant; declare type: {wanted}"
    if declared.type is ColumnType.TIMESTAMP and name in _UNITS:
        unit = declared.unit or ColumnUnit.MILLISECONDS
        return "" if unit in {_UNITS[name], ColumnUnit.AUTO} else f"set unit: {_UNITS[name]}"
    if declared.type is ColumnType.DECIMAL and name == _DECIMAL:
        scale = parameters.get("scale", "0")
        if declared.encoding is not DecimalEncoding.BASE64:
            return f"set encoding: Base64 and scale: {scale}"
        return "" if str(declared.scale or 0) == scale else f"set scale: {scale}"
    return ""
