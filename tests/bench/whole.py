"""``make bench ARGS=--whole``: what whole runs cost, Landfall beside Spark Structured Streaming.

Each contender lands a small and a large topic of the same messages from the same broker into the
same S3 server. The measurement counts everything that its command starts: JVM, driver, Python
workers, commits, completions, shutdown. It leaves out the broker and the S3 server. After each run
every landed object is read back and its records are counted.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from dev.servers import kafka, s3
from dev.servers.server import STATE
from tests.bench import topics
from tests.bench.contenders import CONTENDERS, FLOOR, REFERENCE, Contender, Task
from tests.bench.environment import Servers, servers
from tests.bench.peers import spark_install
from tests.bench.process_tree import measure, new_counter
from tests.bench.topics import Load
from tests.bench.whole_tables import (
    Pair,
    WholeRun,
    floor_table,
    output_table,
    paragraph,
    ratio_table,
    speed_table,
)
from tests.support.stores.s3 import Bucket

LOADS = {
    250: (Load("t250-small", 500_000, 250), Load("t250-large", 8_000_000, 250)),
    1000: (Load("t1k-small", 125_000, 1000), Load("t1k-large", 2_500_000, 1000)),
}
"""By bytes of a message, the small and the large topic."""


def main(options: argparse.Namespace) -> None:
    """Run all of it and print the tables, ready for the documentation."""
    contenders = [
        each for each in CONTENDERS if not options.contender or each.name in options.contender
    ]
    load_before = os.getloadavg()[0]  # by other programs; from here on our own is in it
    access_log = STATE / "bench" / "requests.log"
    with servers(STATE / "bench", access_log, tls=options.tls) as ours:
        lines = [paragraph(f"{_machine()} {_versions()}"), "", _legend(contenders)]
        results = {}
        for size in options.size or (250,):
            for load in LOADS[size]:
                topics.ensure(ours.broker, load)
            pairs = _measure(ours, contenders, LOADS[size], options.repeats)
            title = f"{_sizes(*LOADS[size])}{'; S3 by https' * options.tls}; "
            title += f"{_repeats(options.repeats)}; "
            title += f"load average before the benchmark {load_before:.1f}:"
            tables = [speed_table(pairs), output_table(pairs)]
            names = {each.name for each in contenders}
            if len(contenders) > 1 and REFERENCE in names:
                tables.insert(1, ratio_table(pairs, REFERENCE))
            if len(contenders) > 1 and FLOOR in names:
                tables.insert(1, floor_table(pairs, FLOOR))
            lines += ["", paragraph(title), *(f"\n{table}" for table in tables)]
            results[size] = [asdict(pair) for pair in pairs]
    print("\n".join(lines))
    (STATE / "bench" / "whole.json").write_text(json.dumps(results, indent=1))


def _measure(
    ours: Servers, contenders: list[Contender], loads: tuple[Load, Load], repeats: int
) -> list[Pair]:
    """All pairs. Each repetition runs every contender, so that a busy minute hits more than one."""
    pairs = []
    for repeat in range(repeats):
        for contender in contenders:
            pair = Pair(*(_run(ours, contender, load) for load in loads))
            pairs.append(pair)
            print(
                f"{repeat + 1}/{repeats} {contender.name}: {pair.total:.1f} MB per CPU-s, "
                f"marginal {pair.marginal:.1f}, "
                f"{pair.small.wall_seconds:.0f} s and {pair.large.wall_seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return pairs


def _run(ours: Servers, contender: Contender, load: Load) -> WholeRun:
    """Land the topic into a bucket of its own, and check that every record is there.

    Raises:
        SystemExit: the command failed, or the landed objects hold another number of records.
    """
    bucket = ours.s3.create_bucket()
    with TemporaryDirectory() as folder:
        command = contender.prepare(Task(ours.broker.bootstrap, load.topic, bucket, Path(folder)))
        log = STATE / "bench" / "whole.log"
        measured = measure(command.argv, command.env, log, new_counter())
    requests = _requests(bucket)
    keys = [key for key in bucket.keys("out/") if contender.is_data(key)]
    found, landed_bytes = 0, 0
    for key in keys:
        answer = bucket.server.client.get_object(Bucket=bucket.name, Key=key)
        landed_bytes += answer["ContentLength"]
        found += contender.count(answer["Body"])  # type: ignore[arg-type]  # it reads like a file
    _remove(bucket)
    if found != load.records:
        raise SystemExit(
            f"{contender.name} landed {found:,} records of {load.topic}, not {load.records:,}"
        )
    return WholeRun(
        contender.name,
        load.records,
        load.records * load.size,
        measured.cpu_seconds,
        measured.wall_seconds,
        measured.peak_mb,
        landed_bytes,
        len(keys),
        requests,
    )


def _requests(bucket: Bucket) -> int | None:
    """Requests that named the bucket so far; None when the S3 server writes no log for us."""
    log = STATE / "bench" / "requests.log"
    if not log.exists():
        return None
    with log.open(errors="replace") as lines:
        return sum(bucket.name in line for line in lines)


def _remove(bucket: Bucket) -> None:
    """Give the disk back."""
    for key in bucket.keys(""):
        bucket.server.client.delete_object(Bucket=bucket.name, Key=key)


def _machine() -> str:
    """What the machine is, without its name."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(
        r"^model name\s*: (.*)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE
    )
    memory = psutil.virtual_memory().total / 2**30
    counter = new_counter()
    counter.close()
    model = names[0] if names else platform.machine()
    return (
        f"Machine: {os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}. "
        f"CPU-seconds are counted by {counter.name}."
    )


def _versions() -> str:
    java = subprocess.run(
        [shutil.which("java") or "java", "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "([^"]+)"', java.stderr)
    return (
        f"Versions: Landfall {version('landfall')} with PySpark {version('pyspark')}, "
        f"Python {platform.python_version()}, Java {found[1] if found else 'unknown'}; "
        f"Structured Streaming: PySpark and Kafka connector {spark_install.VERSION}, "
        f"hadoop-aws {spark_install.HADOOP_VERSION}; Kafka {kafka.VERSION}, versitygw {s3.VERSION}."
    )


def _legend(contenders: list[Contender]) -> str:
    return "\n".join(
        paragraph(f"- **{contender.name}**: {contender.says}.") for contender in contenders
    )


def _sizes(small: Load, large: Load) -> str:
    return (
        f"Messages of {large.size} B: {small.records:,} in the small topic, {large.records:,} in "
        f"the large one, each in {topics.PARTITIONS} Kafka partitions"
    )


def _repeats(repeats: int) -> str:
    if repeats == 1:
        return "one run"
    return f"medians of {repeats} runs with the least and the most in brackets"
