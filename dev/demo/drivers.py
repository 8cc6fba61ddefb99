"""Landfall itself, as a user runs it: one process per group, by the command line."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template

LANDFALL = str(Path(sys.executable).with_name("landfall"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "demo"


@dataclass(frozen=True)
class Group:
    """A group of the demo: its name, and its YAML with the addresses filled in."""

    name: str
    file: Path


@dataclass(frozen=True)
class Driver:
    """A running ``landfall run``."""

    group: Group
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> int:
        """SIGKILL to the whole process group, as when a machine dies; returns the process id."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.process.pid

    def running(self) -> bool:
        """Whether it is still at it.

        Raises:
            SystemExit: it failed; shows the end of its log.
        """
        code = self.process.poll()
        if code:
            said = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise SystemExit(
                f"landfall run {self.group.file} ended with exit code {code}; its log {self.log} ends:\n{said}"
            )
        return code is None


@dataclass(frozen=True)
class Landfall:
    """Starts drivers and asks questions, all in one folder and with one environment."""

    folder: Path
    env: Mapping[str, str]

    def group(self, name: str, **values: str) -> Group:
        """Write the example's YAML with its addresses."""
        file = self.folder / f"{name}.yaml"
        file.write_text(Template((EXAMPLES / file.name).read_text()).substitute(self.env, **values))
        return Group(name, file)

    def run(self, group: Group) -> Driver:
        """Start landing in the background until there is nothing left to land."""
        log = self.folder / f"{group.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [LANDFALL, "run", str(group.file), "--until-caught-up"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        return Driver(group, process, log)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a short ``landfall`` command; what it says comes back as text."""
        return subprocess.run(
            [LANDFALL, *arguments],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
