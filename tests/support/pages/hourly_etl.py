"""The example ``examples/hourly-etl``, followed as its page says, at a time of the test's own."""

import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from landfall.ledger import Record, State, decode
from tests.support.kafka.broker import Broker
from tests.support.landing.lent_spark import lending
from tests.support.pages.markdown import DOCS, ROOT, code
from tests.support.stores.s3 import Bucket

EXAMPLE = ROOT / "examples/hourly-etl"
PAGE = DOCS / "start/hourly-etl.md"
URL = "/tmp/etl"
"""What has the output of every group, as the page calls it."""
produce: Any = importlib.import_module("examples.hourly-etl.produce")
NOW = datetime(2026, 11, 21, 5, 20, tzinfo=UTC)
FIRST: datetime = produce.first_hour(NOW)
VARIABLES = {
    "HOUR": f"{FIRST + produce.HOUR:%Y-%m-%dT%H}",
    "NEXT": f"{FIRST + 2 * produce.HOUR:%Y-%m-%dT%H}",
}


@dataclass
class HourlyEtl:
    """Follows the page, with topics and a bucket of the test's own.

    Attributes:
        kafka: where the topics are.
        bucket: has the output roots.
        folder: where the commands are typed.
        prefix: of the topics, in the place of ``of_page``.
        shift: from the machine's time to that of the drivers.
        url: what has the output of every group, as the page calls it.
        variables: of the shell, by name.
    """

    kafka: Broker
    bucket: Bucket
    folder: Path
    prefix: str
    shift: timedelta = field(default_factory=lambda: NOW - wall_clock())
    url: str = URL
    variables: dict[str, str] = field(default_factory=VARIABLES.copy)
    of_page: str = "hour"

    def prepare(self) -> None:
        """Everything that the first two sections of the page have."""
        for file in EXAMPLE.glob("*.yaml"):
            self.write(file.name, file.read_text())
        *_, third = code(PAGE, "yaml")
        self.write("cancelled.yaml", third.text)
        (program,) = code(PAGE, "python")
        (self.folder / "count.py").write_text(self._ours(program.text))
        records = {"orders": produce.orders(FIRST), "clicks": produce.clicks(FIRST)}
        topics = {f"{self.prefix}.{name}": list(made) for name, made in records.items()}
        produce.produce(str(self.kafka), topics)

    def write(self, name: str, text: str) -> None:
        """A group of the page, which lands in the bucket."""
        s3 = f'{{endpoint: "{self.bucket.server.endpoint}", pathStyle: true}}'
        to = rf'"{self.bucket.url}/etl/\1", s3: {s3}'
        text = re.sub(rf'"file://{self.url}/(\w+)"', to, text)
        (self.folder / name).write_text(re.sub(rf"\b{self.of_page}(?=\.)", self.prefix, text))

    def at(self, now: datetime) -> None:
        """Set the clock of the drivers that start from now on."""
        self.shift = now - wall_clock()

    def state(self, name: str) -> State:
        """What the ledger of a group says."""
        return self._lane(name).read()

    def records(self, name: str) -> list[Record]:
        """The records in the ledger of a group."""
        return [decode(slot, body) for slot, body in self._lane(name).bodies()]

    def _lane(self, name: str) -> Lane:
        group = group_file.load(self.folder / f"{name}.yaml", os.environ)
        return Lane(open_stores(group.spec), name, LANE)

    # -------------------------------------------------------------------------------- what is typed

    def type(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints with the page's names."""
        for name, value in self.variables.items():
            command = command.replace(f"${{{name}}}", value)
        if command.startswith("export "):
            return self._export(command), ""
        if command.startswith("landfall"):
            code, printed = self._landfall(shlex.split(self._ours(command))[1:])
        else:
            code, printed = self._shell(command)
        return code, self._theirs(printed)

    def _export(self, command: str) -> int:
        """Set a variable as the shell does; one that stays empty is a failure."""
        name = command.removeprefix("export ").partition("=")[0]
        code, printed = self._shell(f'{command} && printf %s "${name}"')
        self.variables[name] = printed
        return code or not printed

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

    def copy(self) -> None:
        """Let other programs see in the folder what the bucket has now."""
        shutil.rmtree(self.folder / "etl", ignore_errors=True)
        for key in self.bucket.keys(""):
            file = self.folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.bucket.read(key))

    def _shell(self, command: str) -> tuple[int, str]:
        self.copy()
        done = subprocess.run(
            ["bash", "-c", self._ours(command)],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _ours(self, text: str) -> str:
        text = re.sub(rf"\b{self.of_page}(?=\.)", self.prefix, text)
        return text.replace(self.url, str(self.folder / "etl"))

    def _theirs(self, text: str) -> str:
        text = text.replace(self.prefix, self.of_page).replace(str(self.folder / "etl"), self.url)
        return text.replace(f"{self.bucket.url}/etl", f"file://{self.url}")


@contextlib.contextmanager
def drivers_of(etl: HourlyEtl, context: SparkContext) -> Iterator[None]:
    """Within the block ``landfall run`` uses this Spark, and the clock of the example."""

    def clock() -> SteadyClock:
        shift = etl.shift
        return SteadyClock(lambda: wall_clock() + shift)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "SteadyClock", clock)
        patch.setattr(run, "starting_spark", lending(context))
        patch.setenv("LANDFALL_KAFKA", str(etl.kafka))
        yield


PREPARING = ("make", "dev/kafka", "cd", "eval", "kubectl")
"""Commands that only a reader of the page types."""


def shown(page: Path = PAGE) -> Iterator[tuple[str, str]]:
    """Commands in a page, with what it shows of each."""
    for block in code(page, "console"):
        for part in block.text.removeprefix("$ ").split("\n$ "):
            command, _, printed = part.partition("\n")
            if not command.startswith(PREPARING):
                yield command, printed


def without_times(command: str, text: str) -> list[str]:
    """The lines, without what differs from one run to the next; of a run only the last one."""
    text = re.sub(r"\d+(\.\d+)? [kM]?B(/s)?|^\d\d:\d\d:\d\d ", "N ", text, flags=re.MULTILINE)
    text = re.sub(r"\b\d+ commits?\b|commits \d+|slots \d+", "N", text)
    text = re.sub(r"last commit \S+|(?<=_LATE-)\d{10}", "N", text)
    text = re.sub(r"^(done +\w+ +)\d+", r"\1N", text, flags=re.MULTILINE)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1:] if command.startswith("landfall run") else lines
