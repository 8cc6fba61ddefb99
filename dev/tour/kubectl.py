"""kubectl and helm, called as a user calls them."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

GROUPS = "consumergroups"


@dataclass(frozen=True)
class TourKubectl:
    """Runs kubectl and helm against one cluster.

    Attributes:
        kubeconfig: the path of an administrator's kubeconfig.
        kubectl: the path of the program.
        helm: the path of the program.
        namespace: the namespace of the groups.
    """

    kubeconfig: str
    kubectl: Path
    helm: Path
    namespace: str

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """The output of ``kubectl ARGUMENTS``; ``given`` is its standard input.

        Raises:
            SystemExit: it failed; the message has what it printed.
        """
        return self._run(str(self.kubectl), *arguments, given=given)

    def install(self, release: str, chart: Path, *arguments: str) -> None:
        """Run ``helm upgrade --install``; SystemExit if it fails."""
        self._run(str(self.helm), "upgrade", "--install", release, str(chart), *arguments)

    def group(self, name: str) -> dict[str, Any]:
        """The resource of a group as it is now."""
        found: dict[str, Any] = json.loads(
            self("get", GROUPS, name, "-n", self.namespace, "-o", "json")
        )
        return found

    def driver_pods(self, group: str) -> list[str]:
        """The names of a group's driver pods that are not being deleted."""
        chosen = f"landfall.dev/group={group},landfall.dev/role=driver"
        pods = json.loads(self("get", "pods", "-n", self.namespace, "-l", chosen, "-o", "json"))[
            "items"
        ]
        return [
            pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        ]

    @contextmanager
    def watching(self, show: Callable[[str], None]) -> Iterator[None]:
        """Show the lines of ``kubectl get consumergroups -w`` while the block runs."""
        argv = [str(self.kubectl), "get", GROUPS, "-n", self.namespace, "-w"]
        process = subprocess.Popen(
            argv, env=self._env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        reader = Thread(target=_show_lines, args=(process, show), daemon=True)
        reader.start()
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            reader.join()

    def _run(self, *argv: str, given: str | None = None) -> str:
        done = subprocess.run(
            argv, env=self._env(), input=given, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(
                f"{Path(argv[0]).name} {' '.join(argv[1:])} failed:\n{done.stderr.strip()}"
            )
        return done.stdout

    def _env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": self.kubeconfig}


def _show_lines(process: subprocess.Popen[str], show: Callable[[str], None]) -> None:
    assert process.stdout
    last = ""
    for line in process.stdout:
        if line != last:  # a change that the columns do not show prints the same line again
            show(line.rstrip())
        last = line


def wait(until: Callable[[], bool], what: str, seconds: float = 300) -> float:
    """Wait until a condition holds; returns how many seconds it took.

    Raises:
        SystemExit: it took longer than ``seconds``.
    """
    started = time.monotonic()
    while not until():
        if time.monotonic() - started > seconds:
            raise SystemExit(f"{what}: not reached within {seconds:.0f} s")
        time.sleep(0.25)
    return time.monotonic() - started
