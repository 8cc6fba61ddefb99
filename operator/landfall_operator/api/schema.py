"""Turns pydantic's JSON schema into a *structural* schema, which Kubernetes requires of CRDs. Pure.

A structural schema has exactly one type per node, no references, no ``null`` beside a type, and no
types inside ``anyOf``. So references are inlined, an optional value is a field that is not
required, and values that users may write in more than one way become:

    quantity, ratio     number or text           x-kubernetes-int-or-string
    duration            text such as 90s, 5m     text
    words or mappings   startingOffsets          no type; pattern for words, anyOf for mappings
    anything            options, affinity        x-kubernetes-preserve-unknown-fields

The form of a text is checked by a CEL rule instead of a ``pattern``, so that a user who writes it
wrongly reads a sentence and not a regular expression. Defaults appear as users write them (``5m``,
``256Mi``). Since ``kubectl explain`` shows neither rules nor bounds nor defaults,
``with_constraints`` adds them to the descriptions.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

Schema = dict[str, Any]

BYTES = r"^[0-9]{1,30}(\.[0-9]{1,9})?([eE][0-9]{1,2}|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
DURATION = r"^([0-9]{1,15}(\.[0-9]{1,9})?(ms|s|m|h|d))+$"
RATIO = r"^(0(\.[0-9]{1,12})?|1(\.0{1,12})?)$"
NOT_ZERO = "[1-9]"
LONGEST = 1024
"""Characters of a text whose form is checked, unless the model sets another limit. The API server
estimates the cost of a CEL rule from it.
"""
MOST = 100
"""Entries of a mapping whose values' form is checked, for the same reason."""


def rule(cel: str, message: str) -> Schema:
    """A CEL rule, and the message for users who break it."""
    return {"rule": cel, "message": message}


def _form(value: str, pattern: str, described: str) -> Schema:
    return rule(f"{value}.matches(r'{pattern}')", f"must be {described}")


_TEXT = "string(self)"
_INT_OR_STRING = {"x-kubernetes-int-or-string": True, "maxLength": 40}
_WRITTEN: Mapping[str, Schema] = {
    "bytes": {
        **_INT_OR_STRING,
        "x-kubernetes-validations": [
            rule(
                f"{_TEXT}.matches(r'{BYTES}') && {_TEXT}.matches('{NOT_ZERO}')",
                "must be a quantity above zero, such as 256Mi, 1G or 1000000",
            )
        ],
    },
    "ratio": {
        **_INT_OR_STRING,
        "x-kubernetes-validations": [
            _form(_TEXT, RATIO, 'a number from 0 to 1, in quotes, as in "0.001"')
        ],
    },
    "duration": {
        "type": "string",
        "maxLength": 60,
        "x-kubernetes-validations": [
            rule(
                f"self.matches(r'{DURATION}') && self.matches('{NOT_ZERO}')",
                "must be a duration longer than zero, such as 90s, 5m or 1h30m",
            )
        ],
    },
}
"""The schema of values that are written as text or number, by the models' ``format``."""
_BOUNDS = (("ge", ">=", "least"), ("le", "<=", "most"))
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_KEPT = (
    "type",
    "enum",
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
    """The structural schema for a root schema with ``$defs``.

    Raises:
        ValueError: a node is of a kind that this module does not support.
    """
    return _node(schema, schema.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """A structural schema without defaults: only the operator writes the status, and completely."""
    made = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in made:
        made["properties"] = {
            name: without_defaults(value) for name, value in made["properties"].items()
        }
    if "items" in made:
        made["items"] = without_defaults(made["items"])
    return made


def with_constraints(node: Schema) -> Schema:
    """A structural schema whose descriptions include rules, bounds and defaults."""
    made = {key: _with_constraints_below(key, value) for key, value in node.items()}
    own = [node["description"]] if "description" in node else []
    description = " ".join([*own, *_constraints(node)])
    return {**made, "description": description} if description else made


def _with_constraints_below(key: str, value: Any) -> Any:
    match key:
        case "properties":
            return {name: with_constraints(child) for name, child in value.items()}
        case "items" | "additionalProperties":
            return with_constraints(value)
    return value


def _constraints(node: Schema) -> list[str]:
    """The rules, bounds and default of a node, as sentences."""
    sentences = [_sentence(rule["message"]) for rule in node.get("x-kubernetes-validations", ())]
    if node.get("type") == "integer" and ("minimum" in node or "maximum" in node):
        sentences.append(_sentence(_range(node.get("minimum"), node.get("maximum"))))
    if "default" in node and node["default"] != {}:
        sentences.append(f"Default: `{_yaml_scalar(node['default'])}`.")
    return sentences


def _yaml_scalar(default: object) -> str:
    """The default, as YAML writes it."""
    return default if isinstance(default, str) else json.dumps(default)


def _sentence(text: str) -> str:
    """The text with a full stop, and with a capital letter unless it begins with a field's name."""
    head, *_ = text.split(" ", 1)
    return f"{text[0].upper()}{text[1:]}." if head.isalpha() and head.islower() else f"{text}."


def _range(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return f"at least {least}" if most is None else f"at most {most}"
    return f"{least} to {most}"


def quantity_text(value: int) -> str:
    """Bytes as users write them, such as ``256Mi``."""
    return next(
        (f"{value // size}{unit}" for unit, size in _UNITS if value and value % size == 0),
        str(value),
    )


def duration_text(value: timedelta) -> str:
    """A duration as users write it, such as ``5m`` or ``90s``."""
    milliseconds = value // timedelta(milliseconds=1)
    return next(
        f"{milliseconds // size}{unit}"
        for unit, size in _DURATION_UNITS
        if milliseconds % size == 0
    )


def _node(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, defs)
    made = {**_described(schema), **_shaped(schema, defs)}
    nothing = schema.get("default") in (None, []) or (
        made.get("type") == "object" and not _fills(made)
    )
    return made if nothing else {**made, "default": _default(schema, made)}


def _fills(node: Schema) -> bool:
    """Whether the API server fills an empty mapping with defaults of its fields."""
    return any("default" in child for child in node.get("properties", {}).values())


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its reference inlined, and without the ``null`` of an optional value."""
    if "$ref" in schema:
        target = defs[schema["$ref"].rpartition("/")[2]]
        return _resolved(
            {**target, **{key: value for key, value in schema.items() if key != "$ref"}}, defs
        )
    others = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(others) == 1:
        return _resolved(
            {**others[0], **{key: value for key, value in schema.items() if key != "anyOf"}}, defs
        )
    return schema


def _described(schema: Mapping[str, Any]) -> Schema:
    if "description" not in schema:
        return {}
    return {"description": " ".join(schema["description"].replace("``", "`").split())}


def _shaped(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    written: str = schema.get("format", "")
    if written in _WRITTEN:
        return _bounded(written, schema)
    if written == "quantity":
        return {**_INT_OR_STRING, "x-kubernetes-validations": [_formed(schema, _TEXT)]}
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
    made = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("format") == "date-time":
        made["format"] = "date-time"
    if schema["type"] == "integer":
        made["format"] = "int64"
    if "pattern" not in schema:
        return made
    return {"maxLength": LONGEST, **made, "x-kubernetes-validations": [_formed(schema, "self")]}


def _formed(schema: Mapping[str, Any], value: str) -> Schema:
    return _form(value, schema["pattern"], schema["described"])


def _bounded(written: str, schema: Mapping[str, Any]) -> Schema:
    """The schema of a number of bytes, a ratio or a duration.

    The API server evaluates all rules of a field, so the rule of a bound must accept text that has
    no valid form: the rule of the form rejects it.
    """
    made: Schema = dict(_WRITTEN[written])
    bounds = [
        _bound(written, sign, word, schema[key]) for key, sign, word in _BOUNDS if key in schema
    ]
    return {**made, "x-kubernetes-validations": made["x-kubernetes-validations"] + bounds}


def _bound(written: str, sign: str, word: str, value: Any) -> Schema:
    if written == "bytes":
        text = quantity_text(value)
        cel = f"!isQuantity({_TEXT}) || quantity({_TEXT}).compareTo(quantity('{text}')) {sign} 0"
    else:  # CEL's duration() does not know the unit "d".
        text = duration_text(TypeAdapter(timedelta).validate_python(value))
        is_other = f"!self.matches(r'{DURATION}') || self.contains('d')"
        cel = f"{is_other} || duration(self) {sign} duration('{text}')"
    return rule(cel, f"must be at {word} {text}")


def _words_or_mappings(kinds: list[Schema]) -> Schema:
    """The schema of a value that is one of a few words or one of some mappings.

    It has no type: ``pattern`` applies to strings only, and ``required`` to mappings only.
    """
    words = [word for kind in kinds for word in kind.get("enum", ())]
    mappings = [kind for kind in kinds if kind.get("type") == "object"]
    return {
        **ANYTHING,
        "pattern": f"^({'|'.join(words)})$",
        "properties": {
            name: value for kind in mappings for name, value in kind["properties"].items()
        },
        "anyOf": [{"required": kind["required"]} for kind in mappings],
    }


def _mapping(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    made: Schema = {"type": "object"}
    if schema.get("required"):
        made["required"] = list(schema["required"])
    if "properties" in schema:
        made["properties"] = {
            name: _node(value, defs) for name, value in schema["properties"].items()
        }
    match schema:
        case {"additionalProperties": True} | {
            "additionalProperties": {"$ref": "#/$defs/JsonValue"}
        }:
            made.update(ANYTHING)
        case {"additionalProperties": dict(values)}:
            made["additionalProperties"] = _node(values, defs)
            if "x-kubernetes-validations" in made["additionalProperties"]:
                made["maxProperties"] = MOST
        case {"patternProperties": dict(patterns)}:
            made["additionalProperties"] = _node(next(iter(patterns.values())), defs)
    return made


def _default(schema: Mapping[str, Any], made: Schema) -> object:
    """The default as users write it; empty for a mapping, whose fields have their own defaults."""
    default = schema["default"]
    match schema.get("format"):
        case "bytes":
            return quantity_text(default)
        case "ratio":
            return str(default)
        case "duration":
            return duration_text(TypeAdapter(timedelta).validate_python(default))
    return {} if made.get("type") == "object" else default
