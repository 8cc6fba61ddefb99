"""The columns of a schema itself, as a record batch: what ``Wanted.own_columns`` asks for.

A record has a column for each field, and so has a union of records with null. A schema that is no
record has one column, ``value``; of a union of several types that is a struct with a member for
each. ``plan`` has the types of columns.
"""

import pyarrow as pa

from landfall.pipeline.decoders.avro.nested import RecordNode, UnionNode
from landfall.pipeline.decoders.avro.node import Node

VALUE = "value"
"""The column of a schema that is no record."""


def own_columns(node: Node, column: pa.Array) -> pa.RecordBatch:
    """Return the values that ``node`` has read as columns."""
    if is_record(node) and column.type.num_fields:
        # ``flatten`` and not ``field``, which would show what is below a null.
        return pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(list(column.type)))
    return pa.RecordBatch.from_arrays([column], [VALUE])


def is_record(node: Node) -> bool:
    """Return whether the values have named fields: records, or a union of one record and null."""
    if isinstance(node, UnionNode) and node.members is None and node.nodes:
        node = node.nodes[0]
    return isinstance(node, RecordNode)
