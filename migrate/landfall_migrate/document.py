"""The group as a document, once its own parser has accepted it. Pure.

What the parser refuses is taken out again and reported with the keys that it came from, until it
accepts the rest. What is required, or decides what is landed, and is not in the input, gets a value
that the parser refuses: a draft that is not complete is no valid group, and none may land with a
default that no user has chosen.
"""

import re
from collections.abc import Mapping
from typing import Any

from landfall.api.group_text import FieldPath
from landfall.api.spec import parse_group
from landfall.errors import Stalled
from landfall_migrate.draft import SET_ME, Draft

PLACEHOLDERS: Mapping[FieldPath, object] = {
    ("source", "kafka", "bootstrapServers"): "set-me.invalid:9092",
    ("output", "url"): "s3://SET-ME",
}
"""Values of required fields that the input does not give, by which the other fields are checked."""
NO_TOPIC = "set-me"
_MAX_REFUSALS = 50
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def accepted(draft: Draft) -> dict[str, Any]:
    """The document, as far as the parser of groups accepts it, and what is undecided.

    Raises:
        Stalled: it does not accept the rest, which is a bug.
    """
    made = _parsed(draft)
    for path, value in draft.undecided.items():
        inner = made["spec"]
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
        draft.missing.append(f"{'.'.join(path)}: set it: {draft.comments[path]}")
    return made


def _parsed(draft: Draft) -> dict[str, Any]:
    for _ in range(_MAX_REFUSALS):
        _fill(draft)
        document = draft.close()
        try:
            parse_group(document)
        except Stalled as refused:
            if not _remove(draft, str(refused).splitlines()):
                raise
        else:
            return document
    parse_group(document)
    return document


def _fill(draft: Draft) -> None:
    kafka = draft.spec.setdefault("source", {}).setdefault("kafka", {})
    if not kafka.get("topics") and not kafka.get("topicPattern"):
        kafka.pop("topics", None)
        why = "no topic is named"
        draft.leave_open("source.kafka.topicPattern", why, f"({SET_ME}", NO_TOPIC)
    for path, value in PLACEHOLDERS.items():
        inner = draft.spec
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        if not inner.get(path[-1]):
            draft.leave_open(".".join(path), "the input does not name it", meanwhile=value)


def _remove(draft: Draft, errors: list[str]) -> bool:
    """Remove the fields that errors name; returns whether there was one."""
    found = False
    for error in errors:
        where, _, why = error.partition(": ")
        steps = tuple(name or index for name, index in _STEP.findall(where))
        if steps[:1] != ("spec",):
            continue
        for path in _removable(draft, steps[1:]):
            draft.remove(path, f"{where}: {_without(draft.value(path), why)}")
            found = True
    return found


def _removable(draft: Draft, steps: FieldPath) -> list[FieldPath]:
    """The fields that an error is about: the one it names, or the nearest section's fields."""
    if steps[:1] == ("topics",) and draft.spec.get("topics"):
        return [("topics",)]
    exact = [path for path in draft.origins if path == steps[: len(path)]]
    if exact:
        return exact
    for length in range(len(steps), 1, -1):
        if below := [path for path in draft.origins if path[:length] == steps[:length]]:
            return below
    return []


def _without(value: object, message: str) -> str:
    """An error without the value that it quotes: no report holds values."""
    quoted = re.sub(r", got ('[^']*'|\"[^\"]*\")", "", message)
    return quoted.replace(f": {value!r}", "") if value else quoted
