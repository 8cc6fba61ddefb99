"""The same flood of files for takers of another engine, while they and drivers are killed."""

import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from tests.support.files.feed_scene import FeedScene
from tests.support.files.flood import Flood, Share
from tests.support.files.flooding import FILES, LEAST_HARMS, SEED, SETTLE, harm, in_thread
from tests.support.files.takers import Takers, done_numbers, numbered
from tests.support.landing.processes import TOKEN, Process, Processes, free_port
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(7200)]

TAKERS = 4
MAX_ATTEMPTS = 8
"""More than the takers of one file that are killed."""
FEED = {
    "process": "External",
    "onChange": "LandAgain",
    "maxAttempts": MAX_ATTEMPTS,
    "retryInterval": "2s",
    "settle": SETTLE,
    "discoveryInterval": "1s",
    "relist": "10s",
}


@dataclass
class Written:
    """Which ids the versions of files have.

    Attributes:
        files: where they are written.
        ids: by name and ETag.
        last: the last version of each file.
    """

    files: FeedScene
    ids: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    last: dict[str, tuple[str, str]] = field(default_factory=dict)

    def put(self, name: str, body: bytes) -> None:
        version = name, md5(body, usedforsecurity=False).hexdigest()
        self.ids[version] = [int(line[6:-1]) for line in body.splitlines() if line.endswith(b"}")]
        self.last[name] = version
        self.files.put(name, body)


@dataclass
class Chaos:
    """One driver after the other, and takers that ask it; all of them are killed."""

    document: dict[str, Any]
    takers: Takers
    processes: Processes
    random: Random
    harms: int = 0
    killed: int = 0
    frozen: Process | None = None

    def drive(self) -> Process:
        """Start a driver that takers ask, and takers."""
        port, token = free_port(), self.takers.folder / "token"
        token.write_text(TOKEN)
        control = ("--control-port", str(port), "--token-file", str(token))
        driver = self.processes.run(self.document, *control, "--http-port", "0")
        self.takers.driver_is_at(port)
        self.takers.start(TAKERS - len(self.takers.running))
        return driver

    def round(self) -> None:
        """Let a driver work for a while, kill takers meanwhile, and at last the driver."""
        driver = self.drive()
        for _ in range(self.random.randint(2, 6)):
            time.sleep(self.random.uniform(5, 12))
            self.takers.kill(self.random.randrange(len(self.takers.running)))
            self.takers.start(1)
            self.killed += 1
        if self.frozen:
            self.frozen.send(signal.SIGCONT)
            assert self.frozen.end() == ExitCode.FENCED, self.frozen.said
        assert driver.popen.poll() is None, driver.said
        self.frozen, self.harms = harm(driver, self.random), self.harms + 1


def test_each_file_of_a_flood_is_done_once(files: FeedScene, tmp_path: Path) -> None:
    flood, written = Flood(Share.of(FILES), SEED), Written(files)
    takers = Takers(files, tmp_path, lease_seconds=30, limit=200, feed=FEED, through_driver=True)
    document = files.document(**FEED)
    document["spec"]["tuning"] |= {"pollInterval": "200ms"}
    chaos = Chaos(document, takers, Processes(tmp_path), Random(SEED))
    try:
        with in_thread(flood, written.put) as writing:
            while writing.is_alive() or chaos.harms < LEAST_HARMS:
                chaos.round()
        chaos.drive()
        wait_for(lambda: is_over(files), "each file is done or given up", 3600)
    finally:
        takers.stop()
        chaos.processes.clear()

    print(f"{FILES} files, {chaos.harms} drivers and {chaos.killed} takers killed or frozen")
    judge(flood, written, takers, files)
    assert files.landed() == Counter()
    assert files.faults() == []


def is_over(files: FeedScene) -> bool:
    """Whether nothing is leased, and nothing is left that is offered, now or later."""
    feed = files.feed
    assert feed.leasing
    is_given_up = all(part.attempt == MAX_ATTEMPTS for part in feed.parked.values())
    return feed.leasing.leased_to == feed.end and not feed.leasing.open and is_given_up


def judge(flood: Flood, written: Written, takers: Takers, files: FeedScene) -> None:
    """Each version of a file is done once, given up, or was replaced before it was done."""
    versions = {n: (part.name, part.etag) for n, part in numbered(files).items()}
    done, parked = done_numbers(files), {*files.feed.parked}
    print(f"{len(versions)} numbers: {len(done)} done, {len(parked)} given up")
    assert {*versions} == {*range(files.feed.end)}
    assert {*done.values()} == {1}

    assert flood.wrong(Counter(id_ for n in done for id_ in written.ids[versions[n]])) == []
    assert {versions[n][0] for n in parked} == flood.broken
    for number in versions.keys() - done.keys() - parked:
        name, _ = version = versions[number]
        assert version != written.last[name], f"{name}: number {number} is forgotten"

    accepted = Counter((name, etag) for name, etag, _ in takers.accepted())
    assert {*accepted.values()} == {1}
    assert {*accepted} <= {versions[n] for n in done}
    for name, etag, ids in takers.accepted():
        assert list(ids) == written.ids[name, etag], name
