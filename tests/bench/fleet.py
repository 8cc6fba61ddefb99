"""``python -m tests.bench.fleet``: what an operator needs to start many groups and keep them idle.

A real API server with its controllers and a real operator process with the operator's own rights
run beside a simulated kubelet and simulated drivers, all on one machine. So wall times are those of
everything together; CPU seconds and resident memory are the operator's alone. The operator polls
each idle driver every 15 s, as it does in a cluster.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from dev.kube.cluster import ControlPlane
from dev.servers.server import STATE
from tests.support.cluster import Cluster
from tests.support.fake_kubelet import Kubelet
from tests.support.groups import Groups, document, install
from tests.support.operators import Operators, Running
from tests.support.waiting import eventually

PATIENCE = 1800.0
OPTIONS = ("--interval", "15", "--log-level", "INFO")
MB = 2**20


class Fleet:
    """Many groups under one operator."""

    def __init__(self, groups: Groups, number: int, console: Console) -> None:
        """``create`` makes ``number`` groups."""
        self.groups = groups
        self.number = number
        self._console = console
        self._table = Table(
            "",
            "wall s",
            "operator's CPU s",
            "operator's memory MB",
            "its requests to the API server",
        )

    def create(self) -> None:
        """Create all groups, eight at a time."""
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda n: self.groups.create(document(f"group-{n:04}")), range(self.number)
                )
            )

    def phases(self) -> list[str]:
        """The phase of each group; empty where it has none yet."""
        return [group.get("status", {}).get("phase", "") for group in self.groups.list()]

    def all_settled(self) -> bool:
        """Whether every group lands and no rollout is in progress."""
        stages = [
            (
                group.get("status", {}).get("phase"),
                group.get("status", {}).get("rollout", {}).get("stage"),
            )
            for group in self.groups.list()
        ]
        return stages == [("Running", "Settled")] * self.number

    def measure(self, what: str, operator: Running, happens: Callable[[], object]) -> None:
        """Let something happen, and add a row with what the operator used meanwhile."""
        process, begun = psutil.Process(operator.popen.pid), time.monotonic()
        before, asked = process.cpu_times(), operator.asked()
        happens()
        after, wall = process.cpu_times(), time.monotonic() - begun
        cpu = after.user + after.system - before.user - before.system
        memory = process.memory_info().rss / MB
        row = (
            what,
            f"{wall:.0f}",
            f"{cpu:.1f}",
            f"{memory:.0f}",
            f"{operator.asked() - asked:.0f}",
        )
        self._console.print(*row, sep="  ")
        self._table.add_row(*row)

    def show(self) -> None:
        """Print all rows."""
        self._console.print(self._table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument(
        "--idle", type=float, default=180.0, help="seconds that the idle groups are watched"
    )
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # two sockets a driver
    control_plane = ControlPlane(STATE / "bench")
    try:
        kubeconfig = control_plane.up().kubeconfig
        assert kubeconfig
        measure(Cluster(Path(kubeconfig)), options.groups, options.idle)
    finally:
        control_plane.down()


def measure(cluster: Cluster, number: int, idle: float) -> None:
    install(cluster)
    namespace = cluster.create_namespace()
    fleet = Fleet(Groups(cluster, namespace), number, Console(width=150))
    with tempfile.TemporaryDirectory() as folder, Kubelet(cluster, namespace).running() as kubelet:
        operators = Operators(cluster, namespace, Path(folder))
        operators.allow()
        with operators.clearing():
            first = operators.lead(*OPTIONS)
            fleet.measure("no group, for 30 s", first, lambda: time.sleep(30))
            fleet.create()
            fleet.measure(
                "until all land", first, lambda: eventually(fleet.all_settled, bool, PATIENCE)
            )
            fleet.measure(f"idle, for {idle:.0f} s", first, lambda: time.sleep(idle))
            pods = kubelet.begun.total()
            assert first.end() == 0
            second = operators.start(*OPTIONS)
            fleet.measure(
                "a new operator, until it has reconciled all",
                second,
                lambda: looked_at(second, number),
            )
            fleet.measure(f"idle again, for {idle:.0f} s", second, lambda: time.sleep(idle))
            assert kubelet.begun.total() == pods, "a driver was started again"
            fleet.groups.kubectl("delete", "cg", "--all", "--wait=false")
            fleet.measure(
                "deleted, until all are gone",
                second,
                lambda: eventually(fleet.phases, lambda left: not left, PATIENCE),
            )
    fleet.show()


def looked_at(operator: Running, number: int) -> None:
    """Wait until a new operator has reconciled this many groups."""

    def passes() -> float:
        assert operator.popen.poll() is None, operator.said[-1000:]
        return operator.metric("landfall_operator_passes_total", outcome="done")

    eventually(passes, lambda done: done >= number, PATIENCE)


if __name__ == "__main__":
    main()
