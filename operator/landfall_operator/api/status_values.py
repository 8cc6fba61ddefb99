"""Values that the parts of a group's status share. Pure."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

Count = Annotated[int, Field(ge=0)]


def whole_seconds(moment: datetime) -> datetime:
    """The time without microseconds, as Kubernetes writes it."""
    return moment.replace(microsecond=0)


Moment = Annotated[datetime, AfterValidator(whole_seconds)]
