"""``make bench-idle``: what a group with many, mostly idle, topic partitions costs.

A real broker gets topics of ten Kafka partitions each, and ``landfall run`` lands them on local
Spark into a real S3 server. Measured are the start, the CPU time of the driver with its JVM while
nothing arrives at the default ``maxAge``, one record in each Kafka partition at ``maxAge: 10s``
(how long until objects are visible, how many S3 requests), ``landfall status``, and how the ledger
grows.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from confluent_kafka.admin import NewTopic

from dev.servers.ports import PORTS, free
from dev.servers.server import HOST, STATE
from tests.bench.environment import Servers, servers
from tests.bench.whole_tables import markdown
from tests.support.kafka.broker import SECONDS, Broker, Message
from tests.support.stores.s3 import Bucket

PER_TOPIC = 10
PATIENCE = 900.0
IDLE_SECONDS = 60
MAX_AUDITED = 1_000
BIN = Path(sys.executable).parent
REQUESTS = STATE / "bench-idle" / "requests.log"
DAY = 86_400
OWN_LISTING = re.compile(r"[?&]prefix=out(%2F|/)(?=[&\s\"]|$)")
"""In the access log, a listing of all objects, which no driver asks for."""


@dataclass(frozen=True)
class IdleRun:
    """What one number of topic partitions cost.

    Attributes:
        start_seconds: from the command's start until it knows the lag of every topic partition.
        restart_seconds: the same with a ledger of what the first start left.
        idle_percent: of one core, by driver, JVM and Python workers together.
        jvm_percent: the JVM's part of it.
        first_visible: seconds from the last record's acknowledgement to the first visible object.
        all_visible: to the last one.
        requests: S3 requests for landing one record of each topic partition.
        status_seconds: wall time of ``landfall status``.
        audit_seconds: wall time of ``landfall audit``; None if there is too much to audit.
        ledger_bytes: of the ledger's records for landing them.
        landing_cpu_seconds: CPU time for landing them.
    """

    topic_partitions: int
    start_seconds: float
    restart_seconds: float
    idle_percent: float
    jvm_percent: float
    first_visible: float
    all_visible: float
    requests: int
    status_seconds: float
    audit_seconds: float | None
    ledger_bytes: int
    landing_cpu_seconds: float


def main() -> None:
    """Measure each number of topic partitions, print a table, and keep the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic-partitions", type=int, nargs="+", default=[1_000, 10_000])
    numbers = parser.parse_args().topic_partitions
    with servers(STATE / "bench-idle", REQUESTS) as ours:
        runs = [run(ours, number) for number in numbers]
    (STATE / "bench-idle" / "idle.json").write_text(json.dumps([asdict(r) for r in runs], indent=1))
    print(as_table(runs))


def run(ours: Servers, number: int) -> IdleRun:
    """Measure one number of topic partitions."""
    prefix, bucket = f"idle{number}", ours.s3.create_bucket()
    create_topics(ours.broker, prefix, number)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "group.yaml"
        file.write_text(json.dumps(document(ours, bucket, prefix)))  # JSON is YAML
        with driver(file, bucket, number) as (pid, start_seconds):
            time.sleep(20)  # until the compiler of the JVM is done
            before = cpu(pid)
            time.sleep(IDLE_SECONDS)
            java, python = (b - a for a, b in zip(before, cpu(pid), strict=True))
            say(f"{number}: idle, java {java:.2f} s, python {python:.2f} s in {IDLE_SECONDS} s")
        soon = document(ours, bucket, prefix, uploadPolicy={"maxAge": "10s"})
        file.write_text(json.dumps(soon))
        with driver(file, bucket, number) as (pid, restart_seconds):
            time.sleep(20)  # as above
            landed = land_one_each(ours, bucket, prefix, number, pid)
            status_seconds = timed(file, bucket, "status")
            audit_seconds = timed(file, bucket, "audit") if number <= MAX_AUDITED else None
    return IdleRun(
        topic_partitions=number,
        start_seconds=start_seconds,
        restart_seconds=restart_seconds,
        idle_percent=100 * (java + python) / IDLE_SECONDS,
        jvm_percent=100 * java / IDLE_SECONDS,
        status_seconds=status_seconds,
        audit_seconds=audit_seconds,
        **landed,
    )


def land_one_each(
    ours: Servers, bucket: Bucket, prefix: str, number: int, pid: int
) -> dict[str, Any]:
    """Write one record into each Kafka partition, and wait until all are visible."""
    ledger_before, asked_before, cpu_before = ledger_bytes(bucket), requests(bucket), sum(cpu(pid))
    producer = ours.broker.producer(linger_ms=50)
    for n in range(number // PER_TOPIC):
        records = (Message(b'{"n":1}', partition=p) for p in range(PER_TOPIC))
        ours.broker.send(producer, f"{prefix}.{n:05}", records)
    ours.broker.flush(producer)
    written = time.monotonic()
    first = None
    while True:
        # Listing by this benchmark costs requests, too; they are not counted.
        visible = sum(1 for key in bucket.keys("out/") if "/_landfall/" not in key)
        waited = time.monotonic() - written
        first = waited if first is None and visible else first
        if visible == number:
            break
        if waited > PATIENCE:
            raise SystemExit(
                f"{number}: {visible} of {number} objects visible after {waited:.0f} s"
            )
        time.sleep(0.3)
    time.sleep(3)
    return {
        "first_visible": first,
        "all_visible": waited,
        "requests": requests(bucket) - asked_before,
        "ledger_bytes": ledger_bytes(bucket) - ledger_before,
        "landing_cpu_seconds": sum(cpu(pid)) - cpu_before,
    }


def document(ours: Servers, bucket: Bucket, prefix: str, **spec: object) -> dict[str, Any]:
    """The group's resource, with the defaults of what ``spec`` does not set."""
    s3 = {"endpoint": bucket.server.endpoint, "pathStyle": True, "region": "us-east-1"}
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "idle"},
        "spec": {
            "source": {
                "kafka": {
                    "bootstrapServers": ours.broker.bootstrap,
                    "topicPattern": rf"{prefix}\..*",
                    "startingOffsets": "Latest",
                }
            },
            "decode": {"format": "Json", "timestamp": {"field": "ts", "missing": "KafkaTimestamp"}},
            "output": {"url": f"{bucket.url}/out", "format": "Json", "s3": s3},
            **spec,
        },
    }


def create_topics(broker: Broker, prefix: str, number: int) -> None:
    """Create the topics that do not exist, in portions, and wait until all have leaders."""
    names = {f"{prefix}.{n:05}" for n in range(number // PER_TOPIC)}
    missing = sorted(names - broker.admin.list_topics(timeout=SECONDS).topics.keys())
    # Small indexes: a broker reserves twenty megabytes of address space for each Kafka partition.
    config = {"retention.ms": "-1", "segment.index.bytes": "4096"}
    for start in range(0, len(missing), 50):
        new = [NewTopic(n, PER_TOPIC, 1, config=config) for n in missing[start : start + 50]]
        for future in broker.admin.create_topics(new, request_timeout=SECONDS).values():
            future.result(SECONDS)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        topics = broker.admin.list_topics(timeout=SECONDS).topics
        ready = [n for n in names if n in topics and len(topics[n].partitions) == PER_TOPIC]
        if len(ready) == len(names) and all(
            p.leader >= 0 for n in names for p in topics[n].partitions.values()
        ):
            return
        time.sleep(1)
    raise SystemExit(f"the broker has not made {number} Kafka partitions")


@contextmanager
def driver(file: Path, bucket: Bucket, number: int) -> Iterator[tuple[int, float]]:
    """Run a driver; gives its process id, and after how many seconds it knew every lag."""
    port = next(port for port in PORTS if free(HOST, port))
    argv = [str(BIN / "landfall"), "run", str(file), "--master", "local[2]"]
    begun = time.monotonic()
    log = (STATE / "bench-idle" / "driver.log").open("wb")
    process = subprocess.Popen(
        [*argv, "--http-port", str(port)],
        env=environment(bucket),
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        while (found := known_partitions(port)) != number:
            if process.poll() is not None or time.monotonic() - begun > PATIENCE:
                raise SystemExit(f"{number}: the driver knows {found} topic partitions: {log.name}")
            time.sleep(0.2)
        seconds = time.monotonic() - begun
        say(f"{number}: started in {seconds:.1f} s")
        yield process.pid, seconds
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        log.close()


def known_partitions(port: int) -> int:
    """How many topic partitions the driver reports, once it knows their lag; -1 before."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/status", timeout=5) as answer:
            status = json.load(answer)
    except OSError:
        return -1
    return len(status["partitions"]) if status["lag_known"] else -1


def landfall(file: Path, bucket: Bucket, command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command on the group."""
    return subprocess.run(
        [str(BIN / "landfall"), command, str(file)],
        env=environment(bucket),
        capture_output=True,
        check=False,
    )


def timed(file: Path, bucket: Bucket, command: str) -> float:
    """Wall time of a command: of its second run, as the first may have to compile its modules."""
    for _ in range(2):
        begun = time.monotonic()
        landfall(file, bucket, command).check_returncode()
        seconds = time.monotonic() - begun
    return seconds


def environment(bucket: Bucket) -> dict[str, str]:
    """For Landfall's processes, which may keep their compiled modules, as an installed one does."""
    env = {**os.environ, **bucket.server.env}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def cpu(pid: int) -> tuple[float, float]:
    """CPU seconds of Java and of everything else in this process tree, so far."""
    java = others = 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            times, is_java = process.cpu_times(), "java" in process.name()
        except psutil.Error:
            continue
        spent = times.user + times.system
        java, others = (java + spent, others) if is_java else (java, others + spent)
    return java, others


def requests(bucket: Bucket) -> int:
    """Requests of drivers that named the bucket so far: all but listings of this benchmark."""
    with REQUESTS.open(errors="replace") as lines:
        return sum(bucket.name in line and not OWN_LISTING.search(line) for line in lines)


def ledger_bytes(bucket: Bucket) -> int:
    """Size of the ledger."""
    return sum(bucket.sizes("out/_landfall/").values())


def as_table(runs: list[IdleRun]) -> str:
    """The figures as a table for the documentation."""
    heads = [
        "topic partitions",
        "start, s (again)",
        "idle, % of a core (JVM)",
        "one record in each: first, last visible, s",
        "S3 requests",
        "CPU-s",
        "`status`, `audit`, s",
        "ledger, kB (a day at `maxAge: 5m`, MB)",
    ]
    rows = [
        [
            f"{r.topic_partitions:,}",
            f"{r.start_seconds:.1f} ({r.restart_seconds:.1f})",
            f"**{r.idle_percent:.1f}** ({r.jvm_percent:.1f})",
            f"{r.first_visible:.1f}, **{r.all_visible:.1f}**",
            f"{r.requests:,}",
            f"{r.landing_cpu_seconds:.1f}",
            f"{r.status_seconds:.1f}, {r.audit_seconds or math.nan:.1f}",
            f"{r.ledger_bytes / 1e3:.0f} ({r.ledger_bytes * DAY / 300 / 1e6:,.0f})",
        ]
        for r in runs
    ]
    return markdown(heads, rows)


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
