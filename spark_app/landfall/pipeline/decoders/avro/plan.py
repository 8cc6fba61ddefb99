"""Compiles a writer's and a reader's schema into nodes that read only what is wanted.

Source: specification, "Schema Resolution". Where it leaves a choice, or where implementations
differ: of a reader's union the branch of the same type is taken, then one of the same name without
namespace, then the first that the writer's type can be promoted to, as Avro's Java library does, so
that a long is not read as a double because that comes first.

Columns of Avro types: records are structs, arrays lists, maps maps, enums text, fixed is binary,
for in Arrow's type of fixed size a null takes as much memory as a value. A union of one type
and null is a column of that type. A union of several types is a struct with one member for each
type but null, named after the type; one has a value. A type inside itself is JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders.avro import scalars
from landfall.pipeline.decoders.avro import schema as avro
from landfall.pipeline.decoders.avro.cursor import AvroCursor, Data, ErrorTexts
from landfall.pipeline.decoders.avro.defaults import encode_default
from landfall.pipeline.decoders.avro.leaves import (
    PROMOTED,
    IncompatibleError,
    fixed_node,
    primitive_node,
)
from landfall.pipeline.decoders.avro.nested import (
    ArrayNode,
    FieldStep,
    MapNode,
    RecordNode,
    RecursiveNode,
    UnionBranch,
    UnionNode,
)
from landfall.pipeline.decoders.avro.node import MAX_LEVELS, Node
from landfall.pipeline.decoders.avro.schema import Schema, Type, kind_of, short_name

Tree: TypeAlias = "Mapping[str, Tree] | None"
"""What is wanted of a value: members by name, or with None all of it. Empty: nothing."""

ALL: Tree = None
NOTHING: Tree = {}
_UNFIT, _PROMOTABLE, _SAME_SHORT_NAME, _SAME = range(4)
_NAMED = (avro.Record, avro.Enum, avro.Fixed)
_MAX_NODES = 20_000
"""Types in a compiled schema. One that uses its names again and again has more than memory holds,
in a few hundred bytes."""


def compile_schema(
    writer: Schema, reader: Schema | None = None, wanted: Tree = ALL, *, common: bool = False
) -> Node:
    """Return the node that reads the writer's values as the reader's schema has them.

    Args:
        writer: the schema of the payloads.
        reader: the schema of the columns; None if it is the same.
        wanted: the members that columns are made of; other members are skipped.
        common: whether JSON has the values of ``common_values``; a time that has none of these
            then makes a row bad.

    Raises:
        IncompatibleError: the schemas do not resolve.
        ValueError: a schema is too large.
    """
    reader = reader or writer
    try:
        return _Compiler(writer, reader, _NodeCount(), common).node(
            writer.root, reader.root, wanted, ""
        )
    except RecursionError:
        raise ValueError("schema: too deeply nested") from None


@dataclass
class _NodeCount:
    """Nodes made so far, the level of the one that is being made, and the deepest one."""

    nodes: int = 0
    level: int = 0
    deepest: int = 0

    def enter(self) -> None:
        """Count a node, one level down; raises ValueError if the schema is too large."""
        self.nodes += 1
        self.level += 1
        self.deepest = max(self.deepest, self.level)
        if self.nodes > _MAX_NODES:
            raise ValueError(f"schema: more than {_MAX_NODES} types")
        if self.level > MAX_LEVELS:
            raise ValueError(f"schema: nested more than {MAX_LEVELS} levels deep")


_Key: TypeAlias = tuple[str, str]


@dataclass
class _Compiler:
    writer: Schema
    reader: Schema
    count: _NodeCount
    common: bool = False
    open: frozenset[_Key] = frozenset()
    """Records that the current one is inside of."""
    cells: dict[tuple[_Key, bool], RecursiveNode] = field(default_factory=dict)

    def node(self, writer: Type, reader: Type, wanted: Tree, path: str) -> Node:
        """Return the node for a pair of types."""
        level = self.count.level
        try:
            self.count.enter()
            return self._node(writer, reader, wanted, path)
        finally:
            self.count.level = level

    def _node(  # noqa: PLR0911  # a table
        self, writer: Type, reader: Type, wanted: Tree, path: str
    ) -> Node:
        w, r = self.writer.resolve(writer), self.reader.resolve(reader)
        if isinstance(w, avro.Union) or isinstance(r, avro.Union):
            return self._union(w, r, wanted, path)
        match w, r:
            case avro.Primitive(), avro.Primitive():
                return primitive_node(w, r, path, common=self.common)
            case avro.Record(), avro.Record() if _same_name(w, r):
                return self._maybe_recursive(w, r, wanted, path)
            case avro.Array(), avro.Array():
                items = self.node(w.items, r.items, _inside(wanted), f"{path}[]")
                return ArrayNode(path, items, pa.list_(items.arrow))
            case avro.Map(), avro.Map():
                return self._map(w, r, wanted, path)
            case avro.Enum(), avro.Enum() if _same_name(w, r):
                known = set(r.symbols)
                symbols = (symbol if symbol in known else r.default for symbol in w.symbols)
                return scalars.SymbolNode(path, tuple(symbols))
            case avro.Fixed(), avro.Fixed() if w.size == r.size and _same_name(w, r):
                return fixed_node(r, path, common=self.common)
        raise IncompatibleError(f"{path or 'schema'}: {_named(w)} cannot be read as {_named(r)}")

    def _maybe_recursive(self, w: avro.Record, r: avro.Record, wanted: Tree, path: str) -> Node:
        key = (w.name, r.name)
        # What is wanted of a type inside itself by its path is only as deep as the path.
        if key not in self.open or wanted:
            return replace(self, open=self.open | {key}).record(w, r, wanted, path)
        is_skipped = wanted is not ALL
        if (key, is_skipped) not in self.cells:
            cell = self.cells[key, is_skipped] = RecursiveNode(path)
            inner = replace(self, open=frozenset({key}))
            # A record is one level, and what is in it down to its own cell are more.
            level, deepest = self.count.level, self.count.deepest
            self.count.deepest = level
            cell.target = inner.record(w, r, wanted, path)
            cell.levels = 1 + self.count.deepest - level
            self.count.deepest = max(deepest, self.count.deepest)
        return self.cells[key, is_skipped]

    def record(self, w: avro.Record, r: avro.Record, wanted: Tree, path: str) -> RecordNode:
        """Return the node for a pair of records that are not inside themselves."""
        places = {written_field.name: index for index, written_field in enumerate(w.fields)}
        found = {id(of): _source(places, of) for of in r.fields}
        sources = {of: index for of, index in found.items() if index is not None}
        readers = {sources[id(of)]: of for of in r.fields if id(of) in sources}
        steps, nodes = [], {}
        for index, written_field in enumerate(w.fields):
            of = readers.get(index)
            inside = f"{path}.{written_field.name}".lstrip(".")
            tree = NOTHING if of is None or wanted == NOTHING else _of_member(wanted, of.name)
            if of is None or tree == NOTHING:
                steps.append(FieldStep(self._skipped(written_field.type, inside), None))
            else:
                node = self.node(written_field.type, of.type, tree, inside)
                steps.append(FieldStep(node, of.name))
                nodes[of.name] = node
        defaults = {}
        for of in r.fields:
            tree = NOTHING if wanted == NOTHING else _of_member(wanted, of.name)
            if id(of) not in sources:
                inside = f"{path}.{of.name}".lstrip(".")
                if not of.has_default:
                    raise IncompatibleError(
                        f"{inside}: the writer has no such field, the reader no default"
                    )
                if tree != NOTHING:
                    nodes[of.name], defaults[of.name] = self._default(of, tree, inside)
        names = tuple(of.name for of in r.fields if of.name in nodes)
        return RecordNode(
            path=path,
            steps=tuple(steps),
            defaults=defaults,
            names=names,
            nodes=tuple(nodes[name] for name in names),
            arrow=pa.struct([pa.field(name, nodes[name].arrow) for name in names]),
            least=sum(step.node.least for step in steps),
        )

    def _skipped(self, type_: Type, path: str) -> Node:
        """A node that skips a type, for every type of the reader."""
        compiler = (
            self
            if self.reader is self.writer
            else _Compiler(self.writer, self.writer, self.count, self.common)
        )
        return compiler.node(type_, type_, NOTHING, path)

    def _default(self, of: avro.Field, tree: Tree, path: str) -> tuple[Node, pa.Array]:
        """The node of a field that the writer does not have, and its default as a column."""
        reader = _Compiler(self.reader, self.reader, self.count, self.common)
        node = reader.node(of.type, of.type, tree, path)
        encoded = encode_default(self.reader, of.type, of.default, path)
        data = Data.of(np.frombuffer(encoded, np.uint8))
        ends = np.array([len(encoded)], np.int64)
        cursor = AvroCursor(data, np.zeros(1, np.int64), ends, ErrorTexts())
        column = node.read(cursor)
        if not cursor.good[0]:
            raise IncompatibleError(f"{path}: default: {cursor.texts.texts[cursor.errors[0]]}")
        return node, column

    def _map(self, w: avro.Map, r: avro.Map, wanted: Tree, path: str) -> MapNode:
        values = self.node(w.values, r.values, _inside(wanted), f"{path}{{}}")
        key = scalars.TextNode(path, pa.string())
        names, nodes = ("key", "value"), (key, values)
        steps = tuple(FieldStep(node, name) for node, name in zip(nodes, names, strict=True))
        arrow = pa.struct([("key", pa.string()), ("value", values.arrow)])
        entries = RecordNode(
            path=path,
            steps=steps,
            defaults={},
            names=names,
            nodes=nodes,
            arrow=arrow,
            least=1 + values.least,
        )
        return MapNode(path, entries, pa.map_(pa.string(), values.arrow))

    def _union(self, w: Type, r: Type, wanted: Tree, path: str) -> Node:
        is_tagged = isinstance(w, avro.Union)
        writers = w.branches if isinstance(w, avro.Union) else (w,)
        readers = r.branches if isinstance(r, avro.Union) else (r,)
        present = [reader for reader in readers if kind_of(reader) != "null"]
        names = member_names(present)
        branches = tuple(
            self._branch(writer, readers, (present, names, wanted), path) for writer in writers
        )
        is_struct = len(present) > 1
        if not is_tagged and branches[0].refusal is not None:
            raise IncompatibleError(branches[0].refusal)
        nodes = [
            # What reads a branch knows its column, too; compiling it again would double the work
            # with every level of optional records.
            next((b.node for b in branches if b.member == member), None)
            or self._reader_node(reader, _of_union(wanted, names[member], is_struct), path)
            for member, reader in enumerate(present)
        ]
        branches = tuple(self._checked(branch, nodes, path) for branch in branches)
        types = [node.arrow for node in nodes]
        arrow = (
            pa.struct([pa.field(name, type_) for name, type_ in zip(names, types, strict=True)])
            if is_struct
            else types[0]
            if types
            else pa.null()
        )
        return UnionNode(
            path=path,
            branches=branches,
            is_tagged=is_tagged,
            members=names if is_struct else None,
            nodes=tuple(nodes),
            arrow=arrow,
        )

    def _checked(self, branch: UnionBranch, nodes: list[Node], path: str) -> UnionBranch:
        """The branch, refused if its column differs from its member's."""
        if branch.member is None or branch.node.arrow == nodes[branch.member].arrow:
            return branch
        # Two recursive types of the writer's can be one of the reader's, and begin to be JSON at
        # different places.
        refusal = f"{path or 'schema'}: two branches of the union make different columns"
        return UnionBranch(branch.node, None, refusal)

    def _reader_node(self, type_: Type, wanted: Tree, path: str) -> Node:
        """The node that has the reader's column, and makes JSON of it."""
        if self.reader is self.writer:
            return self.node(type_, type_, wanted, path)
        open_ = self._reader_open()
        compiler = _Compiler(
            writer=self.reader, reader=self.reader, count=self.count, common=self.common, open=open_
        )
        return compiler.node(type_, type_, wanted, path)

    def _reader_open(self) -> frozenset[_Key]:
        return frozenset((name, name) for _, name in self.open)

    def _branch(
        self,
        type_: Type,
        readers: tuple[Type, ...],
        members: tuple[list[Type], tuple[str, ...], Tree],
        path: str,
    ) -> UnionBranch:
        present, names, wanted = members
        chosen = self._chosen(type_, readers)
        if chosen is None:
            named = _named(self.writer.resolve(type_))
            refusal = f"{path or 'schema'}: {named} is not in the reader's union"
            return UnionBranch(self._skipped(type_, path), None, refusal)
        if kind_of(chosen) == "null":
            return UnionBranch(scalars.NullNode(path), None)
        member = next(i for i, reader in enumerate(present) if reader is chosen)
        tree = _of_union(wanted, names[member], len(present) > 1)
        try:
            return UnionBranch(self.node(type_, chosen, tree, path), member)
        except IncompatibleError as error:
            return UnionBranch(self._skipped(type_, path), None, str(error))

    def _chosen(self, type_: Type, readers: tuple[Type, ...]) -> Type | None:
        """The reader's branch for one of the writer's; None if there is none."""
        if self.reader is self.writer:
            return type_
        w = self.writer.resolve(type_)
        fits = [(_fit(w, self.reader.resolve(reader)), reader) for reader in readers]
        best = max(fit for fit, _ in fits)
        return next(reader for fit, reader in fits if fit == best) if best else None


def _fit(w: Type, r: Type) -> int:
    """How well a reader's branch fits: it is the same, has the same short name, or is promoted."""
    if kind_of(w) == kind_of(r):
        return _SAME
    if isinstance(w, avro.Primitive) and isinstance(r, avro.Primitive):
        return _PROMOTABLE if r.type in PROMOTED.get(w.type, ()) else _UNFIT
    if isinstance(w, _NAMED) and isinstance(r, _NAMED) and type(w) is type(r):
        return _SAME_SHORT_NAME if _same_name(w, r) else _UNFIT
    return _UNFIT


def _same_name(w: avro.Named, r: avro.Named) -> bool:
    names = {short_name(r.name), *(short_name(alias) for alias in r.aliases)}
    return short_name(w.name) in names


def _source(places: Mapping[str, int], of: avro.Field) -> int | None:
    """Return the writer's field for the reader's: by its name, else by an alias."""
    return next((places[name] for name in (of.name, *of.aliases) if name in places), None)


def _of_member(wanted: Tree, name: str) -> Tree:
    return ALL if wanted is None else wanted.get(name, NOTHING)


def _of_union(wanted: Tree, name: str, is_struct: bool) -> Tree:  # noqa: FBT001  # of the union
    return wanted if not is_struct or not wanted else wanted.get(name, ALL)


def _inside(wanted: Tree) -> Tree:
    """Return the wanted members of items: all, if anything is wanted."""
    return NOTHING if wanted == NOTHING else ALL


def member_names(types: list[Type]) -> tuple[str, ...]:
    """A name for each type: without its namespace, unless two would have the same."""
    full = [kind_of(type_) for type_ in types]
    short = [short_name(name) for name in full]
    return tuple(
        name if short.count(name) == 1 else whole for name, whole in zip(short, full, strict=True)
    )


def _named(type_: Type) -> str:
    match type_:
        case avro.Record() | avro.Enum() | avro.Fixed():
            return f"{type(type_).__name__.lower()} {type_.name}"
    return kind_of(type_)
