"""Processes that outlive the command that started them, found again without any file about them.

Each carries its home and its name in its environment, and so do its own children: what ``/proc``
shows is the truth after any crash, and no reused process id can fool anybody. A daemon counts as
running only with the very command line that is wanted now.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev.servers.cache import Missing

MARK = "LANDFALL_CLUSTER_DAEMON"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Daemons:
    """The daemons of one home."""

    home: Path

    def pid(self, name: str, argv: Sequence[str]) -> int | None:
        """Process id of the one with this command line, while it runs."""
        return next((pid for pid in self.pids(name) if _command_line(pid) == list(argv)), None)

    def any(self, name: str = "") -> bool:
        """Whether anything of it, or of all of ours, is there."""
        return next(self.pids(name), None) is not None

    def start(self, name: str, argv: Sequence[str], inside: Sequence[str] = ()) -> bool:
        """Have it running; one that runs with another command line is ended first. True when it was started now.

        Args:
            name: of its log, and to find it by.
            argv: its command line; the program by its whole path.
            inside: what puts it into namespaces and then runs the rest of the line: ``nsenter …``.
        """
        if self.pid(name, argv) is not None:
            return False
        self.stop(name)
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            log.replace(log.with_suffix(".log.previous"))
        # a clean environment: a proxy or a credential of the user's is none of their business
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
            time.sleep(0.002)  # its environment appears a moment after the process
        return True

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 300) -> None:
        """Until it is ready; an answer that does not come counts as no.

        Raises:
            Missing: it ended or takes too long; carries the end of its log.
        """
        deadline = time.monotonic() + seconds
        while not _holds(ready):
            alive = self.any(name)
            if not alive or time.monotonic() > deadline:
                what = f"is not ready after {seconds:.0f} s" if alive else "stopped while starting"
                log = self.log(name)
                said = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise Missing(f"{name} {what}; its log {log} ends:\n{said}")
            time.sleep(0.05)

    def stop(self, name: str = "") -> None:
        """Have it, or all of them, ended by SIGKILL, with all they started.

        Raises:
            Missing: one does not go.
        """
        deadline = time.monotonic() + 60
        while pids := list(self.pids(name)):
            if time.monotonic() > deadline:
                raise Missing(f"{name or self.home}: processes {pids} do not end")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def log(self, name: str) -> Path:
        """What it says."""
        return self.home / "log" / f"{name}.log"

    def _mark(self, name: str) -> str:
        return f"{self.home}:{name}"

    def pids(self, name: str = "") -> Iterator[int]:
        """Of the processes that carry its mark, or any of ours; zombies have no environment left, so they do not count."""
        wanted = f"{MARK}={self._mark(name)}".encode()
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            with suppress(OSError):
                variables = (process / "environ").read_bytes().split(b"\0")
                if any(v == wanted if name else v.startswith(wanted) for v in variables):
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
