"""What a registry has answered, for as long as the process lives.

A schema is kept for ever: its id never means another one. An id that the registry does not know is
asked for twice in a row, and then again only after ``ASKS_BETWEEN`` more chunks wanted it: not
after a time, because no clock may decide what becomes of a row.
"""

from functools import cache
from typing import Protocol

from landfall.errors import SchemasAway
from landfall.schemas import RegisteredSchema
from landfall.schemas.client import RegistryClient, RegistryOptions

ASKS_BETWEEN = 16


class SchemaSource(Protocol):
    """What knows schemas: ``client.RegistryClient``, or a dictionary in a test."""

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with an id; None if there is none. Raises ``SchemasAway``."""
        ...

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if there is none. Raises alike."""
        ...


class CachedRegistry:
    """Asks a source once for each schema."""

    def __init__(self, source: SchemaSource) -> None:
        """Know nothing yet."""
        self._source = source
        self._by_id: dict[int, RegisteredSchema] = {}
        self._latest: dict[str, RegisteredSchema] = {}
        self._unknown: dict[int, int] = {}

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with an id; None if the registry does not know it.

        Raises:
            SchemasAway: it cannot be found out now.
        """
        if found := self._by_id.get(schema_id):
            return found
        if self._unknown.get(schema_id, 0) > 0:
            self._unknown[schema_id] -= 1
            return None
        # Twice: a schema that a producer has just registered may not be everywhere yet.
        found = self._source.by_id(schema_id) or self._source.by_id(schema_id)
        if found is None:
            self._unknown[schema_id] = ASKS_BETWEEN
            return None
        self._unknown.pop(schema_id, None)
        self._by_id[schema_id] = found
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the schema that was the subject's latest when it was first asked for.

        Raises:
            SchemasAway: it cannot be found out now, or the subject has none.
        """
        if subject not in self._latest:
            found = self._source.latest(subject)
            if found is None:
                raise SchemasAway(f"schema registry: no subject {subject!r}")
            self._latest[subject] = found
        return self._latest[subject]


@cache
def registry_at(options: RegistryOptions) -> CachedRegistry:
    """Return the process's one cache for a registry."""
    return CachedRegistry(RegistryClient(options))
