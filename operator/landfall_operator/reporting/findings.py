"""What conditions are derived from, and what each of them is before it has times. Pure."""

from typing import NamedTuple

from landfall import errors
from landfall.api.contract import Status
from landfall_operator.api.reasons import Reason
from landfall_operator.api.status import ConditionStatus
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import Driver, GroupObservation

NEEDS_USER = frozenset(Reason(reason.value) for reason in errors.Reason)
"""Reasons that do not go away before a user acts."""


class View(NamedTuple):
    """What conditions are derived from; ``status`` is None unless the active driver's is fresh."""

    observed: GroupObservation
    desired: DesiredState
    driver: Driver | None
    status: Status | None


class Finding(NamedTuple):
    """A condition without its type and times."""

    status: ConditionStatus
    reason: Reason
    message: str = ""
