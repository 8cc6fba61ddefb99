"""What the operator may do about a Backfill, as values. Pure.

``landfall_operator.core.backfills`` returns them in the order in which they must be carried out,
and ``landfall_operator.runtime.backfill_pass`` does. Each may be carried out twice without harm.
"""

from dataclasses import dataclass

from landfall_operator.api.backfill_status import BackfillStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.objects.backfill_pods import Lander


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add the finalizer, before there is anything to discard."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the resource go."""


@dataclass(frozen=True, slots=True)
class StartLanding:
    """Create what the backfill is landed by, unless it exists, and the pod that lands it."""

    landing: Lander


@dataclass(frozen=True, slots=True)
class StartDiscarding:
    """Create the pod that deletes what is in the side lane."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod that lands; it drains, and goes on when it is started again."""

    uid: str


@dataclass(frozen=True, slots=True)
class RemoveRetry:
    """Remove the annotation that asked for another try."""


BackfillAction = (
    AddFinalizer
    | RemoveFinalizer
    | StartLanding
    | StartDiscarding
    | DeletePod
    | RemoveRetry
    | EmitEvent
)


@dataclass(frozen=True, slots=True)
class BackfillDecision:
    """The status to store, and what to do then, in order."""

    status: BackfillStatus
    actions: tuple[BackfillAction, ...] = ()
