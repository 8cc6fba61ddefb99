"""Keeps the schemas that payloads were decoded with, beside the ledger, and finds them again.

A schema is stored under the SHA-256 of its bytes, and which registry calls it by which id under the
name of both; each is created if absent, like a slot, and is never changed or deleted. A task stores
what it has used before it returns, so a COMMIT names only schemas that are there. A task that dies
before its COMMIT leaves schemas that no COMMIT names, which harms nobody. See
[decision 14](adr/0014-a-commit-names-its-schemas.md).

Where an id has another schema than before, the registry is not the same any more: its payloads
would be read wrongly, now or later, so nothing is landed until somebody has looked.
"""

import hashlib
import logging

from landfall.errors import SchemaChanged
from landfall.ledger import digest, object_names
from landfall.ledger.schema_ids import encode_id, schema_of_id
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import RegisteredSchema, decode_schema
from landfall.store import Created, Slots

log = logging.getLogger(__name__)


class StoredSchemas:
    """The stored schemas of one ledger; may be used by one thread at a time."""

    def __init__(self, slots: Slots, group: str, lane: str) -> None:
        """Read nothing yet."""
        self._slots, self._group, self._lane = slots, group, lane
        self._kept: dict[UsedSchema, str] = {}

    def keep(self, used: UsedSchema) -> str:
        """Store a schema and its id if they are not there; returns its SHA-256.

        Raises:
            SchemaChanged: the id belongs to another schema, or what is stored is damaged.
            Retry: the store does not answer.
        """
        if used not in self._kept:
            name = digest(used.body)
            # The schema first: an id that is there names one that is there.
            self._create(object_names.schema_key(self._group, self._lane, name), used.body)
            if used.schema_id:
                self._create(self._id_key(used.registry, used.schema_id), encode_id(name))
            self._kept[used] = name
        return self._kept[used]

    def find(self, registry: str, schema_id: str) -> RegisteredSchema | None:
        """Return the schema that a registry called by an id; None if that is not known.

        Raises:
            SchemaChanged: what is stored is damaged.
            Retry: the store does not answer.
        """
        key = self._id_key(registry, schema_id)
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
        log.warning("schema taken from the store", extra={"schema_id": schema_id, "sha256": name})
        return decode_schema(body)

    def _create(self, key: str, body: bytes) -> None:
        if self._slots.create(key, body) is Created.WON:
            return
        there = self._slots.read(key)
        if there != body:
            raise SchemaChanged(
                f"{key}: differs from what the schema registry says now; if that is right, "
                "delete this object"
            )

    def _id_key(self, registry: str, schema_id: str) -> str:
        return object_names.schema_id_key(self._group, self._lane, registry, schema_id)


def registry_name(url: str) -> str:
    """Return how keys call the registry whose first URL this is: 16 hexadecimal digits."""
    return hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]
