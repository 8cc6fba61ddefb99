"""What Prometheus scrapes from the operator: how its own work goes, and every group as its status tells it.

Groups are collected at each scrape from the pictures that the last passes left, so a group that is
gone is gone from here, too. Labels are ``namespace`` and ``group``; never a topic, a pod or a
message. ``docs/metrics.md`` lists every name, and a test holds it to this module.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from landfall import __version__
from landfall_operator.api.reasons import Phase
from landfall_operator.api.status import GroupStatus

Family = GaugeMetricFamily | CounterMetricFamily

_GROUP = ["namespace", "group"]
_PASS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """What the last pass over a group left to be shown.

    Attributes:
        namespace: of the group.
        name: of the group.
        status: as it was reported.
        phase_since: when the phase became what it is.
        answers: its active driver told its status lately.
        restarts: of the active driver's container, over its pod's life.
    """

    namespace: str
    name: str
    status: GroupStatus
    phase_since: datetime
    answers: bool
    restarts: int


class Metrics:
    """Every metric of one operator, in a registry of its own."""

    def __init__(self, standing: Callable[[], "OperatorSnapshot"]) -> None:
        """Ask ``standing`` at every scrape, and show the ``pictures`` there are."""
        own = self.registry = CollectorRegistry()
        self.pictures: dict[tuple[str, str], GroupSnapshot] = {}
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        own.register(_Groups(self.pictures))
        own.register(_Standing(standing))
        Info("landfall_operator", "Software of the operator", registry=own).info(
            {"version": __version__}
        )
        self.passes = Counter(
            "landfall_operator_passes",
            "Passes over groups, by how they ended",
            ["outcome"],
            registry=own,
        )
        self.pass_seconds = Histogram(
            "landfall_operator_pass_duration_seconds",
            "Time of one pass over a group, from looking to reporting",
            buckets=_PASS_BUCKETS,
            registry=own,
        )
        self.wake_seconds = Histogram(
            "landfall_operator_wake_delay_seconds",
            "Time from an event to the begin of the pass that answers it",
            buckets=_PASS_BUCKETS,
            registry=own,
        )
        self.actions = Counter(
            "landfall_operator_actions",
            "Actions that were carried out, by kind",
            ["action"],
            registry=own,
        )
        self.api_requests = Counter(
            "landfall_operator_api_requests",
            "Requests to the API server",
            ["verb", "kind", "code"],
            registry=own,
        )
        self.api_seconds = Histogram(
            "landfall_operator_api_request_duration_seconds",
            "Time until the API server had answered",
            ["verb"],
            buckets=_CALL_BUCKETS,
            registry=own,
        )
        self.driver_requests = Counter(
            "landfall_operator_driver_requests",
            "Requests to drivers",
            ["path", "outcome"],
            registry=own,
        )
        self.announcements = Counter(
            "landfall_operator_announcements",
            "Kubernetes Events that were posted, by type",
            ["type"],
            registry=own,
        )
        self.troubles = Counter(
            "landfall_group_driver_troubles",
            "Times a driver of the group was seen not to run, by reason",
            [*_GROUP, "reason"],
            registry=own,
        )

    def forget(self, namespace: str, group: str) -> None:
        """Show no more of a group that is gone."""
        self.pictures.pop((namespace, group), None)
        self.troubles.remove_by_labels({"namespace": namespace, "group": group})


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """How the operator stands.

    Attributes:
        leads: it holds the lease.
        groups: resources it looks after.
        oldest_pass: seconds since the pass that is longest ago, over all groups.
    """

    leads: bool
    groups: int
    oldest_pass: float


class _Standing(Collector):
    def __init__(self, standing: Callable[[], OperatorSnapshot]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Family]:
        now = self._standing()
        yield GaugeMetricFamily(
            "landfall_operator_leader", "1 if it holds the lease and acts", value=now.leads
        )
        yield GaugeMetricFamily(
            "landfall_operator_groups", "Groups it looks after", value=now.groups
        )
        yield GaugeMetricFamily(
            "landfall_operator_oldest_pass_age_seconds",
            "Time since the last pass over the group that has waited longest",
            value=now.oldest_pass,
        )


class _Groups(Collector):
    def __init__(self, pictures: Mapping[tuple[str, str], GroupSnapshot]) -> None:
        self._pictures = pictures

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for picture in list(self._pictures.values()):
            names = [picture.namespace, picture.name]
            for name, labels, value in _shown(picture):
                family = families.setdefault(name, _family(name))
                family.add_metric([*names, *labels], value)
        yield from families.values()


def _family(name: str) -> Family:
    kind, text, labels = GROUP_FAMILIES[name]
    return kind(name, text, labels=[*_GROUP, *labels])


GROUP_FAMILIES: dict[str, tuple[type[Family], str, tuple[str, ...]]] = {
    "landfall_group_info": (
        GaugeMetricFamily,
        "1; what the group is in words",
        ("phase", "reason", "stage", "revision", "image"),
    ),
    "landfall_group_phase": (
        GaugeMetricFamily,
        "1 for the phase the group is in, 0 for the others",
        ("phase",),
    ),
    "landfall_group_phase_start_timestamp_seconds": (GaugeMetricFamily, "When the phase began", ()),
    "landfall_group_condition": (
        GaugeMetricFamily,
        "1 if the condition is True, 0 if it is False, -1 if it is Unknown",
        ("condition",),
    ),
    "landfall_group_condition_transition_timestamp_seconds": (
        GaugeMetricFamily,
        "When the condition became what it is",
        ("condition",),
    ),
    "landfall_group_generation": (GaugeMetricFamily, "The generation that lands", ()),
    "landfall_group_driver_up": (
        GaugeMetricFamily,
        "1 if the active driver has told its status lately",
        (),
    ),
    "landfall_group_driver_restarts": (
        GaugeMetricFamily,
        "Restarts of the active driver, in its present pod",
        (),
    ),
    "landfall_group_executors_wanted": (GaugeMetricFamily, "Executors there should be", ()),
    "landfall_group_executors_ready": (GaugeMetricFamily, "Executors at work", ()),
    "landfall_group_lag_records": (GaugeMetricFamily, "Offsets not landed yet, to two digits", ()),
    "landfall_group_lag_seconds": (
        GaugeMetricFamily,
        "Age of the oldest unlanded record, to two digits",
        (),
    ),
    "landfall_group_overdue_seconds": (
        GaugeMetricFamily,
        "Longest wait beyond the upload policy, to two digits",
        (),
    ),
    "landfall_group_lag_timestamp_seconds": (
        GaugeMetricFamily,
        "When the driver told lag and commits",
        (),
    ),
    "landfall_group_blocked_topic_partitions": (
        GaugeMetricFamily,
        "Topic partitions that wait for a person",
        (),
    ),
    "landfall_group_commits": (
        CounterMetricFamily,
        "Commits in the ledger since its first slot",
        (),
    ),
    "landfall_group_commit_failures": (
        CounterMetricFamily,
        "Failures since the active driver started",
        (),
    ),
    "landfall_group_consecutive_commit_failures": (GaugeMetricFamily, "Failures in a row", ()),
    "landfall_group_last_commit_timestamp_seconds": (
        GaugeMetricFamily,
        "When the last commit was made",
        (),
    ),
    "landfall_group_arriving_records_per_second": (
        GaugeMetricFamily,
        "Speed that the topics grow with",
        (),
    ),
    "landfall_group_landing_records_per_second": (
        GaugeMetricFamily,
        "Speed that records are landed with",
        (),
    ),
}
"""By name as declared: type, help, labels beyond namespace and group. Prometheus shows counters
with ``_total``.
"""

_TRUTH = {"True": 1, "False": 0, "Unknown": -1}
Shown = Iterator[tuple[str, tuple[str, ...], float]]


def _shown(picture: GroupSnapshot) -> Shown:
    """Names as in ``GROUP_FAMILIES``, label values, value; what is not known is left out."""
    status = picture.status
    words = (
        status.phase,
        status.reason or "",
        status.rollout.stage,
        status.rollout.active or "",
        status.image or "",
    )
    yield "landfall_group_info", tuple(map(str, words)), 1
    for phase in Phase:
        yield "landfall_group_phase", (str(phase),), float(phase is status.phase)
    yield "landfall_group_phase_start_timestamp_seconds", (), picture.phase_since.timestamp()
    for condition in status.conditions:
        kind = (str(condition.type),)
        yield "landfall_group_condition", kind, _TRUTH[condition.status]
        began = condition.last_transition_time.timestamp()
        yield "landfall_group_condition_transition_timestamp_seconds", kind, began
    yield "landfall_group_driver_up", (), float(picture.answers)
    yield "landfall_group_driver_restarts", (), picture.restarts
    if status.active_generation is not None:
        yield "landfall_group_generation", (), status.active_generation
    if status.executors:
        yield "landfall_group_executors_wanted", (), status.executors.wanted
        yield "landfall_group_executors_ready", (), status.executors.ready
    yield from _numbers(status)


def _numbers(status: GroupStatus) -> Shown:
    """What the driver told last, with the time it did."""
    lag, commits, rate = status.lag, status.commits, status.rate
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
    if rate:
        yield "landfall_group_arriving_records_per_second", (), rate.arriving
        yield "landfall_group_landing_records_per_second", (), rate.landing
