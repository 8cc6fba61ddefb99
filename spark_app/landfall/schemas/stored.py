"""Keeps the schemas that payloads were decoded with, alongside the ledger, and finds them again.

A schema is stored under the SHA-256 of its bytes, and which registry calls it by which id under the
name of both; each is created if absent, like a slot, and is never changed or deleted. A task stores
what it has used before it returns, so a COMMIT names only schemas that are there. A task that dies
before its COMMIT leaves schemas that no COMMIT names, which is harmless. See
[decision 14](adr/0014-a-commit-names-its-schemas.md).

Which schema is the latest of a subject changes, so it is stored, too, under a pin: a name that the
driver makes when it starts, and that is part of its stored spec. The first task to ask creates the
object, and all other tasks read it, as does a program that makes lost objects of that time again.

Where an id has another schema than before, the registry is not the same any more: its payloads
would be read wrongly, now or later, so nothing is landed until a person has checked.
"""

import hashlib
import logging
from itertools import islice

from landfall.errors import SchemaChanged
from landfall.ledger import digest
from landfall.ledger.names import object_names
from landfall.ledger.names.schema_ids import encode_id, encode_latest, latest_key, schema_of_id
from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import RegisteredSchema, decode_schema, encode_schema
from landfall.store import Created, Slots

log = logging.getLogger(__name__)

_LOOKS = 100
"""How many stored objects are looked at for an id."""


class StoredSchemas:
    """The stored schemas of one ledger; may be used by one thread at a time."""

    def __init__(self, slots: Slots, group: str, lane: str) -> None:
        """Read nothing yet."""
        self._slots = slots
        self._group = group
        self._lane = lane
        self._kept = BoundedCache[UsedSchema, str]()

    def keep(self, used: UsedSchema) -> str:
        """Store a schema and its id if they are not there; returns its SHA-256.

        Raises:
            SchemaChanged: the id belongs to another schema, or what is stored is damaged.
            Retry: the store does not answer.
        """
        if (kept := self._kept.get(used)) is not None:
            return kept
        name = digest(used.body)
        # The schema first: an id that is there names one that is there.
        self._create(object_names.schema_key(self._group, self._lane, name), used.body)
        if used.schema_id:
            self._create(self._id_key(used.registry, used.schema_id), encode_id(name))
        return self._kept.add(used, name, len(used.body))

    def find(self, registry: str, schema_id: str) -> RegisteredSchema | None:
        """Return the schema that a registry called by an id; None if that is not known.

        Raises:
            SchemaChanged: what is stored is damaged.
            Retry: the store does not answer.
        """
        found = self._named_by(self._id_key(registry, schema_id))
        if found is not None:
            log.warning("schema read from the store", extra={"schema_id": schema_id})
        return found

    def known_id(self, registry: str, but: str) -> int | str | None:
        """Return an id that a registry has given a schema for; None if there is none.

        Args:
            registry: as keys call it.
            but: an id that is not wanted.

        Raises:
            Retry: the store does not answer.
        """
        prefix = object_names.schema_ids_prefix(self._group, self._lane, registry)
        for stat in islice(self._slots.list_after(prefix), _LOOKS):
            schema_id = object_names.schema_id_of(stat.key.removeprefix(prefix))
            if schema_id is not None and schema_id != but:
                return int(schema_id) if schema_id.isdecimal() else schema_id
        return None

    def latest(self, registry: str, pin: str, subject: str) -> RegisteredSchema | None:
        """Return the schema that is the subject's latest under a pin; None if none is yet.

        Raises:
            SchemaChanged: what is stored is damaged.
            Retry: the store does not answer.
        """
        return self._named_by(self._latest_key(registry, pin, subject))

    def keep_latest(
        self, registry: str, pin: str, subject: str, schema: RegisteredSchema
    ) -> RegisteredSchema:
        """Make a schema the subject's latest under a pin, if none is, and return what is.

        Raises:
            SchemaChanged: what is stored is damaged.
            Retry: the store does not answer.
        """
        name = self.keep(UsedSchema(encode_schema(schema), registry))
        key = self._latest_key(registry, pin, subject)
        self._slots.create(key, encode_latest(name, subject))
        found = self._named_by(key)
        if found is None:
            raise SchemaChanged(f"{key}: created, and missing at once")
        return found

    def _named_by(self, key: str) -> RegisteredSchema | None:
        """The schema that the object of an id or a subject names; None if there is none."""
        named = self._slots.read(key)
        if named is None:
            return None
        name = schema_of_id(named) or ""
        try:
            stored = object_names.schema_key(self._group, self._lane, name)
        except ValueError as error:
            raise SchemaChanged(f"{key}: names no stored schema: {error}") from error
        body = self._slots.read(stored)
        if body is None or digest(body) != name:
            raise SchemaChanged(f"{stored}: the stored schema is missing or damaged")
        return decode_schema(body)

    def _create(self, key: str, body: bytes) -> None:
        if self._slots.create(key, body) is Created.WON:
            return
        there = self._slots.read(key)
        if there != body:
            raise SchemaChanged(
                f"{key}: differs from the present answer of the schema registry; if that is right, "
                "delete this object"
            )

    def _latest_key(self, registry: str, pin: str, subject: str) -> str:
        return latest_key(
            group=self._group, lane=self._lane, registry=registry, pin=pin, subject=subject
        )

    def _id_key(self, registry: str, schema_id: str) -> str:
        return object_names.schema_id_key(self._group, self._lane, registry, schema_id)


def registry_name(url: str) -> str:
    """Return how keys call the registry whose first URL this is: 16 hexadecimal digits."""
    return hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]
