"""``make cluster-times``: how long things take on a real Kubernetes node, seen from outside.

Most are repeated; the output shows the median and all values. The machine should be idle, because
most of these times are the start of Spark, which is CPU time.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from dev.servers.server import STATE
from dev.tour.place import TourPlace
from landfall.cli.group_store import GroupStore
from landfall.ledger import Commit, Open
from tests.support.kubernetes.live_group import NAME, LiveGroup, events_arriving
from tests.support.kubernetes.stack import Stack

RUNS = 3

Row = tuple[str, Sequence[float]]


def main() -> None:
    """Measure all of it, and print a line for each."""
    place = TourPlace(STATE / "times")
    try:
        stack = Stack.at(place)
        os.environ.update(
            {name: value for name, value in stack.s3.env.items() if name.startswith("AWS_")}
        )
        for what, seconds in _rows(stack):
            each = ", ".join(f"{s:.1f}" for s in sorted(seconds))
            print(f"{what:45} {median(seconds):6.1f} s   ({each})", flush=True)
    finally:
        place.down()


def _rows(stack: Stack) -> Iterator[Row]:
    yield "apply to first commit", [_first_commit(stack) for _ in range(RUNS)]
    with stack.group() as group:
        topic = group.topic()
        group.apply()
        group.wait_for_commit()
        with events_arriving(group.scene, topic):
            yield (
                "executor killed to next commit",
                [_killed(group, "executor") for _ in range(RUNS)],
            )
            yield "driver killed to next commit", [_killed(group, "driver") for _ in range(RUNS)]
            yield from _hand_overs(group)
            yield from _outages(stack, group)


def _first_commit(stack: Stack) -> float:
    with stack.group() as group:
        group.topic()
        return _seconds(
            group.apply,
            lambda: group.wait(lambda: group.ledger().totals.commits, "the first commit"),
        )


def _killed(group: LiveGroup, role: str) -> float:
    """Seconds until the next commit with another driver or executor than the killed one."""
    before = group.running(role)
    group.wait_for_commit()

    def over() -> None:
        group.wait(lambda: group.running(role) - before, "another one runs")
        group.wait_for_commit()

    return _seconds(lambda: group.kill(role), over)


def _hand_overs(group: LiveGroup) -> Iterator[Row]:
    taken = []
    for generation in range(2, 2 + RUNS):
        taken.append(
            _seconds(
                lambda: group.change(generation=generation),  # noqa: B023
                lambda: group.wait(
                    lambda: group.ledger().generation == generation,  # noqa: B023
                    "it opens the ledger",
                ),
            )
        )
        group.wait_for_commit()
        group.wait(lambda: group.status()["rollout"].get("target") is None, "the hand-over is over")
    yield "new generation asked for to its OPEN", taken
    yield "commit to commit, usually", [median(_pauses(group, over=False))]
    yield "commit to commit, over a hand-over", _pauses(group, over=True)


def _pauses(group: LiveGroup, *, over: bool) -> list[float]:
    """Seconds from a commit to the next one, of the same generation or of two."""
    generation, commits = 0, []
    for record in GroupStore(group.scene.group(NAME), group.scene.store()).records():
        match record:
            case Open():
                generation = record.generation
            case Commit():
                commits.append((generation, datetime.fromisoformat(record.header.time)))
    return [(b - a).total_seconds() for (g, a), (h, b) in pairwise(commits) if (g != h) is over]


def _outages(stack: Stack, group: LiveGroup) -> Iterator[Row]:
    said: dict[str, Callable[[], object]] = {
        "condition": lambda: group.condition("CommitsHealthy")[0] == "False",
        "Event": lambda: ("Warning", "StoreUnavailable") in group.events(),
        "metric": lambda: stack.condition(group, "CommitsHealthy") == 0,
    }
    for name, how in (("gone", signal.SIGKILL), ("silent", signal.SIGSTOP)):
        group.wait_for_condition("CommitsHealthy", "True", "AsExpected")
        with stack.s3_outage(how):
            began = time.monotonic()
            for what, holds in said.items():
                group.wait(holds, what)
            yield f"store {name} to condition, Event and metric", [time.monotonic() - began]


def _seconds(do: Callable[[], None], until: Callable[[], None]) -> float:
    began = time.monotonic()
    do()
    until()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
