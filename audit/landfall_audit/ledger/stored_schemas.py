"""The schemas that were stored next to the ledger when payloads were decoded with them."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from landfall_audit import untrusted_json
from landfall_audit.buckets import Bucket
from landfall_audit.payloads import Undecided


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema, and the texts of the schemas that it refers to, by their names."""

    text: str
    references: Sequence[tuple[str, str]]


class LedgerSchemas:
    """The schemas of a group's ledger by the ids of registries. Thread-safe."""

    def __init__(self, bucket: Bucket, group: str) -> None:
        """Nothing is read yet."""
        self._bucket, self._folder = bucket, f"_landfall/{group}/0-schemas/"
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], StoredSchema | None] = {}

    def find(self, registry: str, schema_id: int) -> StoredSchema:
        """The schema that a registry, by its first URL, called by an id.

        Raises:
            Undecided: it is not stored.
        """
        with self._lock:
            if (registry, schema_id) not in self._known:
                self._known[registry, schema_id] = self._read(registry, schema_id)
            found = self._known[registry, schema_id]
        if found is None:
            raise Undecided(f"schema {schema_id} of the registry is not stored")
        return found

    def _read(self, registry: str, schema_id: int) -> StoredSchema | None:
        name = hashlib.sha256(registry.rstrip("/").encode()).hexdigest()[:16]
        try:
            named = self._json(f"{name}/{schema_id}.json")
            stored = self._json(f"{named['schema']}.json")
            return StoredSchema(stored["schema"], [*map(tuple, stored["references"])])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _json(self, name: str) -> Any:
        with self._bucket.open(f"{self._folder}{name}") as stream:
            return untrusted_json.decode(stream.read())
