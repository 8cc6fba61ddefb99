"""Every action that the operator can take for a group or a Backfill, as values. Pure.

``landfall_operator.core.decide`` and ``landfall_operator.core.backfills`` return actions in the
order in which they must be executed, and ``landfall_operator.runtime.action_executor`` executes
them. Every action is idempotent: objects are
applied by name, and drivers receive the desired state rather than a step. The union ``Action`` is
closed, so ``match`` with ``assert_never`` proves that the executor handles every kind.

The class names are the values of the label ``action`` of ``landfall_operator_actions_total``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from landfall_operator.api.status import PlanStatus, RequestStatus, RolloutStatus
from landfall_operator.objects.backfill_pods import Lander
from landfall_operator.objects.names import reference
from landfall_operator.objects.overlay import Json


@dataclass(frozen=True, slots=True)
class SaveRollout:
    """Write stage and roles into the status, before anything else is done about them.

    The answer to a request is written with what it changes: a bare annotation is removed later, a
    value is not carried out again, and who waits for the answer reads the status then.
    """

    rollout: RolloutStatus
    plan: PlanStatus | None
    last_request: RequestStatus | None
    answered_requests: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Post a Kubernetes Event about the group or the Backfill."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add Landfall's finalizer, before there is anything to drain or to discard."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove Landfall's finalizer: let the group or the Backfill go."""


@dataclass(frozen=True, slots=True)
class RemoveAnnotation:
    """Remove an annotation: the user's request is done."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateRevision:
    """Create the ControllerRevision of a spec before it runs; an existing one stays unchanged."""

    manifest: Json


@dataclass(frozen=True, slots=True)
class EnsureToken:
    """Create the Secret with a control token, which a driver of an earlier release needs."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or change an object by server-side apply, with the operator's field manager."""

    manifest: Json

    def __str__(self) -> str:
        return reference(self.manifest)


@dataclass(frozen=True, slots=True)
class ScaleDriver:
    """Set the replicas of a revision's Deployment; at 0 the driver drains, hands over and ends."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object that the group owns; its pods get their grace period."""

    kind: Literal["Deployment", "ConfigMap", "ControllerRevision", "Backfill"]
    name: str


@dataclass(frozen=True, slots=True)
class SendScale:
    """Send a driver its desired executor count: ``landfall.api.contract.WantExecutors``."""

    revision: str
    wanted: int


@dataclass(frozen=True, slots=True)
class SendHandOver:
    """Command a driver to hand the lane over: ``landfall.api.contract.HandOver``."""

    revision: str
    to: str


@dataclass(frozen=True, slots=True)
class SendTakeOver:
    """Command a driver to take the lane and fence its owner: ``landfall.api.contract.TakeOver``."""

    revision: str


@dataclass(frozen=True, slots=True)
class SendTryAgain:
    """Let a driver try again what it waits for: ``landfall.api.contract.TryAgain``."""

    revision: str


Action = (
    SaveRollout
    | EmitEvent
    | AddFinalizer
    | RemoveFinalizer
    | RemoveAnnotation
    | CreateRevision
    | EnsureToken
    | Apply
    | ScaleDriver
    | Delete
    | SendScale
    | SendHandOver
    | SendTakeOver
    | SendTryAgain
)


# --------------------------------------------------------------------------------- of a Backfill


@dataclass(frozen=True, slots=True)
class StartLanding:
    """Create the objects that the pod of a backfill needs, unless they exist, and the pod."""

    landing: Lander


@dataclass(frozen=True, slots=True)
class StartDiscarding:
    """Create the pod that deletes the objects of the side lane."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod that lands; it drains, and continues when it is started again."""

    uid: str


SharedAction = EmitEvent | AddFinalizer | RemoveFinalizer | RemoveAnnotation
"""Actions that are the same for a group and for a Backfill."""
BackfillAction = SharedAction | StartLanding | StartDiscarding | DeletePod
