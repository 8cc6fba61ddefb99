"""Error messages for an invalid document, each with the field's path and what is wrong.

pydantic's own messages speak of Python types and of its union tags; these speak of YAML.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

VARIANT = "variant:"
"""Prefix of a union's tags. pydantic puts the tag into the path of an error, where a user who wrote
no such field must not see it.
"""


def spec_errors(error: ValidationError, known_fields: Collection[str]) -> list[str]:
    """One line per error. For an unknown field, a similar one of ``known_fields`` is suggested."""
    return [f"{_path(found['loc'])}: {_describe(found, known_fields)}" for found in error.errors()]


def _path(location: tuple[int | str, ...]) -> str:
    return (
        ".".join(str(part) for part in location if not str(part).startswith(VARIANT)) or "document"
    )


def _describe(error: Mapping[str, Any], known_fields: Collection[str]) -> str:
    match error["type"]:
        case "extra_forbidden":
            similar = get_close_matches(
                _camel(str(error["loc"][-1])), known_fields, n=1, cutoff=0.75
            )
            return f"unknown field, did you mean {similar[0]}?" if similar else "unknown field"
        case "missing":
            return "is missing"
        case "value_error":
            return str(error["ctx"]["error"])
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a mapping of fields, got {_kind(error['input'])}"
        case "tuple_type" | "list_type":
            return f"must be a list, got {_kind(error['input'])}"
        case _:
            return f"{_plain(error['msg'])}, got {_abbreviate(error['input'])}"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(message: str) -> str:
    """One of pydantic's messages ("Input should be a valid string") as "must be text"."""
    _, should, rule = message.partition("should ")
    if not should:
        return message[:1].lower() + message[1:]
    return "must " + rule.replace("a valid string", "text").replace(
        "a valid integer", "a whole number"
    )


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
