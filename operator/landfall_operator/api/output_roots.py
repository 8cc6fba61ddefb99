"""Decides whether two groups with nested output roots can give two objects one name.

Nested output roots are allowed: their objects mostly differ by topic. Refused are roots in which a
name of the one may be a name of the other, folder by folder. Values of records have no ``/`` in
them, so a template determines the number of folders and their fixed text.

The operator of all tenants runs this, so the work is bounded for any spec: no regular expression of
a spec is evaluated here (docs/adr/0045), and two groups with too many names to compare collide.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from landfall.api.route_pattern import TOPIC_END, TokenKind, tokens
from landfall.api.spec import ConsumerGroup

Route: TypeAlias = tuple[str | None, str]
"""``topicPath`` and ``pattern``."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]*")
MAX_COMPARED = 40_000
"""The most texts of folders that are compared for two groups, some milliseconds of work. Groups
with ten routes of ten folders each have some thousand.
"""


@dataclass(frozen=True)
class _Folder:
    """The names that a folder may have.

    Attributes:
        texts: what a name has, in this order; what is between them comes from a record.
        topics_of: of a folder that is called like a topic, the group that lands it.
    """

    texts: tuple[str, ...] = ("", "")
    topics_of: ConsumerGroup | None = None

    def may_be(self, other: "_Folder") -> bool:
        """Return whether both may have the same name; true if nothing rules it out."""
        return self.accepts(other) and other.accepts(self)

    def accepts(self, other: "_Folder") -> bool:
        """Return whether this folder may have a name of the other one, as far as this one knows."""
        is_name = len(other.texts) == 1
        if self.topics_of:
            is_legal = all(_TOPIC.fullmatch(text) for text in other.texts)
            return is_legal and (not is_name or _may_land(self.topics_of, other.texts[0]))
        if is_name:
            return _contains_in_order(other.texts[0], self.texts)
        begin = sorted((self.texts[0], other.texts[0]), key=len)
        end = sorted((self.texts[-1], other.texts[-1]), key=len)
        return begin[1].startswith(begin[0]) and end[1].endswith(end[0])


def _may_land(group: ConsumerGroup, topic: str) -> bool:
    """Return whether a group may land a topic of this name; a pattern may match any name.

    The pattern is not evaluated: Python's regular expressions may take forever for a short text.
    """
    source = group.spec.source
    if source.topic_pattern is None:
        return topic in source.topics
    return source.kafka is None or not topic.startswith("__")


def _contains_in_order(name: str, texts: tuple[str, ...]) -> bool:
    """Return whether a name begins and ends with the first and last text, the rest between."""
    if len(texts) == 1:
        return name == texts[0]
    first, *between, last = texts
    position = len(first)
    end = len(name) - len(last)
    if position > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for text in between:
        found = name.find(text, position, end)
        if found < 0:
            return False
        position = found + len(text)
    return True


def may_collide(group: ConsumerGroup, other: ConsumerGroup) -> bool:
    """Return whether one group's object may replace another's; false if no root is nested."""
    if group.spec.output.access.endpoint != other.spec.output.access.endpoint:
        return False
    if (below := _below(group, other)) is not None:
        return _may_collide(group, other, below)
    if (below := _below(other, group)) is not None:
        return _may_collide(other, group, below)
    return False


def _below(outer: ConsumerGroup, inner: ConsumerGroup) -> tuple[str, ...] | None:
    """The folders from one output root to another inside it; None if it is not inside."""
    above, below = (g.spec.output.url.rstrip("/") for g in (outer, inner))
    return tuple(below[len(above) + 1 :].split("/")) if below.startswith(f"{above}/") else None


def _may_collide(outer: ConsumerGroup, inner: ConsumerGroup, below: tuple[str, ...]) -> bool:
    if below[0] == "_landfall":
        return True
    root = tuple(_Folder((name,)) for name in below)
    inside = [(*root, *_names(inner, route)) for route in _routes(inner)]
    outside = [(_destination(route), _names(outer, route)) for route in _routes(outer)]
    if len(outside) * _size(inside) + len(inside) * _size(n for _, n in outside) > MAX_COMPARED:
        return True
    for destination, names in outside:
        if len(root) <= len(destination) and _may_be(root, destination[: len(root)]):
            return True
        if any(len(names) == len(others) and _may_be(names, others) for others in inside):
            return True
    return False


def _may_be(one: tuple[_Folder, ...], other: tuple[_Folder, ...]) -> bool:
    return all(a.may_be(b) for a, b in zip(one, other, strict=True))


def _size(names: Iterable[tuple[_Folder, ...]]) -> int:
    """How many texts there are in the folders of all names."""
    return sum(len(folder.texts) for folders in names for folder in folders)


def _routes(group: ConsumerGroup) -> set[Route]:
    """The routes of all topics, each once, including the group's own route, used or not."""
    own = group.spec.route
    routes = {(own.topic_path, own.pattern)}
    written: Iterator[Any] = (entry.route for entry in group.spec.topics if entry.route)
    for of in written:
        routes.add((of.topic_path or own.topic_path, of.pattern or own.pattern))
    return routes


def _destination(route: Route) -> tuple[_Folder, ...]:
    path, _ = route
    return _folders(path.removesuffix(TOPIC_END)) if path is not None else ()


def _names(group: ConsumerGroup, route: Route) -> tuple[_Folder, ...]:
    """The folders of the group's objects, from the output root on."""
    return (*_destination(route), _Folder(topics_of=group), *_folders(route[1]))


def _folders(template: str) -> tuple[_Folder, ...]:
    found = [[""]]
    for token in tokens(template):
        if token.kind is TokenKind.TEXT:
            first, *others = token.text.split("/")
            found[-1][-1] += first
            found += [[text] for text in others]
        else:
            found[-1].append("")
    return tuple(_Folder(tuple(texts)) for texts in found)
