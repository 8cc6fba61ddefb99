"""Columns as Hive writes their types, from Arrow's types. Pure.

Source: Hive's language manual, "Hive Data Types", and Spark's and Trino's tables of the Parquet
types that they read as these. Unsigned integers are the next wider signed ones, as in Spark. Names
are in lower case, as a metastore keeps them.
"""

import re
from collections.abc import Iterable

import pyarrow as pa

from landfall.publish.catalog import Columns

_SIMPLE = {
    pa.null(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
"""Types in order of width: readers also read a type from files with one before it."""
_INNER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def columns_of(schema: pa.Schema) -> Columns:
    """The columns of a file.

    Raises:
        ValueError: a type has no counterpart, or two names differ in their case only; the message
            begins with the column.
    """
    made: dict[str, str] = {}
    for column in schema:
        name = column.name.lower()
        if name in made:
            raise ValueError(f"column {column.name}: another one differs only in its case")
        try:
            made[name] = hive_type(column.type)
        except ValueError as error:
            raise ValueError(f"column {column.name}: {error}") from error
    return made


def hive_type(type_: pa.DataType) -> str:  # noqa: PLR0911  # a table
    """A type as Hive writes it.

    Raises:
        ValueError: Hive has no such type.
    """
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    if pa.types.is_timestamp(type_):
        return "timestamp"
    if pa.types.is_fixed_size_binary(type_):
        return "binary"
    if pa.types.is_decimal(type_) and type_.precision <= 38:
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(_member(field) for field in type_)}>"
    if pa.types.is_map(type_):
        return f"map<{hive_type(type_.key_type)},{hive_type(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{hive_type(type_.value_type)}>"
    raise ValueError(f"Hive has no type for {type_}")


_WAY_OUT = "give the types of its columns by option columns, in a publisher of this topic alone"


def fits(found: str, wanted: str) -> bool:
    """Return whether files with the type ``found`` can be read as the type ``wanted``."""
    if found == wanted:
        return True
    return any(
        found in order and wanted in order and order.index(found) < order.index(wanted)
        for order in _WIDER
    )


def missing(table: Columns, columns: Columns) -> Columns:
    """Return the columns of objects that a table lacks.

    Raises:
        ValueError: it has one with a type that does not fit the objects.
    """
    there = {name.lower(): type_.replace(" ", "").lower() for name, type_ in table.items()}
    wrong = [
        f"{name} is {there[name]} in the table and {type_} in objects"
        for name, type_ in columns.items()
        if name in there and not fits(type_.lower(), there[name])
    ]
    if wrong:
        raise ValueError(
            f"the types of columns differ: {'; '.join(wrong)}; columns are only ever added: "
            f"change the table, or {_WAY_OUT}"
        )
    return {name: type_ for name, type_ in columns.items() if name not in there}


def together(several: Iterable[Columns]) -> Columns:
    """Return the union of the columns of several files.

    Raises:
        ValueError: two have different types for a column, and neither is the wider one.
    """
    made: dict[str, str] = {}
    for columns in several:
        for name, type_ in columns.items():
            before = made.setdefault(name, type_)
            if not (fits(type_, before) or fits(before, type_)):
                raise ValueError(
                    f"column {name} is {before} in one object and {type_} in another: {_WAY_OUT}"
                )
            if not fits(type_, before):
                made[name] = type_
    return made


def _member(field: pa.Field) -> str:
    if not _INNER_NAME.fullmatch(field.name):
        raise ValueError(f"Hive has no struct with a field {field.name!r}")
    return f"{field.name.lower()}:{hive_type(field.type)}"
