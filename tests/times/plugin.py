"""Writes down what each test, each fixture and the collection cost, in seconds of clock and CPU.

Loaded with ``-p tests.times.plugin``; ``LANDFALL_TEST_TIMES`` names the folder. Each process of the
session writes a file of JSON lines there. CPU is that of the process and of the processes that it
has started and not left running elsewhere: shared servers are not in it.
"""

import json
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import psutil
import pytest

LOOKS_AFTER = 0.2
"""Seconds of clock after which a test is taken to have worked with other processes, too."""


@dataclass(frozen=True)
class Spent:
    """Seconds."""

    clock: float
    cpu: float

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.clock - other.clock, self.cpu - other.cpu)


class Times:
    """Writes to one file.

    A fixture's seconds are its own, without the fixtures that it asks for, and not those of the
    test that was first to ask for it.
    """

    def __init__(self, lines: TextIO) -> None:
        """Start counting now."""
        self._lines = lines
        self._own = psutil.Process()
        self._seen: dict[tuple[int, float], float] = {}
        self._others = 0.0
        self._inner: list[Spent] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Count the collection."""
        begun = self._now()
        result = yield
        self._write("collection", "", self._now() - begun)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count a test, without its fixtures."""
        begun = self._now()
        self._inner.append(Spent(0, 0))
        result = yield
        self._look_at_others(since=begun)
        self._write("test", item.nodeid, self._now() - begun - self._inner.pop())
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Count a fixture, without those that it asks for."""
        begun = self._now()
        self._inner.append(Spent(0, 0))
        try:
            return (yield)
        finally:
            self._look_at_others(since=begun)
            whole = self._now() - begun
            self._write("fixture", fixturedef.argname, whole - self._inner.pop())
            if self._inner:
                outer = self._inner[-1]
                self._inner[-1] = Spent(outer.clock + whole.clock, outer.cpu + whole.cpu)

    def _now(self) -> Spent:
        times = os.times()
        return Spent(time.monotonic(), times.user + times.system + self._others)

    def _look_at_others(self, since: Spent) -> None:
        """Add what living processes have used. ``os.times`` has what ended ones have."""
        if time.monotonic() - since.clock < LOOKS_AFTER:
            return
        ended = set(self._seen)
        for child in self._own.children(recursive=True):
            try:
                with child.oneshot():
                    key, used = (child.pid, child.create_time()), child.cpu_times()
            except psutil.Error:
                continue
            ended.discard(key)
            cpu = used.user + used.system
            self._others += cpu - self._seen.get(key, 0.0)
            self._seen[key] = cpu
        for key in ended:
            self._others -= self._seen.pop(key)

    def _write(self, kind: str, name: str, spent: Spent) -> None:
        line = {"kind": kind, "name": name, "clock": round(spent.clock, 4)}
        print(json.dumps({**line, "cpu": round(spent.cpu, 4)}), file=self._lines)


def pytest_configure(config: pytest.Config) -> None:
    """Write to a file of this process."""
    folder = Path(os.environ["LANDFALL_TEST_TIMES"])
    folder.mkdir(parents=True, exist_ok=True)
    lines = (folder / f"{os.getpid()}.jsonl").open("w", buffering=1)
    config.pluginmanager.register(Times(lines), "landfall-times")
    config.add_cleanup(lines.close)
