"""Everything an operator may do to the world, as values. ``decide`` makes them, the edge carries them out, in order.

Each can be carried out twice without harm: objects are applied by name, drivers are told levels. A
closed union, so that ``match`` with ``assert_never`` proves that the edge knows them all.
"""

from dataclasses import dataclass
from typing import Literal

from landfall_operator.api.status import PlanStatus, RolloutStatus
from landfall_operator.objects.names import reference
from landfall_operator.objects.overlay import Json


@dataclass(frozen=True, slots=True)
class SaveRollout:
    """Write stage and roles into the status, before anything else is done about them."""

    rollout: RolloutStatus
    plan: PlanStatus | None


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Post a Kubernetes Event about the group."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer on the group, so that it is drained before it goes."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off the group."""


@dataclass(frozen=True, slots=True)
class CreateRevision:
    """Create the ControllerRevision of a spec that is to be run; one that is there is left as it is."""

    manifest: Json


@dataclass(frozen=True, slots=True)
class EnsureToken:
    """Create the Secret with a new random control token, if there is none."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or change an object, by server-side apply under our field manager."""

    manifest: Json

    def __str__(self) -> str:
        return reference(self.manifest)


@dataclass(frozen=True, slots=True)
class ScaleDriver:
    """Set the replicas of a revision's Deployment: 0 ends the driver, which drains and hands over by itself."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of ours; its pods get their grace period."""

    kind: Literal["Deployment", "ConfigMap", "ControllerRevision"]
    name: str


@dataclass(frozen=True, slots=True)
class SendScale:
    """Tell a driver how many executors there should be: ``landfall.api.contract.WantExecutors``."""

    revision: str
    wanted: int


@dataclass(frozen=True, slots=True)
class SendHandOver:
    """Tell a driver to hand the lane over: ``landfall.api.contract.HandOver``."""

    revision: str
    to: str


@dataclass(frozen=True, slots=True)
class SendTakeOver:
    """Tell a driver to take the lane, fencing whoever has it: ``landfall.api.contract.TakeOver``."""

    revision: str


Action = (
    SaveRollout
    | EmitEvent
    | AddFinalizer
    | RemoveFinalizer
    | CreateRevision
    | EnsureToken
    | Apply
    | ScaleDriver
    | Delete
    | SendScale
    | SendHandOver
    | SendTakeOver
)
