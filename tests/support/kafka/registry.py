"""A real schema registry, and what tests register in it."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import urllib3

from landfall.schemas import SchemaKind

_POOL = urllib3.PoolManager(timeout=60)


@dataclass(frozen=True)
class Registry:
    """A registry with Confluent's API.

    Attributes:
        url: the base of its paths.
    """

    url: str

    def register(
        self,
        subject: str,
        schema: object,
        kind: str = SchemaKind.AVRO,
        references: Sequence[Mapping[str, object]] = (),
    ) -> int:
        """Register a schema, text or what is written as JSON; returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self._ask("POST", f"/subjects/{subject}/versions", body)["id"])

    def subject(self) -> str:
        """A name that no other test uses."""
        return f"subject-{uuid.uuid4().hex[:12]}"

    def _ask(self, method: str, path: str, body: object) -> Any:
        answer = _POOL.request(
            method,
            f"{self.url}{path}",
            body=json.dumps(body),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        assert answer.status == 200, (answer.status, answer.data)
        return json.loads(answer.data)


def framed(schema_id: int, body: bytes) -> bytes:
    """A payload with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4, "big") + body
