"""A registry's answers, for as long as the process lives.

The schemas that were used last are kept, up to ``bounded_cache.MAX_BYTES``, and not asked for
again: an id never means another schema. An id that the registry does not know, or whose schema
cannot be used as it is registered, is asked for twice in a row, and then again only after
``ASKS_BETWEEN`` more chunks wanted it: not after a time, because no clock may decide about a row.
Where the registry is away, or has forgotten a schema, the one that is stored
alongside the ledger is used.

A registry may refuse one schema only, such as another team's. A producer can write its id, so
waiting for the right to read it would stop the topic partition for as long as the producer likes.
If the registry still gives this login a schema that it has given before, it is the schema that is
refused and not the login, and the rows with its id are bad.
"""

from functools import cache
from typing import Protocol, TypeAlias

from landfall.errors import SchemasAway, SchemasDenied
from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import RegisteredSchema, UnusableSchemaError, encode_schema
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.schemas.stored import StoredSchemas, registry_name

ASKS_BETWEEN = 16
MAX_UNKNOWN = 10_000
"""The most ids that are known to be unknown: producers may write four billion different ones."""


SchemaId: TypeAlias = int | str
"""What a payload calls its schema: a number, or the text of a GUID."""


class SchemaSource(Protocol):
    """A source of schemas: ``client.RegistryClient``, or a dictionary in a test."""

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Return the schema with an id; None if there is none. Raises ``SchemasAway``."""
        ...

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if there is none. Raises alike."""
        ...


class CachedRegistry:
    """Asks a source once for each schema.

    Args:
        source: knows schemas.
        name: how stored schemas call it, 16 hexadecimal digits.
        stored: the schemas alongside the ledger; None where nothing is landed.
    """

    def __init__(
        self, source: SchemaSource, name: str = "0" * 16, stored: StoredSchemas | None = None
    ) -> None:
        """Know nothing yet."""
        self._source = source
        self._name = name
        self._stored = stored
        self._by_id = BoundedCache[SchemaId, RegisteredSchema]()
        self._latest: dict[tuple[str, str], RegisteredSchema] = {}
        self._unknown: dict[SchemaId, int] = {}
        self._unusable: dict[SchemaId, str] = {}
        self._used = BoundedCache[tuple[RegisteredSchema, str], UsedSchema]()

    def used(self, schema: RegisteredSchema, schema_id: SchemaId | None) -> UsedSchema:
        """Return a schema in the form in which it is stored; without an id for ``latest``."""
        key = (schema, "" if schema_id is None else str(schema_id))
        if (found := self._used.get(key)) is not None:
            return found
        used = UsedSchema(encode_schema(schema), self._name, key[1])
        return self._used.add(key, used, schema.size + len(used.body))

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Return the schema with an id; None if neither registry nor store knows it.

        Raises:
            SchemasAway: it cannot be found out now.
            UnusableSchemaError: the registry knows it, and it cannot be used as it is registered.
        """
        if (found := self._by_id.get(schema_id)) is not None:
            return found
        if self._unknown.get(schema_id, 0) > 0:
            self._unknown[schema_id] -= 1
            if reason := self._unusable.get(schema_id):
                raise UnusableSchemaError(reason)
            return None
        self._unusable.pop(schema_id, None)
        try:
            found = self._ask(schema_id)
        except UnusableSchemaError as error:
            self._remember_unknown(schema_id)
            self._unusable[schema_id] = str(error)
            raise
        if found is None:
            self._remember_unknown(schema_id)
            return None
        self._unknown.pop(schema_id, None)
        return self._by_id.add(schema_id, found, found.size)

    def _remember_unknown(self, schema_id: SchemaId) -> None:
        self._unknown[schema_id] = ASKS_BETWEEN
        if len(self._unknown) > MAX_UNKNOWN:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            self._unusable.pop(oldest, None)

    def _ask(self, schema_id: SchemaId) -> RegisteredSchema | None:
        problem: SchemasAway | UnusableSchemaError | None = None
        found = None
        # Twice: a schema that a producer has just registered may not be everywhere yet.
        for _ in range(2):
            try:
                found = self._read(schema_id)
            except UnusableSchemaError as error:
                found, problem = None, error
            except SchemasAway as error:
                problem = error
                break
            if found is not None:
                return found
        if self._stored is not None:
            found = self._stored.find(self._name, str(schema_id))
        if found is None and problem is not None:
            raise problem
        return found

    def _read(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Ask the source once. Raises as ``by_id``."""
        try:
            found = self._source.by_id(schema_id)
        except SchemasDenied as error:
            if self._answers_about_another(schema_id):
                refusal = f"the registry refuses it to this login: {error}"
                raise UnusableSchemaError(refusal) from error
            raise
        if found is not None:
            self._check_storable(found, schema_id)
        return found

    def _answers_about_another(self, refused: SchemaId) -> bool:
        """Return whether the registry still gives this login a schema that it gave before."""
        known = self._by_id.newest()
        if known is None and self._stored is not None:
            known = self._stored.known_id(self._name, but=str(refused))
        if known is None or known == refused:
            return False
        try:
            return self._source.by_id(known) is not None
        except UnusableSchemaError:
            return True
        except SchemasAway:
            return False

    def _check_storable(self, schema: RegisteredSchema, schema_id: SchemaId | None) -> None:
        try:
            self.used(schema, schema_id)
        except UnicodeEncodeError as error:
            raise UnusableSchemaError(f"is no text: {error}") from error

    def latest(self, subject: str, pin: str = "") -> RegisteredSchema:
        """Return the schema that was the subject's latest when it was first asked for.

        Args:
            subject: as the registry calls it.
            pin: a name under which it is the same in every process, for ever; empty if only this
                process matters, as where nothing is landed.

        Raises:
            SchemasAway: it cannot be found out now, or the subject has none.
            Retry: the store does not answer.
        """
        key = (subject, pin)
        if key not in self._latest:
            self._latest[key] = self._find_latest(subject, pin)
        return self._latest[key]

    def _find_latest(self, subject: str, pin: str) -> RegisteredSchema:
        stored = self._stored if pin else None
        if stored is not None and (found := stored.latest(self._name, pin, subject)):
            return found
        # No record chose this schema: rows are not bad because of it.
        try:
            found = self._source.latest(subject)
            if found is not None:
                self._check_storable(found, None)
        except UnusableSchemaError as error:
            raise SchemasAway(f"schema registry: the latest of {subject!r} {error}") from error
        if found is None:
            raise SchemasAway(f"schema registry: no subject {subject!r}")
        return found if stored is None else stored.keep_latest(self._name, pin, subject, found)


@cache
def registry_at(options: RegistryOptions) -> CachedRegistry:
    """Return the process's one cache for a registry, and for one place of stored schemas."""
    return CachedRegistry(RegistryClient(options), registry_name(options.urls[0]), options.stored)
