"""Turns pydantic's JSON schema into a *structural* schema, which Kubernetes requires of CRDs. Pure.

A structural schema has exactly one type per node, no references, no ``null`` next to a type, and no
types inside ``anyOf``. So references are inlined, an optional value is a field that is not
required, and values that users may write in more than one way become:

    quantity            number or text           x-kubernetes-int-or-string
    ratio               number or text           no type; pattern for text, bounds for numbers
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

from landfall.api.values import duration_text, format_quantity, percent, percent_text

Schema = dict[str, Any]

BYTES = r"^[0-9]{1,30}(\.[0-9]{1,9})?([eE][0-9]{1,2}|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
DURATION = r"^([0-9]{1,15}(\.[0-9]{1,9})?(ms|s|m|h|d))+$"
RATIO = r"^(0|1|0[.][0-9]{1,12}|1[.]0{1,12})$"
PERCENT = r"^(100([.]0{1,9})?|[0-9]{1,2}([.][0-9]{1,9})?)%$"
NOT_ZERO = "[1-9]"
MAX_TEXT_LENGTH = 1024
"""Characters of a text whose form is checked, unless the model sets another limit. The API server
estimates the cost of a CEL rule from it.
"""
MAX_PROPERTIES = 100
"""Entries of a mapping whose values' form is checked, for the same reason."""
MAX_WORDS_LISTED = 14
"""The most words of a status field that its description lists."""


def rule(cel: str, message: str) -> Schema:
    """A CEL rule, and the message for users who break it."""
    return {"rule": cel, "message": message}


def _rule_of_form(value: str, pattern: str, described: str) -> Schema:
    return rule(f"{value}.matches(r'{pattern}')", f"must be {described}")


_TEXT = "string(self)"
_INT_OR_STRING = {"x-kubernetes-int-or-string": True, "maxLength": 40}
_RATIO: Schema = {
    "x-kubernetes-preserve-unknown-fields": True,
    "pattern": RATIO,
    "minimum": 0,
    "maximum": 1,
}
_BY_FORMAT: Mapping[str, Schema] = {
    "bytes": {
        **_INT_OR_STRING,
        "x-kubernetes-validations": [
            rule(
                f"{_TEXT}.matches(r'{BYTES}') && {_TEXT}.matches('{NOT_ZERO}')",
                "must be a quantity above zero, such as 256Mi, 1G or 1000000",
            )
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
    "percent": {
        "type": "string",
        "maxLength": 20,
        "x-kubernetes-validations": [
            rule(
                f"self.matches(r'{PERCENT}')",
                "must be a percentage from 0% to 100%, such as 10% or 0.5%",
            )
        ],
    },
    "duration-or-zero": {
        "type": "string",
        "maxLength": 60,
        "x-kubernetes-validations": [
            rule(f"self.matches(r'{DURATION}')", "must be a duration such as 0s, 5m or 1h30m")
        ],
    },
}
"""The schema of values that users write as text or number, by the models' ``format``."""
_BOUNDS = (("ge", ">=", "least"), ("le", "<=", "most"))
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_COPIED_KEYWORDS = (
    "type",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)


def structural(schema: Mapping[str, Any]) -> Schema:
    """The structural schema for a root schema with ``$defs``.

    Raises:
        ValueError: a node is of a kind that this module does not support.
    """
    return _node(schema, schema.get("$defs", {}))


def of_status(schema: Schema) -> Schema:
    """A structural schema without defaults and enums.

    Only the operator writes the status, and completely. A newer operator may write words that an
    older CRD does not know, because CRDs are upgraded apart from operators.
    """
    result = {key: value for key, value in schema.items() if key not in {"default", "enum"}}
    words = schema.get("enum", ())
    if 0 < len(words) <= MAX_WORDS_LISTED:
        known = ", ".join(f"`{word}`" for word in words)
        result["description"] = f"{schema['description']} One of {known}, or a newer word."
    if "properties" in result:
        result["properties"] = {
            name: of_status(value) for name, value in result["properties"].items()
        }
    if "items" in result:
        result["items"] = of_status(result["items"])
    return result


def without_rules(node: Schema) -> Schema:
    """A structural schema without CEL rules and defaults, for which the model alone is left."""
    left_out = {"x-kubernetes-validations", "default"}
    result = {key: value for key, value in node.items() if key not in left_out}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), Mapping):
            result[key] = without_rules(result[key])
    if "properties" in result:
        result["properties"] = {
            name: without_rules(value) for name, value in result["properties"].items()
        }
    return result


def with_constraints(node: Schema) -> Schema:
    """A structural schema whose descriptions include rules, bounds and defaults."""
    result = {key: _with_constraints_below(key, value) for key, value in node.items()}
    own = [node["description"]] if "description" in node else []
    description = " ".join([*own, *_constraints(node)])
    return {**result, "description": description} if description else result


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
    if "type" not in node and "maximum" in node:
        sentences.append(f"A number from {node['minimum']} to {node['maximum']}.")
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


def _node(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, defs)
    result = {**_description(schema), **_shape(schema, defs)}
    # An empty default means the same as an absent field, so it would only clutter the objects.
    no_default = schema.get("default") in (None, []) or (
        result.get("type") == "object" and not _fills(result)
    )
    return result if no_default else {**result, "default": _default(schema, result)}


def _fills(node: Schema) -> bool:
    """Return whether the API server fills an empty mapping with defaults of its fields."""
    return any("default" in child for child in node.get("properties", {}).values())


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its reference inlined, and without the ``null`` of an optional value."""
    if "$ref" in schema:
        target = defs[schema["$ref"].rpartition("/")[2]]
        # Keywords next to the reference win: the field's description, not its type's.
        return _resolved(
            {**target, **{key: value for key, value in schema.items() if key != "$ref"}}, defs
        )
    others = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(others) == 1:
        return _resolved(
            {**others[0], **{key: value for key, value in schema.items() if key != "anyOf"}}, defs
        )
    return schema


def _description(schema: Mapping[str, Any]) -> Schema:
    if "description" not in schema:
        return {}
    return {"description": " ".join(schema["description"].replace("``", "`").split())}


def _shape(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    value_format: str = schema.get("format", "")
    if value_format == "ratio":
        return dict(_RATIO)
    if value_format in _BY_FORMAT:
        return _bounded(value_format, schema)
    if value_format == "quantity":
        return {**_INT_OR_STRING, "x-kubernetes-validations": [_form_rule(schema, _TEXT)]}
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
    raise ValueError(f"no structural form for {schema}")


def _plain(schema: Mapping[str, Any]) -> Schema:
    result = {key: schema[key] for key in _COPIED_KEYWORDS if key in schema}
    if schema.get("format") == "date-time":
        result["format"] = "date-time"
    if schema["type"] == "integer":
        result["format"] = "int64"
    if "pattern" not in schema:
        return result
    return {
        "maxLength": MAX_TEXT_LENGTH,
        **result,
        "x-kubernetes-validations": [_form_rule(schema, "self")],
    }


def _form_rule(schema: Mapping[str, Any], value: str) -> Schema:
    return _rule_of_form(value, schema["pattern"], schema["described"])


def _bounded(value_format: str, schema: Mapping[str, Any]) -> Schema:
    """The schema of a number of bytes or a duration.

    The API server evaluates all rules of a field, so the rule of a bound must accept text that has
    no valid form: the rule of the form rejects it.
    """
    result: Schema = dict(_BY_FORMAT[value_format])
    bounds = [
        _bound(value_format, sign, word, schema[key])
        for key, sign, word in _BOUNDS
        if key in schema
    ]
    return {**result, "x-kubernetes-validations": result["x-kubernetes-validations"] + bounds}


def _bound(value_format: str, sign: str, word: str, value: Any) -> Schema:
    if value_format == "bytes":
        text = format_quantity(value)
        cel = f"!isQuantity({_TEXT}) || quantity({_TEXT}).compareTo(quantity('{text}')) {sign} 0"
    else:  # CEL's duration() does not know the unit "d".
        text = duration_text(TypeAdapter(timedelta).validate_python(value))
        is_other = f"!self.matches(r'{DURATION}') || self.contains('d')"
        cel = f"{is_other} || duration(self) {sign} duration('{text}')"
    return rule(cel, f"must be at {word} {text}")


def _words_or_mappings(kinds: list[Schema]) -> Schema:
    """The schema of a value that is one of a few words or one of some mappings.

    It has no type: ``pattern`` applies to strings only, and ``required`` to mappings only. Where
    there is no type, Kubernetes takes no CEL rules and no defaults: these are left to the model.
    """
    words = [word for kind in kinds for word in kind.get("enum", ())]
    mappings = [kind for kind in kinds if kind.get("type") == "object"]
    return {
        **ANYTHING,
        "pattern": f"^({'|'.join(words)})$",
        "properties": {
            name: without_rules(value)
            for kind in mappings
            for name, value in kind["properties"].items()
        },
        "anyOf": [{"required": kind["required"]} for kind in mappings],
    }


def _mapping(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    result: Schema = {"type": "object"}
    if schema.get("required"):
        result["required"] = list(schema["required"])
    if "properties" in schema:
        result["properties"] = {
            name: _node(value, defs) for name, value in schema["properties"].items()
        }
    match schema:
        case {"additionalProperties": True} | {
            "additionalProperties": {"$ref": "#/$defs/JsonValue"}
        }:
            result.update(ANYTHING)
        case {"additionalProperties": dict(values)}:
            result["additionalProperties"] = _node(values, defs)
            # A CEL rule of the values runs once per entry, so the number of entries needs a bound.
            if "x-kubernetes-validations" in result["additionalProperties"]:
                result["maxProperties"] = MAX_PROPERTIES
        # A structural schema has no patternProperties; the model itself checks the keys.
        case {"patternProperties": dict(patterns)}:
            result["additionalProperties"] = _node(next(iter(patterns.values())), defs)
    return result


def _default(schema: Mapping[str, Any], result: Schema) -> object:
    """The default as users write it; empty for a mapping, whose fields have their own defaults."""
    default = schema["default"]
    match schema.get("format"):
        case "bytes":
            return format_quantity(default)
        case "percent":
            return percent_text(percent(default))
        case "ratio":
            return str(default)
        case "duration" | "duration-or-zero":
            return duration_text(TypeAdapter(timedelta).validate_python(default))
    return {} if result.get("type") == "object" else default
