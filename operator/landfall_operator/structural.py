"""From pydantic's JSON schema to what a CRD takes: a *structural* schema, as Kubernetes calls it.

Kubernetes wants one type per node, no references, no ``null`` beside a type, no types inside ``anyOf``. So references are
written out, an optional value is one that is not required, and what users may write in two ways becomes:

    quantity, ratio     number or text           x-kubernetes-int-or-string with a pattern; bounds are CEL rules
    duration            text such as 90s, 5m     a pattern
    words or mappings   startingOffsets          no type, a pattern for the words, anyOf for the mappings
    anything            options, affinity        x-kubernetes-preserve-unknown-fields, judged by whoever reads it

Defaults are written as people write them (``5m``, ``256Mi``). Pure.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

Schema = dict[str, Any]

QUANTITY = r"^[0-9]{1,30}(\.[0-9]{1,9})?([eE][0-9]{1,2}|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
DURATION = r"^([0-9]{1,15}(\.[0-9]{1,9})?(ms|s|m|h|d))+$"
RATIO = r"^(0(\.[0-9]{1,12})?|1(\.0{1,12})?)$"
NOT_ZERO = "[1-9]"

_WRITTEN: Mapping[str, Schema] = {
    "quantity": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 40},
    "ratio": {"x-kubernetes-int-or-string": True, "pattern": RATIO, "minimum": 0, "maximum": 1},
    "duration": {"type": "string", "pattern": DURATION, "maxLength": 60, "allOf": [{"pattern": NOT_ZERO}]},
}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_KEPT = (
    "description",
    "type",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_DURATION_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def structural(schema: Mapping[str, Any]) -> Schema:
    """A root schema with ``$defs`` as a structural one, all in one piece.

    Raises:
        ValueError: a node is of a kind that has no structural form here.
    """
    return _node(schema, schema.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """A structural schema that adds nothing to what is written; for a status, which has one writer."""
    made = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in made:
        made["properties"] = {name: without_defaults(value) for name, value in made["properties"].items()}
    if "items" in made:
        made["items"] = without_defaults(made["items"])
    return made


def quantity_text(value: int) -> str:
    """Bytes as people write them: ``256Mi``."""
    return next((f"{value // size}{unit}" for unit, size in _UNITS if value and value % size == 0), str(value))


def duration_text(value: timedelta) -> str:
    """A length of time as people write it: ``5m``, ``90s``."""
    milliseconds = value // timedelta(milliseconds=1)
    return next(f"{milliseconds // size}{unit}" for unit, size in _DURATION_UNITS if milliseconds % size == 0)


def _node(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, defs)
    made = {**_described(schema), **_shaped(schema, defs)}
    return made if schema.get("default") in (None, []) else {**made, "default": _default(schema, made)}


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a reference, and without the ``null`` of an optional value."""
    if "$ref" in schema:
        target = defs[schema["$ref"].rpartition("/")[2]]
        return _resolved({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, defs)
    others = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(others) == 1:
        return _resolved({**others[0], **{key: value for key, value in schema.items() if key != "anyOf"}}, defs)
    return schema


def _described(schema: Mapping[str, Any]) -> Schema:
    if "description" not in schema:
        return {}
    return {"description": " ".join(schema["description"].replace("``", "`").split())}


def _shaped(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    written: str = schema.get("format", "")
    if written == "quantity" and schema["type"] == "integer":
        return _bytes(schema)
    if written in _WRITTEN:
        return dict(_WRITTEN[written])
    if "oneOf" in schema:
        return _words_or_mappings([_node(kind, defs) for kind in schema["oneOf"]])
    return {**ANYTHING, "nullable": True} if "anyOf" in schema else _typed(schema, defs)


def _typed(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    match schema.get("type"):
        case "object":
            return _mapping(schema, defs)
        case "array":
            return {**_plain(schema), "items": _node(schema["items"], defs)}
        case "string" | "integer" | "number" | "boolean":
            return _plain(schema)
    raise ValueError(f"no structural form of {schema}")


def _plain(schema: Mapping[str, Any]) -> Schema:
    made = {key: schema[key] for key in _KEPT if key in schema and key != "description"}
    if schema.get("format") == "date-time":
        made["format"] = "date-time"
    if schema["type"] == "integer":
        made["format"] = "int64"
    return made


def _bytes(schema: Mapping[str, Any]) -> Schema:
    """A number of bytes above zero; bounds beyond that hold for text too, so they are a rule."""
    made: Schema = {**_WRITTEN["quantity"], "minimum": 1, "allOf": [{"pattern": NOT_ZERO}]}
    bounds = [(key, sign, word) for key, sign, word in (("ge", ">=", "least"), ("le", "<=", "most")) if key in schema]
    if bounds:
        made["x-kubernetes-validations"] = [
            {
                "rule": f"quantity(string(self)).compareTo(quantity('{quantity_text(schema[key])}')) {sign} 0",
                "message": f"must be at {word} {quantity_text(schema[key])}",
            }
            for key, sign, word in bounds
        ]
    return made


def _words_or_mappings(kinds: list[Schema]) -> Schema:
    """A string of a few words or one of some mappings. A pattern judges strings only, ``required`` mappings only."""
    words = [word for kind in kinds for word in kind.get("enum", ())]
    mappings = [kind for kind in kinds if kind.get("type") == "object"]
    return {
        **ANYTHING,
        "pattern": f"^({'|'.join(words)})$",
        "properties": {name: value for kind in mappings for name, value in kind["properties"].items()},
        "anyOf": [{"required": kind["required"]} for kind in mappings],
    }


def _mapping(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    made: Schema = {"type": "object"}
    if schema.get("required"):
        made["required"] = list(schema["required"])
    if "properties" in schema:
        made["properties"] = {name: _node(value, defs) for name, value in schema["properties"].items()}
    match schema:
        case {"additionalProperties": True} | {"additionalProperties": {"$ref": "#/$defs/JsonValue"}}:
            made.update(ANYTHING)
        case {"additionalProperties": dict(values)}:
            made["additionalProperties"] = _node(values, defs)
        case {"patternProperties": dict(patterns)}:
            made["additionalProperties"] = _node(next(iter(patterns.values())), defs)
    return made


def _default(schema: Mapping[str, Any], made: Schema) -> object:
    """As people write it; of a mapping nothing, since its fields have defaults of their own."""
    default = schema["default"]
    match schema.get("format"):
        case "quantity":
            return quantity_text(default)
        case "ratio":
            return str(default)
        case "duration":
            return duration_text(TypeAdapter(timedelta).validate_python(default))
    return {} if made.get("type") == "object" else default
