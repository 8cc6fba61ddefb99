"""Drivers as separate processes that tests kill, stop and continue."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import yaml

from dev.servers.ports import any_free
from landfall.api.contract import CONTROL_TOKEN_FILE, GROUP_FILE, REVISION
from tests.support.landing.crashing_store import GATE, STRIKE
from tests.support.waiting import PATIENCE, wait_for

LANDFALL = str(Path(sys.executable).with_name("landfall"))
ROOT = Path(__file__).resolve().parents[3]
ENTRY = ROOT / "spark_app" / "main.py"
STRUCK = "tests.support.landing.crashing_store:CrashingStore"
TOKEN = "token-of-the-tests"  # protects nothing
LOCAL_SPARK = """
spark.master local[2]
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 512m
"""
MARK = "LANDFALL_TEST_RUN"
"""An environment variable that a driver and all its descendants inherit, orphans included."""


@dataclass
class Process:
    """A running driver; ``log`` is the file of its output."""

    popen: subprocess.Popen[bytes]
    log: Path
    mark: str

    def end(self) -> int:
        """Wait for it to end, and return its exit code: negative for a signal."""
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {PATIENCE:g} s:\n{self.said}") from None

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait_until_stopped(self) -> None:
        """Return when SIGSTOP has taken effect."""
        wait_for(self._is_stopped, "the driver is stopped")

    def _is_stopped(self) -> bool:
        assert self.popen.poll() is None, f"ended with {self.popen.returncode}:\n{self.said}"
        return bool(psutil.Process(self.popen.pid).status() == psutil.STATUS_STOPPED)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Return as soon as a condition holds.

        Raises:
            AssertionError: the driver has ended, or it takes too long; with what it said.
        """

        def holds() -> object:
            found = condition()
            assert found or self.popen.poll() is None, f"ended with {self.popen.returncode}"
            return found

        try:
            wait_for(holds, what)
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{error}:\n{self.said}") from error

    def left(self) -> list[psutil.Process]:
        """The processes of this run that exist: the driver, its JVM, its Python workers.

        ``info`` holds their attributes at the time of the call: some may end a moment later.
        """
        seen = psutil.process_iter(["ppid", "name", "cmdline"])
        return [process for process in seen if self._started(process)]

    def jvm(self) -> psutil.Process:
        """The JVM of Spark; not its forks, which have the same name until they exec."""
        (jvm,) = (
            p for p in self.left() if (p.info["name"], p.info["ppid"]) == ("java", self.popen.pid)
        )
        return jvm

    def workers(self) -> list[psutil.Process]:
        """The Python workers that run tasks; not the daemon that forks them."""
        python = [
            process
            for process in self.left()
            if "pyspark.daemon" in (process.info["cmdline"] or ())
        ]
        return [
            process
            for process in python
            if process.info["ppid"] in {parent.pid for parent in python}
        ]

    def _started(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return (
                process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(MARK) == self.mark
            )
        return False

    def clear(self) -> None:
        """Kill everything that is left of the run."""
        for process in self.left():
            with suppress(psutil.Error):
                process.kill()
        self.popen.wait()


@dataclass
class Pod(Process):
    """A driver started as in its pod, but on this machine: with a revision and a control token."""

    revision: str
    token: str
    termination: Path

    def _url(self, event: str) -> str:
        """The address in the log event that announces a server; waits for the event."""
        found: list[str] = []

        def announced() -> list[str]:
            found.extend(line["url"] for line in self._events() if line.get("message") == event)
            assert found or self.popen.poll() is None, (
                f"ended with {self.popen.returncode}:\n{self.said}"
            )
            return found

        wait_for(announced, f"the driver is {event}", 2 * PATIENCE)
        return found[0].removesuffix("/").removesuffix("/control")

    def _events(self) -> Iterator[dict[str, Any]]:
        for line in self.said.splitlines():
            with suppress(ValueError):
                yield json.loads(line[line.find("{") :])  # Spark writes to the same file

    def get(self, path: str) -> tuple[int, Any]:
        """The status code and the JSON of a page; code 0 when the driver does not answer."""
        try:
            with urllib.request.urlopen(self._url("serving") + path, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    def tell(self, path: str, **document: object) -> int:
        """Send a command to the control port; returns the status code."""
        request = urllib.request.Request(  # our own driver
            self._url("listening") + path,
            json.dumps(document).encode(),
            {"Authorization": f"Bearer {self.token}"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # as above
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def tell_its_last(self, path: str, **document: object) -> None:
        """Send a command that kills the driver, perhaps before it has answered."""
        with suppress(ConnectionError):
            self.tell(path, **document)

    def until(self, condition: Callable[[Any], object], what: str) -> Any:
        """The first ``/status`` that meets a condition."""
        found: list[Any] = [None]

        def holds() -> bool:
            code, found[0] = self.get("/status")
            return code == HTTPStatus.OK and bool(condition(found[0]))

        try:
            wait_for(holds, what, 2 * PATIENCE)  # Spark may have to start first, and its workers
        except TimeoutError as error:
            raise AssertionError(f"{error}: {found}\n{self.said}") from error
        return found[0]

    def until_phase(self, phase: str) -> Any:
        return self.until(lambda status: status["phase"] == phase, f"{self.revision} is {phase}")


@dataclass
class Processes:
    """Starts ``landfall run`` on local Spark; the files and logs are in ``folder``."""

    folder: Path
    begun: list[Process] = field(default_factory=list)

    def run(
        self, document: Mapping[str, Any], *options: str, env: Mapping[str, str] | None = None
    ) -> Process:
        """Run ``landfall run``, as a user does."""
        number = len(self.begun)
        group = self.folder / f"{number}.yaml"
        group.write_text(yaml.safe_dump(document))
        return self._start(
            ["run", str(group), "--master", "local[2]", *options],
            self.folder / f"{number}.log",
            env or {},
        )

    def struck(
        self,
        document: dict[str, Any],
        strike: str = "",
        gate: Path | None = None,
        until: Sequence[str] = ("--until-caught-up",),
    ) -> Process:
        """Run it with a store that stops or kills the driver (``crashing_store``)."""
        _strike(document)
        env = {STRIKE: strike, GATE: str(gate or "")}
        return self.run(document, *until, "--http-port", "0", "--verbose", env=env)

    def backfill(
        self, document: dict[str, Any], name: str, strike: str = "", action: str = "run"
    ) -> Process:
        """Run ``landfall backfill run`` or ``land``; a strike says where the store kills it."""
        if strike:
            _strike(document)
        number = len(self.begun)
        group = self.folder / f"{number}.yaml"
        group.write_text(yaml.safe_dump(document))
        command = ["backfill", action, str(group), name, "--max-cores", "2", "--verbose"]
        return self._start(command, self.folder / f"{number}.log", {STRIKE: strike, GATE: ""})

    def pod(self, document: dict[str, Any], revision: str, strike: str = "") -> Pod:
        """Run the driver's entry point with the environment of a pod, on local Spark."""
        folder = self.folder / f"{len(self.begun)}-{revision}"
        folder.mkdir()
        if strike:
            _strike(document)
        (folder / "group.json").write_text(json.dumps(document))
        (folder / "spark-defaults.conf").write_text(LOCAL_SPARK)
        (folder / "token").write_text(TOKEN)
        termination = folder / "termination-log"
        termination.touch()
        env = {
            GROUP_FILE: str(folder / "group.json"),
            REVISION: revision,
            CONTROL_TOKEN_FILE: str(folder / "token"),
            "SPARK_CONF_DIR": str(folder),
            STRIKE: strike,
            GATE: "",
        }
        options = ["--host", "127.0.0.1", "--http-port", "0", "--control-port", "0"]
        command = [sys.executable, str(ENTRY), *options, "--termination-file", str(termination)]
        popen, log, mark = self._begin(command, self.folder / f"{folder.name}.log", env)
        pod = Pod(popen, log, mark, revision, TOKEN, termination)
        self.begun.append(pod)
        return pod

    def _start(self, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> Process:
        self.begun.append(Process(*self._begin([LANDFALL, *arguments], log, env)))
        return self.begun[-1]

    def _begin(
        self, command: Sequence[str], log: Path, env: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], Path, str]:
        mark = uuid4().hex
        # With this path, the workers of Spark can import the store of the tests, too.
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        own = {"PYTHONPATH": path, MARK: mark}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **own, **env},
                start_new_session=True,
            )
        return popen, log, mark

    def clear(self) -> None:
        """Kill all processes that are left."""
        for process in self.begun:
            process.clear()


def free_port() -> int:
    """A free port outside the ephemeral range."""
    (port,) = any_free("127.0.0.1", 1)
    return port


def _strike(document: dict[str, Any]) -> None:
    """Let the driver of this group stop where a strike says, in whichever of its stores."""
    for section in document["spec"].keys() & {"output", "ledger"}:
        document["spec"][section]["store"] = STRUCK
