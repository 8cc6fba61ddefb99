"""What conditions are derived from, and what each of them is before it has times. Pure."""

from typing import NamedTuple

from landfall import errors
from landfall.api.contract import Status
from landfall.api.next_steps import FILE_PLACEHOLDER
from landfall_operator.api.reasons import Reason
from landfall_operator.api.status import ConditionStatus
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import Driver, GroupObservation
from landfall_operator.objects.names import revision_name

NEEDS_USER = frozenset({*(Reason(reason.value) for reason in errors.Reason), Reason.SECRET_MISSING})
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


def next_command(view: View, step: str) -> str:
    """What to type, as the end of a message; ``step`` is a driver's next step, perhaps empty.

    A driver names the command as it is typed beside a file of the group. In the driver's pod, the
    command knows the group and asks the driver.
    """
    if not step or view.driver is None:
        return ""
    deployment = revision_name(view.observed.name, view.driver.revision)
    command = step.replace(f" {FILE_PLACEHOLDER}", "")
    return f"; next: kubectl -n {view.observed.namespace} exec deploy/{deployment} -- {command}"
