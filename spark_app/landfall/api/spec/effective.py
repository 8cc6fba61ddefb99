"""The spec of a topic: the group's spec, with the entry of ``spec.topics`` that matches.

The first entry whose pattern matches the whole name of a topic applies. What it sets replaces the
group's field, field by field: mappings are merged by key, lists are replaced as a whole.
``options`` belong to a format: an entry with another ``format`` inherits none of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from landfall.api.spec.decode import Decode
from landfall.api.spec.group import GroupSpec
from landfall.api.spec.topics import TopicOverride


@dataclass(frozen=True)
class TopicSpecs:
    """The spec of every topic of a group.

    Attributes:
        group: of topics that no entry matches: the group's spec without entries.
        entries: patterns and the specs that hold for the topics that match, in order.
        topics: the topics that the group names; none if it has a pattern for them.
    """

    group: GroupSpec
    entries: tuple[tuple[re.Pattern[str], GroupSpec], ...]
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: GroupSpec) -> "TopicSpecs":
        """Put the entries of a spec together with its own fields.

        Raises:
            ValidationError: an entry does not fit the group; ``parse_group`` refuses such a spec.
        """
        alone = spec.model_copy(update={"topics": ()})
        entries = ((re.compile(o.pattern), effective(alone, o)) for o in spec.topics)
        return cls(alone, tuple(entries), spec.source.topics)

    def entry_of(self, topic: str) -> int | None:
        """The position of the first entry that matches a topic; None if none does."""
        found = (i for i, (pattern, _) in enumerate(self.entries) if pattern.fullmatch(topic))
        return next(found, None)

    def for_topic(self, topic: str) -> GroupSpec:
        """The spec that holds for a topic; its own ``topics`` are empty."""
        entry = self.entry_of(topic)
        return self.group if entry is None else self.entries[entry][1]

    def every(self) -> Iterator[GroupSpec]:
        """The group's own spec and all entries' specs, whether or not a topic may have them."""
        yield self.group
        yield from (spec for _, spec in self.entries)

    def used(self) -> Iterator[tuple[str, GroupSpec]]:
        """Every spec that a topic may have, after the path of the field that sets it."""
        for entry in self.used_entries():
            if entry is None:
                yield "spec", self.group
            else:
                yield f"spec.topics[{entry}]", self.entries[entry][1]

    def used_entries(self) -> Iterator[int | None]:
        """The positions of all entries; first None if there may be topics that no entry matches."""
        named = self.topics and all(self.entry_of(topic) is not None for topic in self.topics)
        if not named and all(pattern.pattern != ".*" for pattern, _ in self.entries):
            yield None
        yield from range(len(self.entries))


def effective(spec: GroupSpec, entry: TopicOverride) -> GroupSpec:
    """The spec of the topics that match an entry of it.

    Raises:
        ValidationError: the fields of the entry and of the group do not fit each other.
    """
    document = spec.model_dump(mode="json", by_alias=True, exclude={"topics"})
    own = entry.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"pattern"})
    _leave_options(document, own)
    return GroupSpec.model_validate(merged(document, own), by_alias=True, by_name=False)


def _leave_options(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Remove options of formats that are replaced: payloads, keys, output."""
    if "options" in below and above.get("format", below["format"]) != below["format"]:
        below["options"] = {}
    for name, value in above.items():
        lower = below.get(name)
        if isinstance(value, Mapping) and isinstance(lower, dict) and name != "options":
            _leave_options(lower, value)


def with_decode_option(
    spec: GroupSpec, entry: int | None, name: str, value: str, *, of_key: bool = False
) -> GroupSpec:
    """The spec with one more option of the decoder, of an entry of ``topics`` or of the group.

    Args:
        spec: the group's spec.
        entry: the position of an entry of ``topics``; None for the group's own decoder.
        name: of the option.
        value: of the option.
        of_key: whether it is an option of the decoder of keys, which the spec names then.
    """
    option: dict[str, Any] = {"options": {name: value}}
    added = {"key": option} if of_key else option
    if entry is None:
        own = spec.decode.model_dump(mode="json", by_alias=True)
        decode = Decode.model_validate(merged(own, added), by_alias=True, by_name=False)
        return spec.model_copy(update={"decode": decode})
    override = spec.topics[entry]
    own = override.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    changed = TopicOverride.model_validate(
        merged(own, {"decode": added}), by_alias=True, by_name=False
    )
    topics = (*spec.topics[:entry], changed, *spec.topics[entry + 1 :])
    return spec.model_copy(update={"topics": topics})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two documents as one: mappings by key, and of anything else what is above."""
    both = dict(below)
    for name, value in above.items():
        lower = below.get(name)
        if isinstance(value, Mapping) and isinstance(lower, Mapping):
            both[name] = merged(lower, value)
        else:
            both[name] = value
    return both
