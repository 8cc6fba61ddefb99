"""JSON schemas of the resources, for editors; run with a kind, the module prints its schema.

They are made of the structural schemas that the definitions in ``crds/`` have, and differ from
these in what an editor needs: draft-07, unknown fields are errors, a rule about the form of one
text is a ``pattern``, and a text with a variable (``${NAME}``) may stand for any plain value, as in
the file of a group that ``landfall run`` reads. Rules that involve two fields are left out, and
what only the models check: ``landfall check`` finds these.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from landfall.api.editor_schemas import MADE_BY
from landfall.api.spec.stores import PLACE_SECTIONS
from landfall.api.values import GROUP_NAME
from landfall_operator.api import backfill, backfill_crd, crd
from landfall_operator.api.backfill import NAME as BACKFILL_NAME
from landfall_operator.api.definition import GROUP, VERSION
from landfall_operator.api.schema import ANYTHING, Schema

VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"
"""Finds a variable of a group file in a text, as ``landfall.api.group_file`` reads it."""

_COPIED = (
    *("description", "default", "required", "minimum", "maximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "maxProperties", "anyOf"),
)
_FORM = re.compile(r"(?:self|string\(self\))\.matches\(r'(?P<pattern>.*?)'\)(?: && .*)?", re.DOTALL)
"""A CEL rule about the form of one text."""
_MANY = 400
"""The characters from which on a schema that occurs more than once is written once."""

KINDS: Mapping[str, tuple[Callable[[], Schema], str]] = {
    crd.KIND: (crd.schema, GROUP_NAME),
    backfill.KIND: (backfill_crd.schema, BACKFILL_NAME),
}
"""The structural schema of each kind, and the form of its name."""


def editor_schema(kind: str) -> Schema:
    """The JSON schema of a resource.

    Raises:
        KeyError: there is no such kind.
    """
    structural, name = KINDS[kind]
    root = structural()
    spec = root["properties"]["spec"]
    if kind == crd.KIND:
        _fill_in_places(spec["properties"])
    made = {
        "description": root["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": f"{GROUP}/{VERSION}"},
            "kind": {"const": kind},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "pattern": _or_variable(f"^({name})$")}},
            },
            "spec": _node(spec),
            "status": {"type": "object", "description": "Written by the operator."},
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": f"{MADE_BY}{kind}`.",
        "title": kind,
        **_each_once(made),
    }


def _fill_in_places(sections: Schema) -> None:
    """Describe the sections of a place for dead letters, as ``spec.output`` has them.

    The definition leaves them out, which is limited in size.
    """
    letters = sections["badRecords"]["properties"]
    for name in PLACE_SECTIONS:
        letters[name] = {**sections["output"]["properties"][name], **_described(letters[name])}


def _described(node: Schema) -> Schema:
    return {"description": node["description"]}


def _node(node: Schema) -> Schema:
    """The JSON schema of a structural one."""
    made: Schema = {key: node[key] for key in _COPIED if key in node}
    has_own_form = "pattern" in node or "enum" in node or "x-kubernetes-int-or-string" in node
    return {**made, **(_of_own_form(node) if has_own_form else _typed(node))}


def _of_own_form(node: Schema) -> Schema:
    """The schema of words, and of values that may be a text or something else."""
    if "enum" in node:
        return {"anyOf": [{"enum": node["enum"]}, {"type": "string", "pattern": VARIABLE}]}
    if "pattern" not in node:
        return {"type": ["number", "string"], "minimum": 0, "pattern": _or_variable(_form(node))}
    pattern = _or_variable(node["pattern"])
    if "properties" in node:
        return {"type": ["object", "string"], "pattern": pattern, **_properties(node)}
    return {"type": ["number", "string"], "pattern": pattern}


def _typed(node: Schema) -> Schema:
    match node.get("type"):
        case "object":
            return {"type": "object", **_properties(node)}
        case "array":
            is_set = node.get("x-kubernetes-list-type") == "set"
            unique = {"uniqueItems": True} if is_set else {}
            return {"type": "array", "items": _node(node["items"]), **unique}
        case "string":
            form = _form(node)
            return {"type": "string", **({"pattern": _or_variable(form)} if form else {})}
        case "integer" | "number" | "boolean" as kind:
            return {"type": [kind, "string"], "pattern": VARIABLE}
    return {}  # anything


def _properties(node: Schema) -> Schema:
    fields = {name: _node(field) for name, field in node.get("properties", {}).items()}
    match node:
        case {"additionalProperties": dict(values)}:
            return {"additionalProperties": _node(values)}
        case {"properties": dict()} if not (ANYTHING.items() <= node.items() and "type" in node):
            return {"properties": fields, "additionalProperties": False}
    return {"properties": fields} if fields else {}


def _form(node: Schema) -> str:
    """The pattern of the first rule about the form of a text; empty if there is none."""
    for rule in node.get("x-kubernetes-validations", ()):
        if found := _FORM.fullmatch(rule["rule"]):
            return found["pattern"]
    return ""


def _or_variable(pattern: str) -> str:
    """A pattern that any text with a variable matches, too."""
    return f"{pattern}|{VARIABLE}" if pattern else VARIABLE


# ----------------------------------------------------------------- what occurs often, once


def _each_once(root: Schema) -> Schema:
    """The same schema, with what occurs more than once as definitions."""
    texts = Counter(json.dumps(node, sort_keys=True) for node in _below(root))
    names: dict[str, str] = {}
    for text, count in texts.items():
        if count > 1 and len(text) > _MANY:
            names[text] = f"d{len(names) + 1}"
    definitions: Schema = {}
    made = _referring(root, names, definitions)
    return {**made, "definitions": {name: definitions[name] for name in sorted(definitions)}}


def _below(node: Any) -> Iterator[Schema]:
    """The schemas inside a schema."""
    for child in _children(node).values():
        yield child
        yield from _below(child)


def _children(node: Schema) -> Mapping[tuple[str, ...], Schema]:
    found: dict[tuple[str, ...], Schema] = {
        ("properties", name): child for name, child in node.get("properties", {}).items()
    }
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            found[(key,)] = node[key]
    return found


def _referring(node: Schema, names: Mapping[str, str], definitions: Schema) -> Schema:
    made = {**node}
    if "properties" in node:
        made["properties"] = dict(node["properties"])
    for path, child in _children(node).items():
        name = names.get(json.dumps(child, sort_keys=True))
        if name is None:
            new: Schema = _referring(child, names, definitions)
        else:
            if name not in definitions:
                definitions[name] = _referring(child, names, definitions)
            new = {"$ref": f"#/definitions/{name}"}
        if len(path) == 1:
            made[path[0]] = new
        else:
            made["properties"][path[1]] = new
    return made


def to_json(kind: str) -> str:
    """The schema as ``landfall schema`` prints it."""
    return json.dumps(editor_schema(kind), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(to_json(sys.argv[1]))
