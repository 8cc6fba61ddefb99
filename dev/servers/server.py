"""A server on this machine: start it, find it again, stop it, whatever happened in between.

Everything about one server lives in its home folder: ports, pid, log, data. A pid counts only while
the process with that number has the home's marker on its command line, so neither a reboot nor a
reused number can fool anybody. ``up`` holds the home's lock until the server answers: two callers
at once start it once.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dev.servers.cache import Missing, locked
from dev.servers.ports import chosen, write

HOST = "127.0.0.1"
STATE = Path(__file__).resolve().parents[2] / ".state"


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of server differs from another.

    Attributes:
        name: of its home folder.
        existing: environment variable that names a server to use instead of starting one.
        ports: how many it listens on.
        build: makes its programs ready, and returns their folder.
        command: writes its configuration into a home, given its programs, home, host and ports, and
            returns the command line and the argument in it that no other process has.
        ready: whether it answers, given its log, host and first port.
        address: what a client connects to, given its host and first port.
        env: what a client's environment needs, given the address.
        patience: seconds it may take to answer.
    """

    name: str
    existing: str
    ports: int
    build: Callable[[], Path]
    command: Callable[[Path, Path, str, tuple[int, ...]], tuple[list[str], str]]
    ready: Callable[[Path, str, int], bool]
    address: Callable[[str, int], str]
    env: Callable[[str], Mapping[str, str]]
    patience: float = 240


@dataclass(frozen=True, slots=True)
class Status:
    """What there is: ``pid`` is None for a server that is not ours, or not running."""

    name: str
    running: bool
    address: str | None = None
    pid: int | None = None
    log: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of this kind whose home is under this state folder, listening on this address of the machine."""

    kind: Kind
    state: Path = STATE
    host: str = HOST

    @property
    def home(self) -> Path:
        """Where all of it lives."""
        return self.state.resolve() / self.kind.name

    def up(self) -> Status:
        """Have it running and answering; one that runs already is left as it is.

        Raises:
            Missing: a program is not there, or the server does not start; says which and why.
        """
        if os.environ.get(self.kind.existing):
            return self._existing()
        programs = self.kind.build()
        with locked(self.home / "lock"):
            pid = self._pid()
            ports = self._ports(keep=pid is not None)
            if pid is None:
                pid = self._start(programs, ports)
            self._wait_until_ready(ports)
        return self._running(pid, ports)

    def down(self, *, at_once: bool = False) -> None:
        """Have it stopped; with ``at_once`` by SIGKILL, else it may tidy up first. Its data and ports stay."""
        with locked(self.home / "lock"):
            if not at_once:
                self._signal(signal.SIGTERM, patience=20)
            self._signal(signal.SIGKILL, patience=20)
            (self.home / "pid").unlink(missing_ok=True)

    def status(self) -> Status:
        """Whether it runs, and where."""
        if os.environ.get(self.kind.existing):
            with suppress(Missing):
                return self._existing()
        pid = self._pid()
        if pid is None:
            return Status(self.kind.name, running=False)
        return self._running(pid, self._ports(keep=True))

    def _existing(self) -> Status:
        address = os.environ[self.kind.existing]
        first = address.split(",")[0]
        place = urlsplit(first if "//" in first else f"//{first}")
        try:
            default_port = 443 if place.scheme == "https" else 80
            socket.create_connection(
                (place.hostname or "", place.port or default_port), timeout=5
            ).close()
        except OSError as error:
            raise Missing(f"{self.kind.existing}={address} does not answer: {error}") from None
        return Status(
            self.kind.name, running=True, address=address, env={self.kind.existing: address}
        )

    def _running(self, pid: int, ports: tuple[int, ...]) -> Status:
        address = self.kind.address(self.host, ports[0])
        return Status(
            self.kind.name,
            True,  # noqa: FBT003
            address,
            pid,
            str(self.home / "log"),
            self.kind.env(address),
        )

    def _ports(self, *, keep: bool) -> tuple[int, ...]:
        return chosen(self.home / "ports.json", self.kind.ports, self.host, keep=keep)

    def _start(self, programs: Path, ports: tuple[int, ...]) -> int:
        argv, marker = self.kind.command(programs, self.home, self.host, ports)
        log = self.home / "log"
        if log.exists():
            log.replace(self.home / "log.previous")
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.home,
                start_new_session=True,
            )
        while marker not in _command_line(process.pid) and process.poll() is None:
            time.sleep(0.002)  # the command line appears a moment after the process
        write(self.home / "pid", json.dumps({"pid": process.pid, "marker": marker}))
        return process.pid

    def _wait_until_ready(self, ports: tuple[int, ...]) -> None:
        deadline = time.monotonic() + self.kind.patience
        log = self.home / "log"
        while not self.kind.ready(log, self.host, ports[0]):
            alive = self._pid() is not None
            if not alive or time.monotonic() > deadline:
                what = "takes too long to start" if alive else "stopped while starting"
                said = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise Missing(f"{self.kind.name} {what}; its log {log} ends:\n{said}")
            time.sleep(0.05)

    def _pid(self) -> int | None:
        """The process id while the process lives and is ours."""
        try:
            written = json.loads((self.home / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return written["pid"] if written["marker"] in _command_line(written["pid"]) else None

    def _signal(self, number: signal.Signals, patience: float) -> None:
        """Send a signal, and wait for the process to be gone."""
        deadline = time.monotonic() + patience
        pid = self._pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while self._pid() is not None and time.monotonic() < deadline:
            time.sleep(0.02)


def _command_line(pid: int) -> str:
    """The process' command line; empty when there is no such process or it is a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # our own child may be a zombie
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    return subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
