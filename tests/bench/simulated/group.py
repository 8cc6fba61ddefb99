"""A real driver that lands a topic on simulated executors, and what came of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.process.loop import Driver
from landfall.lane import Lane, LaneWriter, OpenRequest
from tests.bench.simulated.executors import (
    COSTS,
    Costs,
    SimulatedBackground,
    SimulatedExecutors,
    SlowStore,
)
from tests.bench.simulated.timeline import Timeline
from tests.support.driver.fakes import NOW, FakeLog


@dataclass(frozen=True, slots=True)
class Landing:
    """A topic that was landed, in simulated seconds.

    Attributes:
        seconds: from the lane's OPEN until all of it was visible.
        payload_mb: what was landed.
        commits: COMMITs.
        slices: task results, one for each slice.
        tasks: Spark tasks.
        busy: the share of the slots' time in which they had a task.
        driver_seconds: what the driver's process computed.
        slot_bytes: of the ledger's records.
    """

    seconds: float
    payload_mb: float
    commits: int
    slices: int
    tasks: int
    busy: float
    driver_seconds: float
    slot_bytes: int

    @property
    def mb_per_second(self) -> float:
        """Payload MB a second."""
        return self.payload_mb / self.seconds


def group(**spec: object) -> ConsumerGroup:
    """A group with the default settings."""
    return parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "simulated"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "none:9092", "topicPattern": ".*"}},
                "output": {"url": "s3://bucket/root"},
                **spec,
            },
        }
    )


def land(
    backlog: FakeLog,
    slots: int,
    costs: Costs = COSTS,
    of: ConsumerGroup | None = None,
    cpu: Callable[[], float] = time.thread_time,
) -> Landing:
    """Land everything that a log holds by the real driver, and return what that took.

    Args:
        backlog: the log.
        slots: how many tasks run at the same time.
        costs: of a task, and of what the driver waits for.
        of: the group; one with the default settings if None.
        cpu: what the driver's thread has computed.

    Raises:
        AssertionError: the driver did not land all of it.
    """
    of = of or group()
    timeline = Timeline(NOW, cpu)
    executors = SimulatedExecutors(timeline, slots, costs)
    store, names = SlowStore(timeline, costs), count()
    counters = DriverCounters(timeline.clock())
    deps = DriverDeps(
        store,
        Observer(backlog, timedelta(minutes=1)),
        executors,
        timeline.clock,
        lambda: f"{next(names):032x}",
        counters,
        SimulatedBackground(timeline, executors, costs),
    )
    lane = Lane(store, of.metadata.name, LANE)
    writer = LaneWriter.open(lane, OpenRequest("w", 1, "simulated"), timeline.clock)
    began, computed = timeline.now, timeline.cpu_seconds
    driver = Driver(of, writer, deps, lambda _: None, until_caught_up=True)
    assert driver.run() is ExitCode.OK, counters.message
    seconds, totals = timeline.now - began, writer.state.totals
    return Landing(
        seconds,
        totals.landed * costs.message_bytes / 1e6,
        totals.commits,
        totals.objects,  # each slice makes one
        executors.tasks,
        executors.busy_seconds / (seconds * slots),
        timeline.cpu_seconds - computed,
        store.created["bytes"],
    )
