"""From pydantic's JSON schema to what a CRD takes: a *structural* schema, as Kubernetes calls it.

Kubernetes wants one type per node, no references, no ``null`` beside a type, no types inside
``anyOf``. So references are written out, an optional value is one that is not required, and what
users may write in two ways becomes:

    quantity, ratio     number or text           x-kubernetes-int-or-string
    duration            text such as 90s, 5m     text
    words or mappings   startingOffsets          no type, a pattern for the words, anyOf for the mappings
    anything            options, affinity        x-kubernetes-preserve-unknown-fields, judged by whoever reads it

The form of a text is a CEL rule, not a ``pattern``, so that who writes it wrongly reads a sentence
and not a regular expression. Defaults are written as people write them (``5m``, ``256Mi``). Since
``kubectl explain`` shows neither rules nor bounds nor defaults, ``explained`` writes them into the
descriptions. Pure.
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
"""Characters of a text that has to have a form, unless it says otherwise: what a rule costs is
reckoned by it.
"""
MOST = 100
"""Entries of a mapping whose values have to have a form, for the same reason."""


def rule(cel: str, message: str) -> Schema:
    """A CEL rule, and what a user is told who breaks it."""
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
"""What people write as text or as a number, by the ``format`` that the models give it."""
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
    """A root schema with ``$defs`` as a structural one, all in one piece.

    Raises:
        ValueError: a node is of a kind that has no structural form here.
    """
    return _node(schema, schema.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """A structural schema that adds nothing to what is written; for a status, which has one writer."""
    made = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in made:
        made["properties"] = {
            name: without_defaults(value) for name, value in made["properties"].items()
        }
    if "items" in made:
        made["items"] = without_defaults(made["items"])
    return made


def explained(node: Schema) -> Schema:
    """A structural schema whose descriptions tell rules, bounds and defaults too."""
    made = {key: _explained_below(key, value) for key, value in node.items()}
    told = " ".join([*([node["description"]] if "description" in node else []), *_facts(node)])
    return {**made, "description": told} if told else made


def _explained_below(key: str, value: Any) -> Any:
    match key:
        case "properties":
            return {name: explained(child) for name, child in value.items()}
        case "items" | "additionalProperties":
            return explained(value)
    return value


def _facts(node: Schema) -> list[str]:
    """Sentences."""
    facts = [_sentence(rule["message"]) for rule in node.get("x-kubernetes-validations", ())]
    if node.get("type") == "integer" and ("minimum" in node or "maximum" in node):
        facts.append(_sentence(_range(node.get("minimum"), node.get("maximum"))))
    if "default" in node and node["default"] != {}:
        facts.append(f"Default: `{_shown(node['default'])}`.")
    return facts


def _shown(default: object) -> str:
    """As it is written in YAML."""
    return default if isinstance(default, str) else json.dumps(default)


def _sentence(text: str) -> str:
    """With a full stop, and a capital letter unless it begins with the name of a field."""
    head, *_ = text.split(" ", 1)
    return f"{text[0].upper()}{text[1:]}." if head.isalpha() and head.islower() else f"{text}."


def _range(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return f"at least {least}" if most is None else f"at most {most}"
    return f"{least} to {most}"


def quantity_text(value: int) -> str:
    """Bytes as people write them: ``256Mi``."""
    return next(
        (f"{value // size}{unit}" for unit, size in _UNITS if value and value % size == 0),
        str(value),
    )


def duration_text(value: timedelta) -> str:
    """A length of time as people write it: ``5m``, ``90s``."""
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
    """Whether an empty mapping gets fields by their defaults."""
    return any("default" in child for child in node.get("properties", {}).values())


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a reference, and without the ``null`` of an optional value."""
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
    """A number of bytes, a ratio, a duration. All rules are asked at once, so a bound has to bear text of no form."""
    made: Schema = dict(_WRITTEN[written])
    bounds = [
        _bound(written, sign, word, schema[key]) for key, sign, word in _BOUNDS if key in schema
    ]
    return {**made, "x-kubernetes-validations": made["x-kubernetes-validations"] + bounds}


def _bound(written: str, sign: str, word: str, value: Any) -> Schema:
    if written == "bytes":
        text = quantity_text(value)
        cel = f"!isQuantity({_TEXT}) || quantity({_TEXT}).compareTo(quantity('{text}')) {sign} 0"
    else:  # CEL knows no days
        text = duration_text(TypeAdapter(timedelta).validate_python(value))
        cel = f"!self.matches(r'{DURATION}') || self.contains('d') || duration(self) {sign} duration('{text}')"
    return rule(cel, f"must be at {word} {text}")


def _words_or_mappings(kinds: list[Schema]) -> Schema:
    """A string of a few words or one of some mappings. A pattern judges strings only, ``required`` mappings only."""
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
    """As people write it; of a mapping nothing, since its fields have defaults of their own."""
    default = schema["default"]
    match schema.get("format"):
        case "bytes":
            return quantity_text(default)
        case "ratio":
            return str(default)
        case "duration":
            return duration_text(TypeAdapter(timedelta).validate_python(default))
    return {} if made.get("type") == "object" else default
