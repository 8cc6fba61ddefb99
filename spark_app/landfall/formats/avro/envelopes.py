"""Schemas of Avro files whose records contain their coordinates.

Avro encodes a record as its fields, one after the other. So a record with four more fields at the
end is encoded as the record was, and those four after it: the payload's bytes are copied, and no
reader needs to know.

====================================  ==========================================================
schema of the payloads                schema of the file
====================================  ==========================================================
a record                              the same with ``_topic``, ``_partition``, ``_offset`` and
                                      ``_timestamp`` at the end
anything else; a record that is       a record ``LandfallEnvelope`` with the payload as its field
inside itself, or has a field of      ``value``, and these four
such a name, in any case
====================================  ==========================================================

Readers that resolve the file's schema to the payloads' see the payloads alone, in the first
case. A record inside itself cannot have more fields, for its inner ones do not.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from landfall.formats.columns import COORDINATES
from landfall.pipeline.decoders.avro.complete import full_name

COORDINATE_FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "_topic", "type": "string"},
    {"name": "_partition", "type": "int"},
    {"name": "_offset", "type": "long"},
    {
        "name": "_timestamp",
        "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "default": None,
    },
)
_NAMES = frozenset(f"_{name}" for name in COORDINATES)
WRAPPER = "LandfallEnvelope"
"""The record around payloads that cannot have more fields, maybe with underscores after it."""
_VALUE = "value"


@lru_cache(256)
def enveloped(schema: str) -> str:
    """Return the schema of a file with coordinates, for payloads of this schema, as JSON."""
    declared = msgspec.json.decode(schema)
    if _can_be_extended(declared):
        made = {**declared, "fields": [*declared["fields"], *COORDINATE_FIELDS]}
    else:
        taken = set(_strings(declared))
        name = WRAPPER
        while name in taken:
            name += "_"
        # Without a namespace, which the payload's types would be in as well.
        fields = [{"name": _VALUE, "type": declared}, *COORDINATE_FIELDS]
        made = {"type": "record", "name": name, "fields": fields}
    return msgspec.json.encode(made).decode()


def _can_be_extended(declared: Any) -> bool:
    if not isinstance(declared, dict) or declared.get("type") != "record":
        return False
    names = {field["name"].casefold() for field in declared["fields"]}
    own = full_name(declared, "")
    is_inside = {own, own.rpartition(".")[2]} & set(_strings(declared["fields"]))
    return not names & _NAMES and not is_inside


def _strings(declared: Any) -> Iterator[str]:
    """Yield all texts of a declaration, which include all names."""
    if isinstance(declared, str):
        yield declared
    elif isinstance(declared, dict):
        for value in declared.values():
            yield from _strings(value)
    elif isinstance(declared, list):
        for item in declared:
            yield from _strings(item)
