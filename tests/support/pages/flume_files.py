"""The example ``examples/flume-files``, followed as its page says, at a time of the test's own."""

import contextlib
import importlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from landfall.api import group_file
from landfall.api.contract import LANE
from landfall.cli import main
from landfall.clock import SteadyClock, wall_clock
from landfall.driver.process import run
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import State
from tests.support.landing.lent_spark import lending
from tests.support.pages.markdown import DOCS, ROOT, code

EXAMPLE = ROOT / "examples/flume-files"
PAGE = DOCS / "start/files.md"
URL = "/tmp/flume"
"""What has the files and the output, as the page calls it."""
files: Any = importlib.import_module("examples.flume-files.write")
NOW = datetime(2026, 11, 21, 5, 20, tzinfo=UTC)
FIRST: datetime = files.first_hour(NOW)


@dataclass
class FlumeFiles:
    """Follows the page, in a folder of the test's own.

    Attributes:
        folder: has what is in ``URL`` on the page; commands are typed here, too.
    """

    folder: Path

    def prepare(self) -> None:
        """The group, the program and the first files of the page."""
        files.first(self.folder / "in", FIRST)
        self._write("hits.yaml", (EXAMPLE / "hits.yaml").read_text())
        (program,) = code(PAGE, "python")
        self._write("count.py", program.text)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text.replace(URL, str(self.folder)))

    def state(self) -> State:
        """What the ledger says."""
        group = group_file.load(self.folder / "hits.yaml", os.environ)
        return Lane(open_stores(group.spec), "hits", LANE).read()

    def type(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints with the page's names."""
        command = command.replace("${HOUR}", f"{FIRST + files.HOUR:%Y-%m-%dT%H}")
        arguments = shlex.split(command.replace(URL, str(self.folder)))
        match arguments:
            case ["landfall", *rest]:
                code, printed = self._landfall(rest)
            case ["python", "write.py", folder, step]:
                files.STEPS[step](Path(folder), FIRST)
                code, printed = 0, ""
            case _:
                code, printed = self._shell(command.replace(URL, str(self.folder)))
        return code, printed.replace(str(self.folder), URL)

    def _landfall(self, arguments: list[str]) -> tuple[int, str]:
        printed = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            code = main(arguments)
        printed.seek(0)
        return code, printed.read()

    def _shell(self, command: str) -> tuple[int, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def driver_of_the_example(context: SparkContext) -> Iterator[None]:
    """Within the block ``landfall run`` uses this Spark, and the clock of the example."""
    shift = NOW - wall_clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "SteadyClock", lambda: SteadyClock(lambda: wall_clock() + shift))
        patch.setattr(run, "starting_spark", lending(context))
        yield
