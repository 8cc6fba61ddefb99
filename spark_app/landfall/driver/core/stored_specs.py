"""Keeps the part of a spec that decides what objects hold, so that lost ones can be made again.

A driver stores it before its OPEN, which names it by its digest. A later driver, whose spec may
decode and route otherwise, makes lost objects of that time again by the stored one. Addresses and
credentials are not stored: the present ones apply.

A program that may write to the bucket can write a stored spec, and an OPEN that names it. So it
names no code: plug-ins are imported only if the present spec names them as well
(``registry.Allowed``). The same holds for files of the pod: only files in a folder of a file that
the spec names are read.
"""

import json
from collections.abc import Collection, Iterable, Mapping

from pydantic import ValidationError

from landfall.api.spec import ConsumerGroup, Feed, GroupSpec, TopicSpecs
from landfall.api.spec.stores import PLACE
from landfall.errors import Reason, Stalled
from landfall.ledger import State, digest
from landfall.ledger.names import object_names
from landfall.pipeline.pinned import CHECKSUM
from landfall.registry import Allowed, named_files, plug_ins, registry_logins
from landfall.store import Slots
from landfall.untrusted_json import parse_document

_SECTIONS = ("decode", "transforms", "route", "badRecords")
"""What objects are made by, without where they are (``PLACE``)."""
_LETTERS_PLACES = PLACE | {"formerPlaces"}


def store_spec(slots: Slots, group: ConsumerGroup, lane: str) -> str:
    """Store what the group's objects are made by, if it is not there, and return its digest.

    Raises:
        Retry: the store does not answer.
    """
    spec = group.spec.model_dump(mode="json", by_alias=True)
    output = group.spec.output.model_dump(mode="json", by_alias=True, exclude=set(PLACE))
    kept = {name: spec[name] for name in _SECTIONS} | {"output": output}
    kept["badRecords"] = {k: v for k, v in spec["badRecords"].items() if k not in _LETTERS_PLACES}
    if spec["topics"]:  # software that does not know the field can read what is stored without it
        topics = group.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)["topics"]
        kept["topics"] = [
            {name: value for name, value in entry.items() if name != "compact"} for entry in topics
        ]
    if group.spec.source.files:
        kept["feeds"] = {feed.topic: _reader_of(feed) for feed in group.spec.source.files}
    body = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    name = digest(body)
    # An object that exists already has the same bytes: the key names them.
    slots.create(object_names.spec_key(group.metadata.name, lane, name), body)
    return name


def check_files(slots: Slots, group: ConsumerGroup, lane: str, state: State) -> None:
    """Return if the group's decoders read the files by which the last OPEN's driver landed.

    A revision lands by the same files from its first OPEN, in every pod.

    Raises:
        Stalled: SPEC_INVALID, a file has other bytes under the same path.
        Retry: the store does not answer.
    """
    stored = unchecked_spec(slots, group, lane, state.spec)  # nothing is imported for it
    before = dict(TopicSpecs.of(stored.spec).used())
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
    """Return the fields that decide which rows a file has."""
    return feed.model_dump(mode="json", by_alias=True, include={"reader", "reader_options"})


def allowed_plug_ins(group: ConsumerGroup, lane: str, name: str) -> Allowed:
    """Return the plug-ins that a stored spec may import: the ones that the present spec names."""
    return Allowed(
        names=plug_ins(group.spec),
        file=object_names.spec_key(group.metadata.name, lane, name) if name else "the present spec",
        remedy="and the present spec does not name it; to have it used for objects of that time, "
        "name it there again, as in an entry of spec.topics with a pattern that no topic has",
        logins=registry_logins(group.spec),
        files=named_files(group.spec),
    )


def stored_spec(
    slots: Slots, group: ConsumerGroup, lane: str, name: str, topics: Collection[str] | None = None
) -> ConsumerGroup:
    """The group with the stored part of its spec instead of the present one, checked for code.

    Args:
        slots: hold the stored specs.
        group: as its spec is now.
        lane: the lane's name.
        name: the digest, as an OPEN has it; empty for none.
        topics: the topics that it is used for; all if None.

    Raises:
        Stalled: SPEC_INVALID, it names a plug-in that the present spec does not name.
        Retry: the store does not answer.
    """
    found = unchecked_spec(slots, group, lane, name)
    allowed = allowed_plug_ins(group, lane, name)
    for spec in _specs(found, topics):
        allowed.check_all(spec)
    return found


def with_stored_formats(
    slots: Slots, group: ConsumerGroup, lane: str, name: str, topics: Collection[str]
) -> ConsumerGroup:
    """The same for what uses formats only: what decoded and changed rows may be gone by now."""
    found = unchecked_spec(slots, group, lane, name)
    allowed = allowed_plug_ins(group, lane, name)
    for spec in _specs(found, topics):
        allowed.check_format(spec.output)
    return found


def _specs(group: ConsumerGroup, topics: Collection[str] | None) -> Iterable[GroupSpec]:
    specs = TopicSpecs.of(group.spec)
    return specs.every() if topics is None else map(specs.for_topic, sorted(topics))


def unchecked_spec(slots: Slots, group: ConsumerGroup, lane: str, name: str) -> ConsumerGroup:
    """Return the group with the stored part of its spec; it may name anything, so import nothing.

    Without a name, or if what is stored under it cannot be read, it is the group as it is: the
    caller that makes objects by it compares them with the committed ones.

    Raises:
        Retry: the store does not answer.
    """
    body = slots.read(object_names.spec_key(group.metadata.name, lane, name)) if name else None
    if body is None or digest(body) != name:
        return group
    # How objects are merged decides nothing that they hold, and may not fit their format.
    present = group.spec.model_dump(mode="json", by_alias=True, exclude={"compact"})
    try:
        kept = parse_document(body)
    except ValueError:  # written by another program, as one with another digest
        return group
    kept.setdefault("topics", [])
    feeds = kept.pop("feeds", {})
    files = [{**feed, **feeds.get(feed["topic"], {})} for feed in present["source"]["files"]]
    kept["source"] = present["source"] | {"files": files}
    kept["output"] |= {name: present["output"][name] for name in PLACE}
    kept["badRecords"] |= {name: present["badRecords"][name] for name in _LETTERS_PLACES}
    try:
        spec = GroupSpec.model_validate(present | kept)
    except ValidationError:  # stored by software that knew other fields
        return group
    return group.model_copy(update={"spec": spec})
