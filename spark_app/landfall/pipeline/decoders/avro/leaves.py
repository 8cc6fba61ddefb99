"""Nodes for types that hold no other type: which column they make, and what is promoted to what."""

from collections.abc import Mapping

import pyarrow as pa

from landfall.pipeline.decoders.avro import scalars
from landfall.pipeline.decoders.avro import schema as avro
from landfall.pipeline.decoders.avro.decimals import DecimalNode, decimal_type
from landfall.pipeline.decoders.avro.node import Node

_ARROW: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_UNITS: Mapping[str, str] = {"millis": "ms", "micros": "us", "nanos": "ns"}
PROMOTED: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""To what a reader's type may promote a writer's."""


class IncompatibleError(ValueError):
    """The reader's schema cannot read what the writer's has written; the message has the place."""


def primitive_node(w: avro.Primitive, r: avro.Primitive, path: str, *, common: bool) -> Node:
    """Return the node for a pair of primitive types; raises ``IncompatibleError``.

    ``common`` as in ``plan.compile_schema``.
    """
    if w.type != r.type and r.type not in PROMOTED.get(w.type, ()):
        raise IncompatibleError(f"{path or 'schema'}: {w.type} cannot be read as {r.type}")
    arrow = _arrow(r)
    match w.type:
        case "null":
            return scalars.NullNode(path)
        case "boolean":
            return scalars.BooleanNode(path)
        case "int" | "long":
            return scalars.NumberNode(path, w.type == "int", arrow, common=common)
        case "float" | "double":
            return scalars.RealNode(path, w.type == "float", arrow)
    if r.logical is not None and r.logical.name == "decimal":
        return DecimalNode(path, None, arrow)
    is_uuid = r.logical is not None and r.logical.name == "uuid"
    return scalars.TextNode(path, arrow, is_uuid=is_uuid, common=common)


def _arrow(r: avro.Primitive) -> pa.DataType:
    if r.logical is None or r.logical.name == "uuid":
        return _ARROW[r.type]
    match r.logical.name.rpartition("-"):
        case _, _, "date":
            return pa.date32()
        case _, _, "decimal":
            return decimal_type(r.logical.precision, r.logical.scale)
        case "time", _, unit:
            return pa.time32("ms") if unit == "millis" else pa.time64("us")
        case kind, _, unit:
            return pa.timestamp(_UNITS[unit], None if kind == "local-timestamp" else "UTC")


def fixed_node(r: avro.Fixed, path: str, *, common: bool) -> Node:
    """Return the node for a fixed of this size."""
    if r.logical is None:
        return scalars.FixedNode(path, r.size, pa.binary(), common=common)
    if r.logical.name == "uuid":
        return scalars.FixedNode(path, r.size, pa.string())
    return DecimalNode(path, r.size, decimal_type(r.logical.precision, r.logical.scale))
