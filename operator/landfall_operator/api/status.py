"""The status of a ``ConsumerGroup``: what the operator writes for people, tools and itself.

``rollout`` is the operator's own log of intent: it is written before anything is done, so that an
operator which died at any point reads it and goes on. Everything else can be observed again. Values
are rounded before they get here, so that a status only changes when there is something to tell.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from landfall.api.pod_spec import Model
from landfall_operator.api.reasons import ConditionType, Phase, Reason

Count = Annotated[int, Field(ge=0)]


def whole_seconds(moment: datetime) -> datetime:
    """As Kubernetes writes times; people read no microseconds."""
    return moment.replace(microsecond=0)


Moment = Annotated[datetime, AfterValidator(whole_seconds)]


class Worst(Model):
    """One of the topic partitions that lag most."""

    topic: str
    """Its topic."""
    partition: Count
    """Its Kafka partition."""
    records: Count
    """Offsets not landed yet."""
    seconds: Count
    """Age of the oldest of them."""
    overdue_seconds: Count = 0
    """How much longer it has waited than its upload policy allows."""
    blocked: str | None = None
    """Why it stands still, if it does."""


class LagStatus(Model):
    """How far the group is behind. Lag swings up to the upload policy by design; overdue is what that does not explain."""

    records: Count
    """Offsets not landed yet, to two digits."""
    seconds: Count
    """Age of the oldest of them."""
    overdue_seconds: Count
    """How much longer it has waited than its upload policy allows."""
    records_text: str
    """The records, for people."""
    seconds_text: str
    """The seconds, for people; the age of the numbers is added when they are old."""
    time: Moment
    """When the driver told these numbers."""
    eta_seconds: Count | None = None
    """In how long a backlog is worked off at the present speed; left out when it grows or there is
    none.
    """
    worst: tuple[Worst, ...] = ()
    """The topic partitions that lag most."""
    blocked: Count = 0
    """How many topic partitions wait for a person."""


class FailureStatus(Model):
    """The last thing that went wrong."""

    time: Moment
    """When it happened."""
    reason: str
    """What it was, in one word."""
    message: str
    """What it was, in a sentence."""


class CommitsStatus(Model):
    """Commits of the group."""

    total: Count
    """Since the ledger began."""
    failures: Count
    """Of the present driver, since it started."""
    consecutive_failures: Count
    """Since the last commit."""
    last_time: Moment | None = None
    """When the last commit was made."""
    last_failure: FailureStatus | None = None
    """What went wrong last."""


class RateStatus(Model):
    """Speed, over the last minutes; to two digits."""

    arriving: Count
    """Records per second that topics grow by."""
    landing: Count
    """Records per second that are landed."""


class ExecutorsStatus(Model):
    """Executors of the driver."""

    wanted: Count
    """How many there should be."""
    ready: Count
    """How many are at work."""


class AutoscalingStatus(Model):
    """What the autoscaler thinks."""

    desired: Count
    """How many executors it asks for."""
    reason: str
    """Why, in one word."""
    message: str
    """Why, with the numbers."""


class PlanStatus(Model):
    """What the last change of the spec amounts to; written before anything is done about it."""

    change: Literal["Ignore", "Live", "Restart", "NewGeneration"]
    """The strongest thing that any of the changed fields asks for."""
    fields: tuple[str, ...]
    """What changed."""
    observed_generation: Count
    """The metadata.generation this is about."""


class Stage(StrEnum):
    """How far a group is in a change of its driver. The table in ``landfall_operator.core.rollout`` says what follows what."""

    SETTLED = "Settled"
    WARMING = "Warming"
    YIELDING = "Yielding"
    DRAINING = "Draining"
    OPENING = "Opening"
    WATCHING = "Watching"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    DELETED = "Deleted"


class Rejected(Model):
    """A spec that was taken back, and is not tried again until it is changed."""

    digest: str
    """What the spec is known by."""
    reason: Reason
    """Why it was taken back, in one word."""
    message: str
    """Why, in a sentence."""
    generation: Count
    """The label it had in file names."""


class RolloutStatus(Model):
    """What the operator is about to do or in the middle of: read back after a restart."""

    stage: Stage = Stage.SETTLED
    """How far it is."""
    since: Moment | None = None
    """Since when it is at this stage."""
    active: str | None = None
    """The revision that lands."""
    target: str | None = None
    """The revision that is to land next."""
    previous: str | None = None
    """The revision that comes back if the active one fails."""
    rejected: Rejected | None = None
    """The spec that was taken back."""


class Outcome(Model):
    """One revision that was run."""

    revision: str
    """Its name."""
    generation: Count
    """Its label in file names."""
    image: str
    """Image of its driver and executors."""
    since: Moment
    """When it was made."""
    outcome: Literal["Active", "Pending", "Superseded", "RolledBack"]
    """What became of it."""


class Condition(Model):
    """One condition, by the API conventions."""

    type: ConditionType
    """What it is about."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Reason
    """Why, in one word; docs/operations.md has a section for each."""
    message: str = ""
    """Why, in a sentence."""
    observed_generation: Count
    """The metadata.generation this is about."""
    last_transition_time: Moment
    """When its status last changed."""


class GroupStatus(Model):
    """What is known of the group."""

    observed_generation: Count = 0
    """The metadata.generation all this is about."""
    phase: Phase = Phase.PENDING
    """A summary of the conditions for people; tools read the conditions."""
    reason: Reason | None = None
    """Why the phase is what it is."""
    active_generation: Count | None = None
    """The generation that lands."""
    image: str | None = None
    """Image of the driver that lands."""
    topics: str | None = None
    """Topics that are landed, or their pattern."""
    replicas: Count = 0
    """Executors at work; the scale subresource tells it."""
    selector: str = ""
    """Labels of the executors' pods; the scale subresource tells it."""
    executors: ExecutorsStatus | None = None
    """How many executors there are and should be."""
    lag: LagStatus | None = None
    """How far the group is behind."""
    commits: CommitsStatus | None = None
    """Commits of the group."""
    rate: RateStatus | None = None
    """How fast records arrive and are landed."""
    autoscaling: AutoscalingStatus | None = None
    """What the autoscaler thinks."""
    plan: PlanStatus | None = None
    """What the last change of the spec amounts to."""
    rollout: RolloutStatus = RolloutStatus()
    """What the operator is in the middle of; its own log of intent."""
    history: tuple[Outcome, ...] = ()
    """Revisions that were run, newest first."""
    conditions: tuple[Condition, ...] = ()
    """What holds and what does not."""
