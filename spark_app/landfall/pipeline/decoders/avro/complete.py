"""A schema as one JSON text that needs no other: what is written into files, and its digest.

A schema of a registry may use types of schemas that it refers to. Here each of these is put where
it is used first, with its namespace; everything else stays as it is declared, with documentation,
defaults and properties that Landfall does not know.

Source: Apache Avro 1.12 specification, "Names".
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def complete(declared: Any, references: Sequence[Any] = ()) -> bytes:
    """Return a schema with all types that it uses, as JSON.

    Args:
        declared: the schema, which is known to be one, as JSON values.
        references: schemas that it refers to, in the same way.
    """
    if not references:
        return msgspec.json.encode(declared)
    writer = _Writer({})
    for reference in references:
        writer.learn(reference, "")
    return msgspec.json.encode(writer.type(declared, ""))


def digest(schema: str | bytes) -> str:
    """Return the SHA-256 of a schema, in hexadecimal.

    White space and the order of JSON members do not count. What else differs does, also where the
    specification's Parsing Canonical Form has no place for it, such as logical types and defaults.
    """
    canonical = msgspec.json.encode(msgspec.json.decode(schema), order="deterministic")
    return hashlib.sha256(canonical).hexdigest()


def full_name(declared: Mapping[str, Any], namespace: str) -> str:
    """Return the full name of a named type that is declared inside of a namespace."""
    name, own = declared["name"], declared.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


@dataclass
class _Writer:
    known: dict[str, tuple[Any, str]]
    """Named types of the references, each with the namespace around it."""
    written: set[str] = field(default_factory=set)

    def learn(self, declared: Any, namespace: str) -> None:
        """Note the named types that are declared in a schema."""
        if isinstance(declared, list):
            for branch in declared:
                self.learn(branch, namespace)
        elif isinstance(declared, dict):
            if _is_named(declared):
                name = full_name(declared, namespace)
                self.known.setdefault(name, (declared, namespace))
                namespace = name.rpartition(".")[0]
            for _, inner in _inner(declared):
                self.learn(inner, namespace)

    def type(self, declared: Any, namespace: str) -> Any:
        """Return a type as it is written where the namespace is this."""
        match declared:
            case str():
                return self._by_name(declared, namespace)
            case list():
                return [self.type(branch, namespace) for branch in declared]
            case dict():
                return self._declared(declared, namespace)
        return declared

    def _by_name(self, name: str, namespace: str) -> Any:
        if name in _PRIMITIVES:
            return name
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self.written:
                return candidate
            if candidate in self.known:
                return self._declared(*self.known[candidate])
        return full

    def _declared(self, declared: Mapping[str, Any], namespace: str) -> Any:
        made = dict(declared)
        if _is_named(declared):
            name = full_name(declared, namespace)
            if name in self.written:
                return name
            self.written.add(name)
            # In full: where it is put there may be another namespace around it.
            namespace, _, made["name"] = name.rpartition(".")
            made["namespace"] = namespace
        for key, inner in _inner(declared):
            made[key] = (
                [
                    {**declared_field, "type": self.type(declared_field["type"], namespace)}
                    for declared_field in declared[key]
                ]
                if key == "fields"
                else self.type(inner, namespace)
            )
        return made


def _is_named(declared: Mapping[str, Any]) -> bool:
    kind = declared.get("type")  # may be a type itself, as of {"type": ["null", "int"]}
    return isinstance(kind, str) and kind in _NAMED


def _is_word(kind: Any) -> bool:
    """Return whether this is the kind of a declaration, and no type inside of it."""
    return isinstance(kind, str) and kind in _NAMED | {"array", "map"}


def _inner(declared: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The places of a declaration where there are other types."""
    places = [
        (key, declared[key])
        for key in ("type", "items", "values")
        if key in declared and not (key == "type" and _is_word(declared[key]))
    ]
    fields = declared.get("fields")
    if _is_named(declared) and isinstance(fields, list):
        places.append(("fields", [declared_field["type"] for declared_field in fields]))
    return places
