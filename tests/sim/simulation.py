"""Runs a policy in a scenario, and measures what it costs and how late records are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from landfall.api.spec import Autoscaling
from tests.sim.group import STEP, Group, Scenario
from tests.sim.policies import Fixed, Keda, Landfall, Policy

LIMITS = Autoscaling(min_replicas=1, max_replicas=20)
HOUR = 3600.0


def _step(time: float) -> float:
    return 12_000 if HOUR <= time < 2 * HOUR else 2_000


def _spike(time: float) -> float:
    return 40_000 if HOUR <= time < HOUR + 300 else 2_000


def _sine(time: float) -> float:
    return 7_000 - 5_000 * math.cos(2 * math.pi * time / HOUR)


SCENARIOS: Mapping[str, Scenario] = {
    "steady": Scenario(lambda _: 6_000),
    "step": Scenario(_step),
    "spike": Scenario(_spike),
    "sine": Scenario(_sine),
    "broker outage": Scenario(lambda _: 6_000, down=lambda time: HOUR <= time < HOUR + 1200),
    "poison partition": Scenario(lambda _: 6_000, poisoned_from=HOUR / 2),
    "idle": Scenario(lambda time: 6_000 if time < HOUR else 0),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a simulation.

    Attributes:
        late: seconds in which records were overdue by more than ``targetLag``.
        executor_seconds: executors times seconds, the cost.
        changes: how often the number of executors changed.
        reversals: how often it changed in the opposite direction to the change before.
        peak: the largest number of executors requested.
        last: the number of executors requested at the end.
    """

    late: int
    executor_seconds: int
    changes: int
    reversals: int
    peak: int
    last: int


def simulate(scenario: Scenario, policy: Policy, start: int = 4) -> Outcome:
    """Run the scenario to its end, asking the policy at its own interval."""
    group = Group(scenario, start)
    late = cost = 0.0
    moves: list[int] = []
    peak, asked = start, 0.0
    while group.time < scenario.seconds:
        if group.time >= asked:
            asked = group.time + policy.every
            wanted = policy.wanted(group)
            if wanted != group.wanted:
                moves.append(wanted - group.wanted)
                group.request(wanted)
        group.step()
        late += STEP * (group.overdue > LIMITS.target_lag.total_seconds())
        cost += STEP * group.ready
        peak = max(peak, group.wanted)
    reversals = sum(1 for a, b in pairwise(moves) if (a > 0) != (b > 0))
    return Outcome(int(late), int(cost), len(moves), reversals, peak, group.wanted)


def policies(scenario: Scenario) -> Mapping[str, Policy]:
    """Return the policies to compare; KEDA gets the best threshold for a steady load."""
    threshold = scenario.speed * scenario.max_age / 2 * 0.7
    return {
        "landfall": Landfall(LIMITS),
        "fixed 5": Fixed(5),
        "keda": Keda(LIMITS, threshold),
    }
