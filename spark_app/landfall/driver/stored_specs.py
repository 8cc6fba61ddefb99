"""Keeps the part of a spec that decides what objects hold, so that lost ones can be made again.

A driver stores it before its OPEN, which names it by its digest. A later driver, whose spec may
decode and route otherwise, makes lost objects of that time again by the stored one. Addresses and
credentials are not stored: those of the present apply.
"""

import json

from pydantic import ValidationError

from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.ledger import digest, object_names
from landfall.store import Slots

_SECTIONS = ("decode", "transforms", "route", "badRecords")
_PLACE = {"url", "store", "s3"}
"""Fields of the output that say where objects are written, not what they hold."""


def store_spec(slots: Slots, group: ConsumerGroup, lane: str) -> str:
    """Store what the group's objects are made by, if it is not there, and return its digest.

    Raises:
        Retry: the store does not answer.
    """
    spec = group.spec.model_dump(mode="json", by_alias=True)
    output = group.spec.output.model_dump(mode="json", by_alias=True, exclude=_PLACE)
    kept = {name: spec[name] for name in _SECTIONS} | {"output": output}
    if spec["topics"]:  # software that does not know the field can read what is stored without it
        kept["topics"] = group.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)[
            "topics"
        ]
    body = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    name = digest(body)
    # Whatever is there already has the same bytes: the key names them.
    slots.create(object_names.spec_key(group.metadata.name, lane, name), body)
    return name


def stored_spec(slots: Slots, group: ConsumerGroup, lane: str, name: str) -> ConsumerGroup:
    """The group with the stored part of its spec in place of the present one.

    Without a name, or if what is stored under it cannot be read, it is the group as it is: whoever
    makes objects by it compares them with what was committed.

    Raises:
        Retry: the store does not answer.
    """
    body = slots.read(object_names.spec_key(group.metadata.name, lane, name)) if name else None
    if body is None or digest(body) != name:
        return group
    present = group.spec.model_dump(mode="json", by_alias=True)
    kept = json.loads(body)
    kept.setdefault("topics", [])
    kept["output"] |= {name: present["output"][name] for name in _PLACE}
    try:
        spec = GroupSpec.model_validate(present | kept)
    except ValidationError:  # stored by software that knew other fields
        return group
    return group.model_copy(update={"spec": spec})
