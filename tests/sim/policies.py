"""Scaling policies: a fixed number, Landfall's autoscaler, and KEDA's Kafka scaler with an HPA."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from landfall.api.spec import Autoscaling
from landfall_operator.api.status import IneffectiveScaleUp
from landfall_operator.core.autoscaler import DOWN_WINDOW, ScalingContext, ScalingReason, scale
from landfall_operator.core.samples import DriverSample
from tests.sim.group import Group


class Policy(Protocol):
    """Decides on the number of executors every ``every`` seconds."""

    every: float

    def wanted(self, group: Group) -> int:
        """Return the number of executors to request now."""
        ...


@dataclass
class Fixed:
    """Always requests the same number."""

    executors: int
    every: float = 60.0

    def wanted(self, group: Group) -> int:  # noqa: ARG002  # the protocol's argument
        return self.executors


@dataclass
class Landfall:
    """Calls ``landfall_operator.core.autoscaler`` as the operator does."""

    policy: Autoscaling
    every: float = 15.0
    samples: list[DriverSample] = field(default_factory=list)
    reasons: list[ScalingReason] = field(default_factory=list)
    ineffective: IneffectiveScaleUp | None = None

    def wanted(self, group: Group) -> int:
        if not group.broker_is_down:
            self.samples.append(group.sample())
        self.samples = [s for s in self.samples if s.time >= group.now - 2 * DOWN_WINDOW]
        if not self.samples:
            return group.wanted
        context = ScalingContext(ineffective=self.ineffective)
        decision = scale(self.samples, self.policy, 1, group.now, context)
        self.ineffective = decision.ineffective
        self.reasons.append(decision.reason)
        return decision.desired


@dataclass
class Keda:
    """Requests lag / threshold executors, at most one per Kafka partition, with the HPA's defaults.

    These are: a tolerance of 10 %; scaling up at most to twice the number or by 4 every 15 s;
    scaling down to the largest number wanted in the last 300 s.
    """

    policy: Autoscaling
    threshold: float
    every: float = 15.0
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def wanted(self, group: Group) -> int:
        if group.broker_is_down:
            return group.wanted
        lag = min(group.lag, group.scenario.partitions * self.threshold)
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
