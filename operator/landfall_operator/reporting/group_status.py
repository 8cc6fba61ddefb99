"""The status of a group, made anew from each look at it. Pure.

Nothing is carried over from the last status but what cannot be seen: the rollout, the plan, and
since when a condition is as it is. Numbers of a driver that does not answer stay, with their time
and their age in the text; they are never shown as fresh. Numbers are rounded to two digits, so that
a status is only written when there is something to tell.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from landfall.api.contract import Status
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.reasons import ConditionType, Phase, Reason
from landfall_operator.api.status import (
    AutoscalingStatus,
    CommitsStatus,
    Condition,
    ExecutorsStatus,
    FailureStatus,
    GroupStatus,
    LagStatus,
    Outcome,
    RateStatus,
    RolloutStatus,
    Stage,
    Worst,
)
from landfall_operator.core import autoscaler
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import FRESH, Observed, Record, Report
from landfall_operator.humanize import aged, count_text, rough, shortened, time_text
from landfall_operator.objects import names
from landfall_operator.reporting.conditions import conditions

WORST = 5
"""Topic partitions that are named."""
HISTORY = 10
LONGEST = 300
"""Characters of a message."""

_PHASES: Mapping[Stage, Phase] = {
    Stage.SUSPENDING: Phase.SUSPENDING,
    Stage.SUSPENDED: Phase.SUSPENDED,
    Stage.DELETING: Phase.TERMINATING,
    Stage.DELETED: Phase.TERMINATING,
}


def report(observed: Observed, desired: DesiredState) -> GroupStatus:
    """The whole status."""
    driver = observed.driver(desired.rollout.active)
    told = driver.report if driver else None
    judged = conditions(observed, desired)
    phase, reason = summary(desired.rollout, judged)
    fresh = driver.fresh(observed.now) if driver else None
    record = observed.record(desired.rollout.active)
    workers = fresh.workers if fresh else None
    return GroupStatus(
        observed_generation=observed.generation,
        phase=phase,
        reason=reason,
        active_generation=record.group.spec.generation if record else None,
        image=driver.image if driver else None,
        topics=_topics(desired.group) if desired.group else None,
        replicas=workers.registered if workers else 0,
        selector=names.scale_selector(observed.name),
        executors=ExecutorsStatus(
            wanted=desired.scaling.desired, ready=workers.registered if workers else 0
        ),
        lag=_lag(observed, told) if told and told.status.lag_known else _remembered(observed),
        commits=_commits(told.status) if told else observed.status.commits,
        rate=_rate(observed),
        autoscaling=_autoscaling(desired),
        plan=desired.plan,
        rollout=desired.rollout,
        history=_history(observed, desired.rollout),
        conditions=judged,
    )


def worth_writing(before: GroupStatus, after: GroupStatus) -> bool:
    """Whether a status tells more than that the driver said the same again."""
    if before.lag and after.lag:
        after = after.model_copy(
            update={"lag": after.lag.model_copy(update={"time": before.lag.time})}
        )
    return before != after


def summary(rollout: RolloutStatus, judged: tuple[Condition, ...]) -> tuple[Phase, Reason | None]:
    """One word for all conditions, and the reason of the one that it comes from."""
    by_type = {condition.type: condition for condition in judged}
    ready, stalled = by_type[ConditionType.READY], by_type[ConditionType.STALLED]
    upgrading, lag = by_type[ConditionType.UPGRADING], by_type[ConditionType.WITHIN_LAG_TARGET]
    if rollout.stage in _PHASES:
        return _PHASES[rollout.stage], None
    if upgrading.status == "True" and rollout.stage is not Stage.WATCHING:
        back = upgrading.reason is Reason.ROLLING_BACK
        return (Phase.ROLLING_BACK if back else Phase.UPGRADING), upgrading.reason
    if stalled.status == "True":
        return Phase.STALLED, stalled.reason
    if rollout.active is None:
        return Phase.PENDING, ready.reason
    if ready.status != "True":
        return (Phase.STARTING if ready.reason is Reason.STARTING else Phase.DEGRADED), ready.reason
    return (Phase.CATCHING_UP, lag.reason) if lag.status == "False" else (Phase.RUNNING, None)


def _lag(observed: Observed, told: Report) -> LagStatus:
    status = told.status
    worst = sorted(
        status.partitions,
        key=lambda p: (p.overdue_seconds, p.lag_seconds, p.lag_records),
        reverse=True,
    )
    seconds, records = rough(status.lag_seconds), rough(status.lag_records)
    return LagStatus(
        records=records,
        seconds=seconds,
        overdue_seconds=rough(status.overdue_seconds),
        records_text=count_text(records),
        seconds_text=_seconds_text(seconds, observed.now - told.received),
        time=told.received,
        eta_seconds=_eta(observed, status) if observed.now - told.received <= FRESH else None,
        worst=tuple(
            Worst(
                topic=p.topic,
                partition=p.partition,
                records=rough(p.lag_records),
                seconds=rough(p.lag_seconds),
                overdue_seconds=rough(p.overdue_seconds),
                blocked=p.blocked,
            )
            for p in worst[:WORST]
            if p.lag_records or p.blocked
        ),
        blocked=sum(1 for p in status.partitions if p.blocked),
    )


def _remembered(observed: Observed) -> LagStatus | None:
    """The last numbers of a driver that is gone, or that a new operator has not heard yet, with their age."""
    lag = observed.status.lag
    if lag is None:
        return None
    text = _seconds_text(lag.seconds, observed.now - lag.time)
    return lag.model_copy(update={"seconds_text": text, "eta_seconds": None})


def _seconds_text(seconds: int, age: timedelta) -> str:
    return aged(time_text(seconds), age) if age > FRESH else time_text(seconds)


def _eta(observed: Observed, status: Status) -> int | None:
    seen = autoscaler.load(observed.samples) if observed.samples else None
    if seen is None or status.overdue_seconds <= 0 or seen.landing <= seen.arriving:
        return None
    return rough(status.lag_records / (seen.landing - seen.arriving))


def _commits(status: Status) -> CommitsStatus:
    commits, last = status.commits, status.commits.last_failure
    return CommitsStatus(
        total=commits.total,
        failures=commits.failures,
        consecutive_failures=commits.consecutive_failures,
        last_time=datetime.fromisoformat(commits.last_time) if commits.last_time else None,
        last_failure=FailureStatus(
            time=datetime.fromisoformat(last.time),
            reason=last.reason,
            message=shortened(last.message, LONGEST),
        )
        if last
        else None,
    )


def _rate(observed: Observed) -> RateStatus | None:
    seen = autoscaler.load(observed.samples) if observed.samples else None
    return RateStatus(arriving=rough(seen.arriving), landing=rough(seen.landing)) if seen else None


def _autoscaling(desired: DesiredState) -> AutoscalingStatus | None:
    if desired.group is None or desired.group.spec.autoscaling is None:
        return None
    made = desired.scaling
    return AutoscalingStatus(desired=made.desired, reason=str(made.reason), message=made.message)


def _topics(group: ConsumerGroup) -> str:
    kafka = group.spec.source.kafka
    return shortened(", ".join(kafka.topics) or kafka.topic_pattern or "", 60)


def _history(observed: Observed, rollout: RolloutStatus) -> tuple[Outcome, ...]:
    newest = sorted(observed.records, key=lambda record: record.number, reverse=True)[:HISTORY]
    return tuple(
        Outcome.model_validate(
            {
                "revision": record.revision,
                "generation": record.group.spec.generation,
                "image": record.image,
                "since": record.made,
                "outcome": _outcome(observed, rollout, record),
            }
        )
        for record in newest
    )


def _outcome(observed: Observed, rollout: RolloutStatus, record: Record) -> str:
    if rollout.rejected and record.digest == rollout.rejected.digest:
        return "RolledBack"
    if record == observed.record(rollout.active):
        return "Active"
    return "Pending" if record == observed.record(rollout.target) else "Superseded"
