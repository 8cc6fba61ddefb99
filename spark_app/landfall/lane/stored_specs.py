"""Reads the part of a spec that decides what objects hold, as drivers store it by the ledger."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from landfall.api.spec import GroupSpec, TopicSpecs
from landfall.ledger import digest
from landfall.ledger.names import object_names
from landfall.store import Slots
from landfall.untrusted_json import parse_document

_NOWHERE: Mapping[str, Any] = {"kafka": {"bootstrapServers": "none:9092", "topicPattern": ".*"}}
"""A source, which a spec must have and readers do not."""
_NO_PLACE: Mapping[str, Any] = MappingProxyType({"url": "file:///nowhere"})


def read_spec(
    slots: Slots, lane: tuple[str, str], name: str, place: Mapping[str, Any] = _NO_PLACE
) -> TopicSpecs | None:
    """Read what is stored under a name, as the spec of every topic; None if it cannot be read.

    Args:
        slots: hold the stored specs.
        lane: the group's name and the lane's.
        name: the digest, as an OPEN has it; empty for none.
        place: the fields of ``output`` that define where objects are, which is not stored.

    Raises:
        Retry: the store does not answer.
    """
    body = slots.read(object_names.spec_key(*lane, name)) if name else None
    if body is None or digest(body) != name:
        return None
    try:
        kept = parse_document(body)
    except ValueError:  # of another program, as one with another digest
        return None
    if not isinstance(kept.get("output"), dict):
        return None
    kept["output"] |= place
    kept.pop("feeds", None)
    try:
        return TopicSpecs.of(GroupSpec.model_validate({"source": dict(_NOWHERE), **kept}))
    except ValidationError:  # stored by software that knew other fields
        return None
