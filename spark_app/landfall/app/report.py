"""One consistent picture of a driver, for ``/status``, metrics and the command line."""

from datetime import datetime

from landfall import __version__
from landfall.app.driver import Driver
from landfall.contract import CommitStatus, PartitionStatus, Status
from landfall.offsets import TopicPartition
from landfall.plan import overdue


def picture(driver: Driver, now: datetime) -> Status:
    """The driver as it is now; call it from the driver's thread."""
    group, state, tally = driver.group, driver.writer.state, driver.tally
    partitions = partition_statuses(driver, now)
    commits = CommitStatus(
        total=state.totals.commits,
        failures=tally.failures,
        consecutive_failures=tally.consecutive_failures,
        last_time=state.last_commit_time,
        last_failure=tally.last_failure,
        unapplied=driver.unapplied,
    )
    return Status(
        version=__version__,
        group=group.metadata.name,
        namespace=group.metadata.namespace,
        generation=group.spec.generation,
        epoch=state.epoch,
        lane=driver.writer.lane.name,
        phase=driver.phase,
        time=now.isoformat(),
        started=tally.started.isoformat(),
        lag_records=sum(p.lag_records for p in partitions),
        lag_seconds=max((p.lag_seconds for p in partitions), default=0.0),
        overdue_seconds=max((p.overdue_seconds for p in partitions), default=0.0),
        rounds=len(driver.flights),
        commits=commits,
        rates=tally.rates,
        partitions=partitions,
        caught_up=driver.caught_up,
        message=tally.message,
    )


def partition_statuses(driver: Driver, now: datetime) -> tuple[PartitionStatus, ...]:
    """Every topic partition the ledger or the log knows and the spec names."""
    checkpoint, observer = driver.writer.state.checkpoint, driver.parts.observer
    standing, flying = driver.standing(), driver.flying()
    late = {b.topic_partition: overdue(b, driver.policy) for b in observer.backlogs(checkpoint, (), now)}

    def one(tp: TopicPartition) -> PartitionStatus:
        at = checkpoint[tp]
        end = max(observer.last_ends.get(tp, at), at)
        stands = standing.get(tp)
        return PartitionStatus(
            topic=tp.topic,
            partition=tp.partition,
            checkpoint=at,
            end_offset=end,
            lag_records=end - at,
            lag_seconds=observer.age(tp, at, now).total_seconds(),
            overdue_seconds=late[tp].total_seconds() if tp in late else 0.0,
            in_round=tp in flying,
            blocked=stands.reason.value if stands else None,
            message=str(stands) if stands else "",
        )

    return tuple(one(tp) for tp in sorted(checkpoint) if tp in observer.watermarks or tp in standing)
