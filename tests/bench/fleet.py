"""``make bench-fleet``: what an operator needs to start many groups, and to keep them.

A real API server with its controllers and a real operator process with the operator's own rights
run beside a simulated kubelet and simulated drivers, all on one machine. So wall times are those of
everything together; CPU seconds and resident memory are the operator's alone. It polls each driver
every 15 s, as it does in a cluster. Its requests to the API server are all but the eleven watches.
"""

import argparse
import re
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
from kubernetes.client.exceptions import ApiException
from rich.console import Console
from rich.table import Table

from dev.kube.cluster import ControlPlane
from dev.servers.server import STATE
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, document, install
from tests.support.operator.operators import Operators, Running
from tests.support.waiting import eventually

PATIENCE = 3600.0
LOOK_SECONDS = 3.0
"""Time between two looks at all groups: each costs the API server as much as a hundred writes."""
OPTIONS = ("--interval", "15", "--log-level", "INFO")
COLUMNS = (
    "",
    "wall s",
    "operator's CPU s",
    "% of a core",
    "its memory MB",
    "at most MB",
    "its requests",
    "requests a minute",
)
CHANGE_SECONDS = 0.25
"""Time between two changes by users."""
MB = 2**20


@dataclass(frozen=True)
class Fleet:
    """Many groups under one operator, and a table of what it used."""

    groups: Groups
    kubelet: Kubelet
    number: int
    console: Console
    table: Table

    def create(self) -> None:
        """Create all groups, eight at a time."""
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda n: self.groups.create(document(f"group-{n:04}")), range(self.number)
                )
            )

    def land(self) -> None:
        """Create all groups and wait until every one lands and no rollout is in progress."""
        self.create()
        wait_until(lambda: self._states() == [("Running", "Settled")] * self.number)

    def delete(self) -> None:
        """Delete all groups and wait until they are gone."""
        self.groups.kubectl("delete", "cg", "--all", "--wait=false")
        wait_until(lambda: not self._states())

    def _states(self) -> list[tuple[str, str]]:
        """The phase of each group and the stage of its rollout; empty where it has none yet."""
        statuses = [group.get("status", {}) for group in self.groups.list()]
        return [(s.get("phase", ""), s.get("rollout", {}).get("stage", "")) for s in statuses]

    def commit(self, busy: bool) -> None:
        """Let all drivers commit every minute, or none."""
        for driver in self.kubelet.drivers:
            driver.busy = busy

    def change(self, count: int) -> list[float]:
        """Change some groups, one after the other, as users do.

        Returns the seconds from each change to the operator's command to the driver, ascending.
        """
        drivers = {driver.group: driver for driver in self.kubelet.drivers}
        chosen = [drivers[name] for name in sorted(drivers)[:: max(1, self.number // count)]]
        changed = []
        for driver in chosen[:count]:
            wanted = driver.wanted + 1
            changed.append((driver, wanted, time.monotonic()))
            self.groups.patch_scale(driver.group, wanted)
            time.sleep(CHANGE_SECONDS)
        wait_until(lambda: all(driver.wanted == wanted for driver, wanted, _ in changed))
        return sorted(driver.received_at - begun for driver, _, begun in changed)

    def measure(self, what: str, operator: Running, happens: Callable[[], object]) -> None:
        """Let something happen, and add a row with what the operator used meanwhile."""
        process, begun = psutil.Process(operator.popen.pid), time.monotonic()
        before, asked = process.cpu_times(), operator.asked()
        happens()
        after, wall = process.cpu_times(), time.monotonic() - begun
        cpu = after.user + after.system - before.user - before.system
        requests = operator.asked() - asked
        row = (
            what,
            f"{wall:.0f}",
            f"{cpu:.1f}",
            f"{100 * cpu / wall:.0f}",
            f"{process.memory_info().rss / MB:.0f}",
            f"{highest_memory(process.pid) / MB:.0f}",
            f"{requests:.0f}",
            f"{60 * requests / wall:.0f}",
        )
        self.console.print(*row, sep="  ")
        self.table.add_row(*row)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument(
        "--watched", type=float, default=300.0, help="seconds that each steady state is watched"
    )
    parser.add_argument("--changes", type=int, default=200, help="how many groups users change")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # two sockets a driver
    control_plane = ControlPlane(STATE / "bench")
    try:
        kubeconfig = control_plane.up().kubeconfig
        assert kubeconfig
        measure(Cluster(Path(kubeconfig)), options)
    finally:
        control_plane.down()


def measure(cluster: Cluster, options: argparse.Namespace) -> None:
    install(cluster)
    namespace, console, table = cluster.create_namespace(), Console(width=150), Table(*COLUMNS)
    with tempfile.TemporaryDirectory() as folder, Kubelet(cluster, namespace).running() as kubelet:
        fleet = Fleet(Groups(cluster, namespace), kubelet, options.groups, console, table)
        operators = Operators(cluster, namespace, Path(folder))
        operators.allow()
        with operators.clearing():
            first = operators.lead(*OPTIONS)
            fleet.measure("no group", first, lambda: time.sleep(30))
            fleet.measure("created, until all land", first, fleet.land)
            watch(fleet, first, options)
            pods = kubelet.begun.total()
            assert first.end() == 0
            second = operators.start(*OPTIONS)
            fleet.measure(
                "a new operator, until it has reconciled all",
                second,
                lambda: looked_at(second, options.groups),
            )
            fleet.measure("idle again", second, lambda: time.sleep(options.watched))
            assert kubelet.begun.total() == pods, "a driver was started again"
            fleet.measure("deleted, until all are gone", second, fleet.delete)
    console.print(table)


def watch(fleet: Fleet, operator: Running, options: argparse.Namespace) -> None:
    """Measure the steady states, and how soon a change of a user has an effect in each."""
    for what, busy in (("idle", False), ("every group commits each minute", True)):
        fleet.commit(busy)
        time.sleep(min(options.watched, 60))  # the first writes of the new state do not count
        fleet.measure(what, operator, lambda: time.sleep(options.watched))
        seconds = fleet.change(min(options.changes, options.groups))
        fleet.console.print(
            f"{what}: from a change to the operator's first action: "
            f"p50 {at(seconds, 0.5):.2f} s, p99 {at(seconds, 0.99):.2f} s ({len(seconds)} changes)"
        )


def at(ascending: list[float], share: float) -> float:
    """The value below which this share of all values is, rounded up to one of them."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def highest_memory(pid: int) -> int:
    """The most resident memory that a process has had, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found, text
    return int(found[1]) * 1024


def wait_until(holds: Callable[[], bool]) -> None:
    """Return when something holds that is expensive to look at."""

    def look() -> bool:
        time.sleep(LOOK_SECONDS)
        try:
            return holds()
        except ApiException:
            return False  # a busy API server answers 504 to long lists

    eventually(look, bool, PATIENCE)


def looked_at(operator: Running, number: int) -> None:
    """Wait until a new operator has reconciled this many groups."""

    def have_passed() -> bool:
        assert operator.popen.poll() is None, operator.said[-1000:]
        return operator.metric("landfall_operator_passes_total", outcome="done") >= number

    wait_until(have_passed)


if __name__ == "__main__":
    main()
