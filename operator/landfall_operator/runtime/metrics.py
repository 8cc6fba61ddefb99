"""The operator's Prometheus metrics: its own work, and every group.

``docs/reference/metrics.md`` lists every metric, and a test compares it with this package.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)

from landfall import __version__
from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus
from landfall_operator.runtime.group_metrics import (
    GROUP_FAMILIES,
    GROUP_LABELS,
    Families,
    GroupSnapshot,
    SampleCollector,
    Samples,
    group_samples,
)


@dataclass(frozen=True, slots=True)
class BackfillSnapshot:
    """A Backfill as it was listed."""

    namespace: str
    name: str
    group: str
    status: BackfillStatus


BACKFILL_FAMILIES = Families(
    texts={
        "landfall_backfill_phase": (
            "1 for the current phase of the backfill, 0 for every other phase"
        ),
        "landfall_backfill_offsets": "Offsets of the ranges that are landed again",
        "landfall_backfill_landed_offsets": "Offsets of them that are landed",
        "landfall_backfill_differing_output_partitions": (
            "Output partitions whose rows are not those that are live; absent before the comparison"
        ),
    },
    common=("namespace", "group", "backfill"),
    labels={"landfall_backfill_phase": ("phase",)},
)


def _backfill_samples(snapshots: Iterable[BackfillSnapshot]) -> Samples:
    for snapshot in snapshots:
        own = (snapshot.namespace, snapshot.group, snapshot.name)
        status = snapshot.status
        for phase in BackfillPhase:
            yield "landfall_backfill_phase", (*own, str(phase)), float(phase is status.phase)
        if status.offsets is not None:
            yield "landfall_backfill_offsets", own, status.offsets
            yield "landfall_backfill_landed_offsets", own, status.landed_offsets
        if status.comparison:
            differing = status.comparison.differing
            yield "landfall_backfill_differing_output_partitions", own, differing


_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_PASS_BUCKETS = (*_REQUEST_BUCKETS, 30)


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """The state of the operator at a scrape.

    Attributes:
        is_leader: Whether it holds the lease.
        groups: The number of groups that it manages.
        oldest_pass: Seconds since the last pass over the group that has waited longest.
        namespaces: Whether each configured namespace is watched; empty for the whole cluster.
        unwatched: The number of groups in each namespace without the label that it looks for.
    """

    is_leader: bool
    groups: int
    oldest_pass: float
    namespaces: Mapping[str, bool] = field(default_factory=dict)
    unwatched: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassMetrics:
    """Measurements of the passes over all objects of a kind.

    Attributes:
        outcomes: Counts the passes, by outcome.
        durations: The duration of each, if it is measured.
        delays: The time from an event to the start of the pass that handles it, if it is measured.
    """

    outcomes: Counter
    durations: Histogram | None = None
    delays: Histogram | None = None

    def began(self, delay: float) -> None:
        """A pass began so many seconds after the event that it handles."""
        if self.delays:
            self.delays.observe(delay)

    def ended(self, outcome: str, seconds: float) -> None:
        """A pass ended after so many seconds."""
        self.outcomes.labels(outcome).inc()
        if self.durations:
            self.durations.observe(seconds)


class Metrics:
    """All metrics of one operator, in a registry of its own.

    Attributes:
        registry: What ``/metrics`` exposes.
        group_snapshots: By namespace and name; the reconciler writes them, each scrape reads them.
        backfill_snapshots: The same of Backfills, as they were listed last.
        foreign_groups: The operator that manages a group that this one leaves alone, by namespace
            and name.
    """

    def __init__(self, operator: Callable[[], OperatorSnapshot]) -> None:
        """``operator`` is called at each scrape."""
        own = self.registry = CollectorRegistry()
        self.group_snapshots: dict[tuple[str, str], GroupSnapshot] = {}
        self.backfill_snapshots: dict[tuple[str, str], BackfillSnapshot] = {}
        self.foreign_groups: dict[tuple[str, str], str] = {}
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        for families, samples in (
            (GROUP_FAMILIES, lambda: group_samples(self.group_snapshots)),
            (BACKFILL_FAMILIES, lambda: _backfill_samples(self.backfill_snapshots.values())),
            (OPERATOR_FAMILIES, lambda: _operator_samples(operator(), self.foreign_groups)),
        ):
            own.register(SampleCollector(families, samples))
        info = Info("landfall_operator", "Version of the operator", registry=own)
        info.info({"version": __version__})
        self._count_work()
        self._count_requests()

    def _count_work(self) -> None:
        self.passes = PassMetrics(
            outcomes=self._counter(
                "landfall_operator_passes", "Reconcile passes, by outcome", "outcome"
            ),
            durations=self._histogram(
                "landfall_operator_pass_duration_seconds",
                "Duration of one reconcile pass",
                _PASS_BUCKETS,
            ),
            delays=self._histogram(
                "landfall_operator_wake_delay_seconds",
                "Time from an event to the start of the reconcile pass that handles it",
                _PASS_BUCKETS,
            ),
        )
        self.backfill_passes = PassMetrics(
            self._counter(
                "landfall_operator_backfill_passes", "Passes over Backfills, by outcome", "outcome"
            )
        )
        self.actions = self._counter(
            "landfall_operator_actions", "Executed actions, by kind", "action"
        )
        self.events = self._counter(
            "landfall_operator_announcements", "Kubernetes Events that were posted, by type", "type"
        )
        self.driver_failures = self._counter(
            "landfall_group_driver_troubles",
            "Times that the operator found a driver of the group not running, by reason",
            *GROUP_LABELS,
            "reason",
        )

    def _count_requests(self) -> None:
        self.api_requests = self._counter(
            "landfall_operator_api_requests", "Requests to the API server", "verb", "kind", "code"
        )
        self.api_seconds = self._histogram(
            "landfall_operator_api_request_duration_seconds",
            "Time until the API server has answered a request",
            _REQUEST_BUCKETS,
            "verb",
        )
        self.driver_requests = self._counter(
            "landfall_operator_driver_requests", "Requests to drivers", "path", "outcome"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def forget(self, namespace: str, group: str) -> None:
        """Remove the metrics of a deleted group."""
        self.group_snapshots.pop((namespace, group), None)
        self.foreign_groups.pop((namespace, group), None)
        self.driver_failures.remove_by_labels({"namespace": namespace, "group": group})


OPERATOR_FAMILIES = Families(
    texts={
        "landfall_operator_leader": "1 if this operator holds the lease and acts, else 0",
        "landfall_operator_groups": "Groups that the operator manages",
        "landfall_operator_oldest_pass_age_seconds": (
            "Time since the last reconcile pass over the group that has waited longest"
        ),
        "landfall_operator_namespace_watched": (
            "1 if the operator watches a namespace that it was given, 0 if a right is missing"
        ),
        "landfall_operator_unwatched_groups": (
            "Groups of a namespace without the label that the operator looks for"
        ),
        "landfall_operator_foreign_group": (
            "1 for each group that is left alone because another operator manages it"
        ),
    },
    labels={
        "landfall_operator_namespace_watched": ("namespace",),
        "landfall_operator_unwatched_groups": ("namespace",),
        "landfall_operator_foreign_group": (*GROUP_LABELS, "operator"),
    },
)


def _operator_samples(
    operator: OperatorSnapshot, foreign_groups: Mapping[tuple[str, str], str]
) -> Samples:
    yield "landfall_operator_leader", (), operator.is_leader
    yield "landfall_operator_groups", (), operator.groups
    yield "landfall_operator_oldest_pass_age_seconds", (), operator.oldest_pass
    for namespace, is_watched in operator.namespaces.items():
        yield "landfall_operator_namespace_watched", (namespace,), float(is_watched)
    for namespace, groups in operator.unwatched.items():
        yield "landfall_operator_unwatched_groups", (namespace,), groups
    for key, other in dict(foreign_groups).items():
        yield "landfall_operator_foreign_group", (*key, other), 1.0
