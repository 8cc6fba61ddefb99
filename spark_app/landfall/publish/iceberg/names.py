"""Maps columns of landed files to columns of an Iceberg table.

Landed files have no field ids: readers find a column by the table's name mapping, which has for
each column every name that files may have for it. So Landfall looks there, too. A renamed column
stays the same column, and a name that Iceberg reserves for itself is another one in the table
(``landfall.api.column_names``), with the name of the files next to it.

Why no field ids: a catalog numbers the columns of a table that it creates, and a reader that finds
ids in a file ignores names. A file outlives tables, and may be in several, each with numbers of its
own, so ids in files would be other columns in some of them.

Source: https://iceberg.apache.org/spec/#column-projection
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from landfall.api.column_names import in_files, in_iceberg, is_reserved

PROPERTY = "schema.name-mapping.default"


def mapping_of(metadata: Any) -> Any:
    """The ``NameMapping`` of a table, with what it lacks: its columns, and their names in files."""
    from pyiceberg.table.name_mapping import (  # noqa: PLC0415  # an extra
        NameMapping,
        create_mapping_from_schema,
    )

    schema = metadata.schema()
    of_schema = [*create_mapping_from_schema(schema)]
    known = [*(metadata.name_mapping() or of_schema)]
    ids, live = {field.field_id for field in known}, {field.field_id for field in schema.fields}
    unmapped = {field.name for field in schema.fields if field.field_id not in ids}
    # A dropped column keeps its names in the mapping, which a new column may have now.
    known = [e for e in known if e.field_id in live or not unmapped & {*e.names}]
    taken = {name for field in known for name in field.names}
    known += [e for e in of_schema if e.field_id not in ids and not taken & {*e.names}]
    names = {field.field_id: in_files(field.name) for field in schema.fields}
    found = []
    for field in known:
        name = names.get(field.field_id)
        more = [name] if name and name not in taken else []
        found.append(field.model_copy(update={"names": [*field.names, *more]}))
    return NameMapping(found)


def as_in_table(columns: pa.Schema, schema: Any, mapping: Any) -> pa.Schema:
    """The columns of a file under their names in a table; new ones get the names they will have."""
    from pyiceberg.schema import index_by_id  # noqa: PLC0415  # an extra

    names = {field_id: field.name for field_id, field in index_by_id(schema).items()}

    def renamed(field: pa.Field, mapped: Sequence[Any], new: str) -> pa.Field:
        own = next((e for e in mapped if field.name in e.names and e.field_id in names), None)
        # Not by its truth: a MappedField without members is false.
        name, inner = (new, []) if own is None else (names[own.field_id], own.fields)
        return field.with_name(name).with_type(typed(field.type, inner))

    def typed(type_: pa.DataType, mapped: Sequence[Any]) -> pa.DataType:
        if pa.types.is_struct(type_):
            return pa.struct([renamed(field, mapped, field.name) for field in type_])
        inner: Mapping[str, Any] = {name: field.fields for field in mapped for name in field.names}
        if pa.types.is_list(type_):
            item = type_.value_field
            return pa.list_(item.with_type(typed(item.type, inner.get("element", []))))
        if pa.types.is_map(type_):
            key, value = type_.key_field, type_.item_field
            return pa.map_(
                key.with_type(typed(key.type, inner.get("key", []))),
                value.with_type(typed(value.type, inner.get("value", []))),
            )
        return type_

    return pa.schema([renamed(field, [*mapping], in_iceberg(field.name)) for field in columns])


def reserved_columns(schema: Any) -> dict[str, str]:
    """The columns of a table whose names Iceberg reserves, and free names for them."""
    taken = {field.name.casefold() for field in schema.fields}
    found = {}
    for field in schema.fields:
        if not is_reserved("Iceberg", field.name):
            continue
        name = in_iceberg(field.name)
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        found[field.name] = name
    return found
