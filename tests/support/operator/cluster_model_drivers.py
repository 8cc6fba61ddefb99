"""The drivers in the model of a cluster: their Deployments, their pods and what they answer."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from landfall.api.contract import (
    CommitStatus,
    DriverPhase,
    Failure,
    PartitionStatus,
    Rates,
    Status,
    Workers,
)
from landfall.api.spec import Schedule
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.core.snapshot import PodFailure, ReceivedStatus
from tests.support.operator.cluster_model_runs import RunInPod, RunLedger

START_PATIENCE = timedelta(minutes=4)
"""How long a driver that starts waits for the store and for Kafka before it ends."""
ENVIRONMENT = ("image", "room", "secret", "store", "kafka")
"""What may be away: images that no node has, room for a second driver, a Secret that every pod
mounts, the store, Kafka.
"""


class Cluster(Protocol):
    """What drivers depend on."""

    now: datetime
    away: set[str]
    pulled: set[str]
    ledger: RunLedger
    quiet: datetime | None


@dataclass
class Pod:
    """The pod of a driver."""

    started: datetime
    phase: DriverPhase = DriverPhase.STARTING
    restarts: int = 0
    ends: datetime | None = None
    executors: int = 1
    scheduled: bool = True
    created: bool = False
    landed: int = 0
    last_exit: PodFailure | None = None
    begun: datetime | None = None
    run: RunInPod | None = None
    tried: datetime | None = None

    def end(self, reason: ConditionReason, message: str) -> None:
        """The container ends, and is started again after a pause."""
        self.phase, self.restarts = DriverPhase.STARTING, self.restarts + 1
        self.last_exit, self.begun = PodFailure(reason, message), None
        self.run = self.tried = None


@dataclass
class Deployed:
    """A Deployment of a driver."""

    revision: str
    digest: str
    image: str
    replicas: int
    config: str = ""
    executors: int = 1
    terminating: bool = False
    pod: Pod | None = None
    schedule: Schedule | None = None

    def behaves(self, how: str) -> bool:
        return self.image.startswith(how)

    def land(self, pod: Pod, ledger: RunLedger, now: datetime) -> bool:
        """Land for a moment; returns whether the driver has landed, or has nothing to land."""
        works = not (self.behaves("failing") or self.behaves("bad"))
        if works and (self.schedule is None or ledger.advance(pod, self.schedule, now)):
            pod.landed += 100
        waits = self.schedule is not None and ledger.status(pod, self.schedule, now).waits
        return pod.landed > 0 or waits


def pod_failure_of(deployed: Deployed, pod: Pod, cluster: Cluster) -> PodFailure | None:
    """Why the pod does not run."""
    if not pod.scheduled:
        return PodFailure(ConditionReason.UNSCHEDULABLE, "0/3 nodes are available")
    if deployed.image not in cluster.pulled and "image" in cluster.away:
        return PodFailure(ConditionReason.IMAGE_PULL, "the registry does not answer")
    if not pod.created and "secret" in cluster.away:
        return PodFailure(ConditionReason.CONFIG_ERROR, 'secret "s3" not found')
    # The kubelet starts a container that ended again, after a pause.
    return pod.last_exit if pod.phase is DriverPhase.STARTING and pod.begun is None else None


def report_of(deployed: Deployed, pod: Pod, cluster: Cluster) -> ReceivedStatus:
    """The driver's answer to ``/status``."""
    runs = pod.phase is DriverPhase.RUNNING
    partition = PartitionStatus("clicks", 0, 10, 12, 2, 3.0, 0.0)
    if runs and deployed.behaves("bad"):
        partition = PartitionStatus(
            "clicks", 0, 10, 12, 2, 3.0, 0.0, blocked="BadRecordsOverLimit", message="bad"
        )
    outage = runs and bool({"store", "kafka"} & cluster.away)
    failures = 9 if runs and (deployed.behaves("failing") or outage) else 0
    away = "StoreUnavailable" if "store" in cluster.away else "SourceUnavailable"
    reason = away if outage else "EncodeFailed"
    last = Failure(cluster.now.isoformat(), reason, "cannot commit") if failures else None
    seconds = int((cluster.now - pod.started).total_seconds())
    status = Status(
        version="0",
        group="clicks",
        namespace="logs",
        generation=1,
        epoch=1,
        lane="0",
        phase=pod.phase,
        time=cluster.now.isoformat(),
        started=pod.started.isoformat(),
        lag_records=2,
        lag_seconds=3.0,
        overdue_seconds=0.0 if pod.landed else float(seconds),
        rounds=0,
        commits=CommitStatus(5, failures, failures, cluster.now.isoformat(), last, 0),
        rates=Rates(
            pod.landed,
            100,
            100,
            0,
            1.0,
            1.0,
            arrived_records=10 * seconds,
            task_seconds=0.1 * seconds,
        ),
        partitions=(partition,),
        revision=deployed.revision,
        workers=Workers(pod.executors, pod.executors, pod.executors),
    )
    if cluster.quiet:
        status = _of_quiet_topics(status, cluster.quiet)
    schedule = deployed.schedule if runs else None
    return ReceivedStatus(cluster.ledger.add_to(status, pod, schedule), cluster.now)


def _of_quiet_topics(status: Status, since: datetime) -> Status:
    """The answer once all is landed, and no record has come since a time."""
    none = tuple(replace(p, lag_records=0, lag_seconds=0.0) for p in status.partitions)
    commits = replace(status.commits, last_time=since.isoformat())
    return replace(status, lag_records=0, lag_seconds=0.0, partitions=none, commits=commits)
