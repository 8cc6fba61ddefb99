"""The metrics of every group, from its status at each scrape.

The values come from the snapshots that the last reconcile passes left, so the metrics of a deleted
group disappear with its snapshot. The labels are ``namespace``, ``group`` and ``publisher``, never
a topic or a pod (a spec has at most sixteen publishers): their number must not grow with what the
group lands.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from landfall_operator.api.reasons import Phase
from landfall_operator.api.status import GroupStatus, PublisherState, TrialResult
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import GroupObservation

Family = GaugeMetricFamily | CounterMetricFamily

GROUP_LABELS = ("namespace", "group")


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group as the last reconcile pass left it.

    Attributes:
        namespace: The namespace of the group.
        name: The name of the group.
        status: The status that the pass reported.
        phase_since: When the group entered its phase.
        answers: Whether the active driver has answered with its status recently.
        restarts: Restarts of the active driver's container in its current pod.
        is_paused: Whether the user has paused the group.
        late_seconds: For how long the oldest range that is due has been late; None without a
            schedule.
    """

    namespace: str
    name: str
    status: GroupStatus
    phase_since: datetime
    answers: bool
    restarts: int
    is_paused: bool = False
    late_seconds: float | None = None


def group_snapshot(
    before: GroupSnapshot | None,
    observed: GroupObservation,
    desired: DesiredState,
    status: GroupStatus,
) -> GroupSnapshot:
    """The group's state for the metrics.

    An operator that has just started takes the last change of a condition for the phase's start.
    """
    schedule = desired.schedule
    driver = observed.driver(desired.rollout.active)
    since = (
        before.phase_since
        if before
        else max((c.last_transition_time for c in status.conditions), default=observed.now)
    )
    same = (before.status if before else observed.status).phase is status.phase
    return GroupSnapshot(
        namespace=observed.namespace,
        name=observed.name,
        status=status,
        phase_since=since if same else observed.now,
        answers=driver is not None and driver.fresh_status(observed.now) is not None,
        restarts=driver.restarts if driver else 0,
        is_paused=observed.paused,
        late_seconds=schedule.late_by(observed.now).total_seconds() if schedule else None,
    )


Sample = tuple[str, tuple[str, ...], float]
"""The name of a metric, the values of its labels, and its value."""
Samples = Iterator[Sample]


@dataclass(frozen=True, slots=True)
class Families:
    """Metrics that are collected together.

    Attributes:
        texts: The description of each metric, by its name.
        common: The labels that all of them have.
        labels: The labels that a metric has besides.
        counters: The metrics that only grow; Prometheus appends ``_total`` to their names.
    """

    texts: Mapping[str, str]
    common: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counters: frozenset[str] = frozenset()

    def family(self, name: str) -> Family:
        """The metric of a name, without samples."""
        kind = CounterMetricFamily if name in self.counters else GaugeMetricFamily
        return kind(name, self.texts[name], labels=[*self.common, *self.labels.get(name, ())])


class SampleCollector(Collector):
    """Collects metrics at each scrape; one without a sample is not exposed."""

    def __init__(self, families: Families, samples: Callable[[], Samples]) -> None:
        """``samples`` is called at each scrape."""
        self._families = families
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        """One family per metric, each with all of its samples."""
        families: dict[str, Family] = {}
        for name, labels, value in self._samples():
            if name not in families:
                families[name] = self._families.family(name)
            families[name].add_metric(labels, value)
        yield from families.values()


GROUP_FAMILIES = Families(
    texts={
        "landfall_group_info": "Always 1; the labels describe the group",
        "landfall_group_phase": "1 for the current phase of the group, 0 for every other phase",
        "landfall_group_phase_start_timestamp_seconds": (
            "Unix time when the group entered its current phase"
        ),
        "landfall_group_condition": "Status of the condition: 1 if True, 0 if False, -1 if Unknown",
        "landfall_group_condition_transition_timestamp_seconds": (
            "Unix time when the status of the condition last changed"
        ),
        "landfall_group_generation": "The generation that currently lands records",
        "landfall_group_driver_up": (
            "1 if the active driver has answered the operator recently, else 0"
        ),
        "landfall_group_driver_restarts": "Restarts of the active driver in its current pod",
        "landfall_group_image_outdated": (
            "1 if the group names no image and runs another one than the operator's default, else 0"
        ),
        "landfall_group_paused": "1 if a user has paused the group, else 0",
        "landfall_group_executors_wanted": "Desired number of executors",
        "landfall_group_executors_ready": "Number of executors that are ready",
        "landfall_group_lag_records": "Offsets that have not landed yet, rounded up to two digits",
        "landfall_group_lag_seconds": "Age of the oldest unlanded record, rounded up to two digits",
        "landfall_group_overdue_seconds": (
            "Longest time that a record has waited beyond the upload policy, rounded up "
            "to two digits"
        ),
        "landfall_group_lag_timestamp_seconds": (
            "Unix time when the driver last reported lag and commits"
        ),
        "landfall_group_blocked_topic_partitions": (
            "Topic partitions that are blocked and need operator action"
        ),
        "landfall_group_commits": "Commits in the ledger since it was created",
        "landfall_group_commit_failures": "Commit failures since the active driver started",
        "landfall_group_consecutive_commit_failures": "Commit failures since the last commit",
        "landfall_group_last_commit_timestamp_seconds": "Unix time of the last commit",
        "landfall_group_publisher_lag_seconds": (
            "Age of the oldest visible object that is not published, rounded up to two digits"
        ),
        "landfall_group_publisher_state": (
            "1 for the current state of the publisher, 0 for every other state"
        ),
        "landfall_group_publisher_failures": (
            "Passes of the publisher that failed since the active driver started"
        ),
        "landfall_group_sleeping": (
            "1 if no driver lands because no range is due or the topics are quiet, else 0"
        ),
        "landfall_group_last_run_timestamp_seconds": (
            "Unix time when the last run of spec.schedule had landed its range"
        ),
        "landfall_group_last_run_until_timestamp_seconds": (
            "Unix time up to which the last run of spec.schedule has landed"
        ),
        "landfall_group_last_run_left_topics": (
            "Topics that the last run of spec.schedule has not landed completely"
        ),
        "landfall_group_next_run_timestamp_seconds": (
            "Unix time when the next range of spec.schedule will be due"
        ),
        "landfall_group_run_late_seconds": (
            "Time since the deadline of the oldest range that is due, 0 if none is late"
        ),
        "landfall_group_trial_result": (
            "1 for the result of the last trial of a revision, 0 for every other result"
        ),
        "landfall_group_trial_start_timestamp_seconds": (
            "Unix time when the last trial of a revision began"
        ),
        "landfall_group_trial_differing_rows": (
            "Rows of the last trial that only one of the two revisions landed"
        ),
        "landfall_group_trial_dead_letters": (
            "Records that became dead letters by the revision of the last trial"
        ),
        "landfall_group_arriving_records_per_second": "Rate at which records arrive in the topics",
        "landfall_group_landing_records_per_second": "Rate at which records are landed",
    },
    common=GROUP_LABELS,
    labels={
        "landfall_group_info": ("phase", "reason", "stage", "revision", "image"),
        "landfall_group_phase": ("phase",),
        "landfall_group_condition": ("condition",),
        "landfall_group_condition_transition_timestamp_seconds": ("condition",),
        "landfall_group_publisher_lag_seconds": ("publisher",),
        "landfall_group_publisher_state": ("publisher", "state"),
        "landfall_group_publisher_failures": ("publisher",),
        "landfall_group_trial_result": ("result",),
    },
    counters=frozenset(
        {
            "landfall_group_commits",
            "landfall_group_commit_failures",
            "landfall_group_publisher_failures",
        }
    ),
)


def group_samples(snapshots: Mapping[tuple[str, str], GroupSnapshot]) -> Samples:
    """The samples of all groups; the owner of the snapshots keeps them up to date."""
    for snapshot in list(snapshots.values()):
        for name, labels, value in _samples(snapshot):
            yield name, (snapshot.namespace, snapshot.name, *labels), value


_CONDITION_VALUES = {"True": 1, "False": 0, "Unknown": -1}


def _samples(snapshot: GroupSnapshot) -> Samples:
    """The samples of one group; a metric whose value is unknown has none."""
    status = snapshot.status
    info = (
        status.phase,
        status.reason or "",
        status.rollout.stage,
        status.rollout.active or "",
        status.image or "",
    )
    yield "landfall_group_info", tuple(map(str, info)), 1
    for phase in Phase:
        yield "landfall_group_phase", (str(phase),), float(phase is status.phase)
    yield "landfall_group_phase_start_timestamp_seconds", (), snapshot.phase_since.timestamp()
    for condition in status.conditions:
        kind = (str(condition.type),)
        yield "landfall_group_condition", kind, _CONDITION_VALUES[condition.status]
        changed = condition.last_transition_time.timestamp()
        yield "landfall_group_condition_transition_timestamp_seconds", kind, changed
    yield "landfall_group_driver_up", (), float(snapshot.answers)
    yield "landfall_group_driver_restarts", (), snapshot.restarts
    yield "landfall_group_paused", (), float(snapshot.is_paused)
    if status.image is not None:
        yield "landfall_group_image_outdated", (), float(status.newer_image is not None)
    if status.active_generation is not None:
        yield "landfall_group_generation", (), status.active_generation
    if status.executors:
        yield "landfall_group_executors_wanted", (), status.executors.wanted
        yield "landfall_group_executors_ready", (), status.executors.ready
    yield from _driver_samples(status)
    states = (snapshot.status.schedule, snapshot.status.idle)
    if any(states):
        sleeping = any(state.sleeping for state in states if state)
        yield "landfall_group_sleeping", (), float(sleeping)
    yield from _schedule_samples(snapshot)
    yield from _trial_samples(status)


def _trial_samples(status: GroupStatus) -> Samples:
    """The last trial of a revision."""
    trial = status.rollout.trial
    if trial is None:
        return
    for result in TrialResult:
        yield "landfall_group_trial_result", (str(result),), float(result is trial.result)
    yield "landfall_group_trial_start_timestamp_seconds", (), trial.since.timestamp()
    if compared := trial.comparison:
        differing = max(compared.rows.only_old, compared.rows.only_new)
        yield "landfall_group_trial_differing_rows", (), differing
        yield "landfall_group_trial_dead_letters", (), compared.dead_letters.new


def _schedule_samples(snapshot: GroupSnapshot) -> Samples:
    """Where a group with ``spec.schedule`` is."""
    schedule = snapshot.status.schedule
    runs = snapshot.status.runs
    if schedule is None:
        return
    if snapshot.late_seconds is not None:
        yield "landfall_group_run_late_seconds", (), snapshot.late_seconds
    if schedule.next:
        yield "landfall_group_next_run_timestamp_seconds", (), schedule.next.timestamp()
    if runs:
        yield "landfall_group_last_run_timestamp_seconds", (), runs[0].ended.timestamp()
        yield "landfall_group_last_run_until_timestamp_seconds", (), runs[0].until.timestamp()
        yield "landfall_group_last_run_left_topics", (), runs[0].left_topics


def _driver_samples(status: GroupStatus) -> Samples:
    """Yield the active driver's last report, with its time."""
    lag = status.lag
    commits = status.commits
    rate = status.rate
    if lag:
        yield "landfall_group_lag_records", (), lag.records
        yield "landfall_group_lag_seconds", (), lag.seconds
        yield "landfall_group_overdue_seconds", (), lag.overdue_seconds
        yield "landfall_group_lag_timestamp_seconds", (), lag.time.timestamp()
        yield "landfall_group_blocked_topic_partitions", (), lag.blocked
    if commits:
        yield "landfall_group_commits", (), commits.total
        yield "landfall_group_commit_failures", (), commits.failures
        yield "landfall_group_consecutive_commit_failures", (), commits.consecutive_failures
        if commits.last_time:
            yield "landfall_group_last_commit_timestamp_seconds", (), commits.last_time.timestamp()
    for publisher in status.publishers or ():
        name = (publisher.name,)
        yield "landfall_group_publisher_lag_seconds", name, publisher.lag_seconds
        yield "landfall_group_publisher_failures", name, publisher.failures
        for state in PublisherState:
            labels = (publisher.name, str(state))
            yield "landfall_group_publisher_state", labels, float(state is publisher.state)
    if rate:
        yield "landfall_group_arriving_records_per_second", (), rate.arriving
        yield "landfall_group_landing_records_per_second", (), rate.landing
