"""Nodes of types that hold other types: records, unions, arrays, maps, and recursive types.

A part of the rows, or the items of all rows, are read by a cursor of their own, so that every node
reads all rows of the cursor it is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders.avro.blocks import (
    item_starts,
    read_numbers,
    skip_items,
    walk_blocks,
)
from landfall.pipeline.decoders.avro.cursor import AvroCursor
from landfall.pipeline.decoders.avro.node import (
    MAX_LEVELS,
    Malformed,
    Node,
    OneRecord,
    quoted,
    spread,
)
from landfall.pipeline.decoders.avro.scalars import NumberNode
from landfall.pipeline.records import Int64s

_STRING = pa.string()


@dataclass(frozen=True)
class FieldStep:
    """A field that the writer wrote; ``name`` is the reader's, None if it is not wanted."""

    node: Node
    name: str | None


@dataclass(frozen=True)
class RecordNode:
    """Type ``record``, with the wanted fields.

    Attributes:
        steps: all fields that the writer wrote, in order.
        defaults: for each wanted field that the writer does not have a column of one row.
        names: the wanted fields, in the reader's order.
        fields: the same as Arrow fields.
        nodes: for each wanted field the node that makes JSON of it.
    """

    path: str
    steps: tuple[FieldStep, ...]
    defaults: dict[str, pa.Array]
    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    arrow: pa.DataType
    least: int

    def read(self, cursor: AvroCursor) -> pa.Array:
        columns: dict[str, pa.Array] = {}
        for step in self.steps:
            if step.name is None:
                step.node.skip(cursor)
            else:
                columns[step.name] = step.node.read(cursor)
        for name, default in self.defaults.items():
            columns[name] = default.take(pa.array(np.zeros(len(cursor), np.int64)))
        return struct([columns[name] for name in self.names], self.arrow, len(cursor))

    def skip(self, cursor: AvroCursor) -> None:
        for step in self.steps:
            step.node.skip(cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        for step in self.steps:
            at = step.node.walk(record, at)
        return at

    def text(self, column: pa.Array) -> pa.StringArray:
        parts = [
            node.text(column.field(name)) for name, node in zip(self.names, self.nodes, strict=True)
        ]
        return objects(self.names, parts, column)


@dataclass(frozen=True)
class UnionBranch:
    """A branch of the writer's union.

    Attributes:
        node: reads it.
        member: which member of the reader's union it is; None if it is null.
        refusal: why the reader's schema has no room for it; None if it has.
    """

    node: Node
    member: int | None
    refusal: str | None = None


@dataclass(frozen=True)
class UnionNode:
    """Type ``union``: a value of one type and maybe null, or a struct with a member for each type.

    Attributes:
        branches: the writer's branches. If ``is_tagged`` is false the writer has no union but the
            only branch, and the reader's union is made around it.
        members: the names of the struct's members; None if there is one type, and no struct.
        nodes: for each member the node that makes JSON of it.
    """

    path: str
    branches: tuple[UnionBranch, ...]
    is_tagged: bool
    members: tuple[str, ...] | None
    nodes: tuple[Node, ...]
    arrow: pa.DataType

    @property
    def least(self) -> int:
        return 1 if self.is_tagged else self.branches[0].node.least

    def read(self, cursor: AvroCursor) -> pa.Array:
        numbers = self._numbers(cursor)
        parts: dict[int, list[tuple[Int64s, pa.Array]]] = {}
        for number, branch in enumerate(self.branches):
            rows = np.flatnonzero((numbers == number) & cursor.good)
            column = self._branch(branch, rows, cursor)
            if column is not None and branch.member is not None:
                parts.setdefault(branch.member, []).append((rows, column))
        if self.members is None:
            return _merged(parts.get(0, []), self.arrow, len(cursor))
        columns = [
            _merged(parts.get(i, []), self.arrow.field(i).type, len(cursor))
            for i in range(len(self.members))
        ]
        present = np.zeros(len(cursor), np.bool_)
        for member_parts in parts.values():
            for rows, _ in member_parts:
                present[rows] = True
        return struct(columns, self.arrow, len(cursor), pa.array(~present))

    def skip(self, cursor: AvroCursor) -> None:
        numbers = self._numbers(cursor)
        for number, branch in enumerate(self.branches):
            rows = np.flatnonzero((numbers == number) & cursor.good)
            if len(rows):
                part = cursor.select(rows)
                branch.node.skip(part)
                cursor.join(part, rows)

    def walk(self, record: OneRecord, at: int) -> int:
        number = 0
        if self.is_tagged:
            number, at = record.number(at, self.path)
            if not 0 <= number < len(self.branches):
                raise Malformed(f"{self.path}: unknown branch of a union")
        return self.branches[number].node.walk(record, at)

    def text(self, column: pa.Array) -> pa.StringArray:
        if self.members is None:
            return self.nodes[0].text(column) if self.nodes else _nulls_as_text(len(column))
        made = _nulls_as_text(len(column))
        for name, node, part in zip(self.members, self.nodes, column.flatten(), strict=True):
            tag = f"{{{orjson.dumps(name).decode()}:"
            tagged = pc.binary_join_element_wise(tag, node.text(part), "}", "")
            made = pc.if_else(part.is_valid(), tagged, made)
        return made

    def _numbers(self, cursor: AvroCursor) -> Int64s:
        if not self.is_tagged:
            return np.zeros(len(cursor), np.int64)
        numbers = cursor.numbers(self.path)
        wrong = (numbers < 0) | (numbers >= len(self.branches))
        cursor.fail(wrong, f"{self.path}: unknown branch of a union")
        return numbers

    def _branch(self, branch: UnionBranch, rows: Int64s, cursor: AvroCursor) -> pa.Array | None:
        if not len(rows):
            return None
        if branch.refusal is not None:
            wrong = np.zeros(len(cursor), np.bool_)
            wrong[rows] = True
            cursor.fail(wrong, branch.refusal)
            return None
        if len(rows) == len(cursor):
            return branch.node.read(cursor)
        part = cursor.select(rows)
        column = branch.node.read(part)
        cursor.join(part, rows)
        return column


@dataclass(frozen=True)
class ArrayNode:
    """Type ``array``."""

    path: str
    items: Node
    arrow: pa.DataType
    least: int = 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        offsets, values = read_items(self.items, self.path, cursor)
        return pa.ListArray.from_arrays(offsets, values, type=self.arrow)

    def skip(self, cursor: AvroCursor) -> None:
        skip_items(self.items, self.path, cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        return walk_blocks(self.items, self.path, record, at)

    def text(self, column: pa.Array) -> pa.StringArray:
        return _joined(column, self.items.text(column.flatten()), "[", "]")


@dataclass(frozen=True)
class MapNode:
    """Type ``map``; ``entries`` reads a key and a value.

    Of a key that comes twice the last value counts, at the place of the first one, as in Avro's
    libraries: theirs are dictionaries, into which entries are put one by one.
    """

    path: str
    entries: RecordNode
    arrow: pa.DataType
    least: int = 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        offsets, values = read_items(self.entries, self.path, cursor)
        return last_values(pa.MapArray.from_arrays(offsets, values.field(0), values.field(1)))

    def skip(self, cursor: AvroCursor) -> None:
        skip_items(self.entries, self.path, cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        return walk_blocks(self.entries, self.path, record, at)

    def text(self, column: pa.Array) -> pa.StringArray:
        keys, values = quoted(column.keys), self.entries.nodes[1].text(column.items)
        return _joined(column, pc.binary_join_element_wise(keys, values, ":"), "{", "}")


@dataclass
class RecursiveNode:
    """A type inside itself: its values are columns of JSON, for a column's type has an end.

    Attributes:
        target: reads the type; it holds this node again.
        levels: how deep types are in it, down to where it comes again.
    """

    path: str
    target: Node | None = field(default=None, repr=False)
    levels: int = 1
    arrow: pa.DataType = _STRING
    least: int = 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        assert self.target is not None, "compiled"
        rows = self._enter(cursor)
        if not len(rows):
            return pa.nulls(len(cursor), pa.string())
        part = cursor.select(rows)
        part.depth += self.levels
        texts = self.target.text(self.target.read(part))
        cursor.join(part, rows)
        return spread(texts, rows, len(cursor))

    def skip(self, cursor: AvroCursor) -> None:
        assert self.target is not None, "compiled"
        rows = self._enter(cursor)
        if len(rows):
            part = cursor.select(rows)
            part.depth += self.levels
            self.target.skip(part)
            cursor.join(part, rows)

    def walk(self, record: OneRecord, at: int) -> int:
        assert self.target is not None, "compiled"
        if record.depth + self.levels > MAX_LEVELS:
            raise Malformed(f"{self.path}: nested more than {MAX_LEVELS} levels deep")
        record.depth += self.levels
        after = self.target.walk(record, at)
        record.depth -= self.levels
        return after

    def text(self, column: pa.Array) -> pa.StringArray:
        return column.fill_null("null")

    def _enter(self, cursor: AvroCursor) -> Int64s:
        if cursor.depth + self.levels > MAX_LEVELS:
            cursor.fail(cursor.good, f"{self.path}: nested more than {MAX_LEVELS} levels deep")
        return np.flatnonzero(cursor.good)


def read_items(node: Node, path: str, cursor: AvroCursor) -> tuple[pa.Array, pa.Array]:
    """Return the offsets of each row's items, and the items of all rows."""
    if isinstance(node, NumberNode) and node.takes_any:
        owners, numbers = read_numbers(node, path, cursor)
        values = node.column(numbers)
    else:
        owners, starts = item_starts(node, path, cursor)
        items = cursor.items(owners, starts)
        values = node.read(items)
        cursor.absorb(items, owners)
    offsets = np.zeros(len(cursor) + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=len(cursor)), out=offsets[1:])
    return pa.array(offsets), values


def last_values(maps: pa.MapArray) -> pa.MapArray:
    """Return maps without nulls with each key once: the last value, at the first one's place."""
    offsets = maps.offsets.to_numpy()
    sizes = np.diff(offsets)
    if not len(sizes) or sizes.max() < 2:
        return maps
    codes = maps.keys.dictionary_encode()
    rows = np.repeat(np.arange(len(maps)), sizes)
    # A row and its key as one number; of equal ones, the first and the last position.
    pairs = rows * len(codes.dictionary) + codes.indices.to_numpy()
    _, first = np.unique(pairs, return_index=True)
    if len(first) == len(pairs):
        return maps
    _, from_end = np.unique(pairs[::-1], return_index=True)
    order = np.argsort(first)
    kept, last = first[order], (len(pairs) - 1 - from_end)[order]
    made = np.zeros(len(maps) + 1, np.int32)
    np.cumsum(np.bincount(rows[kept], minlength=len(maps)), out=made[1:])
    return pa.MapArray.from_arrays(
        pa.array(made), maps.keys.take(pa.array(kept)), maps.items.take(pa.array(last))
    )


def struct(
    columns: Sequence[pa.Array], type_: pa.DataType, rows: int, mask: pa.Array | None = None
) -> pa.StructArray:
    """Return a struct column; unlike Arrow's function also without any member."""
    if not columns:
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(type_, rows, [validity])
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=mask)


def objects(
    names: Sequence[str], values: Sequence[pa.StringArray], column: pa.Array
) -> pa.StringArray:
    """Return JSON objects with these members; ``null`` where the column is null."""
    tokens: list[object] = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        tokens += [f"{',' if i else '{'}{orjson.dumps(name).decode()}:", value]
    if tokens:
        made = pc.binary_join_element_wise(*tokens, "}", "")
    else:
        made = pa.array(["{}"] * len(column), pa.string())
    return pc.if_else(column.is_valid(), made, "null") if column.null_count else made


def _merged(parts: Sequence[tuple[Int64s, pa.Array]], type_: pa.DataType, rows: int) -> pa.Array:
    if not parts:
        return pa.nulls(rows, type_)
    if len(parts) == 1:
        return spread(parts[0][1], parts[0][0], rows)
    # In the order of their rows.
    together = np.concatenate([positions for positions, _ in parts])
    order = np.argsort(together)
    column = pa.concat_arrays([part for _, part in parts]).take(pa.array(order))
    return spread(column, together[order], rows)


def _nulls_as_text(rows: int) -> pa.StringArray:
    return pa.array(["null"], pa.string()).take(pa.array(np.zeros(rows, np.int64)))


def _joined(column: pa.Array, items: pa.StringArray, left: str, right: str) -> pa.StringArray:
    """Return the items of each row between commas and brackets; ``null`` where it is null."""
    offsets = column.offsets.to_numpy()
    lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), items)
    made = pc.binary_join_element_wise(left, pc.binary_join(lists, ","), right, "")
    return pc.if_else(column.is_valid(), made, "null") if column.null_count else made
