"""``python -m tests.bench.backfill``: how fast landed ranges are landed again.

The same records are landed by ``landfall run`` from Kafka, by ``landfall backfill run`` from Kafka,
and by ``landfall run`` from what a backup group has landed (``source.landed``), one after the other
in each repetition, so that a busy minute hits all. Each is a command of its own on two cores, and
everything that it starts is measured. Every row that was landed is counted afterwards.

With ``--live``, a group lands what arrives all the while; its largest lag is told for the time
without a backfill, and for the time with one that has one core.
"""

import argparse
import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from dev.servers.ports import any_free
from dev.servers.server import STATE
from tests.bench import topics
from tests.bench.contenders import BIN, ROOT, count_gzip_lines
from tests.bench.environment import Servers, servers
from tests.bench.process_tree import Measured, measure, new_counter
from tests.bench.topics import Load
from tests.support.kafka.broker import Message
from tests.support.stores.s3 import Bucket

LOAD = Load("t250-small", 500_000, 250)
PARSED: dict[str, Any] = {
    "decode": {"format": "Json", "timestamp": {"field": "ts"}},
    "route": {"pattern": "dt={date}/hr={hour}"},
    "output": {"format": "Json", "codec": "Gzip"},
}
"""What is landed again, by parsing each record."""
VERBATIM: dict[str, Any] = {
    "output": {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}}
}
"""What the backup group lands."""
WAYS = ("landed from Kafka", "backfill from Kafka", "landed from a backup")
LIVE_RATE, LIVE_SECONDS = 200, 30.0
"""Records a second of the live group, and for how long its lag is watched."""


@dataclass(frozen=True)
class Group:
    """A group in a bucket of its own."""

    name: str
    bucket: Bucket
    folder: Path
    source: Mapping[str, Any]
    spec: Mapping[str, Any]
    generation: int = 1

    @property
    def file(self) -> Path:
        """Its file, written anew."""
        output = {**self.bucket.output, **self.spec["output"], "url": f"{self.bucket.url}/out"}
        document = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": self.name},
            "spec": {
                **self.spec,
                "generation": self.generation,
                "source": self.source,
                "output": output,
            },
        }
        path = self.folder / f"{self.name}-{self.generation}.yaml"
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    def rows(self, below: str) -> int:
        """How many rows the objects below a prefix have."""
        client, found = self.bucket.server.client, 0
        for key in self.bucket.keys(below):
            if not key.removeprefix(below).startswith("_landfall/"):
                body = client.get_object(Bucket=self.bucket.name, Key=key)["Body"]
                found += count_gzip_lines(body)  # type: ignore[arg-type]  # it reads like a file
        return found


class Bench:
    """Measures commands on the same servers."""

    def __init__(self, ours: Servers, folder: Path, load: Load) -> None:
        """Land the backup, which is not measured."""
        self._ours, self._folder, self._load = ours, folder, load
        topics.ensure(ours.broker, load)
        self._kafka = {"kafka": {"bootstrapServers": str(ours.broker), "topics": [load.topic]}}
        self._backup = self._group("backup", self._kafka, VERBATIM)
        self._measured("run", self._backup.file, *UNTIL)

    def repeat(self) -> list[Measured]:
        """Each way once, in the order of ``WAYS``."""
        group = self._group("live", self._kafka, PARSED)
        landed = self._measured("run", group.file, *UNTIL)
        self._check(group, "out/")
        again = Group(group.name, group.bucket, self._folder, self._kafka, PARSED, 2)
        self._measured("backfill", "plan", again.file, "again", "--generations", "1")
        filled = self._measured("backfill", "run", again.file, "again", "--max-cores", "2")
        self._check(group, "out/_landfall/live/side/again/")
        backup = {
            "group": "backup",
            "url": f"{self._backup.bucket.url}/out",
            "s3": self._backup.bucket.output["s3"],
            "topics": [self._load.topic],
        }
        other = self._group("other", {"landed": backup}, PARSED)
        from_backup = self._measured("run", other.file, *UNTIL)
        self._check(other, "out/")
        return [landed, filled, from_backup]

    def _check(self, group: Group, below: str) -> None:
        found = group.rows(below)
        if found != self._load.records:
            raise SystemExit(f"{below} has {found:,} rows, not {self._load.records:,}")

    def _group(self, name: str, source: Mapping[str, Any], spec: Mapping[str, Any]) -> Group:
        return Group(name, self._ours.s3.create_bucket(), self._folder, source, spec)

    def _measured(self, *words: object) -> Measured:
        command = [str(BIN / "landfall"), *map(str, words)]
        env = {**os.environ, **self._ours.s3.env, "PYTHONPATH": str(ROOT)}
        return measure(command, env, self._folder / "run.log", new_counter())

    # ------------------------------------------------------------------------------------ live lag

    def live(self) -> tuple[float, float]:
        """The largest lag in seconds of a live group without a backfill, and beside one."""
        topic = self._ours.broker.create_topic(partitions=1)
        kafka = {**self._kafka["kafka"], "topics": [self._load.topic, topic]}
        policy = {"uploadPolicy": {"maxBytes": "64M", "maxAge": "2s"}}
        group = self._group("live", {"kafka": kafka}, {**PARSED, **policy})
        self._measured("run", group.file, *UNTIL)
        again = Group(group.name, group.bucket, self._folder, {"kafka": kafka}, PARSED, 2)
        choice = ("--generations", "1", "--topic", self._load.topic)
        self._measured("backfill", "plan", again.file, "again", *choice)
        with self._running(group, topic) as port:
            before = _largest_lag(port, LIVE_SECONDS, lambda: True)
            done: list[Measured] = []
            words = ("backfill", "run", again.file, "again", "--max-cores", "1")
            thread = threading.Thread(target=lambda: done.append(self._measured(*words)))
            thread.start()
            beside = _largest_lag(port, 600.0, thread.is_alive)
            thread.join()
        return before, beside

    @contextmanager
    def _running(self, group: Group, topic: str) -> Iterator[int]:
        """The group's driver and what it lands; yields the port of its status."""
        (port,) = any_free("127.0.0.1", 1)
        words = ["run", str(group.file), "--master", "local[1]", "--http-port", str(port)]
        env = {**os.environ, **self._ours.s3.env}
        stopped = threading.Event()
        load = threading.Thread(target=self._produce, args=(topic, stopped))
        with (self._folder / "live.log").open("wb") as log:
            driver = subprocess.Popen([str(BIN / "landfall"), *words], stderr=log, env=env)
        try:
            load.start()
            _largest_lag(port, 60.0, lambda: True)  # until it has caught up with its start
            yield port
        finally:
            stopped.set()
            load.join()
            driver.terminate()
            driver.wait()

    def _produce(self, topic: str, stopped: threading.Event) -> None:
        producer = self._ours.broker.producer()
        while not stopped.wait(0.1):
            body = json.dumps({"ts": int(time.time() * 1000)}).encode()
            self._ours.broker.send(producer, topic, [Message(body)] * (LIVE_RATE // 10))
        self._ours.broker.flush(producer)


UNTIL = ("--until-caught-up", "--master", "local[2]", "--http-port", "0")


def _largest_lag(port: int, seconds: float, lasts: Any) -> float:
    largest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end and lasts():
        url = f"http://127.0.0.1:{port}/status"
        with suppress(OSError, ValueError, KeyError), urllib.request.urlopen(url) as answer:
            largest = max(largest, json.load(answer)["lag_seconds"])
        time.sleep(0.5)
    return largest


def main() -> None:
    """Measure, and print a table for the documentation."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.backfill", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=int, default=LOAD.records)
    parser.add_argument("--live", action="store_true", help="the lag of a live group instead")
    options = parser.parse_args()
    load = Load(f"t250-{options.records}", options.records, LOAD.size)
    with servers(STATE / "bench-backfill") as ours, TemporaryDirectory() as folder:
        bench = Bench(ours, Path(folder), load)
        if options.live:
            before, beside = bench.live()
            print(f"largest lag {before:.1f} s without, {beside:.1f} s beside a backfill")
            return
        runs = [bench.repeat() for _ in range(options.repeats)]
    print(f"{load.records:,} records of {load.size} B; load average {os.getloadavg()[1]:.1f}")
    print("\n".join(table(load, runs)))


def table(load: Load, runs: Sequence[Sequence[Measured]]) -> Iterator[str]:
    """A row for each way; ratios to landing from Kafka are of the same repetition."""
    yield "| way | records per CPU-s | ratio | wall s | ratio | peak MB |"
    yield "|---|---|---|---|---|---|"
    for way, name in enumerate(WAYS):
        cpu = median(run[way].cpu_seconds for run in runs)
        wall = median(run[way].wall_seconds for run in runs)
        by_cpu = median(run[0].cpu_seconds / run[way].cpu_seconds for run in runs)
        by_wall = median(run[0].wall_seconds / run[way].wall_seconds for run in runs)
        peak = max(run[way].peak_mb for run in runs)
        yield (
            f"| {name} | {load.records / cpu:,.0f} | {by_cpu:.2f} | {wall:.1f} | {by_wall:.2f} "
            f"| {peak:.0f} |"
        )


if __name__ == "__main__":
    main()
