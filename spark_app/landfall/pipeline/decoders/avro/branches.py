"""The records of a schema that is a union: each row is the record of its branch.

``["null", "ev.Created"]`` and ``["ev.Created", "ev.Deleted"]`` are how one topic has records of
several types under one subject. Fields, declared columns, JSON and the schema's name of a row come
from the record; a field that only other branches have is absent. A null is like a tombstone: it has
no field, no name, and as JSON it is a null payload. The columns of the schema itself have another
rule, in ``own_columns``, for all rows of a schema are in one table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders.avro import scalars
from landfall.pipeline.decoders.avro.nested import RecordNode, UnionNode
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.plan import Tree, member_names
from landfall.pipeline.decoders.avro.schema import Schema, kind_of
from landfall.pipeline.decoders.avro.schema import Union as UnionType
from landfall.pipeline.records import Int64s


@dataclass(frozen=True)
class BranchRows:
    """Rows of one branch.

    Attributes:
        rows: their positions, increasing.
        node: what has read them.
        column: a value for each of them.
        number: which branch, nulls not counted; None for nulls.
        member: the branch's name in paths: ``Created.at`` is ``at`` of the rows of ``Created``.
    """

    rows: Int64s
    node: Node
    column: pa.Array
    number: int | None
    member: str = ""


def branch_nodes(node: Node) -> tuple[tuple[Node, str], ...]:
    """Return what reads each branch of a union of records, with its member's name, else the node.

    The name is empty if the union has one record.
    """
    if not _is_union_of_records(node):
        return ((node, ""),)
    assert isinstance(node, UnionNode), "checked"
    return tuple(zip(node.nodes, node.members or ("",), strict=True))


def rows_by_branch(node: Node, column: pa.Array) -> Iterator[BranchRows]:
    """Yield the rows of a union of records by their branches; none if it is another schema."""
    if not _is_union_of_records(node):
        return
    assert isinstance(node, UnionNode), "checked"
    parts = column.flatten() if node.members is not None else [column]
    is_null = np.ones(len(column), np.bool_)
    for number, (inner, member) in enumerate(branch_nodes(node)):
        is_present = np.asarray(parts[number].is_valid())
        is_null &= ~is_present
        rows = np.flatnonzero(is_present)
        if len(rows):
            yield BranchRows(
                rows=rows,
                node=inner,
                column=parts[number].take(pa.array(rows)),
                number=number,
                member=member,
            )
    rows = np.flatnonzero(is_null)
    if len(rows):
        yield BranchRows(rows, scalars.NullNode(""), pa.nulls(len(rows)), None)


def _is_union_of_records(node: Node) -> bool:
    return (
        isinstance(node, UnionNode)
        and bool(node.nodes)
        and all(isinstance(inner, RecordNode) for inner in node.nodes)
    )


def record_names(schema: Schema) -> tuple[str, ...]:
    """Return the full names of the branches by their numbers; of a record, its own."""
    root = schema.resolve(schema.root)
    branches = root.branches if isinstance(root, UnionType) else (root,)
    return tuple(kind_of(branch) for branch in branches if kind_of(branch) != "null")


def wanted_of_branches(wanted: Tree, schema: Schema) -> Tree:
    """Return what is wanted of the members of a union, where paths may begin with its member."""
    root = schema.resolve(schema.root)
    if not wanted or not isinstance(root, UnionType):
        return wanted
    names = member_names([branch for branch in root.branches if kind_of(branch) != "null"])
    if len(names) < 2:
        return wanted
    return {name: _both(wanted, wanted.get(name, {})) for name in names}


def _both(left: Tree, right: Tree) -> Tree:
    if left is None or right is None:
        return None
    shared: Mapping[str, Tree] = {
        name: _both(left[name], right[name]) for name in left.keys() & right.keys()
    }
    return {**left, **right, **shared}


def within(path: Sequence[str], node: Node, member: str) -> tuple[str, ...]:
    """Return where a path leads in the record of a branch."""
    is_field = isinstance(node, RecordNode) and path[0] in node.names
    return tuple(path[1:] if member and path[0] == member and not is_field else path)
