"""Error messages for an invalid document, each with the field's path and what is wrong.

pydantic's own messages speak of Python types and of its union tags; these speak of YAML.
"""

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from landfall.api.values import duration_text, format_quantity
from landfall.api.words import did_you_mean

MAX_ERRORS = 100
"""Errors of one document that are described; one more line has the number of those that are not."""
VARIANT = "variant:"
"""Prefix of a union's tags. pydantic puts the tag into the path of an error, where a user who wrote
no such field must not see it.
"""


BY_TOPIC = "cannot differ between topics"
_NOT_BY_TOPIC: Mapping[str, str] = {
    "uploadPolicy": "topics have upload policies of their own in spec.uploadPolicy.overrides",
    "badRecords": "topics have limits of their own in spec.badRecords.overrides",
    "generation": f"{BY_TOPIC}: the group has one",
    "source": f"{BY_TOPIC}: the group reads them from one Kafka cluster",
    "url": f"{BY_TOPIC}: all objects and the ledger are under one output root",
    **dict.fromkeys(
        ("store", "s3", "azure", "gcs", "hdfs"),
        f"{BY_TOPIC}: all objects and the ledger are in one store",
    ),
    "existingObjects": f"{BY_TOPIC}: set spec.output.existingObjects",
}
"""What to do instead of setting a field in an entry of ``spec.topics``, which has no such field."""


Sections = Mapping[str, Collection[str]]
"""The fields of each section, by the section's own name."""


def spec_errors(
    error: ValidationError, sections: Sections, within: tuple[int | str, ...] = ()
) -> list[str]:
    """One line per error, up to ``MAX_ERRORS``. For an unknown field, a known one is suggested.

    ``within`` is where the document that was validated is in the user's.
    """
    details = error.errors()
    lines = [
        f"{_path((*within, *detail['loc']))}: {_describe(detail, sections, within)}"
        for detail in details[:MAX_ERRORS]
    ]
    more = len(details) - len(lines)
    return [*lines, f"and {more:,} more errors"] if more else lines


def _path(location: tuple[int | str, ...]) -> str:
    parts = [part for part in location if not str(part).startswith(VARIANT)]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.lstrip(".") or "document"


def _describe(error: Mapping[str, Any], sections: Sections, within: tuple[int | str, ...]) -> str:
    found = error["input"]
    match error["type"]:
        case "extra_forbidden":
            return _unknown((*within, *error["loc"]), sections)
        case "missing":
            return "is missing"
        case "value_error":
            return str(error["ctx"]["error"])
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a mapping of fields, got {_kind(found)}"
        case "tuple_type" | "list_type":
            is_pattern = error["loc"][-1] == "topics" and _PATTERN.search(str(found))
            hint = ", did you mean topicPattern?" if is_pattern else ""
            return f"must be a list, got {_kind(found)}{hint}"
    return f"{_rule(error)}, got {_abbreviate(found)}{_nearest(error)}"


def _unknown(location: tuple[int | str, ...], sections: Sections) -> str:
    match location:
        case ("spec", "topics", _, *_, str(name)) if name in _NOT_BY_TOPIC:
            return _NOT_BY_TOPIC[name]
    written = str(location[-1])
    name = _camel(written)
    names = [str(part) for part in location[:-1] if isinstance(part, str)]
    section = next((part for part in reversed(names) if not part.startswith(VARIANT)), "")
    own = [field for field in sections.get(section, ()) if field != written]  # of a namesake
    hint = did_you_mean(name, own) or _of_another(name, sections)
    return f"unknown field{hint}"


def _of_another(name: str, sections: Sections) -> str:
    """Where a field is that has this name, if it is in one section alone; else nothing."""
    owners = [section for section, fields in sections.items() if name in fields]
    return f"; {name} is a field of {owners[0]}" if len(owners) == 1 else ""


def _rule(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "greater_than_equal" | "less_than_equal" | "greater_than" | "less_than":
            return f"must be {_bound(error)}"
    return _plain(error["msg"])


def _nearest(error: Mapping[str, Any]) -> str:
    """The allowed word that is meant, if there are words to choose from and one is much like it."""
    if own := _OWN_WORDS.get(error["type"]):
        return did_you_mean(str(error["input"]), own)
    words = re.findall("'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    return did_you_mean(str(error["input"]), words)


_PATTERN = re.compile(r"[*?+|^$()\\]")
_OWN_WORDS: Mapping[str, tuple[str, ...]] = {
    "starting_offsets": ("Earliest", "Latest"),
    "on_data_loss": ("Stall", "SkipAndRecord"),
}
"""The words of unions that have error types of their own."""
_KIBI = 1024
# pydantic gives the bound of a duration as Python writes it.
_TIMEDELTA = re.compile(r"datetime\.timedelta\((?:days=(\d+))?(?:, )?(?:seconds=(\d+))?\)")
_BOUNDS = {"ge": "at least", "le": "at most", "gt": "above", "lt": "below"}


def _bound(error: Mapping[str, Any]) -> str:
    """The bound in the words of YAML: ``at least 5Mi``."""
    ((key, value),) = error["ctx"].items()
    if match := _TIMEDELTA.fullmatch(str(value)):
        length = timedelta(days=int(match[1] or 0), seconds=int(match[2] or 0))
        return f"{_BOUNDS[key]} {duration_text(length)}"
    is_size = isinstance(value, int) and value >= _KIBI and not value % _KIBI
    return f"{_BOUNDS[key]} {format_quantity(value) if is_size else value}"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(message: str) -> str:
    """One of pydantic's messages ("Input should be a valid string") as "must be text"."""
    _, should, rule = message.partition("should ")
    if not should:
        return message[:1].lower() + message[1:]
    rule = rule.replace("a valid string", "text").replace("a valid integer", "a whole number")
    return "must " + rule.replace(" after validation", "")


def _abbreviate(value: object) -> str:
    # A mapping or list is named by its kind only: it may be long, and may hold a secret.
    return repr(value) if isinstance(value, str | int | float) or value is None else _kind(value)


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case str():
            return "text"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return repr(value)
