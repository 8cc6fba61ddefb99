"""``python -m tests.bench.merging_live``: merge 20,000 objects while landing continues.

``landfall run`` on two cores lands small objects of fifty hours into a real S3 server. Then one
record says that these are complete, and all are merged and deleted, while records arrive all the
while. Two readers look by the ledger: one follows what becomes visible, one opens the group again
and again. Printed are the longest time between two moments at which the ledger called COMMITs
visible, and how old a reader's view was at most: the time since the first live record that it did
not see was sent. The exit code is 1 if these are over 10 and 30 seconds, or rows are wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import landfall
from dev.servers.server import STATE
from landfall.errors import LandfallError
from landfall.ledger import Replace, decode, fold
from landfall.ledger.state import State
from tests.bench.contenders import BIN
from tests.bench.environment import servers
from tests.support.kafka import Message
from tests.support.landing import Scene

PARTITIONS, HOURS = 10, 50
ROWS = 4
"""Records of an object."""
MAX_GAP, MAX_AGE = 10.0, 30.0
"""Seconds."""
LIVE_PAUSE = 0.5
"""Seconds between two live records of a Kafka partition."""
SPEC: dict[str, Any] = {
    "route": {"pattern": "dt={date}/hr={hour}"},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "1s"},
    "completeness": {"delay": "60h"},
    "compact": {},
    "output": {"codec": "Gzip"},
}


class Live:
    """Sends live records, and knows what was sent when.

    Attributes:
        firsts: by Kafka partition, the offset of the first live record.
    """

    def __init__(self, scene: Scene, topic: str) -> None:
        self._scene, self._topic, self._stopped = scene, topic, threading.Event()
        self.firsts = {p: scene.kafka.end_offset(topic, p) for p in range(PARTITIONS)}
        self._sent: list[float] = []
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Begin to send: these records are later than the hours by more than the delay."""
        self._thread.start()

    def stop(self) -> None:
        """Return when all is sent."""
        self._stopped.set()
        self._thread.join()

    @property
    def rows(self) -> int:
        """How many were sent of each Kafka partition."""
        return len(self._sent)

    def age(self, partition: int, end: int) -> float:
        """Seconds since the first record was sent that is not visible below an end offset."""
        number = max(0, end - self.firsts[partition])
        return time.monotonic() - self._sent[number] if number < len(self._sent) else 0.0

    def _send(self) -> None:
        producer = self._scene.kafka.producer()
        while not self._stopped.wait(LIVE_PAUSE):
            now = int(time.time() * 1000)
            for p in range(PARTITIONS):
                body = json.dumps({"ts": now}).encode()
                message = Message(body, partition=p, timestamp=now)
                self._scene.kafka.send(producer, self._topic, [message])
            self._scene.kafka.flush(producer)
            self._sent.append(time.monotonic())


class Reader(threading.Thread):
    """A reader by the ledger.

    Attributes:
        ages: of its view, after each look.
    """

    def __init__(self, file: Path, topic: str, live: Live, *, follows: bool) -> None:
        super().__init__(daemon=True)
        self._file, self._topic, self._live, self._follows = file, topic, live, follows
        self._ends = dict(live.firsts)
        self.stopped, self.ages = threading.Event(), list[float]()
        self.error = ""

    def run(self) -> None:
        """Look until it is stopped."""
        group = landfall.open(self._file)
        slot = group.last_slot()
        while not self.stopped.wait(1):
            began = time.monotonic()
            ages = [self._live.age(p, end) for p, end in self._ends.items()]
            try:
                if self._follows:
                    for through, files in group.follow(self._topic, slot, 10_000):
                        slot = through
                        self._see(files)
                else:
                    self._see(landfall.open(self._file).scan(self._topic).files())
            except LandfallError as error:
                self.error = f"{type(error).__name__}: {error}"
                return
            # Up to the end of a look the view is the one before it.
            self.ages.append(max(ages) + time.monotonic() - began)

    def _see(self, files: Any) -> None:
        for file in files:
            name = file.name
            if name.partition in self._ends and name.start >= self._live.firsts[name.partition]:
                end = name.start + file.rows
                self._ends[name.partition] = max(self._ends[name.partition], end)


@contextmanager
def running(file: Path, log: Path) -> Iterator[None]:
    """``landfall run`` on two cores, until the end of the block."""
    with log.open("wb") as output:
        run = subprocess.Popen(
            [BIN / "landfall", "run", str(file), "--verbose"],
            stdout=output,
            stderr=output,
            env={**os.environ, "COLUMNS": "200"},
        )
        try:
            yield
        finally:
            run.terminate()
            run.wait(300)


def main() -> int:
    """Land, merge, and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.merging_live", description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000, help="how many are merged")
    parser.add_argument("--folder", type=Path, help="where the driver's log stays")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary, servers(STATE / "bench-merging") as ours:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bucket = ours.s3.create_bucket()
        return _measure(Scene(ours.broker, bucket), folder, options.objects)


def _measure(scene: Scene, folder: Path, objects: int) -> int:
    topic = scene.topic(partitions=PARTITIONS)
    file = scene.file(folder, **SPEC)
    rounds = -(-objects // (PARTITIONS * HOURS))
    with running(file, folder / "driver.log"):
        began = time.monotonic()
        for number in range(rounds):
            _produce_hours(scene, topic, number)
            _wait(lambda at=number: _landed(scene) >= (at + 1) * PARTITIONS * HOURS * ROWS, 600)
            _say(f"{(number + 1) * PARTITIONS * HOURS:,} objects after", began)
        live = Live(scene, topic)
        readers = [Reader(file, topic, live, follows=follows) for follows in (True, False)]
        live.start()
        time.sleep(5)
        for reader in readers:
            reader.start()
        began, before = time.monotonic(), scene.state()
        wanted = rounds * PARTITIONS * HOURS
        _wait(lambda: scene.state().totals.retired >= wanted, 3600)
        visible = _say(f"{wanted:,} objects are replaced after", began)
        _wait(lambda: not (scene.state().replacing or scene.state().retiring), 3600)
        deleted = _say("the old ones are deleted after", began)
        time.sleep(5)
        for reader in readers:
            reader.stopped.set()
        for reader in readers:
            reader.join()
        after = scene.state()
        live.stop()
        _wait(lambda: _landed(scene) >= PARTITIONS * (rounds * HOURS * ROWS + live.rows), 600)
        _wait(lambda: not scene.state().unapplied, 600)
    gap, commits = _longest_gap(scene, before.seq, after.seq)
    ages = [max(reader.ages, default=0.0) for reader in readers]
    wrong = [reader.error for reader in readers if reader.error]
    rows = PARTITIONS * (rounds * HOURS * ROWS + live.rows)
    wrong += [*_wrong_rows(file, topic, rows), *scene.findings(**SPEC)]
    load = os.getloadavg()[1]
    print(f"objects replaced: {after.totals.retired:,}, by {after.totals.replacing:,}")
    print(f"REPLACEs: {_replaces(scene)}; visible after {visible:.0f} s, deleted {deleted:.0f} s")
    print(f"COMMITs meanwhile: {commits:,}; longest gap between two visible: {gap:.1f} s")
    print(f"oldest view of a reader that follows: {ages[0]:.1f} s, in {len(readers[0].ages)} looks")
    print(f"oldest view of a reader that opens: {ages[1]:.1f} s, in {len(readers[1].ages)} looks")
    print(f"load average (5 minutes): {load:.1f} on {os.cpu_count()} cores")
    print("\n".join(wrong) or "every row is there once")
    return 1 if wrong or gap > MAX_GAP or max(ages) > MAX_AGE else 0


def _produce_hours(scene: Scene, topic: str, number: int) -> None:
    """Some records of each hour, in each Kafka partition; more than the delay before now."""
    begin = datetime.now(UTC).replace(minute=0, second=0) - timedelta(hours=62 + HOURS)
    producer = scene.kafka.producer()
    for p in range(PARTITIONS):
        messages = [
            Message(json.dumps({"ts": at, "n": number}).encode(), partition=p, timestamp=at)
            for hour in range(HOURS)
            for at in [int((begin + timedelta(hours=hour)).timestamp() * 1000)] * ROWS
        ]
        scene.kafka.send(producer, topic, messages)
    scene.kafka.flush(producer)


def _landed(scene: Scene) -> int:
    return scene.state().totals.landed


def _replaces(scene: Scene) -> int:
    records = (decode(slot, body) for slot, body in enumerate(b for _, b in scene.lane().bodies()))
    return sum(isinstance(record, Replace) for record in records)


def _longest_gap(scene: Scene, first: int, last: int) -> tuple[float, int]:
    """The longest time between records that call COMMITs visible; how many COMMITs these are."""
    state, times, commits = State(), list[datetime](), 0
    for _, body in scene.lane().bodies():
        before, state = state, fold(state, body)
        seen = before.unapplied.keys() - state.unapplied.keys()
        if first <= state.seq <= last and seen:
            commits += len(seen)
            times.append(datetime.fromisoformat(decode(state.seq, body).header.time))
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return max(gaps, default=float("inf")), commits


def _wrong_rows(file: Path, topic: str, wanted: int) -> Iterator[str]:
    """What is wrong with the rows that a reader by the ledger sees in the end."""
    rows = landfall.open(file).scan(topic).rows
    if rows != wanted:
        yield f"{rows:,} rows are visible, {wanted:,} were produced"


def _wait(holds: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(1)


def _say(what: str, began: float) -> float:
    seconds = time.monotonic() - began
    print(f"{what} {seconds:.0f} s", flush=True)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
