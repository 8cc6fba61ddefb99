"""The observation of one group at one moment; all decisions follow from it. Pure.

``landfall_operator.core.inputs.observe`` fills them from the cache of API objects and from the
drivers' ``/status``. Nothing here reads a clock or sends a request. A value that could not be read
is None, never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from landfall.api.contract import DriverPhase, Status
from landfall.api.spec import ConsumerGroup
from landfall.api.status_summary import totals_of
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.verbs import Verb, is_paused, requested
from landfall_operator.core.samples import DriverSample
from landfall_operator.core.trial_backfills import TrialBackfill

FRESH = timedelta(seconds=45)
"""How long a driver's last answer counts as its present state: three polling intervals."""

OWNS_LANE = frozenset({DriverPhase.RECOVERING, DriverPhase.RUNNING})
"""Phases of a driver that owns the lane and lands records."""


@dataclass(frozen=True, slots=True)
class PodFailure:
    """A reason why a driver's pod does not run, or does not do what it should."""

    reason: ConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class ExecutorPods:
    """The executors' pods of a group, looked at because executors are missing.

    Attributes:
        count: existing pods that are not being deleted.
        failure: the worst reason for which one of them does not run.
    """

    count: int
    failure: PodFailure | None = None


@dataclass(frozen=True, slots=True)
class ReceivedStatus:
    """The last answer of a driver's ``/status``, and when it arrived.

    Attributes:
        status: the answer.
        received: when it arrived.
        phase_since: when the first one of an unbroken row with this phase arrived; None for this.
    """

    status: Status
    received: datetime
    phase_since: datetime | None = None

    def after(self, former: "ReceivedStatus | None") -> "ReceivedStatus":
        """This answer, with the start of its phase from the former answer of the same process."""
        if former is None or former.status.phase is not self.status.phase:
            return self
        return replace(self, phase_since=former.phase_since or former.received)

    @property
    def phase_lasts(self) -> timedelta:
        """How long the driver has been in this phase at least."""
        return self.received - (self.phase_since or self.received)


@dataclass(frozen=True, slots=True)
class RevisionDriver:
    """The Deployment of one revision, its pod and the driver in it.

    Attributes:
        revision: the revision, as named by ``revision_of``.
        digest: digest of the spec that the Deployment was made from.
        image: image of the driver's container.
        replicas: desired pods, 0 or 1.
        pods: existing pods, including terminating ones.
        pod: metadata.uid of the newest pod; empty without one.
        restarts: restarts of the driver's container in that pod.
        terminating: whether the Deployment is being deleted.
        pod_failure: why the pod does not run, if it does not.
        last_exit: why the container ended last in the newest pod, even if it runs again.
        started: when the container that runs in that pod started; None if none runs.
        owned: whether the group owns the Deployment, which may have been orphaned.
        report: the driver's last answer.
        process_gone: whether the process that gave this answer has ended; another may run already.
        account: name of the pod's ServiceAccount.
        config: name of the ConfigMap that the pod mounts.
    """

    revision: str
    digest: str
    image: str
    replicas: int = 1
    pods: int = 0
    pod: str = ""
    restarts: int = 0
    terminating: bool = False
    pod_failure: PodFailure | None = None
    last_exit: PodFailure | None = None
    started: datetime | None = None
    owned: bool = True
    report: ReceivedStatus | None = None
    process_gone: bool = False
    account: str = ""
    config: str = ""

    def fresh_status(self, now: datetime) -> Status | None:
        """The last answer, if it is recent and its process still runs."""
        if self.report is None or self.process_gone or now - self.report.received > FRESH:
            return None
        return self.report.status

    def phase(self, now: datetime) -> DriverPhase | None:
        """The driver's present phase; None when it does not answer."""
        status = self.fresh_status(now)
        return status.phase if status else None

    def lands(self, now: datetime) -> bool:
        """Return whether the driver owns the lane and lands records."""
        return self.phase(now) in OWNS_LANE


def sample_of(report: ReceivedStatus) -> DriverSample | None:
    """The measurements in a driver's answer; None if the driver has not measured them all.

    Blocked topic partitions are left out: more executors would not land their records.
    """
    status = report.status
    rates = status.rates
    workers = status.workers
    if (
        rates.arrived_records is None
        or rates.task_seconds is None
        or workers is None
        or not status.lag_known
    ):
        return None
    totals = totals_of(status)
    return DriverSample(
        time=report.received,
        driver=f"{status.revision}/{status.epoch}",
        arrived=rates.arrived_records,
        landed=rates.landed_records + rates.dead_lettered,
        task_seconds=rates.task_seconds,
        lag_records=totals.lag_records,
        lag_seconds=totals.lag_seconds,
        overdue_seconds=totals.overdue_seconds,
        executors=workers.registered,
        wanted=workers.wanted,
    )


@dataclass(frozen=True)
class RecordedSpec:
    """A spec that was rolled out, as its ControllerRevision keeps it.

    Attributes:
        number: counts up over the group's life.
        group: the resource, with this spec.
        image: the image it ran with, also where the spec names none.
        created: creation time of the ControllerRevision.
        label: the revision that the ControllerRevision names, which may be of the former scheme.
    """

    number: int
    group: ConsumerGroup
    image: str
    created: datetime
    label: str = ""

    @cached_property
    def revision(self) -> str:
        """The revision of the spec."""
        return revision_of(self.group)

    @cached_property
    def digest(self) -> str:
        """The digest of the spec."""
        return digest_of(self.group)


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """Everything known about one group at one moment.

    Attributes:
        now: the time of the observation.
        name: metadata.name.
        namespace: metadata.namespace.
        uid: metadata.uid, for owner references.
        generation: metadata.generation.
        deleting: whether the resource has a deletion timestamp.
        finalizer: whether Landfall's finalizer is set.
        annotations: the annotations with Landfall's prefix that users have set.
        labels: metadata.labels.
        spec: the requested spec; None when it is not valid.
        spec_error: why the requested spec is not valid; else empty.
        status: the status that the operator wrote last.
        records: the recorded specs, oldest first.
        drivers: the drivers' Deployments, by revision.
        driver_specs: the spec in each revision's ConfigMap, by revision: the last valid one, with
            its live settings.
        hashes: hashes of all other objects of the group, as they were applied, by ``Kind/name``.
        fields: what of these still belongs to the operator, by ``Kind/name``; see ``ownership``.
        samples: measurements of the last half hour, oldest first.
        executor_pods: the executors' pods; None if they were not looked at.
        backfills: the Backfills that try a revision of the group, by name; None before they were
            listed.
        promotes: whether the group's driver is to promote a Backfill.
        operator_keys: the public keys by which drivers recognize the operator.
        lacks_token: whether a driver of an earlier release cannot start without a control token.
        name_taken: why an object of the group cannot be created; empty unless it belongs to another
            owner.
        default_image: the operator's image for groups that name none.
        rollout_limit: how many groups may change their revision at once, if as many other groups do
            so now; else 0.
    """

    now: datetime
    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool = False
    finalizer: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: ConsumerGroup | None = None
    spec_error: str = ""
    status: GroupStatus = field(default_factory=GroupStatus)
    records: tuple[RecordedSpec, ...] = ()
    drivers: Mapping[str, RevisionDriver] = field(default_factory=dict)
    driver_specs: Mapping[str, ConsumerGroup] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str | None] = field(default_factory=dict)
    samples: tuple[DriverSample, ...] = ()
    executor_pods: ExecutorPods | None = None
    backfills: Mapping[str, TrialBackfill] | None = None
    promotes: bool = False
    operator_keys: tuple[bytes, ...] = ()
    lacks_token: bool = False
    name_taken: str = ""
    default_image: str = ""
    rollout_limit: int = 0

    @property
    def request(self) -> tuple[Verb, str] | None:
        """The verb that a user has requested, with its value; None if there is none."""
        return requested(self.annotations, self.status.answered_requests or {})

    @property
    def paused(self) -> bool:
        """Return whether the user has paused the group's reconciliation."""
        return is_paused(self.annotations)

    def driver(self, revision: str | None) -> RevisionDriver | None:
        """The driver of a revision, if there is one."""
        return self.drivers.get(revision) if revision else None

    def record(self, revision: str | None) -> RecordedSpec | None:
        """The recorded spec of a revision; None if there is none, or if it is not known which.

        The digest of a Deployment identifies the spec that it was made from. In the former scheme
        several records may share the name of a revision whose Deployment is gone: then it is not
        known which of them ran last, and none is returned rather than a wrong one.
        """
        if driver := self.driver(revision):
            return self.recorded(driver.digest)
        named = [r for r in self.records if r.revision == revision]
        found = named or [r for r in self.records if r.label and r.label == revision]
        return found[0] if len(found) == 1 else None

    def recorded(self, digest: str) -> RecordedSpec | None:
        """The recorded spec with a digest, if one is kept."""
        return next((r for r in self.records if r.digest == digest), None)

    def revision_of(self, group: ConsumerGroup) -> str:
        """The revision of a spec: of the Deployment that was made from it, else its own name.

        A Deployment of the former scheme has another name, and is never changed.
        """
        digest = digest_of(group)
        own = revision_of(group)
        formerly = sorted(
            driver.revision
            for driver in self.drivers.values()
            if driver.digest == digest and driver.owned and not driver.terminating
        )
        return own if own in self.drivers or not formerly else formerly[0]
