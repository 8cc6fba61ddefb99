"""A server process on this machine: start it, find it again, stop it.

The home folder of a server contains its ports, process id, log and data. A saved process id is
trusted only while the process with this id has the server's marker on its command line, so neither
a reboot nor a reused id is mistaken for the server. ``up`` holds a lock until the server answers:
two callers at the same time start it once.
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

from dev.servers.cache import MissingTool, locked
from dev.servers.ports import answers, chosen, write

HOST = "127.0.0.1"
STATE = Path(__file__).resolve().parents[2] / ".state"


@dataclass(frozen=True, slots=True)
class ServerKind:
    """The definition of one kind of server.

    Attributes:
        name: The name of the server and of its home folder.
        existing: The environment variable that names an existing server to use instead.
        ports: The number of ports that it listens on.
        build: Builds the programs if necessary, and returns their folder.
        command: Writes the configuration, given the folder of the programs, the home, the host and
            the ports. Returns the command line, and an argument in it that no other process has.
        ready: Whether the server answers, given its log, host and first port.
        address: The address for clients, given the host and the first port.
        env: The environment variables for clients, given the address.
        start_seconds: How long the server may take until it answers.
    """

    name: str
    existing: str
    ports: int
    build: Callable[[], Path]
    command: Callable[[Path, Path, str, tuple[int, ...]], tuple[list[str], str]]
    ready: Callable[[Path, str, int], bool]
    address: Callable[[str, int], str]
    env: Callable[[str], Mapping[str, str]]
    start_seconds: float = 240


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a server; ``pid`` is None if it does not run or was not started by ``up``."""

    name: str
    running: bool
    address: str | None = None
    pid: int | None = None
    log: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """A server whose home is under the state folder, listening on an address of this machine."""

    kind: ServerKind
    state: Path = STATE
    host: str = HOST

    @property
    def home(self) -> Path:
        """The folder of everything that belongs to the server."""
        return self.state.resolve() / self.kind.name

    def up(self) -> ServerStatus:
        """Ensure that the server runs and answers; a server that runs already is not restarted.

        Raises:
            MissingTool: A program is missing, or the server does not start.
        """
        if self._another_is_named():
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
        """Stop the server, with ``at_once`` by SIGKILL; its data and ports are kept."""
        with locked(self.home / "lock"):
            if not at_once:
                self._signal(signal.SIGTERM, seconds=20)
            self._signal(signal.SIGKILL, seconds=20)
            (self.home / "pid").unlink(missing_ok=True)

    def status(self) -> ServerStatus:
        """Return whether the server runs, and its address."""
        if self._another_is_named():
            with suppress(MissingTool):
                return self._existing()
        pid = self._pid()
        if pid is None:
            return ServerStatus(self.kind.name, running=False)
        return self._running(pid, self._ports(keep=True))

    def _another_is_named(self) -> bool:
        """Return whether the environment names a server to use instead of this one.

        A shell keeps the address of this one after ``down``: that must not keep ``up`` from
        starting it again.
        """
        named, memory = os.environ.get(self.kind.existing, ""), self.home / "ports.json"
        if not named or not memory.exists():
            return bool(named)
        ports = self._ports(keep=True)
        is_own = named == self.kind.address(self.host, ports[0])
        return not is_own or answers(self.host, ports[0])

    def _existing(self) -> ServerStatus:
        address = os.environ[self.kind.existing]
        first = address.split(",")[0]
        url = urlsplit(first if "//" in first else f"//{first}")
        try:
            default_port = 443 if url.scheme == "https" else 80
            socket.create_connection(
                (url.hostname or "", url.port or default_port), timeout=5
            ).close()
        except OSError as error:
            raise MissingTool(
                f"{self.kind.existing}={address} does not answer: {error}; "
                f"`unset {self.kind.existing}` to start one here"
            ) from None
        return ServerStatus(
            self.kind.name, running=True, address=address, env={self.kind.existing: address}
        )

    def _running(self, pid: int, ports: tuple[int, ...]) -> ServerStatus:
        address = self.kind.address(self.host, ports[0])
        return ServerStatus(
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
            time.sleep(0.002)  # exec replaces the command line a moment after the fork
        write(self.home / "pid", json.dumps({"pid": process.pid, "marker": marker}))
        return process.pid

    def _wait_until_ready(self, ports: tuple[int, ...]) -> None:
        deadline = time.monotonic() + self.kind.start_seconds
        log = self.home / "log"
        while not self.kind.ready(log, self.host, ports[0]):
            alive = self._pid() is not None
            if not alive or time.monotonic() > deadline:
                problem = "takes too long to start" if alive else "stopped while starting"
                end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise MissingTool(f"{self.kind.name} {problem}; its log {log} ends:\n{end}")
            time.sleep(0.05)

    def _pid(self) -> int | None:
        """The process id while the process runs and has the marker of this server."""
        try:
            written = json.loads((self.home / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return written["pid"] if written["marker"] in _command_line(written["pid"]) else None

    def _signal(self, number: signal.Signals, seconds: float) -> None:
        """Send a signal, and wait up to ``seconds`` until the process is gone."""
        deadline = time.monotonic() + seconds
        pid = self._pid()
        # A killed server cannot stop its child processes.
        send = os.killpg if number is signal.SIGKILL else os.kill
        if pid is not None:
            with suppress(ProcessLookupError):
                send(pid, number)
        while self._pid() is not None and time.monotonic() < deadline:
            time.sleep(0.02)


_READS = 1000
"""For an empty command line; processes of the kernel never have one."""


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is no such process or it is a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # reap it if it is a child of this process
    try:
        return _settled_command_line(pid)
    except OSError:
        if Path("/proc/self").exists():
            return ""
    return subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout


def _settled_command_line(pid: int) -> str:
    for _ in range(_READS):
        if (line := _read_command_line(pid)) or not _is_replacing_itself(pid):
            return line
        time.sleep(0.001)
    return ""


def _read_command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")


def _is_replacing_itself(pid: int) -> bool:
    """Return whether a process without a command line is in the middle of exec, no zombie.

    ``env`` of a server's command is such a process for a moment.
    """
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in "ZX"
