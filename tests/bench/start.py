"""``make bench ARGS=--start``: what a local run costs until its first commit.

``landfall run --until-caught-up`` lands a tiny topic from a real broker into a real S3 server. CPU
time and requests are counted up to the first COMMIT, as the run's log shows it, and up to the end
of its last process. The figures are medians; the least and the most are in brackets.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from dev.servers.server import STATE
from tests.bench import topics
from tests.bench.contenders import SEQUENCE_FILE, Task
from tests.bench.environment import Servers, servers
from tests.bench.process_tree import Counter, measure, new_counter
from tests.bench.topics import Load

TINY = Load("t250-tiny", 800, 250)
COMMITTED = b"batch committed"
"""What the log of a run says of each COMMIT."""


@dataclass(frozen=True, slots=True)
class Start:
    """One run; CPU time in seconds of all its processes, wall time in seconds.

    Attributes:
        commit_cpu: until the first COMMIT.
        commit_wall: the same.
        commit_requests: to the S3 server until then; None where it writes no log for us.
        cpu: until the end of the last process.
        wall: until the end of the command.
        peak_mb: the largest sum of the processes' memory, shared pages divided among their users.
    """

    commit_cpu: float
    commit_wall: float
    commit_requests: int | None
    cpu: float
    wall: float
    peak_mb: float


class FirstCommit:
    """Notes CPU and wall time and requests when the log of a run shows its first COMMIT."""

    def __init__(self, log: Path, counter: Counter, requests: Path) -> None:
        self._log, self._counter, self._requests = log, counter, requests
        self._begun = time.monotonic()
        self._requests_before = self._count() or 0
        self.seen: tuple[float, float, int | None] | None = None

    def look(self) -> None:
        """Called often."""
        if self.seen is None and COMMITTED in self._log.read_bytes():
            requests = self._count()
            self.seen = (
                self._counter.cpu_seconds(),
                time.monotonic() - self._begun,
                None if requests is None else requests - self._requests_before,
            )

    def _count(self) -> int | None:
        return self._requests.read_bytes().count(b"\n") if self._requests.exists() else None


def main(options: argparse.Namespace) -> None:
    """Run all and print a table, ready for the documentation."""
    requests = STATE / "bench" / "requests.log"
    load_before = os.getloadavg()[0]
    with servers(STATE / "bench", requests) as ours:
        topics.ensure(ours.broker, TINY)
        starts = [_run(ours, requests, number) for number in range(options.repeats)]
    print(table(starts, load_before))
    (STATE / "bench" / "start.json").write_text(json.dumps([asdict(each) for each in starts]))


def _run(ours: Servers, requests: Path, number: int) -> Start:
    """Land the topic into a bucket of its own.

    Raises:
        SystemExit: the run failed, or its log shows no COMMIT.
    """
    log = STATE / "bench" / "start.log"
    log.write_bytes(b"")
    bucket = ours.s3.create_bucket()
    counter = new_counter()
    with TemporaryDirectory() as folder:
        task = Task(ours.broker.bootstrap, TINY.topic, bucket, Path(folder))
        command = SEQUENCE_FILE.prepare(task)
        first = FirstCommit(log, counter, requests)
        measured = measure(
            [*command.argv, "--verbose"], command.env, log, counter, watch_log=first.look
        )
    first.look()
    if first.seen is None:
        raise SystemExit(f"{log} shows no COMMIT")
    start = Start(*first.seen, measured.cpu_seconds, measured.wall_seconds, round(measured.peak_mb))
    print(f"{number + 1}: {start}", file=sys.stderr, flush=True)
    return start


TITLES = {
    "commit_cpu": "CPU-s until the first COMMIT",
    "commit_wall": "wall s until then",
    "commit_requests": "S3 requests until then",
    "cpu": "CPU-s of the whole run",
    "wall": "wall s",
    "peak_mb": "peak MB",
}


def table(starts: list[Start], load: float) -> str:
    """The medians as a table in Markdown."""
    head = f"| {len(starts)} runs, load average before {load:.1f} | median (least-most) |"
    rows = [
        f"| {TITLES[field.name]} | {_spread([getattr(each, field.name) for each in starts])} |"
        for field in fields(Start)
    ]
    return "\n".join([head, "|---|---|", *rows])


def _spread(values: list[float | int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "not counted"
    digits = 0 if isinstance(known[0], int) or min(known) > 100 else 1
    return (
        f"{median(known):,.{digits}f} ({min(known):,.{digits}f}\N{EN DASH}{max(known):,.{digits}f})"
    )
