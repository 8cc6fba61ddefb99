"""Bounds the lists and texts of a status, whatever it was made from: specs, pods, drivers. Pure.

What drivers report is cut when it is read (``landfall.api.status_summary``), but messages are put
together from several texts, and some quote a spec.
"""

from typing import Any, TypeVar

from pydantic import BaseModel

from landfall_operator.humanize import shortened

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
