"""How often a JSON Schema is applied to one value, counted before any value is checked.

Forty definitions, each ``allOf`` twice the next one, are two kilobytes, and are applied a million
million times to a payload of two bytes: a worker would never come back. The library has no bound of
its own. What is counted is applied to the same value (JSON Schema 2020-12, core, sections 8.2.3 and
10.2: references and in-place applicators); what is inside of a value is checked again only as often
as the value has members.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

MAX_APPLIED = 100_000
"""How many schemas may be applied to one value; that takes about two milliseconds."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def applied(document: object, references: Mapping[str, object]) -> int:
    """Return how many schemas are applied to one value, at most.

    References by JSON Pointer and to whole other documents are followed. A schema that leads back
    to itself counts once, for that is how often the library applies it.

    Args:
        document: the schema, as JSON values.
        references: other documents by the name by which schemas refer to them.

    Raises:
        RecursionError: schemas are nested too deeply.
    """
    return _Count(references).of(document, document)


@dataclass(frozen=True)
class _Count:
    references: Mapping[str, object]
    known: dict[int, int] = field(default_factory=dict)

    def of(self, schema: object, document: object) -> int:
        """Return the count of a schema inside of a document."""
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in self.known:
            self.known[id(schema)] = 0  # while it is being counted
            inner = sum(self.of(each, inside) for each, inside in self._inner(schema, document))
            self.known[id(schema)] = 1 + inner
        return self.known[id(schema)]

    def _inner(
        self, schema: Mapping[str, object], document: object
    ) -> Iterator[tuple[object, object]]:
        """The schemas that are applied to the same value, each with its document."""
        for key in _LISTS:
            several = schema.get(key)
            if isinstance(several, list):
                yield from ((each, document) for each in several)
        yield from ((schema[key], document) for key in _SINGLE if key in schema)
        for key in _BY_NAME:
            named = schema.get(key)
            if isinstance(named, dict):
                yield from ((each, document) for each in named.values())
        for key in _REFERENCES:
            if isinstance(target := schema.get(key), str):
                yield from self._target(target, document)

    def _target(self, reference: str, document: object) -> Iterator[tuple[object, object]]:
        name, _, pointer = reference.partition("#")
        found = document
        if name:
            named = (d for n, d in self.references.items() if name == n or name.endswith(f"/{n}"))
            found = next(named, None)
        inside = found
        for escaped in unquote(pointer).split("/")[1:]:
            step = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return
        yield found, inside
