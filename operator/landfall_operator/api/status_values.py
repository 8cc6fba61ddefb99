"""Values that the parts of a group's status share. Pure."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

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
