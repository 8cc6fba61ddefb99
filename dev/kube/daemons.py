"""Background processes that are found again without pid files.

Each one has its home and its name in an environment variable, which its children inherit. So
``/proc`` shows the truth after any crash, and a reused process id is never mistaken for a daemon. A
daemon counts as running only if its command line is the one that is requested now.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev.servers.cache import MissingTool

MARK = "LANDFALL_CLUSTER_DAEMON"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Daemons:
    """The daemons of one cluster."""

    home: Path

    def pid(self, name: str, argv: Sequence[str]) -> int | None:
        """The process id of the daemon with this command line; None if it does not run."""
        return next((pid for pid in self.pids(name) if _command_line(pid) == list(argv)), None)

    def any(self, name: str = "") -> bool:
        """Return whether a process of the daemon runs, or of any daemon if ``name`` is empty."""
        return next(self.pids(name), None) is not None

    def start(self, name: str, argv: Sequence[str], inside: Sequence[str] = ()) -> bool:
        """Ensure that a daemon runs; returns whether it was started now.

        A daemon that runs with another command line is killed first.

        Args:
            name: The name of the daemon and of its log.
            argv: The command line; the program by its absolute path.
            inside: A command that runs the rest of the line in namespaces, such as ``nsenter …``.
        """
        if self.pid(name, argv) is not None:
            return False
        self.stop(name)
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            log.replace(log.with_suffix(".log.previous"))
        # An empty environment: daemons must not use the user's proxies or credentials.
        env = {"PATH": SYSTEM_PATH, MARK: self._mark(name)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*inside, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.home,
                env=env,
                start_new_session=True,
            )
        while process.poll() is None and process.pid not in self.pids(name):
            time.sleep(0.002)  # exec replaces the environment a moment after the fork
        return True

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 300) -> None:
        """Wait until a daemon is ready; an OSError of ``ready`` counts as not ready.

        Raises:
            MissingTool: It ended or takes too long; the message contains the end of its log.
        """
        deadline = time.monotonic() + seconds
        while not _holds(ready):
            alive = self.any(name)
            if not alive or time.monotonic() > deadline:
                problem = (
                    f"is not ready after {seconds:.0f} s" if alive else "stopped while starting"
                )
                log = self.log(name)
                end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise MissingTool(f"{name} {problem}; its log {log} ends:\n{end}")
            time.sleep(0.05)

    def stop(self, name: str = "") -> None:
        """Kill a daemon, or all if ``name`` is empty, with all their child processes.

        Raises:
            MissingTool: A process does not end.
        """
        deadline = time.monotonic() + 60
        while pids := list(self.pids(name)):
            if time.monotonic() > deadline:
                raise MissingTool(f"{name or self.home}: processes {pids} do not end")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def log(self, name: str) -> Path:
        """The path of the daemon's log."""
        return self.home / "log" / f"{name}.log"

    def _mark(self, name: str) -> str:
        return f"{self.home}:{name}"

    def pids(self, name: str = "") -> Iterator[int]:
        """The ids of the processes of a daemon, or of all daemons if ``name`` is empty."""
        # Zombies have no environment any more, so they do not count.
        expected = f"{MARK}={self._mark(name)}".encode()
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            with suppress(OSError):
                variables = (process / "environ").read_bytes().split(b"\0")
                if any(v == expected if name else v.startswith(expected) for v in variables):
                    yield int(process.name)


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _holds(ready: Callable[[], bool]) -> bool:
    with suppress(OSError):
        return ready()
    return False
