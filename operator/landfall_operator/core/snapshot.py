"""What an operator sees of one group in one look: plain values, taken once, that everything else is decided from.

The edge fills them (``observe`` over the API server's index of owned objects and the drivers'
``/status``); nothing here reads a clock or asks anybody. What could not be read is None, never a
guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.contract import Phase, Status
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.reasons import Reason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.autoscaler import Sample

FRESH = timedelta(seconds=45)
"""How long a driver's numbers count as its present ones: three polls."""

HOLDING = frozenset({Phase.RECOVERING, Phase.RUNNING})
"""Phases of a driver that owns the lane and works on it."""


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a driver's pod does not run."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The last answer of a driver's ``/status``, and when it came."""

    status: Status
    received: datetime


@dataclass(frozen=True, slots=True)
class Driver:
    """One revision's Deployment and what runs of it.

    Attributes:
        revision: its name.
        digest: of the spec it was made from.
        image: of its container.
        replicas: pods it is to have, 0 or 1.
        pods: pods that exist, those that are ending too.
        restarts: of the container, over the present pod's life.
        terminating: its deletion has begun.
        trouble: why the pod does not run, if it does not.
        report: what the driver said last.
        gone: the process that said so is no longer there, whether another one is or not.
    """

    revision: str
    digest: str
    image: str
    replicas: int = 1
    pods: int = 0
    restarts: int = 0
    terminating: bool = False
    trouble: PodFailure | None = None
    report: Report | None = None
    gone: bool = False

    def fresh(self, now: datetime) -> Status | None:
        """What it said, if that is still true."""
        if self.report is None or self.gone or now - self.report.received > FRESH:
            return None
        return self.report.status

    def phase(self, now: datetime) -> Phase | None:
        """What it is doing; None when it does not say."""
        status = self.fresh(now)
        return status.phase if status else None

    def lands(self, now: datetime) -> bool:
        """Whether it owns the lane and works on it."""
        return self.phase(now) in HOLDING


def measured(report: Report) -> Sample | None:
    """What a report says for scaling; None if its driver does not measure that."""
    status = report.status
    rates, workers = status.rates, status.workers
    if (
        rates.arrived_records is None
        or rates.task_seconds is None
        or workers is None
        or not status.lag_known
    ):
        return None
    moving = [p for p in status.partitions if not p.blocked]
    return Sample(
        time=report.received,
        driver=f"{status.revision}/{status.epoch}",
        arrived=rates.arrived_records,
        landed=rates.landed_records + rates.dead_lettered,
        task_seconds=rates.task_seconds,
        lag_records=sum(p.lag_records for p in moving),
        lag_seconds=max((p.lag_seconds for p in moving), default=0.0),
        overdue_seconds=max((p.overdue_seconds for p in moving), default=0.0),
        executors=workers.registered,
        wanted=workers.wanted,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """A spec that was to be run, as kept in a ControllerRevision.

    Attributes:
        number: counts up over the group's life.
        group: the resource, as it was asked for.
        image: what its image stood for then.
        made: when.
    """

    number: int
    group: ConsumerGroup
    image: str
    made: datetime

    @property
    def revision(self) -> str:
        """Which driver it is for."""
        return revision_of(self.group)

    @property
    def digest(self) -> str:
        """What it is known by."""
        return digest_of(self.group)


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that is known of one group at one moment.

    Attributes:
        now: the moment.
        name: metadata.name.
        namespace: metadata.namespace.
        uid: metadata.uid, for owner references.
        generation: metadata.generation.
        deleting: somebody asked for its deletion.
        finalizer: ours is on it.
        spec: what is asked for; None when it is not valid.
        fault: why it is not valid.
        status: what the operator wrote last.
        records: specs that were to be run, oldest first.
        drivers: Deployments of drivers by revision.
        contracts: what the ConfigMap of a revision holds, by revision: the last valid spec, with
            its live settings.
        hashes: of every other object the group owns, by ``Kind/name``, as it was applied.
        samples: measurements of the last half an hour, oldest first.
    """

    now: datetime
    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool = False
    finalizer: bool = False
    spec: ConsumerGroup | None = None
    fault: str = ""
    status: GroupStatus = field(default_factory=GroupStatus)
    records: tuple[Record, ...] = ()
    drivers: Mapping[str, Driver] = field(default_factory=dict)
    contracts: Mapping[str, ConsumerGroup] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()

    def driver(self, revision: str | None) -> Driver | None:
        """A revision's driver, if there is one."""
        return self.drivers.get(revision) if revision else None

    def record(self, revision: str | None) -> Record | None:
        """The newest spec of a revision, if it is still known."""
        return max(
            (r for r in self.records if r.revision == revision),
            key=lambda r: r.number,
            default=None,
        )

    def known(self, digest: str) -> bool:
        """Whether a spec is recorded."""
        return any(r.digest == digest for r in self.records)
