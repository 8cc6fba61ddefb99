"""Drivers as processes of their own, to kill, to stop and to continue."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import yaml

from tests.support.landing import PATIENCE, wait_for
from tests.support.struck import GATE, STRIKE

LANDFALL = str(Path(sys.executable).with_name("landfall"))
ROOT = Path(__file__).resolve().parents[2]
MARK = "LANDFALL_TEST_RUN"
"""In the environment of a driver and of everything it starts, however orphaned."""


@dataclass
class Process:
    """A running driver; ``log`` is what it says."""

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
        """Until SIGSTOP has reached it."""
        wait_for(self._is_stopped, "the driver is stopped")

    def _is_stopped(self) -> bool:
        assert self.popen.poll() is None, f"ended with {self.popen.returncode}:\n{self.said}"
        return bool(psutil.Process(self.popen.pid).status() == psutil.STATUS_STOPPED)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def left(self) -> list[psutil.Process]:
        """Processes of this run that are there: the driver, its JVM, its Python workers."""
        return [process for process in psutil.process_iter() if self._started(process)]

    def jvm(self) -> psutil.Process:
        """Its Spark."""
        (jvm,) = (process for process in self.left() if process.name() == "java")
        return jvm

    def workers(self) -> list[psutil.Process]:
        """The Python workers that run its tasks; not their daemon, which makes new ones."""
        python = [process for process in self.left() if "pyspark.daemon" in process.cmdline()]
        return [process for process in python if process.ppid() in {parent.pid for parent in python}]

    def _started(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        return False

    def clear(self) -> None:
        """Leave nothing behind, whatever the test came to."""
        for process in self.left():
            with suppress(psutil.Error):
                process.kill()
        self.popen.wait()


@dataclass
class Processes:
    """Starts ``landfall run`` on local Spark for one group after the other; its files and logs are in the folder."""

    folder: Path
    begun: list[Process] = field(default_factory=list)

    def run(self, document: Mapping[str, Any], *options: str, env: Mapping[str, str] | None = None) -> Process:
        """Land a group, as a user does it."""
        number = len(self.begun)
        group = self.folder / f"{number}.yaml"
        group.write_text(yaml.safe_dump(document))
        return self._start(
            ["run", str(group), "--master", "local[2]", *options], self.folder / f"{number}.log", env or {}
        )

    def struck(self, document: dict[str, Any], strike: str = "", gate: Path | None = None) -> Process:
        """The same until caught up, with a store that stops or kills it: see ``tests.support.struck``."""
        document["spec"]["output"]["store"] = "tests.support.struck:Struck"
        env = {STRIKE: strike, GATE: str(gate or "")}
        return self.run(document, "--until-caught-up", "--http-port", "0", "--verbose", env=env)

    def _start(self, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> Process:
        mark = uuid4().hex
        # The workers of Spark find the tests' store as the driver does.
        own = {"PYTHONPATH": str(ROOT), MARK: mark}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [LANDFALL, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **own, **env},
                start_new_session=True,
            )
        self.begun.append(Process(popen, log, mark))
        return self.begun[-1]

    def clear(self) -> None:
        """Let none of them outlive the test."""
        for process in self.begun:
            process.clear()
