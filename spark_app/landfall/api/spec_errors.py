"""What is wrong with a document, told to whoever wrote it: the path to the field, then the fault, a line each."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

VARIANT = "variant:"
"""How the tags of a union begin, which are our names and no part of a user's path."""


def spec_errors(error: ValidationError, known_fields: Collection[str]) -> list[str]:
    """A line per fault; a misspelt field is told which one of the known fields it resembles."""
    return [f"{_path(fault['loc'])}: {_said(fault, known_fields)}" for fault in error.errors()]


def _path(location: tuple[int | str, ...]) -> str:
    return (
        ".".join(str(part) for part in location if not str(part).startswith(VARIANT)) or "document"
    )


def _said(fault: Mapping[str, Any], known_fields: Collection[str]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            similar = get_close_matches(
                _camel(str(fault["loc"][-1])), known_fields, n=1, cutoff=0.75
            )
            return f"unknown field, did you mean {similar[0]}?" if similar else "unknown field"
        case "missing":
            return "is missing"
        case "value_error":
            return str(fault["ctx"]["error"])
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a mapping of fields, got {_kind(fault['input'])}"
        case "tuple_type" | "list_type":
            return f"must be a list, got {_kind(fault['input'])}"
        case _:
            return f"{_plain(fault['msg'])}, got {_shown(fault['input'])}"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(message: str) -> str:
    _, should, rule = message.partition("should ")
    if not should:
        return message[:1].lower() + message[1:]
    return "must " + rule.replace("a valid string", "text").replace(
        "a valid integer", "a whole number"
    )


def _shown(value: object) -> str:
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
