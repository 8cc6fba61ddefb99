"""Decides the executor count from core-seconds of work, not from record counts. Pure.

A function of measurements alone; ``tests/sim`` runs it against simulated loads.

    slots     = (arriving / TARGET_UTILIZATION + backlog / catchUp) / speed
    arriving    records per second that the topics grow by
    backlog     late records: the lag times the share of its age that the upload policy does not
                explain. Lag that stays within the upload policy's limits never scales anything
    speed       records per second that one slot lands, as measured by the tasks
    executors = slots / cores, rounded up

Scaling up happens at once, when the load would fill more than ``MAX_UTILIZATION`` of the present
slots. A step at most doubles the count (or adds ``MIN_STEP_UP``), then ``COOLDOWN`` applies.
Scaling down is slow: to the highest count that was needed at any time in ``DOWN_WINDOW``, and by at
most 40 % in one step. The two thresholds are far enough apart that a steady load never makes the
count oscillate.

The count stays unchanged while the lag is unknown, commits fail or an upgrade is in progress. It
does not rise while requested executors do not start, nor after a step up that brought no throughput
(``ineffective``): more executors would not help then.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from landfall.api.spec import Autoscaling
from landfall_operator.api.status import IneffectiveScaleUp
from landfall_operator.core.samples import DriverSample, Throughput, of_present_driver, throughput
from landfall_operator.humanize import count_text, rough

TARGET_UTILIZATION = 0.7
"""Share of the slots that a steady load should fill."""
MAX_UTILIZATION = 0.85
"""Share of the slots above which there are too few."""
MIN_STEP_UP = 4
"""Executors that one step may add even if that more than doubles the count."""
COOLDOWN = timedelta(seconds=60)
"""The shortest time between two changes, and the greatest age of the latest sample."""
STABILIZATION = timedelta(minutes=3)
"""How long measurements of a new driver are not acted upon."""
RATE_WINDOW = timedelta(minutes=5)
"""The time over which rates are averaged."""
DOWN_WINDOW = timedelta(minutes=15)
"""The time over which the highest need prevents scaling below it."""
MIN_SHARE_KEPT = 0.6
"""Share of the executors that one step down leaves at least."""
STARTUP_TIMEOUT = timedelta(minutes=5)
"""How long requested executors may take to start before the cluster counts as full."""
NEGLIGIBLE_RATE = 0.01
"""Records per second that count as none."""


class ScalingReason(StrEnum):
    """The reason of the desired executor count."""

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
    HOLD_SLEEPING = "HoldSleeping"
    HOLD_LAG_UNKNOWN = "HoldLagUnknown"
    HOLD_COMMITS_FAILING = "HoldCommitsFailing"
    HOLD_UPGRADING = "HoldUpgrading"
    HOLD_NOT_MEASURED = "HoldNotMeasured"
    HOLD_NO_CAPACITY = "HoldNoCapacity"
    INEFFECTIVE = "IneffectiveScaleUp"


_WANTS_MORE = frozenset({ScalingReason.AT_MAXIMUM, ScalingReason.COOLING_DOWN})
"""Reasons to keep the count although the load needs more."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The desired executor count, and why.

    Attributes:
        desired: the count.
        reason: why, in one word.
        message: the measurements that led to it.
        ineffective: the last step up, if it brought no throughput.
    """

    desired: int
    reason: ScalingReason
    message: str = ""
    ineffective: IneffectiveScaleUp | None = None


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """Inputs of a scaling decision other than samples.

    Attributes:
        hold: a reason to keep the present count.
        ineffective: the step up that an earlier decision found to have brought no throughput.
    """

    hold: ScalingReason | None = None
    ineffective: IneffectiveScaleUp | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """The load over the last minutes.

    Attributes:
        arriving: records per second that arrive.
        landing: records per second that are landed.
        speed: records per second that one slot lands; None if nothing was landed.
        backlog: late records.
        overdue: by how much the oldest record is late.
    """

    arriving: float
    landing: float
    speed: float | None
    backlog: float
    overdue: timedelta

    def slots(self, catch_up: timedelta, utilization: float) -> float:
        """The slots that this load needs; 0 when the speed is unknown."""
        work = self.arriving / utilization + self.backlog / catch_up.total_seconds()
        return work / self.speed if self.speed else 0.0


def scale(
    samples: Sequence[DriverSample],
    policy: Autoscaling,
    cores: int,
    now: datetime,
    context: ScalingContext = ScalingContext(),
) -> Scaling:
    """The desired executor count of a group.

    Args:
        samples: samples of the last ``DOWN_WINDOW`` or more, oldest first; at least one.
        policy: the group's bounds and targets.
        cores: task slots of one executor.
        now: the present time, to notice outdated samples.
        context: what the samples do not show.
    """
    latest = samples[-1]
    current = bounded(latest.wanted, policy)
    # The bounds apply at once, even while there is a reason to hold.
    if current != latest.wanted:
        message = f"{latest.wanted} is outside minReplicas and maxReplicas"
        return Scaling(current, ScalingReason.BOUNDS, message, context.ineffective)
    known = context.ineffective
    if known and has_changed(known, samples):
        known = None
    reason = context.hold or _hold(samples, now)
    if reason:
        return Scaling(current, reason, ineffective=known)
    wanted = _scale_to_load(samples, policy, cores)
    # Only what would raise the count is prevented: a surplus goes, regardless of other problems.
    if wanted.desired >= current and _lacks_capacity(samples):
        return Scaling(current, ScalingReason.HOLD_NO_CAPACITY, wanted.message, known)
    if wanted.desired > current or wanted.reason in _WANTS_MORE:
        paused = known is not None and now - known.since < PAUSE
        found = known if paused else ineffective_up(samples, cores)
        if found:
            desired = bounded(min(current, found.executors), policy)
            return Scaling(desired, ScalingReason.INEFFECTIVE, found.message, found)
        # After a pause, one step at a time is tried.
        if known and is_unjudged(samples):
            return Scaling(current, ScalingReason.INEFFECTIVE, known.message, known)
    return replace(wanted, ineffective=known)


def load(samples: Sequence[DriverSample]) -> Load | None:
    """The load over ``RATE_WINDOW``; None with fewer than two samples of the present driver."""
    own = of_present_driver(samples)
    return _load(own, len(own) - 1)


def _load(own: Sequence[DriverSample], at: int) -> Load | None:
    """The load when sample ``at`` was taken; all samples are of one driver."""
    latest = own[at]
    first = own[bisect_left(own, latest.time - RATE_WINDOW, key=_time)]
    seconds = (latest.time - first.time).total_seconds()
    if seconds <= 0:
        return None
    late = min(1.0, latest.overdue_seconds / latest.lag_seconds) if latest.lag_seconds > 0 else 0.0
    return Load(
        arriving=max(0, latest.arrived - first.arrived) / seconds,
        landing=max(0, latest.landed - first.landed) / seconds,
        # The window first, then the time since the first sample, then the driver's whole life.
        speed=_speed((first, latest), (own[0], latest))
        or _ratio(latest.landed, latest.task_seconds),
        backlog=latest.lag_records * late,
        overdue=timedelta(seconds=latest.overdue_seconds),
    )


def _speed(*spans: tuple[DriverSample, DriverSample]) -> float | None:
    """The speed over the first span in which something was landed; None if there is none."""
    measured = (_ratio(b.landed - a.landed, b.task_seconds - a.task_seconds) for a, b in spans)
    return next((speed for speed in measured if speed), None)


def _ratio(landed: int, seconds: float) -> float | None:
    return landed / seconds if landed > 0 and seconds > 0 else None


def _time(sample: DriverSample) -> datetime:
    return sample.time


def _hold(samples: Sequence[DriverSample], now: datetime) -> ScalingReason | None:
    """Return why the count must not change now, as far as the samples show it."""
    latest = samples[-1]
    own = of_present_driver(samples)
    if now - latest.time > COOLDOWN:
        return ScalingReason.HOLD_LAG_UNKNOWN
    if latest.time - own[0].time < STABILIZATION and latest.wanted > 0:
        return ScalingReason.HOLD_STARTING
    return None


def _lacks_capacity(samples: Sequence[DriverSample]) -> bool:
    """Return whether executors that were requested long ago still do not run."""
    latest = samples[-1]
    own = of_present_driver(samples)
    recent = [s for s in own if s.time >= latest.time - STARTUP_TIMEOUT]
    return latest.time - own[0].time >= STARTUP_TIMEOUT and all(
        s.executors < s.wanted == latest.wanted for s in recent
    )


def _scale_to_load(samples: Sequence[DriverSample], policy: Autoscaling, cores: int) -> Scaling:
    latest = samples[-1]
    now = samples[-1].time
    current_load = load(samples)
    if current_load is None:
        return Scaling(latest.wanted, ScalingReason.HOLD_NOT_MEASURED)
    # Until a step up is judged, a slot counts as fast as before: see ``ineffective``.
    speeds = (current_load.speed, speed_before_up(samples))
    current_load = replace(current_load, speed=max(filter(None, speeds), default=None))
    idle = current_load.arriving < NEGLIGIBLE_RATE and latest.lag_records == 0
    if current_load.speed is None and not idle:
        return _scale_unmeasured(latest, policy)
    if current_load.slots(policy.catch_up, MAX_UTILIZATION) > latest.wanted * cores:
        return _scale_up(samples, current_load, policy, cores)
    message = _explanation(current_load, policy, cores)
    lowest = _highest_need(samples, policy, cores)
    if lowest is None or lowest >= latest.wanted or _changed_since(samples, now - COOLDOWN):
        return Scaling(latest.wanted, ScalingReason.AS_NEEDED, message)
    desired = max(lowest, math.floor(latest.wanted * MIN_SHARE_KEPT), policy.min_replicas)
    return Scaling(desired, ScalingReason.IDLE if idle else ScalingReason.LESS_LOAD, message)


def _scale_up(
    samples: Sequence[DriverSample], current_load: Load, policy: Autoscaling, cores: int
) -> Scaling:
    latest = samples[-1]
    message = _explanation(current_load, policy, cores)
    if latest.wanted >= policy.max_replicas:
        return Scaling(latest.wanted, ScalingReason.AT_MAXIMUM, message)
    if _changed_since(samples, latest.time - COOLDOWN):
        return Scaling(latest.wanted, ScalingReason.COOLING_DOWN, message)
    desired = min(
        max(_needed(current_load, policy, cores), latest.wanted + 1),
        max(2 * latest.wanted, latest.wanted + MIN_STEP_UP),
        policy.max_replicas,
    )
    late = current_load.overdue > policy.target_lag
    return Scaling(desired, ScalingReason.BACKLOG if late else ScalingReason.LOAD, message)


def _scale_unmeasured(latest: DriverSample, policy: Autoscaling) -> Scaling:
    """While nothing was landed, the speed is unknown: at least one executor must measure it."""
    if latest.wanted == 0:
        return Scaling(
            min(1, policy.max_replicas),
            ScalingReason.LOAD,
            "records are waiting and there is no executor",
        )
    return Scaling(latest.wanted, ScalingReason.HOLD_NOT_MEASURED)


def _needed(current_load: Load, policy: Autoscaling, cores: int) -> int:
    slots = current_load.slots(policy.catch_up, TARGET_UTILIZATION)
    # Rounding first keeps the noise of floating point from adding an executor.
    return bounded(math.ceil(round(slots / cores, 6)), policy)


def _highest_need(samples: Sequence[DriverSample], policy: Autoscaling, cores: int) -> int | None:
    """The highest count needed in ``DOWN_WINDOW``; None if the samples do not cover all of it."""
    own = of_present_driver(samples)
    start = own[-1].time - DOWN_WINDOW
    if own[0].time > start:
        return None
    loads = [_load(own, index) for index in range(bisect_left(own, start, key=_time), len(own))]
    return max(
        (_needed(sample_load, policy, cores) for sample_load in loads if sample_load), default=None
    )


def _changed_since(samples: Sequence[DriverSample], since: datetime) -> bool:
    before = [s.wanted for s in samples if s.time <= since]
    recent = {s.wanted for s in samples if s.time >= since} | set(before[-1:])
    return len(recent) > 1


def bounded(executors: int, policy: Autoscaling) -> int:
    """The count, limited to minReplicas and maxReplicas."""
    return max(policy.min_replicas, min(executors, policy.max_replicas))


def _explanation(current_load: Load, policy: Autoscaling, cores: int) -> str:
    if current_load.speed is None:
        return "no records arrive"
    per_executor = current_load.speed * cores
    steady = current_load.arriving / TARGET_UTILIZATION / per_executor
    catching_up = current_load.backlog / policy.catch_up.total_seconds() / per_executor
    return (
        f"the load needs {steady:.1f} executors for {current_load.arriving:.3g} arriving records/s "
        f"and {catching_up:.1f} to catch up with {current_load.backlog:.3g} late records; "
        f"one executor lands {per_executor:.3g} records/s"
    )


SPAN_BEFORE = timedelta(minutes=5)
"""The time before a step up over which the throughput is measured."""
JUDGED_AFTER = timedelta(minutes=10)
"""The time after a step up over which the throughput is measured."""
LEAST_GROWTH = 1.5
"""The growth of the executor count that is judged: a smaller one may be lost in the noise."""
LEAST_GAIN = 0.2
"""Share of the expected growth of the throughput below which a step up was ineffective."""
PAUSE = timedelta(hours=1)
"""How long no step up follows an ineffective one."""
SAME = 0.3
"""The share by which the throughput may differ and still count as unchanged."""
FILLED = 0.85
"""Share of the slots that the throughput may fill of the count that is gone back to."""
IDLE_SHARE = 0.5
"""Share of the slots below which the tasks do not fill the executors."""


def ineffective_up(samples: Sequence[DriverSample], cores: int) -> IneffectiveScaleUp | None:
    """The step up of the last half hour that brought no throughput; None if there is none."""
    own = of_present_driver(samples)
    now = samples[-1].time
    after = throughput(own, now - JUDGED_AFTER, now)
    if after is None or not after.always_late:
        return None
    for last in _before_ups(own):
        before = throughput(own, last.time - SPAN_BEFORE, last.time)
        if last.time <= now - JUDGED_AFTER and before and _is_ineffective(before, after):
            message = _message(before, after, cores)
            enough = last.wanted
            if after.landing > before.landing * (1 + LEAST_GAIN):
                enough = max(enough, _enough(before, after, cores))
            return IneffectiveScaleUp(
                since=now,
                executors=min(enough, samples[-1].wanted),
                landing=rough(after.landing),
                message=message,
            )
    return None


def has_changed(known: IneffectiveScaleUp, samples: Sequence[DriverSample]) -> bool:
    """Return whether throughput differs from then, so what limited it is no longer the same."""
    latest = samples[-1].time
    present = throughput(of_present_driver(samples), latest - JUDGED_AFTER, latest)
    return present is not None and abs(present.landing - known.landing) > SAME * known.landing


def is_unjudged(samples: Sequence[DriverSample]) -> bool:
    """Return whether there was a step up that is too recent to be judged."""
    young = samples[-1].time - JUDGED_AFTER
    return any(last.time > young for last in _before_ups(of_present_driver(samples)))


def speed_before_up(samples: Sequence[DriverSample]) -> float | None:
    """Records per second that a slot landed before the steps up that are too young to be judged.

    None if there is no such step, or if nothing was landed before it.
    """
    own = of_present_driver(samples)
    now = samples[-1].time
    for last in _before_ups(own):
        if last.time > now - JUDGED_AFTER:
            before = throughput(own, last.time - SPAN_BEFORE, last.time)
            return before.speed if before else None
    return None


def _before_ups(own: Sequence[DriverSample]) -> Iterator[DriverSample]:
    """The last sample before each step up from at least one executor, oldest first."""
    return (a for a, b in pairwise(own) if b.wanted > a.wanted > 0)


def _is_ineffective(before: Throughput, after: Throughput) -> bool:
    growth = after.executors / before.executors if before.executors else 0.0
    if growth < LEAST_GROWTH or not before.landing:
        return False
    expected = 1 + LEAST_GAIN * (growth - 1)
    return after.landing < expected * before.landing or _slowdown(before, after) * growth < expected


def _enough(before: Throughput, after: Throughput, cores: int) -> int:
    """Executors that land the present throughput, if a slot is again as fast as before the step."""
    slots = after.landing / before.speed if before.speed else after.executors * cores
    return math.ceil(slots / cores / FILLED)


def _slowdown(before: Throughput, after: Throughput) -> float:
    """The speed of a slot as a share of its former speed; 1 if it was not measured."""
    return after.speed / before.speed if after.speed and before.speed else 1.0


def _message(before: Throughput, after: Throughput, cores: int) -> str:
    measured = (
        f"{before.executors:.3g} executors landed {count_text(rough(before.landing))} records/s, "
        f"and {after.executors:.3g} landed {count_text(rough(after.landing))} with records overdue"
    )
    if after.task_share < IDLE_SHARE * cores:
        return f"{measured}; their tasks were idle half of the time: the driver limits them"
    return f"{measured}; each task became slower: Kafka, the store or the nodes limit them"
