"""One consistent picture of a driver, for ``/status``, metrics and the command line."""

from dataclasses import dataclass, replace
from datetime import datetime

from landfall import __version__
from landfall.api.contract import CommitStatus, PartitionStatus, Phase, Status, Workers
from landfall.api.spec import ConsumerGroup
from landfall.driver.counters import DriverCounters
from landfall.driver.loop import Driver
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.plan import overdue


@dataclass(frozen=True, slots=True)
class LaneView:
    """Where a driver is.

    Attributes:
        group: the resource.
        lane: the lane's name.
        revision: its own.
        phase: of its life.
        state: of the lane, as far as it knows.
        epoch: of its own last OPEN; 0 before that.
    """

    group: ConsumerGroup
    lane: str
    revision: str
    phase: Phase
    state: State
    epoch: int


def driver_status(driver: Driver, now: datetime, workers: Workers | None = None) -> Status:
    """The driver as it is now; call it from the driver's thread."""
    state, partitions = driver.writer.state, partition_statuses(driver, now)
    lane = driver.writer.lane.name
    bare = picture_without_lag(
        LaneView(driver.group, lane, state.revision, driver.phase, state, state.epoch),
        driver.counters,
        now,
        workers,
    )
    return replace(
        bare,
        lag_records=sum(p.lag_records for p in partitions),
        lag_seconds=max((p.lag_seconds for p in partitions), default=0.0),
        overdue_seconds=max((p.overdue_seconds for p in partitions), default=0.0),
        rounds=len(driver.rounds),
        commits=replace(bare.commits, unapplied=driver.unapplied),
        partitions=partitions,
        caught_up=driver.caught_up,
        lag_known=driver.offsets_known,
    )


def picture_without_lag(
    lane_view: LaneView, counters: DriverCounters, now: datetime, workers: Workers | None
) -> Status:
    """A driver that has not got the lane: it knows the ledger but not the log, and whoever has the lane tells the lag."""
    group, state = lane_view.group, lane_view.state
    commits = CommitStatus(
        total=state.totals.commits,
        failures=counters.failures,
        consecutive_failures=counters.consecutive_failures,
        last_time=state.last_commit_time,
        last_failure=counters.last_failure,
        unapplied=0,
    )
    return Status(
        version=__version__,
        group=group.metadata.name,
        namespace=group.metadata.namespace,
        generation=group.spec.generation,
        epoch=lane_view.epoch,
        lane=lane_view.lane,
        phase=lane_view.phase,
        time=now.isoformat(),
        started=counters.started.isoformat(),
        lag_records=0,
        lag_seconds=0.0,
        overdue_seconds=0.0,
        rounds=0,
        commits=commits,
        rates=counters.rates,
        partitions=(),
        message=counters.message,
        revision=lane_view.revision,
        workers=workers,
        lag_known=False,
    )


def partition_statuses(driver: Driver, now: datetime) -> tuple[PartitionStatus, ...]:
    """Every topic partition the ledger or the log knows and the spec names."""
    checkpoint, observer = driver.writer.state.checkpoint, driver.parts.observer
    stalled_partitions, in_flight = driver.stalled_partitions(), driver.rounds.in_flight()
    late = {
        b.topic_partition: overdue(b, driver.rounds.policy)
        for b in observer.backlogs(checkpoint, (), now)
    }

    def one(tp: TopicPartition) -> PartitionStatus:
        at = checkpoint[tp]
        end = max(observer.last_ends.get(tp, at), at)
        stands = stalled_partitions.get(tp)
        return PartitionStatus(
            topic=tp.topic,
            partition=tp.partition,
            checkpoint=at,
            end_offset=end,
            lag_records=end - at,
            lag_seconds=observer.age(tp, at, now).total_seconds(),
            overdue_seconds=late[tp].total_seconds() if tp in late else 0.0,
            in_round=tp in in_flight,
            blocked=stands.reason.value if stands else None,
            message=str(stands) if stands else "",
        )

    return tuple(
        one(tp)
        for tp in sorted(checkpoint)
        if tp in observer.watermarks or tp in stalled_partitions
    )
