"""Keeps the part of a spec that decides what objects hold, so that lost ones can be made again.

A driver stores it before its OPEN, which names it by its digest. A later driver, whose spec may
decode and route otherwise, makes lost objects of that time again by the stored one. Addresses and
credentials are not stored: those of the present apply.
"""

import json
from collections.abc import Mapping

from pydantic import ValidationError

from landfall.api.spec import ConsumerGroup, Feed, GroupSpec, TopicSpecs
from landfall.api.spec.stores import PLACE
from landfall.errors import Reason, Stalled
from landfall.ledger import State, digest, object_names
from landfall.pipeline.pinned import CHECKSUM
from landfall.store import Slots

_SECTIONS = ("decode", "transforms", "route", "badRecords")
"""What objects are made by, without where they are (``PLACE``)."""


def store_spec(slots: Slots, group: ConsumerGroup, lane: str) -> str:
    """Store what the group's objects are made by, if it is not there, and return its digest.

    Raises:
        Retry: the store does not answer.
    """
    spec = group.spec.model_dump(mode="json", by_alias=True)
    output = group.spec.output.model_dump(mode="json", by_alias=True, exclude=set(PLACE))
    kept = {name: spec[name] for name in _SECTIONS} | {"output": output}
    if spec["topics"]:  # software that does not know the field can read what is stored without it
        topics = group.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)["topics"]
        kept["topics"] = [
            {name: value for name, value in entry.items() if name != "compact"} for entry in topics
        ]
    if group.spec.source.files:
        kept["feeds"] = {feed.topic: _reader_of(feed) for feed in group.spec.source.files}
    body = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    name = digest(body)
    # Whatever is there already has the same bytes: the key names them.
    slots.create(object_names.spec_key(group.metadata.name, lane, name), body)
    return name


def check_files(slots: Slots, group: ConsumerGroup, lane: str, state: State) -> None:
    """Return if the group's decoders read the files by which the last OPEN's driver landed.

    A revision lands by the same files from its first OPEN on, whichever pod its driver is in.

    Raises:
        Stalled: SPEC_INVALID, a file has other bytes under the same path.
        Retry: the store does not answer.
    """
    before = dict(TopicSpecs.of(stored_spec(slots, group, lane, state.spec).spec).used())
    for path, spec in TopicSpecs.of(group.spec).used():
        if path in before and _is_another_file(before[path].decode.options, spec.decode.options):
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{path}.decode.options: the file has other bytes than when revision "
                f"{state.revision} began to land by it: put the file back, or make a new revision "
                f"that names the new one, by its path or by its checksum, {CHECKSUM}",
            )


def _is_another_file(before: Mapping[str, object], now: Mapping[str, object]) -> bool:
    checksums = before.get(CHECKSUM), now.get(CHECKSUM)
    same = {name: value for name, value in before.items() if name != CHECKSUM}
    is_same = same == {name: value for name, value in now.items() if name != CHECKSUM}
    return is_same and None not in checksums and checksums[0] != checksums[1]


def _reader_of(feed: Feed) -> Mapping[str, object]:
    """What decides which rows a file has."""
    return feed.model_dump(mode="json", by_alias=True, include={"reader", "reader_options"})


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
    # How objects are merged decides nothing that they hold, and may not fit their format.
    present = group.spec.model_dump(mode="json", by_alias=True, exclude={"compact"})
    kept = json.loads(body)
    kept.setdefault("topics", [])
    feeds = kept.pop("feeds", {})
    files = [{**feed, **feeds.get(feed["topic"], {})} for feed in present["source"]["files"]]
    kept["source"] = present["source"] | {"files": files}
    kept["output"] |= {name: present["output"][name] for name in PLACE}
    try:
        spec = GroupSpec.model_validate(present | kept)
    except ValidationError:  # stored by software that knew other fields
        return group
    return group.model_copy(update={"spec": spec})
