"""Default values of fields, from the JSON of a schema to Avro's binary encoding.

The same nodes that read payloads then read the default, so that it is the same value as one that a
writer wrote. Source: specification, the table of defaults in "Complex Types".
"""

from landfall.pipeline.decoders.avro import schema as avro
from landfall.pipeline.decoders.avro.binary import REAL, blocks, number, prefixed
from landfall.pipeline.decoders.avro.schema import Schema, Type


def encode_default(  # noqa: PLR0911  # a table
    schema: Schema, type_: Type, value: object, path: str
) -> bytes:
    """Return the value of a field's ``default`` as bytes.

    Raises:
        ValueError: it is no value of the type. A union takes the first branch that it fits.
    """
    resolved = schema.resolve(type_)
    match resolved, value:
        case avro.Union(), _:
            return _union(schema, resolved, value, path)
        case avro.Primitive(), _:
            return _primitive(resolved.type, value, path)
        case avro.Record(), dict():
            return b"".join(
                encode_default(schema, of.type, value.get(of.name, of.default), f"{path}.{of.name}")
                for of in resolved.fields
                if of.name in value or of.has_default or _fail(value, path)
            )
        case avro.Array(), list():
            return blocks([encode_default(schema, resolved.items, item, path) for item in value])
        case avro.Map(), dict():
            return blocks(
                [
                    prefixed(key.encode()) + encode_default(schema, resolved.values, item, path)
                    for key, item in value.items()
                ]
            )
        case avro.Enum(), str() if value in resolved.symbols:
            return number(resolved.symbols.index(value))
        case avro.Fixed(), str() if len(value) == resolved.size:
            return _latin(value, path)
    return _fail(value, path)


def _fail(value: object, path: str) -> bytes:
    raise ValueError(f"{path}: the default is not of the field's type: {value!r:.60}")


def _union(schema: Schema, union: avro.Union, value: object, path: str) -> bytes:
    for place, branch in enumerate(union.branches):
        try:
            return number(place) + encode_default(schema, branch, value, path)
        except ValueError:
            continue
    return _fail(value, path)


def _primitive(kind: str, value: object, path: str) -> bytes:  # noqa: PLR0911  # a table
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case "int" | "long", int() if is_number and abs(value) < 2 ** (
            63 if kind == "long" else 31
        ):
            return number(value)
        case "float" | "double", _ if is_number:
            return REAL[kind](value)
        case "bytes", str():
            return prefixed(_latin(value, path))
        case "string", str():
            return prefixed(value.encode())
    return _fail(value, path)


def _latin(value: str, path: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return _fail(value, path)
