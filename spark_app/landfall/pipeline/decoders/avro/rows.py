"""Decodes rows of Avro: by schema, all rows of a schema at once.

With a ``Framing`` payloads or record headers name schemas, and a payload that names none is bad:
see ``pipeline.decoders.confluent``. Without it the payload is the value, and there is one schema.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import Decoded, Path, UsedSchema, Wanted
from landfall.pipeline.decoders.avro.branches import (
    BranchRows,
    record_names,
    rows_by_branch,
    wanted_of_branches,
)
from landfall.pipeline.decoders.avro.complete import digest
from landfall.pipeline.decoders.avro.cursor import Data
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.own_columns import own_columns
from landfall.pipeline.decoders.avro.parts import AvroPart, empty_part, merge
from landfall.pipeline.decoders.avro.plan import ALL, Tree, compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import Named, Schema, kind_of
from landfall.pipeline.decoders.avro.values import declared_columns, field_values, json_objects
from landfall.pipeline.decoders.bodies import without_header
from landfall.pipeline.decoders.confluent import ID_BYTES, MAX_ID, Framing, SchemaId
from landfall.pipeline.decoders.row_schemas import (
    SCHEMA_ID,
    SCHEMA_NAME,
    RowSchema,
    SchemaRows,
    same_for_all,
)
from landfall.pipeline.decoders.typed_columns import typed_columns
from landfall.pipeline.records import FieldValues, Int64s, Records

Bools = npt.NDArray[np.bool_]
NO_ID = -1
"""Stands for the id of the only schema of payloads without framing, and of tombstones."""


class UnknownSchemaError(Exception):
    """No schema has this id, or it cannot be used; the message names the problem and the id."""


class AvroSchemas(Protocol):
    """Where schemas come from."""

    def resolve(self, topic: str, schema_id: SchemaId) -> tuple[Schema, Schema | None]:
        """Return the writer's schema with this id, and the reader's if it is another.

        With ``NO_ID`` the schema that tombstones have, for they name none.

        Raises:
            UnknownSchemaError: the rows with this id are bad.
            Retry: it cannot be found out now.
        """
        ...

    def used(self, topic: str, schema_id: SchemaId) -> Iterable[UsedSchema]:  # noqa: ARG002  # for other resolvers
        """Return the schemas from elsewhere among those that ``resolve`` returned."""
        return ()


@dataclass(frozen=True)
class _Compiled:
    """A schema as it is read.

    Attributes:
        node: reads it.
        schema: the schema of the rows, which is the reader's.
        names: the full names of its branches, if it is a union, else its own.
    """

    node: Node
    schema: RowSchema
    names: tuple[str, ...]


@dataclass(frozen=True)
class AvroRows:
    """Decodes payloads of Avro.

    Attributes:
        schemas: finds schemas by their ids.
        wanted: what the later stages need.
        framing: where the ids of schemas are; None if payloads have none.
    """

    schemas: AvroSchemas
    wanted: Wanted
    framing: Framing | None
    _compiled: BoundedCache[tuple[str, SchemaId], _Compiled | str] = field(
        default_factory=BoundedCache, repr=False
    )

    def decode(self, records: Records) -> Decoded:
        """Return every row that is exactly one value of its schema.

        Raises:
            Retry: a schema cannot be asked for now.
        """
        payloads, topic = records.values, records.topic_partition.topic
        data, start, end = payload_data(payloads, is_strict=self.wanted.bodies)
        is_null = np.asarray(pc.is_null(payloads))
        parts = [self._tombstones(np.flatnonzero(is_null), topic)] if is_null.any() else []
        ids, errors, header_bytes, guids = self._identify(records, (data, start, end), is_null)
        if errors:
            wrong = np.array(sorted(errors), np.int64)
            texts = {i: errors[row] for i, row in enumerate(wrong.tolist())}
            parts.append(replace(empty_part(wrong, self.wanted), errors=texts))
            is_null[wrong] = True
        rest, start = np.flatnonzero(~is_null), start + header_bytes
        used: list[UsedSchema] = []
        for number in np.unique(ids[rest]).tolist():
            rows = rest[ids[rest] == number]
            schema_id = guids.get(number, number)
            part, is_known = self._part(rows, (topic, schema_id), data, (start[rows], end[rows]))
            parts.append(part)
            if is_known:
                used.extend(self.schemas.used(topic, schema_id))
        whole = merge(parts, self.wanted) if parts else empty_part(rest, self.wanted)
        if self.wanted.json:
            records = records.with_values(whole.payloads)
        if self.wanted.bodies and self.framing is not None:
            records = records.with_values(without_header(payloads, ~is_null, header_bytes))
        by_schema = whole.by_schema if self.wanted.by_schema else None
        decoded = Decoded(
            records, whole.fields, whole.columns, by_schema=by_schema, used=tuple(used)
        )
        return decoded.reject(whole.errors)

    def _identify(
        self, records: Records, whole: tuple[Data, Int64s, Int64s], is_null: Bools
    ) -> tuple[Int64s, Mapping[int, str], Int64s | int, Mapping[int, SchemaId]]:
        """The id of each row, what is wrong by row, how many bytes come before bodies, and GUIDs.

        A GUID is a negative number, by which the mapping has it. It holds for this chunk only:
        a producer can write any number of GUIDs.
        """
        if self.framing is None:
            return np.full(len(records), NO_ID), {}, 0, {}
        if not self.framing.in_headers:
            ids, wrong = _ids(*whole)
            errors = self.framing.problems(records, np.flatnonzero(wrong & ~is_null))
            return ids, errors, ID_BYTES, {}
        frames = self.framing.frames(records)
        numbers: dict[SchemaId, int] = {}
        for schema_id in frames.ids:
            guid_number = NO_ID - 1 - len(numbers)
            number = schema_id if isinstance(schema_id, int) else guid_number
            numbers.setdefault(schema_id, number)
        of_codes = np.array([NO_ID, *(numbers[id_] for id_ in frames.ids)], np.int64)
        guids = {number: guid for guid, number in numbers.items()}
        return of_codes[frames.codes + 1], frames.errors, frames.header_bytes, guids

    def _tombstones(self, rows: Int64s, topic: str) -> AvroPart:
        if not self.wanted.by_schema:
            return empty_part(rows, self.wanted)
        if self.wanted.bodies:
            return empty_part(rows, self.wanted, "avro: a tombstone, which no Avro file can hold")
        try:
            found = self._compile((topic, NO_ID))
        except UnknownSchemaError as error:
            found = str(error)
        if isinstance(found, str):
            return empty_part(rows, self.wanted, found)
        none = own_columns(found.node, pa.nulls(len(rows), found.node.arrow))
        by_schema = (SchemaRows(found.schema, rows, none),)
        return replace(empty_part(rows, self.wanted), by_schema=by_schema)

    def _part(
        self, rows: Int64s, key: tuple[str, SchemaId], data: Data, ranges: tuple[Int64s, Int64s]
    ) -> tuple[AvroPart, bool]:
        """Return the wanted parts of the rows with an id, and whether its schema exists."""
        try:
            found = self._compile(key)
        except UnknownSchemaError as error:
            return empty_part(rows, self.wanted, str(error)), False
        if isinstance(found, str):
            return empty_part(rows, self.wanted, found), True
        column, errors = read(found.node, data, *ranges)
        part = self._of_column(rows, found, column, errors)
        if SCHEMA_ID in self.wanted.fields:
            ids = same_for_all(key[1], len(rows))
            part = replace(part, fields={**part.fields, SCHEMA_ID: ids})
        return part, True

    def _of_column(
        self, rows: Int64s, found: _Compiled, column: pa.Array, errors: Mapping[int, str]
    ) -> AvroPart:
        branches = [*rows_by_branch(found.node, column)]
        if branches:
            names = (*found.names, None)
            parts = [
                self._of_records(branch, names[-1 if branch.number is None else branch.number])
                for branch in branches
            ]
            part = merge(parts, self.wanted)
        else:
            whole = BranchRows(np.arange(len(rows)), found.node, column, 0)
            part = self._of_records(whole, found.schema.name)
        by_schema: tuple[SchemaRows, ...] = ()
        if self.wanted.by_schema:
            own = own_columns(found.node, column) if self.wanted.own_columns else None
            by_schema = (SchemaRows(found.schema, rows, own),)
        # What is wrong with a row as a whole comes first: its values mean nothing then.
        return replace(part, rows=rows, errors={**part.errors, **errors}, by_schema=by_schema)

    def _of_records(self, branch: BranchRows, name: str | None) -> AvroPart:
        """Return the wanted parts of rows of one type; nulls of a union have no name."""
        wanted = self.wanted
        rows = branch.rows
        node = branch.node
        column = branch.column
        fields: dict[Path, FieldValues] = {}
        wrong: Mapping[int, str] = {}
        for path in wanted.fields:
            if path == SCHEMA_NAME:
                nulls = pa.nulls(len(rows), pa.string())
                fields[path] = nulls if name is None else same_for_all(name, len(rows))
                continue
            fields[path], of_field = field_values(
                node, column, path, branch.member, common=wanted.common
            )
            wrong = {**of_field, **wrong}
        columns = payloads = None
        if wanted.schema is not None:
            columns, of_columns = declared_columns(wanted.schema, node, column, branch.member)
            wrong = {**of_columns, **wrong}
        if wanted.json and name is None:
            payloads = pa.nulls(len(rows), pa.binary())
        elif wanted.json:
            payloads, of_json = json_objects(node, column)
            wrong = {**of_json, **wrong}
        return AvroPart(rows=rows, fields=fields, columns=columns, payloads=payloads, errors=wrong)

    def _compile(self, key: tuple[str, SchemaId]) -> _Compiled | str:
        """The compiled schema, or why the rows with this id are bad.

        Raises:
            UnknownSchemaError: no schema has this id yet, or none that can be used.
        """
        if (kept := self._compiled.get(key)) is not None:
            return kept
        writer, reader = self.schemas.resolve(*key)
        size = len(writer.text) + (len(reader.text) if reader else 0)
        try:
            schema = reader or writer
            node = compiled(writer, reader, self.wanted)
            found: _Compiled | str = _Compiled(node, row_schema(schema), record_names(schema))
        except ValueError as error:
            of = "" if key[1] == NO_ID else f"schema {key[1]}: "
            found = f"avro: {of}{error}"
        return self._compiled.add(key, found, size)


def row_schema(schema: Schema) -> RowSchema:
    """Return a schema as what its rows are landed with."""
    name = kind_of(schema.root) if isinstance(schema.root, Named) else ""
    return RowSchema(digest(schema.text), name, schema.text)


def compiled(writer: Schema, reader: Schema | None, wanted: Wanted) -> Node:
    """Return what reads the wanted parts of payloads; see ``compile_schema``.

    Raises:
        ValueError: the schemas do not resolve, or one is too large.
    """
    tree = wanted_of_branches(wanted_tree(wanted), reader or writer)
    return compile_schema(writer, reader, tree, common=wanted.common)


def wanted_tree(wanted: Wanted) -> Tree:
    """Return the members to read: all for JSON and own columns, else the wanted paths."""
    if wanted.json or wanted.own_columns:
        return ALL
    typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
    tree: dict[str, Tree] = {}
    for path in (*wanted.fields, *(column.path for column in typed)):
        _add(tree, path)
    return tree


def _add(tree: dict[str, Tree], path: Path) -> None:
    for part in path[:-1]:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            return  # all of it is wanted already
        tree = inner
    tree[path[-1]] = ALL


def _ids(data: Data, start: Int64s, end: Int64s) -> tuple[Int64s, Bools]:
    """Return the id before each payload, and the rows that have none."""
    words = data.words[start]
    ids = (words.byteswap() >> np.uint64(24)).astype(np.int64) & 0xFFFFFFFF
    is_framed = (end - start >= ID_BYTES) & ((words & np.uint64(0xFF)) == 0)
    return ids, ~is_framed | (ids > MAX_ID)
