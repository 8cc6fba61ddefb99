"""Decodes rows of Avro: by schema, all rows of a schema at once.

With the framing ``Confluent`` a payload is a byte 0, the schema's id as four bytes, big-endian, and
the value (Confluent documentation, "Wire format"). A payload that begins otherwise is bad. Without
framing the payload is the value, and there is one schema for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Path, Wanted
from landfall.pipeline.decoders.avro.cursor import Data
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.parts import Part, empty_part, merge
from landfall.pipeline.decoders.avro.plan import ALL, Tree, compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import Schema
from landfall.pipeline.decoders.avro.values import declared_columns, field_values, json_objects
from landfall.pipeline.decoders.typed_columns import typed_columns
from landfall.pipeline.records import Int64s, Records

HEADER_BYTES = 5
NO_ID = -1
"""Stands for the id of the only schema of payloads that have no framing."""


class UnknownSchemaError(Exception):
    """No schema has this id, or it cannot be used; the message says so and names the id."""


class Schemas(Protocol):
    """Where schemas come from."""

    def resolve(self, topic: str, schema_id: int) -> tuple[Schema, Schema | None]:
        """Return the writer's schema with this id, and the reader's if it is another.

        Raises:
            UnknownSchemaError: the rows with this id are bad.
            Retry: it cannot be found out now.
        """
        ...


@dataclass(frozen=True)
class AvroRows:
    """Decodes payloads of Avro.

    Attributes:
        schemas: finds schemas by their ids.
        wanted: what the later stages need.
        is_framed: whether payloads begin with a schema's id.
    """

    schemas: Schemas
    wanted: Wanted
    is_framed: bool
    _nodes: dict[tuple[str, int], Node | str] = field(default_factory=dict, repr=False)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is exactly one value of its schema.

        Raises:
            Retry: a schema cannot be asked for now.
        """
        payloads, topic = records.values, records.topic_partition.topic
        data, start, end = payload_data(payloads)
        is_null = np.asarray(pc.is_null(payloads))
        parts = [empty_part(np.flatnonzero(is_null), self.wanted)] if is_null.any() else []
        ids, errors = (
            _ids(data, start, end) if self.is_framed else (np.full(len(start), NO_ID), _NO_ERRORS)
        )
        for error, wrong in errors.items():
            rows = np.flatnonzero(wrong & ~is_null)
            if len(rows):
                parts.append(empty_part(rows, self.wanted, error))
            is_null |= wrong
        rest = np.flatnonzero(~is_null)
        for schema_id in np.unique(ids[rest]).tolist():
            rows = rest[ids[rest] == schema_id]
            begin = start[rows] + (HEADER_BYTES if self.is_framed else 0)
            parts.append(self._part(rows, (topic, schema_id), data, (begin, end[rows])))
        whole = merge(parts, self.wanted) if parts else empty_part(rest, self.wanted)
        if self.wanted.json:
            records = records.with_values(whole.payloads)
        return Decoded(records, whole.fields, whole.columns).reject(whole.errors)

    def _part(
        self, rows: Int64s, key: tuple[str, int], data: Data, ranges: tuple[Int64s, Int64s]
    ) -> Part:
        node = self._node(key)
        if isinstance(node, str):
            return empty_part(rows, self.wanted, node)
        column, errors = read(node, data, *ranges)
        return self._of_column(rows, node, column, errors)

    def _of_column(
        self, rows: Int64s, node: Node, column: pa.Array, errors: Mapping[int, str]
    ) -> Part:
        wanted, found, fields = self.wanted, dict(errors), {}
        for path in wanted.fields:
            fields[path], of_field = field_values(node, column, path)
            # What is wrong with a row as a whole comes first: its values mean nothing then.
            found = {**of_field, **found}
        columns = payloads = None
        if wanted.schema is not None:
            columns, of_columns = declared_columns(wanted.schema, node, column)
            found = {**of_columns, **found}
        if wanted.json:
            payloads, of_json = json_objects(node, column)
            found = {**of_json, **found}
        return Part(rows, fields, columns, payloads, found)

    def _node(self, key: tuple[str, int]) -> Node | str:
        """The compiled schema, or why the rows with this id are bad."""
        if key not in self._nodes:
            try:
                writer, reader = self.schemas.resolve(*key)
            except UnknownSchemaError as error:
                return str(error)  # not kept: it may be registered later
            try:
                self._nodes[key] = compile_schema(writer, reader, wanted_tree(self.wanted))
            except ValueError as error:
                of = "" if key[1] == NO_ID else f"schema {key[1]}: "
                self._nodes[key] = f"avro: {of}{error}"
        return self._nodes[key]


def wanted_tree(wanted: Wanted) -> Tree:
    """What has to be read: everything for JSON, else the paths of fields and columns."""
    if wanted.json:
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


_NO_ERRORS: Mapping[str, np.ndarray] = {}


def _ids(data: Data, start: Int64s, end: Int64s) -> tuple[Int64s, Mapping[str, np.ndarray]]:
    """Return the id in each header, and the rows that have none, by what is wrong."""
    words = data.words[start]
    is_short = end - start < HEADER_BYTES
    ids = (words.byteswap() >> np.uint64(24)).astype(np.int64) & 0xFFFFFFFF
    other = ~is_short & ((words & np.uint64(0xFF)) != 0)
    return ids, {
        "avro: too short for a schema id": is_short,
        "avro: does not begin with the byte 0 of a schema id": other,
    }
