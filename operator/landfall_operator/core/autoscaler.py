"""How many executors: in core-seconds of work, not in records. A pure function of measurements, tried out in ``tests/sim``.

    slots   = (arriving / UTILISATION + backlog / catchUp) / speed
    arriving  records per second that topics grow by
    backlog   records that are late: lag times the share of its age that the upload policy does not explain. So the lag that
              swings up to the policy by design never scales anything
    speed     records that one slot lands per second, from what tasks did
    executors = slots / cores, rounded up

Up at once, when the load would fill more than ``FULL`` of what is there; at most doubled (or
``STEP`` more) at a time, then ``COOLDOWN``. Down slowly: to the largest number that was needed in
the whole ``DOWN_WINDOW``, and by no more than 40 % at a time. The two thresholds are so far apart
that a steady load cannot make it go back and forth. It stays as it is when the lag is not known,
commits fail, an upgrade is under way, or executors that were asked for do not come: more would not
help.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from landfall.api.spec import Autoscaling

UTILISATION = 0.7
"""Share of the slots that steady arrival should fill."""
FULL = 0.85
"""Share at which there are too few."""
STEP = 4
COOLDOWN = timedelta(seconds=60)
STABILISATION = timedelta(minutes=3)
"""How long a driver that has just started is left alone."""
RATE_WINDOW = timedelta(minutes=5)
DOWN_WINDOW = timedelta(minutes=15)
KEPT = 0.6
"""Share of the executors that one step down leaves at least."""
PATIENCE = timedelta(minutes=5)
"""How long executors that were asked for may take to come."""
NEGLIGIBLE = 0.01
"""Records per second that count as none."""


class ScalingReason(StrEnum):
    """Why there are to be so many executors."""

    BY_HAND = "ByHand"
    AS_NEEDED = "AsNeeded"
    LOAD = "LoadAboveCapacity"
    BACKLOG = "Backlog"
    LESS_LOAD = "LessLoad"
    IDLE = "Idle"
    AT_MAXIMUM = "AtMaximum"
    BOUNDS = "Bounds"
    COOLING_DOWN = "CoolingDown"
    HOLD_STARTING = "HoldStarting"
    HOLD_LAG_UNKNOWN = "HoldLagUnknown"
    HOLD_COMMITS_FAILING = "HoldCommitsFailing"
    HOLD_UPGRADING = "HoldUpgrading"
    HOLD_NOT_MEASURED = "HoldNotMeasured"
    HOLD_NO_CAPACITY = "HoldNoCapacity"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a driver told at one moment; counters begin anew with each driver.

    Attributes:
        time: when it was told.
        driver: whose counters they are: changes whenever a driver starts.
        arrived: counter of records that topics grew by.
        landed: counter of records in committed objects.
        task_seconds: counter of the time tasks occupied slots for them.
        lag_records: not landed yet, without topic partitions that wait for a person.
        lag_seconds: age of the oldest of them.
        overdue_seconds: how much of that the upload policy does not explain.
        executors: at work.
        wanted: executors the driver was asked for.
    """

    time: datetime
    driver: str
    arrived: int
    landed: int
    task_seconds: float
    lag_records: int
    lag_seconds: float
    overdue_seconds: float
    executors: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many executors there should be, and why."""

    desired: int
    reason: ScalingReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What the last minutes amount to.

    Attributes:
        arriving: records per second.
        landing: records per second.
        speed: records per second that a slot lands; None when nothing was landed.
        backlog: records that are late.
        overdue: how late the oldest is.
    """

    arriving: float
    landing: float
    speed: float | None
    backlog: float
    overdue: timedelta

    def slots(self, catch_up: timedelta, utilisation: float) -> float:
        """Slots that this load needs; none when the speed is not known."""
        work = self.arriving / utilisation + self.backlog / catch_up.total_seconds()
        return work / self.speed if self.speed else 0.0


def scale(
    samples: Sequence[Sample],
    policy: Autoscaling,
    cores: int,
    now: datetime,
    hold: ScalingReason | None = None,
) -> Scaling:
    """The number of executors for a group.

    Args:
        samples: of the last ``DOWN_WINDOW`` or more, oldest first; at least one.
        policy: the group's bounds and targets.
        cores: slots of one executor.
        now: the moment, to know whether the samples are of the present.
        hold: a reason to leave things as they are, that the samples cannot tell.
    """
    latest = samples[-1]
    current = bounded(latest.wanted, policy)
    if current != latest.wanted:
        return Scaling(
            current, ScalingReason.BOUNDS, f"{latest.wanted} is outside minReplicas and maxReplicas"
        )
    reason = hold or _hold(samples, now)
    if reason:
        return Scaling(current, reason)
    return _decided(samples, policy, cores)


def load(samples: Sequence[Sample]) -> Load | None:
    """Rates over the last ``RATE_WINDOW`` of the present driver; None with fewer than two samples of it."""
    own = _own(samples)
    return _load(own, len(own) - 1)


def _load(own: Sequence[Sample], at: int) -> Load | None:
    """As it was when the sample ``at`` was taken; all of one driver."""
    latest = own[at]
    first = own[bisect_left(own, latest.time - RATE_WINDOW, key=_time)]
    seconds = (latest.time - first.time).total_seconds()
    if seconds <= 0:
        return None
    late = min(1.0, latest.overdue_seconds / latest.lag_seconds) if latest.lag_seconds > 0 else 0.0
    return Load(
        arriving=max(0, latest.arrived - first.arrived) / seconds,
        landing=max(0, latest.landed - first.landed) / seconds,
        speed=_speed((first, latest), (own[0], latest))
        or _ratio(latest.landed, latest.task_seconds),
        backlog=latest.lag_records * late,
        overdue=timedelta(seconds=latest.overdue_seconds),
    )


def _speed(*spans: tuple[Sample, Sample]) -> float | None:
    """Over the first of these spans of time in which something was landed."""
    measured = (_ratio(b.landed - a.landed, b.task_seconds - a.task_seconds) for a, b in spans)
    return next((speed for speed in measured if speed), None)


def _ratio(landed: int, seconds: float) -> float | None:
    return landed / seconds if landed > 0 and seconds > 0 else None


def _own(samples: Sequence[Sample]) -> list[Sample]:
    """Those of the present driver."""
    return [sample for sample in samples if sample.driver == samples[-1].driver]


def _time(sample: Sample) -> datetime:
    return sample.time


def _hold(samples: Sequence[Sample], now: datetime) -> ScalingReason | None:
    latest = samples[-1]
    own = _own(samples)
    if now - latest.time > COOLDOWN:
        return ScalingReason.HOLD_LAG_UNKNOWN
    if latest.time - own[0].time < STABILISATION and latest.wanted > 0:
        return ScalingReason.HOLD_STARTING
    waiting = [s for s in own if s.time >= latest.time - PATIENCE]
    if latest.time - own[0].time >= PATIENCE and all(
        s.executors < s.wanted == latest.wanted for s in waiting
    ):
        return ScalingReason.HOLD_NO_CAPACITY
    return None


def _decided(samples: Sequence[Sample], policy: Autoscaling, cores: int) -> Scaling:
    latest, now = samples[-1], samples[-1].time
    seen = load(samples)
    if seen is None:
        return Scaling(latest.wanted, ScalingReason.HOLD_NOT_MEASURED)
    idle = seen.arriving < NEGLIGIBLE and latest.lag_records == 0
    if seen.speed is None and not idle:
        return _unmeasured(latest, policy)
    needed = _needed(seen, policy, cores, UTILISATION)
    message = _explained(seen, policy, cores)
    if seen.slots(policy.catch_up, FULL) > latest.wanted * cores:
        return _up(samples, seen, policy, needed, message)
    kept = _most_needed(samples, policy, cores)
    if kept is None or kept >= latest.wanted or _changed_since(samples, now - COOLDOWN):
        return Scaling(latest.wanted, ScalingReason.AS_NEEDED, message)
    stepped = max(kept, math.floor(latest.wanted * KEPT), policy.min_replicas)
    return Scaling(stepped, ScalingReason.IDLE if idle else ScalingReason.LESS_LOAD, message)


def _up(
    samples: Sequence[Sample], seen: Load, policy: Autoscaling, needed: int, message: str
) -> Scaling:
    latest = samples[-1]
    if latest.wanted >= policy.max_replicas:
        return Scaling(latest.wanted, ScalingReason.AT_MAXIMUM, message)
    if _changed_since(samples, latest.time - COOLDOWN):
        return Scaling(latest.wanted, ScalingReason.COOLING_DOWN, message)
    desired = min(
        max(needed, latest.wanted + 1),
        max(2 * latest.wanted, latest.wanted + STEP),
        policy.max_replicas,
    )
    late = seen.overdue > policy.target_lag
    return Scaling(desired, ScalingReason.BACKLOG if late else ScalingReason.LOAD, message)


def _unmeasured(latest: Sample, policy: Autoscaling) -> Scaling:
    """Records wait, and nobody has landed one: at least somebody must be there to try."""
    if latest.wanted == 0:
        return Scaling(
            min(1, policy.max_replicas), ScalingReason.LOAD, "records wait and there is no executor"
        )
    return Scaling(latest.wanted, ScalingReason.HOLD_NOT_MEASURED)


def _needed(seen: Load, policy: Autoscaling, cores: int, utilisation: float) -> int:
    return bounded(math.ceil(round(seen.slots(policy.catch_up, utilisation) / cores, 6)), policy)


def _most_needed(samples: Sequence[Sample], policy: Autoscaling, cores: int) -> int | None:
    """The largest number that was needed at any time in ``DOWN_WINDOW``; None if that is not known for all of it."""
    own = _own(samples)
    start = own[-1].time - DOWN_WINDOW
    if own[0].time > start:
        return None
    loads = [_load(own, at) for at in range(bisect_left(own, start, key=_time), len(own))]
    return max((_needed(seen, policy, cores, UTILISATION) for seen in loads if seen), default=None)


def _changed_since(samples: Sequence[Sample], since: datetime) -> bool:
    before = [s.wanted for s in samples if s.time <= since]
    recent = {s.wanted for s in samples if s.time >= since} | set(before[-1:])
    return len(recent) > 1


def bounded(executors: int, policy: Autoscaling) -> int:
    """Within what the policy allows."""
    return max(policy.min_replicas, min(executors, policy.max_replicas))


def _explained(seen: Load, policy: Autoscaling, cores: int) -> str:
    if seen.speed is None:
        return "nothing arrives"
    per_executor = seen.speed * cores
    steady = seen.arriving / UTILISATION / per_executor
    catching_up = seen.backlog / policy.catch_up.total_seconds() / per_executor
    return (
        f"{steady:.1f} executors for {seen.arriving:.3g} records/s, {catching_up:.1f} to catch up with "
        f"{seen.backlog:.3g} late ones; one lands {per_executor:.3g} records/s"
    )
