"""Whether two groups can give two objects one name, because one's output root is in the other's.

Nested output roots are allowed: their objects mostly differ by topic. Refused
are roots in which a name of the one may be a name of the other, folder by folder. Values of records
have no ``/`` in them, so a template says how many folders there are, and what text they have.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from landfall.api.route_pattern import TOPIC_END, Kind, tokens
from landfall.api.spec import ConsumerGroup

Route: TypeAlias = tuple[str | None, str]
"""``topicPath`` and ``pattern``."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]*")


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
        """Whether both may have the same name; true if nothing speaks against it."""
        return self.accepts(other) and other.accepts(self)

    def accepts(self, other: "_Folder") -> bool:
        """Whether this folder may have a name of the other one, as far as this one knows."""
        is_name = len(other.texts) == 1
        if self.topics_of:
            is_legal = all(_TOPIC.fullmatch(text) for text in other.texts)
            return is_legal and (not is_name or self.topics_of.spec.source.selects(other.texts[0]))
        if is_name:
            between = "[^/]*".join(map(re.escape, self.texts))
            return bool(re.fullmatch(between, other.texts[0]))
        begin = sorted((self.texts[0], other.texts[0]), key=len)
        end = sorted((self.texts[-1], other.texts[-1]), key=len)
        return begin[1].startswith(begin[0]) and end[1].endswith(end[0])


def may_collide(group: ConsumerGroup, other: ConsumerGroup) -> bool:
    """Whether an object of one group may replace one of the other; false if no root is inside."""
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
    for route in _routes(outer):
        destination = _destination(route)
        if len(root) <= len(destination) and _may_be(root, destination[: len(root)]):
            return True
        names = _names(outer, route)
        if any(len(names) == len(others) and _may_be(names, others) for others in inside):
            return True
    return False


def _may_be(one: tuple[_Folder, ...], other: tuple[_Folder, ...]) -> bool:
    return all(a.may_be(b) for a, b in zip(one, other, strict=True))


def _routes(group: ConsumerGroup) -> set[Route]:
    """The routes of all topics, each once; that of the group among them, used or not."""
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
        if token.kind is Kind.TEXT:
            first, *others = token.text.split("/")
            found[-1][-1] += first
            found += [[text] for text in others]
        else:
            found[-1].append("")
    return tuple(_Folder(tuple(texts)) for texts in found)
