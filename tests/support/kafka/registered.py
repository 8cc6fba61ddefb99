"""Decoders whose schemas a dictionary has, and records with Confluent's headers for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.api.spec import Column
from landfall.ledger import digest
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.schemas import RegisteredSchema, encode_schema
from landfall.schemas.cached import CachedRegistry, SchemaId
from tests.support.payloads.decoded import as_list

TP = TopicPartition("clicks", 0)
GUID = "89791762-2336-4186-9674-299b90a802e2"
GUID_HEADER = b"\x01" + bytes.fromhex(GUID.replace("-", ""))


@dataclass
class Known:
    """A registry that is a dictionary."""

    schemas: dict[SchemaId, RegisteredSchema] = field(default_factory=dict)

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return self.schemas.get(schema_id)

    def latest(self, _: str) -> RegisteredSchema | None:
        return None


def knows(schemas: Mapping[SchemaId, RegisteredSchema]) -> CachedRegistry:
    """A registry of these schemas."""
    return CachedRegistry(Known({**schemas}))


def framed(schema_id: int, body: bytes) -> bytes:
    """A payload with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4) + body


def records(
    *payloads: bytes | None, headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None
) -> Records:
    """Records with these payloads, and headers."""
    offsets = np.arange(10, 10 + len(payloads))
    listed = pa.array(headers or [[]] * len(payloads), HEADERS)
    return of_columns(TP, offsets, pa.array(payloads, pa.binary()), headers=listed)


def wanted(*fields: str, columns: Mapping[str, str] | None = None, **more: Any) -> Wanted:
    """What later stages need: fields by paths with dots, and columns by name with their types."""
    paths = tuple(tuple(path.split(".")) for path in fields)
    declared = [
        Column.model_validate({"name": name.rstrip("!"), "type": kind, "nullable": "!" not in name})
        for name, kind in (columns or {}).items()
    ]
    return Wanted(paths, schema_of(declared) if declared else None, **more)


def errors(decoded: Decoded) -> dict[int, str]:
    """What is wrong, by position."""
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def values(decoded: Decoded, path: str) -> list[object]:
    """The values of a field."""
    return as_list(decoded.fields[tuple(path.split("."))])


def content_hash(schema: RegisteredSchema) -> str:
    """The name under which a schema is stored."""
    return digest(encode_schema(schema))
