"""Ways to decide on the number of executors: a fixed number, ours, and KEDA's Kafka scaler behind
Kubernetes' HPA.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from landfall.api.spec import Autoscaling
from landfall_operator.core.autoscaler import DOWN_WINDOW, Sample, ScalingReason, scale
from tests.sim.group import Group


class Policy(Protocol):
    """Asked every ``every`` seconds."""

    every: float

    def wanted(self, group: Group) -> int:
        """Executors there should be from now on."""
        ...


@dataclass
class Fixed:
    """Always the same."""

    executors: int
    every: float = 60.0

    def wanted(self, group: Group) -> int:  # noqa: ARG002  # the protocol's argument
        return self.executors


@dataclass
class Landfall:
    """``landfall_operator.core.autoscaler`` as the operator calls it."""

    policy: Autoscaling
    every: float = 15.0
    samples: list[Sample] = field(default_factory=list)
    reasons: list[ScalingReason] = field(default_factory=list)

    def wanted(self, group: Group) -> int:
        if not group.away:
            self.samples.append(group.sample())
        self.samples = [s for s in self.samples if s.time >= group.now - 2 * DOWN_WINDOW]
        if not self.samples:
            return group.wanted
        made = scale(self.samples, self.policy, 1, group.now)
        self.reasons.append(made.reason)
        return made.desired


@dataclass
class Keda:
    """lag / threshold, bounded by Kafka partitions; tolerance 10 %, up at most doubled or + 4 each
    15 s, down after 300 s.
    """

    policy: Autoscaling
    threshold: float
    every: float = 15.0
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def wanted(self, group: Group) -> int:
        if group.away:
            return group.wanted
        lag = min(group.lag, group.setting.partitions * self.threshold)
        desired = math.ceil(lag / self.threshold)
        current = group.wanted
        if current and abs(lag / self.threshold / current - 1) <= 0.1:
            desired = current
        desired = max(self.policy.min_replicas, min(desired, self.policy.max_replicas))
        self.seen.append((group.time, desired))
        while self.seen[0][0] < group.time - 300:
            self.seen.popleft()
        if desired > current:
            return min(desired, max(2 * current, current + 4))
        return min(current, max(n for _, n in self.seen))
