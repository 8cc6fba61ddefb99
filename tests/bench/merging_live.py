"""``python -m tests.bench.merging_live``: merge 20,000 objects while landing continues.

``landfall run`` on two cores lands small objects of fifty hours into a real S3 server. Then one
record says that these are complete, and all are merged and deleted, while records arrive all the
while. Two readers look by the ledger: one follows what becomes visible, one opens the group again
and again. Printed are the longest time between two moments at which the ledger called COMMITs
visible, and how old a reader's view was at most: the time since the first live record that it did
not see was sent. The exit code is 1 if these are over 10 and 30 seconds, or rows are wrong.

What is known so far is printed each minute. After ``--minutes`` the run ends as far as it is: it
prints how many objects are not deleted yet, and checks the rows all the same.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene

PARTITIONS, HOURS = 10, 50
ROWS = 4
"""Records of an object."""
MAX_GAP, MAX_AGE = 10.0, 30.0
"""Seconds."""
LONG_LOOK = 20.0
"""Seconds after which a look is asked where it is."""
LIVE_PAUSE = 0.5
"""Seconds between two live records of a Kafka partition."""
TELL_EVERY = 60.0
"""Seconds between two lines on what is known so far."""
LAST_ROWS, LAST_LOOK = 600.0, 300.0
"""Seconds that the last rows, and the last look of a reader, may take after all else."""
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
        looks: how many seconds each look took.
    """

    def __init__(self, file: Path, topic: str, live: Live, *, follows: bool) -> None:
        super().__init__(daemon=True)
        self._file, self._topic, self._live, self._follows = file, topic, live, follows
        self._ends = dict(live.firsts)
        self.stopped, self.ages, self.looks = threading.Event(), list[float](), list[float]()
        self.began: float | None = None
        """When the look began that is under way."""
        self.error = ""

    def run(self) -> None:
        """Look until it is stopped."""
        group = landfall.open(self._file)
        slot = group.last_slot()
        while not self.stopped.wait(1):
            self.began = began = time.monotonic()
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
            self.looks.append(time.monotonic() - began)
            self.began = None
            self.ages.append(max(ages) + self.looks[-1])

    def where_it_is(self) -> str:
        """The calls that a long look is in; empty if none is."""
        began = self.began
        if began is None or time.monotonic() - began < LONG_LOOK:
            return ""
        frame = sys._current_frames().get(self.ident or 0)
        calls = traceback.format_stack(frame)[-8:] if frame else []
        return f"a look takes {time.monotonic() - began:.0f} s:\n{''.join(calls)}"

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


class Watch:
    """Follows the ledger, and knows when it called COMMITs visible.

    Attributes:
        lane: the ledger.
        state: the last one.
        begin: what became visible after this slot counts.
        commits: COMMITs that became visible since.
        times: of the records that call them visible.
    """

    def __init__(self, scene: Scene) -> None:
        self.lane, self.state = scene.lane(), State()
        self.begin, self.commits, self.times = -1, 0, list[datetime]()

    def look(self) -> State:
        """Read on; returns the state after the last slot."""
        for _, body in self.lane.bodies(self.state):
            before, self.state = self.state, fold(self.state, body)
            seen = before.unapplied.keys() - self.state.unapplied.keys()
            if seen and self.state.seq > self.begin:
                self.commits += len(seen)
                self.times.append(datetime.fromisoformat(decode(self.state.seq, body).header.time))
        return self.state

    def start(self) -> None:
        """Count from now on."""
        self.begin, self.commits = self.look().seq, 0
        self.times.clear()

    @property
    def gap(self) -> float:
        """The longest time between two of these records, in seconds."""
        return max(((b - a).total_seconds() for a, b in pairwise(self.times)), default=math.inf)


@dataclass
class Run:
    """A measurement, with what it has found so far.

    Attributes:
        scene: where everything is.
        topic: what is landed.
        deadline: when it ends, by the monotonic clock, however far it is.
        watch: of the ledger.
        wanted: how many objects are to be replaced.
        old: their keys.
        readers: one that follows, and one that opens.
        wrong: what is not as it should be.
    """

    scene: Scene
    topic: str
    deadline: float
    watch: Watch
    wanted: int
    old: frozenset[str] = frozenset()
    readers: tuple[Reader, ...] = ()
    wrong: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _described: float = 0.0

    def until(self, holds: Callable[[State], object], what: str) -> float:
        """Wait until the state is so, or until the deadline; returns the seconds since ``begin``.

        Each minute it prints what is known by then.
        """
        while not holds(self.watch.look()):
            if time.monotonic() >= self.deadline:
                self.wrong.append(f"the time is over before {what}")
                break
            if time.monotonic() - self._described >= TELL_EVERY:
                self.tell()
            for where in filter(None, (reader.where_it_is() for reader in self.readers)):
                print(where, flush=True)
            time.sleep(1)
        else:
            print(f"{what} after {self.seconds:.0f} s", flush=True)
        return self.seconds

    def begin(self) -> None:
        """Count seconds from now on."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since ``begin``."""
        return time.monotonic() - self._began

    def keys(self) -> frozenset[str]:
        """All objects with rows."""
        return frozenset(self.scene.bucket.keys(f"{self.topic}/"))

    def tell(self) -> None:
        """Print what is known so far."""
        self._described = time.monotonic()
        line = f"{self.seconds:6.0f} s: {self.watch.state.totals.landed:,} rows are landed"
        if self.readers:
            replaced, left = self.watch.state.totals.retired, len(self.old & self.keys())
            ages = ", ".join(f"{max(reader.ages, default=0):.1f}" for reader in self.readers)
            line += f", {replaced:,} objects replaced, {left:,} not deleted; longest gap "
            line += f"{self.watch.gap:.1f} s, oldest views {ages} s, load {os.getloadavg()[0]:.0f}"
        print(line, flush=True)


def main() -> int:
    """Land, merge, and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.merging_live", description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000, help="how many are merged")
    parser.add_argument("--minutes", type=float, default=60.0, help="the longest it may take")
    parser.add_argument(
        "--segment-every", type=int, default=5_000, help="records of the ledger in a segment"
    )
    parser.add_argument("--folder", type=Path, help="where the driver's log stays")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary, servers(STATE / "bench-merging") as ours:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        scene = Scene(ours.broker, ours.s3.create_bucket())
        deadline = time.monotonic() + options.minutes * 60
        tuning = {"segmentEvery": options.segment_every}
        topic = scene.topic(partitions=PARTITIONS)
        file = scene.file(folder, **SPEC, tuning=tuning)
        return _measure(scene, topic, file, options.objects, deadline)


def _measure(scene: Scene, topic: str, file: Path, objects: int, deadline: float) -> int:
    folder = file.parent
    rounds = -(-objects // (PARTITIONS * HOURS))
    with running(file, folder / "driver.log"):
        run = Run(scene, topic, deadline, Watch(scene), rounds * PARTITIONS * HOURS)
        for number in range(1, rounds + 1):
            _produce_hours(scene, topic, number)
            _landed(run, number * PARTITIONS * HOURS * ROWS)
        live = _merge(run, file)
        rows = PARTITIONS * (rounds * HOURS * ROWS + live.rows)
        run.deadline = time.monotonic() + LAST_ROWS
        _landed(run, rows)
        run.until(lambda state: not state.unapplied, "all is visible")
    found = landfall.open(file).scan(topic).rows
    if found != rows:
        run.wrong.append(f"{found:,} rows are visible, {rows:,} were produced")
    run.wrong += scene.findings(**SPEC)
    print("\n".join(run.wrong) or "every row is there once")
    ages = [max(reader.ages, default=math.inf) for reader in run.readers]
    return 1 if run.wrong or run.watch.gap > MAX_GAP or max(ages) > MAX_AGE else 0


def _landed(run: Run, rows: int) -> None:
    run.until(lambda state: state.totals.landed >= rows, f"{rows:,} rows are landed")


def _merge(run: Run, file: Path) -> Live:
    """Send live records, which has all others merged; look at it, and print what was seen."""
    live = Live(run.scene, run.topic)
    run.readers = tuple(Reader(file, run.topic, live, follows=each) for each in (True, False))
    run.old = run.keys()
    run.watch.start()
    live.start()
    time.sleep(5)
    for reader in run.readers:
        reader.start()
    run.begin()
    visible = run.until(lambda state: state.totals.retired >= run.wanted, "all are replaced")
    ended = run.until(lambda state: not (state.replacing or state.retiring), "all are deleted")
    time.sleep(5)
    for reader in run.readers:
        reader.stopped.set()
    live.stop()
    for reader in run.readers:
        reader.join(LAST_LOOK)
    run.tell()
    left, totals = len(run.old & run.keys()), run.watch.look().totals
    print(f"objects replaced: {totals.retired:,}, by {totals.replacing:,}")
    print(f"REPLACEs: {_replaces(run)}; visible after {visible:.0f} s, ", end="")
    print(f"{left:,} left after {ended:.0f} s" if left else f"deleted {ended:.0f} s")
    gap, commits = run.watch.gap, run.watch.commits
    print(f"COMMITs meanwhile: {commits:,}; longest gap between two visible: {gap:.1f} s")
    for how, reader in zip(("follows", "opens"), run.readers, strict=True):
        age = max(reader.ages, default=math.inf)
        looks, seconds = len(reader.ages), max(reader.looks, default=math.inf)
        print(f"oldest view of a reader that {how}: {age:.1f} s, in {looks} looks of ", end="")
        print(f"{seconds:.1f} s at most, the last one of {reader.looks[-1:]} s")
        run.wrong += [reader.error] if reader.error else []
    print(f"load average (5 minutes): {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores")
    return live


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


def _replaces(run: Run) -> int:
    found = (decode(*at) for at in run.watch.lane.bodies())
    return sum(isinstance(record, Replace) for record in found)


if __name__ == "__main__":
    sys.exit(main())
