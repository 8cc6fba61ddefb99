"""Values that the statuses of groups and Backfills share, and how a stored one is read. Pure."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from landfall.api.pod_spec import Model

Count = Annotated[int, Field(ge=0)]

UNOBSERVED = -1
"""The ``observedGeneration`` of an object that no operator has seen yet: the API server sets it.

So tools that compare it with ``metadata.generation`` wait from the first moment on.
"""
ObservedGeneration = Annotated[int, Field(ge=UNOBSERVED)]


def whole_seconds(moment: datetime) -> datetime:
    """The time without microseconds, as Kubernetes writes it."""
    return moment.replace(microsecond=0)


Moment = Annotated[datetime, AfterValidator(whole_seconds)]


def printable(text: str) -> str:
    r"""The text with what commands a terminal, or is not seen, as escapes; lines stay.

    Values of annotations, names and answers of drivers are in messages that other people read.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


Text = Annotated[str, AfterValidator(printable)]
"""What explains something to people."""

ConditionStatus = Literal["True", "False", "Unknown"]


class AnyCondition(Model):
    """A condition of any resource of Landfall's, by the Kubernetes API conventions."""

    type: str
    """Type of the condition."""
    status: ConditionStatus
    """Whether the condition holds."""
    reason: str
    """Reason for the status, in one word."""
    message: Text = ""
    """Explanation of the status."""
    observed_generation: ObservedGeneration
    """The metadata.generation that this refers to."""
    last_transition_time: Moment
    """When the condition's status last changed."""


UNKNOWN_REASON = "Unknown"
"""Replaces a reason that only a newer release knows."""
StatusModel = TypeVar("StatusModel", bound=BaseModel)


def readable(model: type[StatusModel], stored: Mapping[str, Any]) -> StatusModel:
    """The stored status; if another release wrote it, the parts that this release can read.

    Each round removes what it cannot read, and the enclosing value in the next round, so a few
    rounds suffice for any stored text.
    """
    left = deepcopy(dict(stored))
    while True:
        try:
            return model.model_validate(left, by_alias=True)
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False, include_context=False, include_input=False)
        unreadable = set()
        for error in errors:
            path = error["loc"]
            if error["type"] == "enum" and path[-1] == "reason":
                # What a newer release knows of stays, such as the rejection of a spec.
                _item(left, path[:-1])["reason"] = UNKNOWN_REASON
            else:
                # A mapping without a required field is removed as a whole.
                unreadable.add(path[:-1] if error["type"] == "missing" else path)
        # The last ones first, and what is inside before what is around it: other places stay.
        for path in sorted(unreadable, key=_in_order, reverse=True):
            del _item(left, path[:-1])[path[-1]]


def _in_order(path: Sequence[str | int]) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _item(value: Any, path: Sequence[str | int]) -> Any:
    """The item at a path of mapping keys and list indexes."""
    for step in path:
        value = value[step]
    return value
