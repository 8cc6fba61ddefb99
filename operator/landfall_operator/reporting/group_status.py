"""The status of a group, computed from scratch from each observation. Pure.

Only what cannot be observed is taken from the last status: the rollout, the plan, and the times at
which conditions changed. The numbers of a driver that does not answer stay, with their time and
with their age in the text; they never look fresh. All numbers are rounded to two digits;
``status_writes`` decides when a status that differs is written.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from landfall.api.contract import Status
from landfall.api.pod_spec import Model
from landfall.api.spec import ConsumerGroup
from landfall.api.status_summary import WORST, how_bad, totals_of
from landfall.api.values import time_text
from landfall_operator.api.reasons import ConditionReason, ConditionType, Phase
from landfall_operator.api.status import (
    AutoscalingStatus,
    CommitsStatus,
    Condition,
    ExecutorsStatus,
    FailureStatus,
    GroupCompactionStatus,
    GroupFeedStatus,
    GroupStatus,
    LagStatus,
    RateStatus,
    RequestStatus,
    RevisionOutcome,
    RolloutStatus,
    Stage,
    Worst,
)
from landfall_operator.core import autoscaler, trials
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.images import newer_image
from landfall_operator.core.parsing import missing_since
from landfall_operator.core.requests import answered_requests
from landfall_operator.core.rollout import is_rollback
from landfall_operator.core.snapshot import FRESH, GroupObservation, ReceivedStatus, RecordedSpec
from landfall_operator.humanize import aged, count_text, rough, shortened
from landfall_operator.objects import names
from landfall_operator.reporting.conditions import acted_on, conditions
from landfall_operator.reporting.publishers import published_text, publisher_statuses
from landfall_operator.reporting.schedules import idle_status, run_statuses, schedule_status
from landfall_operator.reporting.status_writes import bounded

MAX_WORST = WORST
"""Topic partitions that ``status.lag.worst`` lists."""
HISTORY = 10
"""Revisions that ``status.history`` lists."""
MAX_FEEDS = 20
"""Feeds that ``status.feeds`` lists, feeds with an error first."""
MAX_MESSAGE_LENGTH = 300
"""Characters of a message."""

Section = TypeVar("Section", bound=Model)

_PHASES: Mapping[Stage, Phase] = {
    Stage.SUSPENDING: Phase.SUSPENDING,
    Stage.SUSPENDED: Phase.SUSPENDED,
    Stage.DELETING: Phase.TERMINATING,
    Stage.DELETED: Phase.TERMINATING,
}


def report(observed: GroupObservation, desired: DesiredState) -> GroupStatus:
    """The whole status, for an observation and the desired state that follows from it."""
    driver = observed.driver(desired.rollout.active)
    answer = driver.report if driver else None
    found = conditions(observed, desired)
    phase, reason = summarize(desired.rollout, found)
    fresh = driver.fresh_status(observed.now) if driver else None
    record = observed.record(desired.rollout.active)
    workers = fresh.workers if fresh else None
    publishers = publisher_statuses(observed, desired)
    feeds = feed_statuses(observed, desired)
    status = GroupStatus(
        observed_generation=acted_on(observed),
        phase=phase,
        reason=reason,
        active_generation=record.group.spec.generation if record else None,
        image=driver.image if driver else None,
        newer_image=newer_image(observed),
        topics=_topics(desired.group) if desired.group else None,
        replicas=workers.registered if workers else 0,
        selector=names.scale_selector(observed.name),
        executors=ExecutorsStatus(
            wanted=0 if desired.rests else desired.scaling.desired,
            ready=workers.registered if workers else 0,
            missing_since=None if desired.rests else missing_since(observed, workers),
        ),
        lag=_lag_of(observed, desired, answer),
        commits=_commits(answer.status) if answer else observed.status.commits,
        ledger=desired.ledger,
        rate=_rate(observed),
        publishers=publishers or None,
        published=published_text(publishers, desired, observed.now),
        schedule=schedule_status(desired),
        idle=idle_status(desired),
        runs=run_statuses(observed, desired),
        feeds=feeds or None,
        files=files_text(feeds),
        compaction=compaction_status(observed, desired),
        autoscaling=_autoscaling(desired),
        plan=desired.plan,
        rollout=desired.rollout,
        last_request=_last_request(observed, desired),
        answered_requests=answered_requests(observed, desired.answer),
        history=_history(observed, desired.rollout),
        conditions=found,
    )
    return bounded(status)


def summarize(
    rollout: RolloutStatus, found: tuple[Condition, ...]
) -> tuple[Phase, ConditionReason | None]:
    """The phase that sums up all conditions, and the reason of the condition that determines it."""
    by_type = {condition.type: condition for condition in found}
    ready = by_type[ConditionType.READY]
    stalled = by_type[ConditionType.STALLED]
    upgrading = by_type[ConditionType.UPGRADING]
    if rollout.stage in _PHASES:
        return _PHASES[rollout.stage], None
    # A watched generation lands like any other, so its phase is not Upgrading.
    if upgrading.status == "True" and rollout.stage is not Stage.WATCHING:
        rolling_back = is_rollback(rollout) or upgrading.reason is ConditionReason.ROLLING_BACK
        return (Phase.ROLLING_BACK if rolling_back else Phase.UPGRADING), upgrading.reason
    if stalled.status == "True":
        return Phase.STALLED, stalled.reason
    if rollout.active is None:
        return Phase.PENDING, ready.reason
    return _summarize_landing(by_type)


def _summarize_landing(
    by_type: Mapping[ConditionType, Condition],
) -> tuple[Phase, ConditionReason | None]:
    """The phase of a group that does nothing but land, and that no user must act for."""
    ready = by_type[ConditionType.READY]
    lag = by_type[ConditionType.WITHIN_LAG_TARGET]
    schedule = by_type.get(ConditionType.ON_SCHEDULE)
    missed = schedule.reason if schedule and schedule.status == "False" else None
    if missed and (ready.status == "True" or ready.reason is ConditionReason.STARTING):
        return Phase.DEGRADED, missed
    if ready.status != "True":
        return (
            Phase.STARTING if ready.reason is ConditionReason.STARTING else Phase.DEGRADED
        ), ready.reason
    if ready.reason is ConditionReason.SLEEPING:
        return Phase.SLEEPING, None
    return (Phase.CATCHING_UP, lag.reason) if lag.status == "False" else (Phase.RUNNING, None)


def _lag_of(
    observed: GroupObservation, desired: DesiredState, answer: ReceivedStatus | None
) -> LagStatus | None:
    is_known = answer is not None and answer.status.lag_known
    lag = _lag(observed, answer) if answer and is_known else _last_known_lag(observed)
    # Nothing is due while the group sleeps, however long ago its driver reported so.
    text = time_text(lag.seconds) if lag and desired.rests else None
    return lag.model_copy(update={"seconds_text": text}) if lag and text else lag


def _lag(observed: GroupObservation, answer: ReceivedStatus) -> LagStatus:
    status = answer.status
    worst = sorted(status.partitions, key=how_bad, reverse=True)
    seconds = rough(status.lag_seconds)
    records = rough(status.lag_records)
    return LagStatus(
        records=records,
        seconds=seconds,
        overdue_seconds=rough(status.overdue_seconds),
        records_text=count_text(records),
        seconds_text=_seconds_text(seconds, observed.now - answer.received),
        time=answer.received,
        eta_seconds=_eta(observed, status) if observed.now - answer.received <= FRESH else None,
        worst=tuple(
            Worst(
                topic=p.topic,
                partition=p.partition,
                records=rough(p.lag_records),
                seconds=rough(p.lag_seconds),
                overdue_seconds=rough(p.overdue_seconds),
                blocked=p.blocked,
            )
            for p in worst[:MAX_WORST]
            if p.lag_records or p.blocked
        ),
        blocked=totals_of(status).blocked,
    )


def _last_known_lag(observed: GroupObservation) -> LagStatus | None:
    """The last status's lag with its age, while no driver has answered this operator."""
    lag = observed.status.lag
    if lag is None:
        return None
    text = _seconds_text(lag.seconds, observed.now - lag.time)
    return lag.model_copy(update={"seconds_text": text, "eta_seconds": None})


def _seconds_text(seconds: int, age: timedelta) -> str:
    return aged(time_text(seconds), age) if age > FRESH else time_text(seconds)


def _eta(observed: GroupObservation, status: Status) -> int | None:
    """Seconds until the backlog is landed at the present speed; None without one or if it grows."""
    load = autoscaler.load(observed.samples) if observed.samples else None
    if load is None or status.overdue_seconds <= 0 or load.landing <= load.arriving:
        return None
    return rough(status.lag_records / (load.landing - load.arriving))


def _commits(status: Status) -> CommitsStatus:
    commits = status.commits
    last = status.commits.last_failure
    return CommitsStatus(
        total=commits.total,
        failures=commits.failures,
        consecutive_failures=commits.consecutive_failures,
        last_time=datetime.fromisoformat(commits.last_time) if commits.last_time else None,
        last_failure=FailureStatus(
            time=datetime.fromisoformat(last.time),
            reason=last.reason,
            message=shortened(last.message, MAX_MESSAGE_LENGTH),
        )
        if last
        else None,
    )


def _rate(observed: GroupObservation) -> RateStatus | None:
    load = autoscaler.load(observed.samples) if observed.samples else None
    return RateStatus(arriving=rough(load.arriving), landing=rough(load.landing)) if load else None


def _autoscaling(desired: DesiredState) -> AutoscalingStatus | None:
    if desired.group is None or desired.group.spec.autoscaling is None:
        return None
    scaling = desired.scaling
    return AutoscalingStatus(
        desired=scaling.desired,
        reason=str(scaling.reason),
        message=scaling.message,
        ineffective=scaling.ineffective,
    )


def _last_request(observed: GroupObservation, desired: DesiredState) -> RequestStatus | None:
    given = desired.answer
    if given is None:
        return observed.status.last_request
    return given.status(observed.now)


def _topics(group: ConsumerGroup) -> str:
    source = group.spec.source
    return shortened(", ".join(source.topics) or source.topic_pattern or "", 60)


def _history(observed: GroupObservation, rollout: RolloutStatus) -> tuple[RevisionOutcome, ...]:
    newest = sorted(observed.records, key=lambda record: record.number, reverse=True)[:HISTORY]
    return tuple(
        RevisionOutcome.model_validate(
            {
                "revision": record.revision,
                "generation": record.group.spec.generation,
                "image": record.image,
                "since": record.created,
                "outcome": _outcome(observed, rollout, record),
            }
        )
        for record in newest
    )


def _outcome(observed: GroupObservation, rollout: RolloutStatus, record: RecordedSpec) -> str:
    if rollout.rejected and record.digest == rollout.rejected.digest:
        return "RolledBack"
    if record == observed.record(rollout.active):
        return "Active"
    trial = trials.present_trial(rollout)
    pending = rollout.target or (trial.revision if trial else None)
    return "Pending" if record == observed.record(pending) else "Superseded"


def compaction_status(
    observed: GroupObservation, desired: DesiredState
) -> GroupCompactionStatus | None:
    """Return the active driver's report, or the last status'; None if the group merges nothing."""
    driver = observed.driver(desired.rollout.active)
    answer = driver.report if driver else None
    if answer is None:
        return observed.status.compaction
    found = answer.status.compaction
    if found is None:
        return None
    return shown(GroupCompactionStatus, found)


def feed_statuses(observed: GroupObservation, desired: DesiredState) -> tuple[GroupFeedStatus, ...]:
    """The feeds that the active driver reports, or that the last status had."""
    driver = observed.driver(desired.rollout.active)
    answer = driver.report if driver else None
    if answer is None or not answer.status.feeds:
        return observed.status.feeds or ()
    worst_first = sorted(answer.status.feeds, key=lambda feed: (not feed.error, feed.topic))
    return tuple(
        shown(
            GroupFeedStatus,
            feed,
            last_look=datetime.fromisoformat(feed.looked) if feed.looked else None,
        )
        for feed in worst_first[:MAX_FEEDS]
    )


def files_text(feeds: Collection[GroupFeedStatus]) -> str | None:
    """How many files are pending, and how many parts parked; None without feeds."""
    if not feeds:
        return None
    pending = sum(feed.pending_files for feed in feeds)
    parked = sum(feed.parked_parts for feed in feeds)
    text = f"{count_text(pending)} pending"
    return f"{text}, {count_text(parked)} parked" if parked else text


def shown(section: type[Section], reported: object, **own: object) -> Section:
    """A section of the status from a driver's report: numbers are rounded, and texts cut.

    Args:
        section: the model, whose fields have the names of the reported ones.
        reported: the part of the driver's status.
        **own: the fields that are not what the driver reports under the same name.
    """
    same = (name for name in section.model_fields if name not in own)
    return section(**own, **{name: _shown(getattr(reported, name)) for name in same})


def _shown(value: object) -> object:
    match value:
        case int():
            return rough(value)
        case str():
            return shortened(value, MAX_MESSAGE_LENGTH)
    return value
