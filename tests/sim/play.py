"""Play a policy on a setting and count what it costs and what it misses."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from landfall.api.spec import Autoscaling
from tests.sim.group import STEP, Group, Setting
from tests.sim.policies import Fixed, Keda, Landfall, Policy

LIMITS = Autoscaling(min_replicas=1, max_replicas=20)
HOUR = 3600.0


def _step(time: float) -> float:
    return 12_000 if HOUR <= time < 2 * HOUR else 2_000


def _spike(time: float) -> float:
    return 40_000 if HOUR <= time < HOUR + 300 else 2_000


def _sine(time: float) -> float:
    return 7_000 - 5_000 * math.cos(2 * math.pi * time / HOUR)


SETTINGS: Mapping[str, Setting] = {
    "steady": Setting(lambda _: 6_000),
    "step": Setting(_step),
    "spike": Setting(_spike),
    "sine": Setting(_sine),
    "broker outage": Setting(lambda _: 6_000, down=lambda time: HOUR <= time < HOUR + 1200),
    "poison partition": Setting(lambda _: 6_000, poisoned=HOUR / 2),
    "idle": Setting(lambda time: 6_000 if time < HOUR else 0),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went.

    Attributes:
        late: seconds in which records were overdue by more than ``targetLag``.
        executor_seconds: what it cost.
        changes: how often the number of executors was changed.
        turns: how often it went the other way than the time before.
        most: executors at most.
        last: executors at the end.
    """

    late: int
    executor_seconds: int
    changes: int
    turns: int
    most: int
    last: int


def play(setting: Setting, policy: Policy, start: int = 4) -> Outcome:
    """From start to end; the policy is asked at its own pace."""
    group = Group(setting, start)
    late = cost = 0.0
    moves: list[int] = []
    most, asked = start, 0.0
    while group.time < setting.seconds:
        if group.time >= asked:
            asked = group.time + policy.every
            wanted = policy.wanted(group)
            if wanted != group.wanted:
                moves.append(wanted - group.wanted)
                group.ask(wanted)
        group.step()
        late += STEP * (group.overdue > LIMITS.target_lag.total_seconds())
        cost += STEP * group.ready
        most = max(most, group.wanted)
    turns = sum(1 for a, b in pairwise(moves) if (a > 0) != (b > 0))
    return Outcome(int(late), int(cost), len(moves), turns, most, group.wanted)


def rivals(setting: Setting) -> Mapping[str, Policy]:
    """The policies to compare; KEDA gets the threshold that is right for steady load."""
    threshold = setting.speed * setting.max_age / 2 * 0.7
    return {
        "landfall": Landfall(LIMITS),
        "fixed 5": Fixed(5),
        "keda": Keda(LIMITS, threshold),
    }
