"""Takers of files as processes that tests kill, and what they and the ledger say was done."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from landfall.api.contract import LANE
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import Discover, LeaseOutcome, Record, decode
from landfall.ledger.feeds.part_lists import ListedPart
from tests.support.files.feed_scene import TOPIC, FeedScene
from tests.support.landing.processes import ROOT, TOKEN


@dataclass
class Takers:
    """Taker processes, and what their logs say.

    Attributes:
        files: what they take from.
        folder: of their logs.
        lease_seconds: for how long they take files.
        limit: how many files they take at most.
        feed: further fields of the feed.
        through_driver: whether they ask the driver that ``driver_is_at`` names, or record by
            themselves.
        running: those that are alive.
        begun: how many were started.
    """

    files: FeedScene
    folder: Path
    lease_seconds: int
    limit: int
    feed: Mapping[str, Any]
    through_driver: bool = False
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    begun: int = 0

    def start(self, count: int) -> None:
        group = self.folder / "taken.yaml"
        group.write_text(yaml.safe_dump(self.files.document(**self.feed)))
        for _ in range(count):
            log = self.folder / f"taker-{self.begun}.log"
            self.begun += 1
            how = [str(group), str(log), str(self.lease_seconds), str(self.limit)]
            if self.through_driver:
                how += [str(self._address), TOKEN]
            command = [sys.executable, "-m", "tests.support.files.file_taker", *how]
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.running.append(subprocess.Popen(command, env=env, cwd=ROOT))

    def driver_is_at(self, port: int) -> None:
        """Let takers ask the driver that listens here, from their next request on."""
        new = self._address.with_suffix(".new")
        new.write_text(f"http://127.0.0.1:{port}")
        new.replace(self._address)

    @property
    def _address(self) -> Path:
        return self.folder / "driver-address"

    def kill(self, one: int) -> None:
        taker = self.running.pop(one)
        taker.send_signal(signal.SIGKILL)
        taker.wait()

    def stop(self) -> None:
        while self.running:
            self.kill(0)

    def said(self, what: str) -> list[str]:
        """The names of files that takers say they have taken, or that were accepted as done."""
        return [name for line in self._lines() for name in line.get(what, ())]

    def accepted(self) -> list[tuple[str, str, Sequence[int]]]:
        """Name, ETag and ids of the files that were accepted as done."""
        lines = (line for line in self._lines() if "done" in line)
        return [tuple(each) for line in lines for each in line["read"]]

    def _lines(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        for log in self.folder.glob("taker-*.log"):
            whole = (line for line in log.read_text().splitlines() if line.endswith("}"))
            lines += map(json.loads, whole)
        return lines


def records(files: FeedScene) -> Iterator[Record]:
    """The records of the ledger."""
    lane = Lane(open_stores(files.group().spec), "scene", LANE)
    return (decode(seq, body) for seq, body in lane.bodies())


def done_numbers(files: FeedScene) -> Counter[int]:
    """How often the ledger says of each number that it is done."""
    outcomes = (record for record in records(files) if isinstance(record, LeaseOutcome))
    return Counter(number for outcome in outcomes for number in outcome.done)


def numbered(files: FeedScene) -> dict[int, ListedPart]:
    """What each number of the feed stands for."""
    slots, keys = open_stores(files.group().spec), FeedKeys("scene", LANE, TOPIC)
    found: dict[int, ListedPart] = {}
    for record in records(files):
        if isinstance(record, Discover) and record.listed:
            found |= enumerate(part_lists.read(slots, keys, record.listed), record.listed.first)
    return found
