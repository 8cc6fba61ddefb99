"""Decides when a status that differs from the stored one is written. Pure.

With a thousand groups, writes of the status are nearly all that the operator asks of the API
server. So what users and tools react to is written at once, and numbers only when they change
enough:

    what differs                                                    time since the last write
    phase, its reason, a condition's status or reason               none
    whether a publisher keeps up                                    none
    that a run has ended, or that the group sleeps                  none
    what the operator reads back after a restart; image, topics, …  ``SOON``
    ready executors, which change only with the group's size        ``SOON``
    a number by a quarter of it, or from or to zero                 ``NUMBERS``
    the words of a message; the age of old numbers                  ``NUMBERS``
    anything else                                                   ``REFRESH``
    only the time of the driver's answer, or of a look for files    it is not written

So stored numbers are never wrong by more than a quarter for longer than ``NUMBERS`` and a pass, and
``status.lag.time`` records when the driver reported them.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from landfall_operator.api.status import GroupStatus
from landfall_operator.humanize import shortened

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=5)
NUMBERS = timedelta(minutes=1)
REFRESH = timedelta(minutes=5)
SHARE = 0.25
"""The share by which a number must differ."""

_DIGITS = re.compile(r"\d+")
_ESSENCE = re.compile(
    r"\.(phase|reason|observed_generation|conditions\.\d+\.(type|status|reason)"
    r"|publishers\.\d+\.(name|state|blocked)|(schedule|idle)\.sleeping|idle\.next_look|runs\.0\.(until|ended))"
)
_MEASURED = re.compile(
    r"\.(lag|commits|rate|autoscaling|conditions|publishers|feeds|compaction)\..*"
)
_READ_BACK = re.compile(r"\.autoscaling\.(desired|ineffective(\..*)?)")
# What follows from other fields: the text of a number, the order of the worst, the last commit.
_DERIVED = re.compile(
    r"\.(lag\.(records_text|seconds_text|worst\..*)|commits\.last_time"
    r"|published|files|publishers\.\d+\.(lag_text|last_time)"
    r"|conditions\.\d+\.(observed_generation|last_transition_time))"
)
_TIME = re.compile(r"\.(lag|publishers\.\d+)\.time|\.feeds\.\d+\.last_look")
_TEXT_WITH_AGE = ".lag.seconds_text"


def write_interval(before: GroupStatus, after: GroupStatus) -> timedelta | None:
    """The time that must have passed since the last write; None if nothing has to be written."""
    if before == _at_the_time_of(before, after):
        return None
    old = dict(_fields(before.model_dump()))
    new = dict(_fields(after.model_dump()))
    changed = [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
    # The driver has not answered again, so the text shows how old the same numbers are by now.
    if not any(map(_TIME.fullmatch, changed)) and _TEXT_WITH_AGE in changed:
        changed.remove(_TEXT_WITH_AGE)
        return min([NUMBERS, *(_interval(path, old.get(path), new.get(path)) for path in changed)])
    return min(
        _interval(path, old.get(path), new.get(path))
        for path in changed
        if not _TIME.fullmatch(path)
    )


def _at_the_time_of(before: GroupStatus, after: GroupStatus) -> GroupStatus:
    """The later status with the times of the driver's earlier answer."""
    times = {publisher.name: publisher.time for publisher in before.publishers or ()}
    publishers = tuple(
        publisher.model_copy(update={"time": times.get(publisher.name, publisher.time)})
        for publisher in after.publishers or ()
    )
    looks = {feed.topic: feed.last_look for feed in before.feeds or ()}
    feeds = tuple(
        feed.model_copy(update={"last_look": looks.get(feed.topic, feed.last_look)})
        for feed in after.feeds or ()
    )
    changes: dict[str, object] = {"publishers": publishers or None, "feeds": feeds or None}
    if before.lag and after.lag:
        changes["lag"] = after.lag.model_copy(update={"time": before.lag.time})
    return after.model_copy(update=changes)


def _interval(path: str, old: object, new: object) -> timedelta:
    """The interval for one field that differs; None stands for a field that does not exist."""
    if _ESSENCE.fullmatch(path):
        return AT_ONCE
    if _DERIVED.fullmatch(path):
        return REFRESH
    if _READ_BACK.fullmatch(path) or not _MEASURED.fullmatch(path):
        return SOON
    if isinstance(old, int | None) and isinstance(new, int | None):
        return NUMBERS if _differ(old or 0, new or 0) else REFRESH
    same_words = isinstance(old, str) and isinstance(new, str) and _words(old) == _words(new)
    return REFRESH if same_words else NUMBERS


def _differ(old: int, new: int) -> bool:
    """Return whether two numbers differ by a quarter of the greater one, or one of them is zero."""
    return abs(old - new) >= SHARE * max(abs(old), abs(new))


def _words(text: str) -> str:
    """A message without its numbers."""
    return _DIGITS.sub("", text)


def _fields(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The fields of a status that have no fields of their own, by path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _fields(inner, f"{path}.{index}")
    else:
        yield path, value


MAX_TEXT = 2500
"""Characters of a text: a message with one of a driver, and the command that follows."""
MAX_ITEMS = 100
"""Items of a list; each list that has a smaller bound of its own has it already."""

Status = TypeVar("Status", bound=BaseModel)


def bounded(status: Status) -> Status:
    """The status with its texts and lists cut; the same object if nothing is too long."""
    held = ((name, getattr(status, name)) for name in type(status).model_fields)
    changed = {name: new for name, old in held if (new := _bounded(old)) is not old}
    return status.model_copy(update=changed) if changed else status


def _bounded(value: Any) -> Any:
    if type(value) is str:
        return shortened(value, MAX_TEXT)
    if isinstance(value, BaseModel):
        return bounded(value)
    if isinstance(value, tuple):
        items = tuple(map(_bounded, value[:MAX_ITEMS]))
        same = len(items) == len(value) and all(map(_is, items, value))
        return value if same else items
    return value


def _is(one: object, other: object) -> bool:
    return one is other
