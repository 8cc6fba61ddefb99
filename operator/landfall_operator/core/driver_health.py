"""Judges a revision's driver: whether it works, what prevents it, and whose fault that is. Pure.

A revision fails by itself if its driver crashes, is stalled, does not get ready or does not commit.
An *obstacle* is a failure of the environment: of the cluster, the image registry, the store or
Kafka. Another revision would meet it as well, so a rollout waits for its end, and no limit of time
runs meanwhile. There is one exception: if the revision changed the very fields that the obstacle is
about, and nothing lands, the previous revision comes back, and the spec is tried again later.
"""

from collections.abc import Mapping
from datetime import timedelta

from landfall.api.contract import DriverPhase, Status
from landfall.api.spec.policies import Rollback
from landfall.api.spec.stores import SCHEMES
from landfall.api.values import plural
from landfall_operator.api.change_impact import difference
from landfall_operator.api.reasons import BY_WORD, ConditionReason, is_environment
from landfall_operator.api.status import RolloutStatus, Stage
from landfall_operator.core.snapshot import (
    GroupObservation,
    PodFailure,
    RecordedSpec,
    RevisionDriver,
)

IMAGE_PULL_TIMEOUT = timedelta(minutes=2)
"""How long an image may fail to be pulled while nothing lands and the previous image is another."""
START_TIME = timedelta(minutes=10)
"""How long a driver that ended for a reason of the environment may try to start again."""
JUDGED = frozenset({Stage.TRYING, Stage.WARMING, Stage.YIELDING, Stage.OPENING, Stage.WATCHING})
"""Stages in which a driver is judged: the target's if there is a target, else the active one."""
STARTING = frozenset({Stage.WARMING, Stage.OPENING})
"""Stages in which ``rollback.readyIn`` applies."""

_PROBABLE_CAUSES: Mapping[ConditionReason, tuple[str, ...]] = {
    ConditionReason.IMAGE_PULL: ("image",),
    ConditionReason.UNSCHEDULABLE: ("driver",),
    ConditionReason.POD_REFUSED: ("driver",),
    ConditionReason.CONFIG_ERROR: ("image", "source", "output", "ledger", "badRecords", "driver"),
    ConditionReason.SECRET_MISSING: (
        "source",
        "output",
        "ledger",
        "badRecords",
        "decode",
        "transforms",
        "topics",
        "publish",
        "driver",
        "executor",
    ),
    ConditionReason.DEPENDENCY_UNAVAILABLE: (
        "image",
        "source",
        *(
            f"{root}.{section}"
            for root in ("output", "ledger", "badRecords")
            for section in SCHEMES.values()
        ),
        "driver",
        "executor",
        "tuning",
    ),
    ConditionReason.STORE_UNAVAILABLE: ("output", "ledger", "badRecords", "driver", "executor"),
    ConditionReason.STORE_DENIED: ("output", "ledger", "badRecords", "driver", "executor"),
    ConditionReason.STORE_UNSAFE: ("output", "ledger", "badRecords"),
    ConditionReason.SOURCE_UNAVAILABLE: ("source", "driver", "executor"),
    ConditionReason.SOURCE_DENIED: ("source", "driver", "executor"),
    ConditionReason.SCHEMAS_UNAVAILABLE: ("decode", "driver", "executor"),
    ConditionReason.SCHEMAS_DENIED: ("decode", "driver", "executor"),
    ConditionReason.SCHEMAS_CHANGED: ("decode", "driver", "executor"),
}
"""The fields whose change may have caused an obstacle, by its reason."""


def judged_driver(observed: GroupObservation, rollout: RolloutStatus) -> RevisionDriver | None:
    """The driver that decides how the rollout continues; None in stages that judge none."""
    if rollout.stage not in JUDGED:
        return None
    return observed.driver(rollout.target or rollout.active)


def works(observed: GroupObservation, driver: RevisionDriver) -> bool:
    """Return whether a driver lands or stands by."""
    return driver.lands(observed.now) or driver.phase(observed.now) is DriverPhase.STANDBY


def has_committed(observed: GroupObservation, driver: RevisionDriver) -> bool:
    """Return whether the process has landed records, or has the lane and nothing to land."""
    status = driver.fresh_status(observed.now)
    if status is None or not driver.lands(observed.now):
        return False
    landed = status.rates.landed_records + status.rates.dead_lettered
    idle = status.phase is DriverPhase.RUNNING and status.lag_known and not status.lag_records
    return bool(landed or (idle and not status.commits.consecutive_failures))


def obstacle(observed: GroupObservation, driver: RevisionDriver | None) -> PodFailure | None:
    """Return the obstacle that is not the revision's fault; None if there is none."""
    if driver is None:
        return None
    status = driver.fresh_status(observed.now)
    if status and status.phase is DriverPhase.STALLED:
        reason, _, message = status.message.partition(": ")
        return _environment(reason, message)
    if not works(observed, driver) and (failure := start_failure(observed, driver)):
        return failure if is_environment(failure.reason) else None
    if status is None:
        return None
    last = status.commits.last_failure
    if last and status.commits.consecutive_failures:
        return _environment(last.reason, last.message)
    return None


def start_failure(observed: GroupObservation, driver: RevisionDriver) -> PodFailure | None:
    """Return why a driver that does not work does not run, or what ended it last.

    A driver that starts while the store is away tries for minutes before it ends again, so the
    reason of its last end holds for as long as a start may take.
    """
    if driver.pod_failure or driver.started is None:
        return driver.pod_failure
    return driver.last_exit if observed.now - driver.started <= START_TIME else None


def _environment(reason: str, message: str) -> PodFailure | None:
    if not is_environment(reason):
        return None
    return PodFailure(BY_WORD.get(reason, ConditionReason.DEPENDENCY_UNAVAILABLE), message)


def time_in_stage(observed: GroupObservation, rollout: RolloutStatus) -> timedelta:
    """How long the limits of time of this stage have run; they stand still during an obstacle."""
    if rollout.since is None or rollout.held:
        return timedelta(0)
    return observed.now - max(rollout.since, rollout.resumed or rollout.since)


def held_for(observed: GroupObservation, rollout: RolloutStatus) -> timedelta:
    """How long an obstacle has lasted in this stage; zero without one."""
    if rollout.held is None:
        return timedelta(0)
    return observed.now - max(rollout.held.since, rollout.since or rollout.held.since)


def driver_failure(
    observed: GroupObservation,
    driver: RevisionDriver | None,
    rollout: RolloutStatus,
    limit: Rollback,
) -> PodFailure | None:
    """Return why a driver counts as failed; None while it may still work."""
    if driver is None:
        return None
    if blocked := obstacle(observed, driver):
        patience = _patience(blocked, limit)
        caused = held_for(observed, rollout) > patience and _caused(observed, rollout, blocked)
        return blocked if caused else None
    status = driver.fresh_status(observed.now)
    if status and status.phase is DriverPhase.STALLED:
        return PodFailure(ConditionReason.DRIVER_STALLED, status.message or "the driver is stalled")
    if not works(observed, driver):
        return _start_failure(observed, driver, rollout, limit)
    elapsed = time_in_stage(observed, rollout)
    return _landing_failure(status, elapsed, limit) if status else None


def _start_failure(
    observed: GroupObservation, driver: RevisionDriver, rollout: RolloutStatus, limit: Rollback
) -> PodFailure | None:
    """Return why a driver that neither lands nor stands by counts as failed."""
    # The pod's own failure explains more than the number of its restarts.
    failure = driver.pod_failure or driver.last_exit
    reason = failure.reason if failure else None
    message = failure.message if failure else _restarts_text(driver.restarts)
    crashes = rollout.crashes
    if crashes and crashes.revision == driver.revision and crashes.count >= limit.crashes:
        return PodFailure(reason or ConditionReason.CRASH_LOOP, message)
    if rollout.stage in STARTING and time_in_stage(observed, rollout) > limit.ready_in:
        return PodFailure(reason or ConditionReason.NOT_READY_IN_TIME, message)
    return None


def _restarts_text(restarts: int) -> str:
    if not restarts:
        return "the driver is not ready"
    return f"the driver is not ready after {plural(restarts, 'restart')}"


def _landing_failure(status: Status, elapsed: timedelta, limit: Rollback) -> PodFailure | None:
    """Return why a driver that answers counts as failed, without an obstacle."""
    failures = status.commits.consecutive_failures
    last = status.commits.last_failure
    if failures >= limit.max_commit_failures:
        return PodFailure(
            ConditionReason.COMMITS_FAILING,
            f"{plural(failures, 'consecutive commit failure')}; the last one: "
            f"{last.message if last else 'unknown'}",
        )
    # Another revision may decode these records, so a rollback can help.
    bad_records = [p.message for p in status.partitions if p.blocked == ConditionReason.BAD_RECORDS]
    if bad_records:
        return PodFailure(ConditionReason.BAD_RECORDS, bad_records[0])
    overdue = timedelta(seconds=status.overdue_seconds)
    if min(elapsed, overdue) > limit.no_commit and not status.rates.landed_records:
        return PodFailure(
            ConditionReason.NO_COMMIT,
            f"records are overdue by {overdue} and the driver has committed none",
        )
    return None


def _patience(blocked: PodFailure, limit: Rollback) -> timedelta:
    """How long an obstacle may last that the active revision has probably caused."""
    pulling = blocked.reason is ConditionReason.IMAGE_PULL
    return min(limit.ready_in, IMAGE_PULL_TIMEOUT) if pulling else limit.ready_in


def _caused(observed: GroupObservation, rollout: RolloutStatus, blocked: PodFailure) -> bool:
    """Return whether the active revision has probably caused an obstacle, so that nothing lands.

    While the active driver lands, or if the previous revision would meet the same obstacle, the
    rollout waits instead.
    """
    if rollout.stage not in {Stage.TRYING, Stage.OPENING, Stage.WATCHING}:
        return False
    present = observed.record(rollout.active)
    previous = observed.record(rollout.previous)
    if not present or not previous:
        return False
    fields = _PROBABLE_CAUSES.get(blocked.reason, ())
    return any(path.startswith(fields) for path in _changed(previous, present))


def _changed(before: RecordedSpec, after: RecordedSpec) -> tuple[str, ...]:
    """The paths of the fields that differ between two recorded specs."""
    fields = difference(before.group.spec, after.group.spec).fields
    return (*fields, "image") if before.image != after.image else fields
