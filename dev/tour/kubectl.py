"""kubectl and helm, as a user types them."""

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
class Kubectl:
    """Talks to one cluster.

    Attributes:
        kubeconfig: of its administrator.
        kubectl: the program.
        helm: the program.
        namespace: of the groups.
    """

    kubeconfig: str
    kubectl: Path
    helm: Path
    namespace: str

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What ``kubectl ARGUMENTS`` prints.

        Raises:
            SystemExit: it failed; with what it said.
        """
        return self._run(str(self.kubectl), *arguments, given=given)

    def install(self, release: str, chart: Path, *arguments: str) -> None:
        """``helm upgrade --install``; SystemExit as above."""
        self._run(str(self.helm), "upgrade", "--install", release, str(chart), *arguments)

    def group(self, name: str) -> dict[str, Any]:
        """A group as it is now."""
        found: dict[str, Any] = json.loads(
            self("get", GROUPS, name, "-n", self.namespace, "-o", "json")
        )
        return found

    def driver_pods(self, group: str) -> list[str]:
        """Names of the driver pods of a group that are not on their way out."""
        chosen = f"landfall.dev/group={group},landfall.dev/role=driver"
        pods = json.loads(self("get", "pods", "-n", self.namespace, "-l", chosen, "-o", "json"))[
            "items"
        ]
        return [
            pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        ]

    @contextmanager
    def watching(self, show: Callable[[str], None]) -> Iterator[None]:
        """Show every line of ``kubectl get consumergroups -w`` while the block runs."""
        argv = [str(self.kubectl), "get", GROUPS, "-n", self.namespace, "-w"]
        process = subprocess.Popen(
            argv, env=self._env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        reader = Thread(target=_pass_on, args=(process, show), daemon=True)
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


def _pass_on(process: subprocess.Popen[str], show: Callable[[str], None]) -> None:
    assert process.stdout
    last = ""
    for line in process.stdout:
        if line != last:  # the watch repeats itself where only what is not printed changed
            show(line.rstrip())
        last = line


def wait(until: Callable[[], bool], what: str, seconds: float = 300) -> float:
    """Wait for it; returns how many seconds it took.

    Raises:
        SystemExit: it took longer than ``seconds``.
    """
    begun = time.monotonic()
    while not until():
        if time.monotonic() - begun > seconds:
            raise SystemExit(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.25)
    return time.monotonic() - begun
