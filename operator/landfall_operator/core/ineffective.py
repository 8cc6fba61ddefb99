"""Notices that executors were added and hardly more was landed. Pure.

If the brokers, the store or the driver limit the throughput, tasks of more executors only wait for
each other. Each slot then lands less, and by the autoscaler's formula even more executors would be
needed. So a step up is judged once it is ``JUDGED_AFTER`` old: records were late all that time, so
there was enough to do, and the throughput grew by less than ``LEAST_GAIN`` of what the added
executors should have brought. The count then goes back as far as the throughput allows, and stays
there for ``PAUSE``. After that, one step at a time is tried and judged, until the throughput
changes: then the bound is another one, or gone.

Until a step is judged, a slot counts as fast as it was before the step (``speed_before_up``): the
number of executors only follows the load.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from landfall_operator.api.status import IneffectiveScaleUp
from landfall_operator.core.samples import Sample, Throughput, of_present_driver, throughput
from landfall_operator.humanize import count_text, rough

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


def ineffective_up(samples: Sequence[Sample], cores: int) -> IneffectiveScaleUp | None:
    """The step up of the last half hour that brought no throughput; None if there is none."""
    own, now = of_present_driver(samples), samples[-1].time
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


def has_changed(known: IneffectiveScaleUp, samples: Sequence[Sample]) -> bool:
    """Whether another throughput than then shows that what limited it is no longer the same."""
    latest = samples[-1].time
    present = throughput(of_present_driver(samples), latest - JUDGED_AFTER, latest)
    return present is not None and abs(present.landing - known.landing) > SAME * known.landing


def is_unjudged(samples: Sequence[Sample]) -> bool:
    """Whether there was a step up that is too young to be judged."""
    young = samples[-1].time - JUDGED_AFTER
    return any(last.time > young for last in _before_ups(of_present_driver(samples)))


def speed_before_up(samples: Sequence[Sample]) -> float | None:
    """Records per second that a slot landed before the steps up that are too young to be judged.

    None if there is no such step, or if nothing was landed before it.
    """
    own, now = of_present_driver(samples), samples[-1].time
    for last in _before_ups(own):
        if last.time > now - JUDGED_AFTER:
            before = throughput(own, last.time - SPAN_BEFORE, last.time)
            return before.speed if before else None
    return None


def _before_ups(own: Sequence[Sample]) -> Iterator[Sample]:
    """The last sample before each step up from at least one executor, oldest first."""
    return (a for a, b in pairwise(own) if b.wanted > a.wanted > 0)


def _is_ineffective(before: Throughput, after: Throughput) -> bool:
    growth = after.executors / before.executors if before.executors else 0.0
    if growth < LEAST_GROWTH or not before.landing:
        return False
    expected = 1 + LEAST_GAIN * (growth - 1)
    return after.landing < expected * before.landing or _slowdown(before, after) * growth < expected


def _enough(before: Throughput, after: Throughput, cores: int) -> int:
    """Executors that land what is landed now, if a slot is again as fast as before the step."""
    slots = after.landing / before.speed if before.speed else after.executors * cores
    return math.ceil(slots / cores / FILLED)


def _slowdown(before: Throughput, after: Throughput) -> float:
    """The speed of a slot as a share of what it was before; 1 if it was not measured."""
    return after.speed / before.speed if after.speed and before.speed else 1.0


def _message(before: Throughput, after: Throughput, cores: int) -> str:
    measured = (
        f"{before.executors:.3g} executors landed {count_text(rough(before.landing))} records/s, "
        f"and {after.executors:.3g} landed {count_text(rough(after.landing))} with records overdue"
    )
    if after.task_share < IDLE_SHARE * cores:
        return f"{measured}; their tasks were idle half of the time: the driver limits them"
    return f"{measured}; each task became slower: Kafka, the store or the nodes limit them"
