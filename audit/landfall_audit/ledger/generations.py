"""How objects are read and compared: by the spec of the generation that landed them.

The ledger names the spec of each generation, so that columns, units or a route that have changed
since are no faults. Objects of software that stored none are compared by today's group file.
"""

import threading
from typing import Any

from landfall_audit import basenames, untrusted_json
from landfall_audit.checks.range_readers import Readers
from landfall_audit.ledger.corrections import Range
from landfall_audit.ledger.inventory import Inventory
from landfall_audit.ledger.stored_schemas import LedgerSchemas
from landfall_audit.spec import AuditedSpec, AuditedTopics

_SECTIONS = ("decode", "transforms", "route", "topics")
"""Sections of today's spec that a stored one replaces; of ``output``, all but the location."""


class GenerationReaders:
    """Readers by topic and generation. Thread-safe."""

    def __init__(self, spec: AuditedSpec, inventory: Inventory, schemas: LedgerSchemas) -> None:
        """Read no stored spec yet."""
        self._spec, self._inventory, self._schemas = spec, inventory, schemas
        self._lock = threading.Lock()
        self._specs: dict[int | None, AuditedTopics] = {None: AuditedTopics.of(spec)}
        self._known: dict[tuple[str, int | None], Readers] = {}

    def of_range(self, topic: str, range_: Range) -> Readers:
        """The readers of the generation that landed a range; REPLAYs are of later ones."""
        keys = [*(piece.key for piece in range_.pieces), *(range_.objects or ())]
        found = [generation for key in keys if (generation := generation_of(key)) is not None]
        return self.of(topic, min(found, default=None))

    def of_key(self, topic: str, key: str) -> Readers:
        """The readers of the generation that landed an object."""
        return self.of(topic, generation_of(key))

    def of_slot(self, topic: str, slot: int) -> Readers:
        """The readers of the generation that wrote a slot."""
        return self.of(topic, self._inventory.generation_at(slot))

    def of(self, topic: str, generation: int | None = None) -> Readers:
        """The readers of a generation; today's if it is None, or its spec is not known."""
        with self._lock:
            if (topic, generation) not in self._known:
                specs = self._specs_of(generation)
                self._known[topic, generation] = Readers.of(specs.for_topic(topic), self._schemas)
            return self._known[topic, generation]

    def used(self, topic: str) -> list[Readers]:
        """All readers of a topic that were asked for."""
        with self._lock:
            return [readers for (name, _), readers in self._known.items() if name == topic]

    def _specs_of(self, generation: int | None) -> AuditedTopics:
        if generation not in self._specs:
            body = None if generation is None else self._inventory.spec_of(generation)
            spec = self._spec if body is None else _laid_over(self._spec, body)
            self._specs[generation] = AuditedTopics.of(spec)
        return self._specs[generation]


def generation_of(key: str) -> int | None:
    """The generation that landed an object; None if it has no object's name."""
    name = basenames.parse(key)
    return name.generation if name else None


def _laid_over(spec: AuditedSpec, body: bytes) -> AuditedSpec:
    """Today's spec with another one's stored sections; today's own if those cannot be read."""
    whole = spec.model_dump(mode="json", by_alias=True)
    try:
        stored: dict[str, Any] = untrusted_json.decode(body, type=dict[str, Any])
        sections = {name: stored[name] for name in _SECTIONS if name in stored} | {
            "topics": stored.get("topics", []),
            "output": {**whole["output"], **stored.get("output", {})},
        }
        return AuditedSpec.model_validate({**whole, **sections})
    except (ValueError, TypeError):
        return spec
