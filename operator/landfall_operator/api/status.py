"""The status of a ``ConsumerGroup``, which the operator writes for users, tools and itself. Pure.

``rollout`` is the operator's intent log: the operator writes it before it acts, so an operator that
restarts at any point reads it and continues. Everything else can be observed again. Values are
rounded before they get here, so that a status changes only when it contains something new.

The docstrings of fields are the descriptions that ``kubectl explain`` shows.
"""

from enum import StrEnum
from typing import Literal

from landfall.api.backfill_report import OldAndNew, RowCounts
from landfall.api.pod_spec import Model
from landfall_operator.api.reasons import ConditionReason, ConditionType, Phase
from landfall_operator.api.status_values import (
    UNOBSERVED,
    AnyCondition,
    Count,
    Moment,
    ObservedGeneration,
    Text,
)

MAX_SAMPLE = 6
"""Rows of a comparison that the status keeps."""
MAX_SAMPLE_TEXT = 240
"""Characters of each."""


class TrialResult(StrEnum):
    """The result of a trial."""

    PENDING = "Pending"
    """The revision is being tried."""
    PASSED = "Passed"
    """Nothing speaks against the revision; it takes over."""
    REFUSED = "Refused"
    """The comparison speaks against the revision; it does not take over."""
    FAILED = "Failed"
    """The trial did not end, or not in time; the revision does not take over."""
    SKIPPED = "Skipped"
    """There is nothing to try the revision by; it takes over."""
    OVERRULED = "Overruled"
    """The user continues with the revision, regardless of its trial."""
    ABORTED = "Aborted"
    """The user gave the trial up, or asks for another revision."""


class TrialComparison(Model):
    """The limits that the trial was judged by."""

    rows: RowCounts
    """Rows that both revisions landed."""
    dead_letters: OldAndNew
    """Records that became dead letters."""
    records_per_second: Count
    """How fast the new revision landed them."""
    sample: tuple[str, ...] = ()
    """Some rows that only one of the two has."""


class TrialStatus(Model):
    """A trial of a revision by strategy Shadow or Canary."""

    revision: str
    """The revision that is tried."""
    terms: str
    """What it is judged by, as it was asked for when the trial began."""
    since: Moment
    """When the trial began."""
    backfill: str = ""
    """The Backfill that lands again what was landed; empty if there is none."""
    result: TrialResult = TrialResult.PENDING
    """What came of it."""
    reason: ConditionReason | None = None
    """Why the revision does not take over, in one word."""
    message: Text = ""
    """Why."""
    comparison: TrialComparison | None = None
    """What both revisions landed."""


class RunResult(StrEnum):
    """The outcome of a range."""

    LANDED = "Landed"
    """Everything that the topics had in it."""
    LEFT = "Left"
    """Something of it is not landed: ``left`` names the topics."""


class GroupRunStatus(Model):
    """A run: a closed range of the topics that has ended."""

    until: Moment
    """End of the range, by the Kafka timestamps of its records."""
    began: Moment
    """When a driver began to land the range."""
    ended: Moment
    """When all of it was visible to readers."""
    seconds: Count
    """Seconds that this took."""
    records: Count
    """Records landed since the run before."""
    bad_records: Count = 0
    """Records kept as dead letters since the run before."""
    bad_ratio: str = "0"
    """Share of these in all records, such as 0.0012."""
    objects: Count
    """Objects landed since the run before."""
    bytes: Count
    """Size of these objects."""
    batches: Count = 0
    """Batches in which they were landed, each decided by one COMMIT."""
    slices: Count | None = None
    """Pieces of topic partitions that the tasks landed, cut to take about the same time; absent for
    the first run.
    """
    task_seconds: Count | None = None
    """Seconds that tasks took for these, together."""
    longest_slice: Count | None = None
    """Seconds that the longest of these took."""
    result: RunResult
    """Landed, or Left if something of the range is not landed."""
    left: tuple[str, ...] = ()
    """Topics with something that is not landed, at most twenty."""
    left_topics: Count = 0
    """Number of such topics."""


class GroupScheduleStatus(Model):
    """Where a group with spec.schedule is."""

    sleeping: bool
    """Whether no driver runs because no range is due."""
    next: Moment | None = None
    """When the next range will be due; absent while the group is suspended."""
    last: Moment | None = None
    """End of the range that was landed last; absent before the first run."""
    until: Moment | None = None
    """End of the oldest range that is due; absent while none is."""
    due_since: Moment | None = None
    """Since when that range has been due."""


class IdleStatus(Model):
    """Where a group with spec.idle is."""

    sleeping: bool
    """Whether no driver runs because the topics are quiet."""
    since: Moment | None = None
    """Since when a group that sleeps has landed nothing; absent while it has a driver."""
    next_look: Moment | None = None
    """When a driver is started to look for new records; absent while there is one."""


class PublisherState(StrEnum):
    """The state of a publisher, compared with what lands."""

    STARTING = "Starting"
    """It has not ended a pass yet, as long as nothing waits for too long."""
    CURRENT = "Current"
    """It keeps up."""
    BEHIND = "Behind"
    """Something waits for longer than three times ``minInterval``, and than five minutes."""
    FAILING = "Failing"
    """Two passes or more have failed in a row; it tries again by itself."""
    BLOCKED = "Blocked"
    """A user has to change something before it publishes again."""


class GroupPublisherStatus(Model):
    """A publisher, as the driver that lands reported it last."""

    name: str
    """Name of the publisher."""
    type: str
    """Type of the publisher."""
    state: PublisherState
    """Whether the publisher keeps up with what lands."""
    slot: Count | None = None
    """Last slot of the ledger that is published; absent if none is."""
    lag_seconds: Count
    """Age of the oldest object that is visible and not published, in seconds."""
    lag_text: str
    """The seconds in short form, such as 5m; with the age of the number when it is old."""
    failures: Count
    """Passes that failed since the present driver started."""
    blocked: str | None = None
    """Reason for which the publisher is blocked; absent while it is not."""
    problem: Text = ""
    """What is wrong and what to do; empty while nothing is."""
    details: Text = ""
    """Messages of the type, such as which topic partition holds an hour open."""
    last_time: Moment | None = None
    """When a pass last ended well."""
    time: Moment
    """When the driver reported this."""


class GroupFeedStatus(Model):
    """The files of a feed."""

    topic: str
    """Topic that the rows of the files are landed as."""
    pending_files: Count
    """Files that are found and not landed, without those that are parked."""
    pending_bytes: Count
    """Size of what is not landed of them."""
    landed_parts: Count
    """Parts of files that are landed; most files have one part."""
    parked_parts: Count
    """Parts that could not be read. They are tried again until maxAttempts, and then wait for a
    user; the files after them are landed meanwhile.
    """
    ignored_parts: Count
    """Parts that a user has given up."""
    error: Text = ""
    """What is wrong with the first of those that are parked, or with files written again."""
    last_look: Moment | None = None
    """When the driver last looked for new files; absent before it has."""


class GroupCompactionStatus(Model):
    """Small objects to be merged, and merged since the driver started."""

    waiting_folders: Count
    """Folders with objects to merge, now or once they are complete."""
    waiting_objects: Count
    """Objects of those folders that are complete."""
    merged_objects: Count
    """Objects that were merged."""
    new_objects: Count
    """Objects that replaced them."""
    merged_bytes: Count
    """Size of these objects."""
    duplicates: Count
    """Rows that were left out as duplicates."""
    problem: Text = ""
    """Why something was not merged the last time; absent if nothing was in the way."""


class Worst(Model):
    """One of the topic partitions with the greatest lag."""

    topic: str
    """Topic."""
    partition: Count
    """Kafka partition number."""
    records: Count
    """Offsets not landed yet."""
    seconds: Count
    """Age of the oldest record not landed yet, in seconds."""
    overdue_seconds: Count = 0
    """Seconds by which the age of the oldest record exceeds what the upload policy allows."""
    blocked: str | None = None
    """Reason for which the topic partition is blocked; absent while it is not."""


class LagStatus(Model):
    """Lag of the group; by design it grows up to the upload policy's limits. More is overdue."""

    records: Count
    """Offsets not landed yet, rounded up to two digits."""
    seconds: Count
    """Age of the oldest record not landed yet, in seconds."""
    overdue_seconds: Count
    """Seconds by which the age of the oldest record exceeds what the upload policy allows."""
    records_text: str
    """The records in short form, such as 18k."""
    seconds_text: str
    """The seconds in short form, such as 5m; with the age of the numbers when they are old."""
    time: Moment
    """When the driver reported these numbers. Numbers that changed by less than a quarter since are
    written every five minutes, numbers that did not change never.
    """
    eta_seconds: Count | None = None
    """Seconds until the backlog is landed at the present speed; absent without a backlog or while
    it grows.
    """
    worst: tuple[Worst, ...] = ()
    """The topic partitions with the greatest lag."""
    blocked: Count = 0
    """Number of blocked topic partitions; they stay blocked until a user acts."""


class FailureStatus(Model):
    """The last failure."""

    time: Moment
    """When the failure happened."""
    reason: str
    """Reason of the failure, in one word."""
    message: Text
    """Description of the failure."""


class CommitsStatus(Model):
    """Commits of the group."""

    total: Count
    """Commits since the ledger was created."""
    failures: Count
    """Failed commits since the present driver started."""
    consecutive_failures: Count
    """Failed commits since the last successful one."""
    last_time: Moment | None = None
    """When the last commit succeeded."""
    last_failure: FailureStatus | None = None
    """The last failure of the present driver."""


class LedgerStatus(Model):
    """The position that the group's ledger has reached: its drivers refuse a shorter one."""

    epoch: Count
    """Epoch of its last OPEN."""
    slot: Count
    """A slot that it has in this epoch; the last one is up to a tenth higher."""
    sha256: str | None = None
    """SHA-256 of that slot, which stands for all slots before it, too. Drivers refuse a ledger in
    which the slot has another; ``landfall fsck --anchor`` checks it. Absent if the driver that
    landed there reports none.
    """


class RateStatus(Model):
    """Rates over the last five minutes, rounded up to two digits."""

    arriving: Count
    """Records per second that arrive in the topics."""
    landing: Count
    """Records per second that are landed."""


class ExecutorsStatus(Model):
    """Executors of the driver."""

    wanted: Count
    """Desired number of executors."""
    ready: Count
    """Number of running executors."""
    missing_since: Moment | None = None
    """Since when fewer run than are wanted; absent while all do."""


class IneffectiveScaleUp(Model):
    """A step up that brought no throughput: for an hour, no other one follows."""

    since: Moment
    """When that was noticed."""
    executors: Count
    """Number of executors that land as much; at least that before the step."""
    landing: Count
    """Records per second that were landed when it was noticed."""
    message: Text
    """The measurements, and what probably limits the throughput."""


class AutoscalingStatus(Model):
    """The last decision of the autoscaler."""

    desired: Count
    """Desired number of executors."""
    reason: str
    """Reason for the decision, in one word."""
    message: Text
    """The measurements that led to the decision."""
    ineffective: IneffectiveScaleUp | None = None
    """The last step up, if it brought no throughput; absent once the throughput has changed."""


class PlanStatus(Model):
    """Impact of the last change of the spec; written before the operator acts on it."""

    change: Literal["Ignore", "Live", "NewRevision", "Restart", "NewGeneration"]
    """The strongest impact of all changed fields. Restart and NewGeneration are words of older
    releases for NewRevision.
    """
    fields: tuple[str, ...]
    """Paths of the changed fields."""
    observed_generation: Count
    """The metadata.generation that this refers to."""


class Stage(StrEnum):
    """Stage of a rollout; ``landfall_operator.core.rollout`` has the table of transitions."""

    SETTLED = "Settled"
    """The active revision lands, and there is none to roll back to."""
    TRYING = "Trying"
    """The active revision lands while the next one is tried next to it: strategy Shadow or Canary.
    """
    WARMING = "Warming"
    """The active revision lands while the target's driver starts and gets ready."""
    YIELDING = "Yielding"
    """The target is ready, and the active revision is handing over."""
    DRAINING = "Draining"
    """The active revision finishes its work and stops before the target starts."""
    OPENING = "Opening"
    """The new active revision takes the lane."""
    WATCHING = "Watching"
    """The new active revision lands, and is rolled back if it fails."""
    SUSPENDING = "Suspending"
    """The active revision finishes its work and stops; none follows."""
    SUSPENDED = "Suspended"
    """No driver runs."""
    DELETING = "Deleting"
    """All drivers finish their work and stop, because the group is being deleted."""
    DELETED = "Deleted"
    """All drivers have stopped, and the finalizer can be removed."""


class Rejected(Model):
    """A spec that was rolled back. It is not tried again until it changes, or ``retry`` is due."""

    digest: str
    """Digest that identifies the spec."""
    reason: ConditionReason
    """Why the spec was rolled back, in one word."""
    message: Text
    """Why the spec was rolled back."""
    generation: Count
    """The spec's generation, as in the names of its objects."""


class RolloutHold(Model):
    """The cause of a rollout's wait: a failure of the cluster, the store, Kafka or a registry."""

    reason: ConditionReason
    """The failure, in one word."""
    since: Moment
    """When the rollout began to wait."""


class Crashes(Model):
    """Crashes of a driver that is starting or watched, since it last committed."""

    revision: str
    """The driver's revision."""
    pod: str
    """metadata.uid of the pod that the restarts are counted in."""
    restarts: Count
    """Restarts of the pod's container that are counted already."""
    count: Count
    """Crashes that the revision itself caused."""


class RetryStatus(Model):
    """A rollback that failed, or a spec that cluster, store or Kafka failed, is tried again."""

    attempts: Count
    """Attempts that failed."""
    time: Moment
    """When the next attempt begins."""
    message: Text = ""
    """Why the last attempt failed."""


class RolloutStatus(Model):
    """Progress of the rollout. The operator reads it back after a restart."""

    stage: Stage = Stage.SETTLED
    """Stage of the rollout."""
    since: Moment | None = None
    """When the stage began."""
    active: str | None = None
    """The revision that lands."""
    target: str | None = None
    """The revision that takes over next."""
    previous: str | None = None
    """The revision to roll back to if the active one fails; it has committed. During a rollback it
    stays until it lands.
    """
    committed: str | None = None
    """The last revision that is known to have committed, or to have had nothing to land."""
    rejected: Rejected | None = None
    """The spec that was rolled back."""
    held: RolloutHold | None = None
    """What the stage waits for; its limits of time do not run meanwhile."""
    resumed: Moment | None = None
    """When the limits of time began again: after the last wait, and at the first commit."""
    crashes: Crashes | None = None
    """Crashes since the last commit; absent while there are none."""
    retry: RetryStatus | None = None
    """The next attempt of what failed; absent if nothing is tried again by itself."""
    trial: TrialStatus | None = None
    """The last trial of a revision by strategy Shadow or Canary."""


class RequestStatus(Model):
    """A user's request by an annotation, and what came of it."""

    verb: str
    """The verb, as in the annotation landfall.dev/<verb>."""
    accepted: bool
    """Whether it was carried out."""
    message: Text
    """What the operator did, or why it refused."""
    time: Moment
    """When it was answered."""


class RevisionOutcome(Model):
    """A revision that was rolled out."""

    revision: str
    """Name of the revision."""
    generation: Count
    """The revision's generation, as in the names of its objects."""
    image: str
    """Image of the revision's driver and executors."""
    since: Moment
    """When the revision was first rolled out."""
    outcome: Literal["Active", "Pending", "Superseded", "RolledBack"]
    """State of the revision."""


class Condition(AnyCondition):
    """A condition, by the Kubernetes API conventions."""

    type: ConditionType
    """Type of the condition."""
    reason: ConditionReason
    """Reason for the status, in one word; the troubleshooting guide explains each."""


class GroupStatus(Model):
    """Observed state of the group."""

    observed_generation: ObservedGeneration = UNOBSERVED
    """The metadata.generation that was acted on last; -1 before an operator has seen it."""
    phase: Phase = Phase.PENDING
    """Summary of the conditions, for users; tools should read the conditions."""
    reason: ConditionReason | None = None
    """Reason for the phase."""
    active_generation: Count | None = None
    """The generation that lands."""
    image: str | None = None
    """Image of the driver that lands."""
    newer_image: str | None = None
    """The operator's image, if the group names no other one and its driver does not run it.
    `upgrade.image` sets whether it is rolled out; absent for a group that is up to date.
    """
    topics: str | None = None
    """Topics that are landed, or their pattern."""
    replicas: Count = 0
    """Number of running executors, for the scale subresource."""
    selector: str = ""
    """Label selector of the executors' pods, for the scale subresource."""
    executors: ExecutorsStatus | None = None
    """Running and desired executors."""
    lag: LagStatus | None = None
    """Lag of the group."""
    commits: CommitsStatus | None = None
    """Commits of the group."""
    ledger: LedgerStatus | None = None
    """What the ledger has reached at least."""
    rate: RateStatus | None = None
    """Rates at which records arrive and are landed."""
    publishers: tuple[GroupPublisherStatus, ...] | None = None
    """Publishers of the group; absent without any."""
    published: str | None = None
    """How many publishers keep up, and which ones do not, such as `2/3: lake 5m behind`; absent
    without publishers.
    """
    schedule: GroupScheduleStatus | None = None
    """Where a group with spec.schedule is; absent without one."""
    idle: IdleStatus | None = None
    """Where a group with spec.idle is; absent without it."""
    runs: tuple[GroupRunStatus, ...] | None = None
    """The closed ranges that ended last, newest first, at most ten; absent before the first one."""
    feeds: tuple[GroupFeedStatus, ...] | None = None
    """The files of at most twenty feeds, those with an error first; absent without a feed."""
    files: str | None = None
    """How many files are pending and how many parts are parked, such as `1.2k pending, 3 parked`;
    absent without spec.source.files.
    """
    compaction: GroupCompactionStatus | None = None
    """What is merged of small objects; absent without spec.compact."""
    autoscaling: AutoscalingStatus | None = None
    """The last decision of the autoscaler."""
    plan: PlanStatus | None = None
    """Impact of the last change of the spec."""
    rollout: RolloutStatus = RolloutStatus()
    """Progress of the rollout; the operator's intent log."""
    last_request: RequestStatus | None = None
    """The last request by an annotation such as landfall.dev/rollback."""
    answered_requests: dict[str, str] | None = None
    """The value of each request's annotation that was answered and is still there, by verb: it is
    not carried out again. Absent without such an annotation.
    """
    history: tuple[RevisionOutcome, ...] = ()
    """Revisions that were rolled out, newest first."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of the group."""
