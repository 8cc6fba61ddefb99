"""Reports a group's publishers in its status: each of them, their sum, and Events. Pure.

The numbers are the active driver's. While it has none, because it is away or starts, the last known
ones stay with their age; their ``time`` records when they were reported.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from operator import attrgetter

from landfall.api import contract
from landfall.api.values import plural, time_text
from landfall_operator.api.reasons import BY_WORD, ConditionReason
from landfall_operator.api.status import (
    GroupPublisherStatus,
    GroupStatus,
    PublisherState,
)
from landfall_operator.api.status_values import ConditionStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import FRESH, GroupObservation
from landfall_operator.humanize import aged, rough, shortened

PATIENCE = timedelta(minutes=5)
"""How long something may wait for a publisher that has a short ``minInterval``."""
INTERVALS = 3
"""How many times its ``minInterval`` something may wait for any other publisher."""
FAILURE_THRESHOLD = 2
"""Failed passes in a row that are reported: a single failure may be transient."""
MAX_MESSAGE_LENGTH = 300
"""Characters of a publisher's problem and of its details."""
MAX_SHOWN = 2
"""Publishers that the column of ``kubectl get`` names."""

_WORST_FIRST = (
    PublisherState.BLOCKED,
    PublisherState.FAILING,
    PublisherState.BEHIND,
    PublisherState.STARTING,
)
_REASONS: Mapping[PublisherState, ConditionReason] = {
    PublisherState.STARTING: ConditionReason.STARTING,
    PublisherState.BLOCKED: ConditionReason.PUBLISHER_BLOCKED,
    PublisherState.FAILING: ConditionReason.PUBLISHER_FAILING,
    PublisherState.BEHIND: ConditionReason.PUBLISHER_BEHIND,
}


def publisher_statuses(
    observed: GroupObservation, desired: DesiredState
) -> tuple[GroupPublisherStatus, ...]:
    """Every publisher that the active driver reports, or that the last status had, by name."""
    driver = observed.driver(desired.rollout.active)
    intervals = _intervals(desired)
    answer = driver.report if driver else None
    known = {publisher.name: publisher for publisher in observed.status.publishers or ()}
    if answer and answer.status.publishers:
        reported = (
            _status(publisher, intervals, answer.received) for publisher in answer.status.publishers
        )
        # A former driver's report is worth more than a new driver's that has not looked yet.
        statuses = [
            known.get(publisher.name, publisher)
            if publisher.state is PublisherState.STARTING
            else publisher
            for publisher in reported
        ]
    else:
        statuses = [publisher for publisher in known.values() if publisher.name in intervals]
    return tuple(
        _with_age(status, status.time if desired.rests else observed.now)
        for status in sorted(statuses, key=attrgetter("name"))
    )


def published_text(
    statuses: Collection[GroupPublisherStatus], desired: DesiredState, now: datetime
) -> str | None:
    """How many of the publishers keep up, and the worst of the rest; None if there are none."""
    total = len({publisher.name for publisher in statuses} | _intervals(desired).keys())
    if not total:
        return None
    bad = _worst_first(statuses)
    text = f"{len(statuses) - len(bad)}/{total}"
    if bad:
        more = f", {len(bad) - MAX_SHOWN} more" if len(bad) > MAX_SHOWN else ""
        text = f"{text}: {', '.join(map(_short, bad[:MAX_SHOWN]))}{more}"
    age = now - min((publisher.time for publisher in statuses), default=now)
    if desired.rests:
        return text
    return aged(text, age) if age > FRESH else text


def condition_of(
    statuses: Collection[GroupPublisherStatus], desired: DesiredState, now: datetime
) -> tuple[ConditionStatus, ConditionReason, str] | None:
    """Status, reason and message of the condition ``Published``; None without publishers.

    The message has no numbers that change in every pass: each change of it is a write.
    """
    intervals = _intervals(desired)
    if not intervals and not statuses:
        return None
    is_old = not desired.rests and any(now - publisher.time > FRESH for publisher in statuses)
    if not statuses or is_old:
        return "Unknown", ConditionReason.UNKNOWN, "the driver has not reported its publishers"
    bad = _worst_first(statuses)
    if not bad:
        return "True", ConditionReason.AS_EXPECTED, ""
    first = bad[0]
    if first.state is PublisherState.STARTING:
        return "Unknown", ConditionReason.STARTING, f"{_named(first)} has not published yet"
    verb = "does" if len(bad) == 1 else "do"
    message = f"{len(bad)} of {plural(len(statuses), 'publisher')} {verb} not keep up"
    rest = "; ".join(_explained(publisher, intervals) for publisher in bad)
    return "False", _reason(first), f"{message}: {rest}"


def publisher_events(before: GroupStatus, after: GroupStatus) -> Iterator[EmitEvent]:
    """The Events for publishers that stopped keeping up, or keep up again."""
    known = {publisher.name: publisher for publisher in before.publishers or ()}
    for publisher in after.publishers or ():
        old = known.get(publisher.name)
        was = old.state if old else PublisherState.CURRENT
        if publisher.state is was and (old is None or old.blocked == publisher.blocked):
            continue
        if publisher.state is PublisherState.CURRENT and was is not PublisherState.STARTING:
            yield EmitEvent("Normal", "PublisherCurrent", f"{_named(publisher)} keeps up again")
        elif publisher.state not in {PublisherState.CURRENT, PublisherState.STARTING}:
            why = (
                publisher.problem
                or f"what landed {time_text(publisher.lag_seconds)} ago is not published"
            )
            yield EmitEvent("Warning", str(_reason(publisher)), f"{_named(publisher)}: {why}")


def _status(
    reported: contract.PublisherStatus, intervals: Mapping[str, timedelta], received: datetime
) -> GroupPublisherStatus:
    return GroupPublisherStatus(
        name=reported.name,
        type=reported.type,
        state=_state(reported, _limit(reported.name, intervals)),
        slot=reported.slot if reported.slot >= 0 else None,
        lag_seconds=rough(reported.lag_seconds),
        lag_text="",
        failures=reported.failures,
        blocked=reported.blocked,
        problem=shortened(reported.message, MAX_MESSAGE_LENGTH),
        details=shortened(reported.details, MAX_MESSAGE_LENGTH),
        last_time=datetime.fromisoformat(reported.last_time) if reported.last_time else None,
        time=received,
    )


def _state(reported: contract.PublisherStatus, limit: timedelta) -> PublisherState:
    if reported.blocked:
        return PublisherState.BLOCKED
    if reported.consecutive_failures >= FAILURE_THRESHOLD:
        return PublisherState.FAILING
    if reported.lag_seconds > limit.total_seconds():
        return PublisherState.BEHIND
    is_first_pass = reported.last_time is None and not reported.failures
    return PublisherState.STARTING if is_first_pass else PublisherState.CURRENT


def _with_age(status: GroupPublisherStatus, now: datetime) -> GroupPublisherStatus:
    """The status, whose text has the age of the number if that is old."""
    text = time_text(status.lag_seconds)
    age = now - status.time
    return status.model_copy(update={"lag_text": aged(text, age) if age > FRESH else text})


def _intervals(desired: DesiredState) -> Mapping[str, timedelta]:
    """``minInterval`` of each publisher that the spec in force has, by name."""
    publish = desired.group.spec.publish if desired.group else ()
    return {publisher.name: publisher.min_interval for publisher in publish}


def _limit(name: str, intervals: Mapping[str, timedelta]) -> timedelta:
    """How long something may wait for a publisher before that counts as late."""
    return max(PATIENCE, INTERVALS * intervals.get(name, timedelta(0)))


def _worst_first(statuses: Collection[GroupPublisherStatus]) -> list[GroupPublisherStatus]:
    """The publishers that do not keep up."""
    bad = (publisher for publisher in statuses if publisher.state is not PublisherState.CURRENT)
    return sorted(bad, key=lambda each: (_WORST_FIRST.index(each.state), -each.lag_seconds))


def _reason(status: GroupPublisherStatus) -> ConditionReason:
    """The driver's reason; the general one if this release does not know the driver's."""
    general = _REASONS[status.state]
    return BY_WORD.get(status.blocked or "", general)


def _short(status: GroupPublisherStatus) -> str:
    if status.state is PublisherState.BEHIND:
        return f"{status.name} {time_text(status.lag_seconds)} behind"
    behind = f" {time_text(status.lag_seconds)}" if status.lag_seconds else ""
    return f"{status.name} {str(status.state).lower()}{behind}"


def _explained(status: GroupPublisherStatus, intervals: Mapping[str, timedelta]) -> str:
    if status.state is PublisherState.BEHIND:
        return f"{_named(status)} is behind by more than {_limit(status.name, intervals)}"
    return f"{_named(status)} is {str(status.state).lower()}: {status.problem or 'unknown'}"


def _named(status: GroupPublisherStatus) -> str:
    return f"{status.name} ({status.type})"
