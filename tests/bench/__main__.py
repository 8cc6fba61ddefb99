"""``make bench``: how fast the sink is, what it needs, and what its parts cost alone.

Kafka, S3 and Spark are real. ``land_bin`` lands whole Kafka partitions in Spark tasks of a warm
local session; parts are uploaded and not completed. CPU-seconds are user and system time of driver,
JVM and Python workers, without the broker and the S3 server. Wall times say little, because all of
them share the machine. ``--whole`` measures whole runs instead: see ``whole``.
"""

import argparse
import json
import time
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from dev.servers.server import STATE
from landfall.driver.spark.session import SparkRunner, spark_context
from tests.bench import (
    floors,
    hot,
    meter,
    payloads,
    scaling,
    shapes,
    start,
    tail,
    topics,
    whole,
)
from tests.bench.contenders import CONTENDERS
from tests.bench.environment import servers
from tests.bench.memory import thousand_partitions
from tests.bench.sink import Bench, Run
from tests.bench.topics import LOADS

JSON = {
    "decode": {"format": "Json", "timestamp": {"field": "ts"}},
    "route": {"pattern": "dt={date}/hr={hour}"},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SequenceFile, verbatim": ("gzip", {"output": {"format": "SequenceFile"}}),
    "JSON by hour, gzip": ("gzip", {**JSON, "output": {"format": "Json", "codec": "Gzip"}}),
    "JSON by hour, zstd": ("zstd", {**JSON, "output": {"format": "Json", "codec": "Zstd"}}),
    "Parquet by hour": ("zstd", {**JSON, "output": {"format": "Parquet"}}),
}
"""The codec of each case's floor, and its spec."""
OTHERS = {
    "whole": whole.main,
    "start": start.main,
    "hot": hot.main,
    "scale": scaling.main,
    "shapes": shapes.main,
    "tail": tail.main,
}
"""Benchmarks of their own, by the option that asks for them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="measured runs of each case; the median counts"
    )
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="only this one (may be given again)"
    )
    parser.add_argument(
        "--topic", action="append", choices=[load.topic for load in LOADS], help="only this one"
    )
    parser.add_argument("--no-memory", action="store_true", help="leave the memory bench out")
    _add_whole_options(parser)
    parser.add_argument(
        "--start",
        action="store_true",
        help="measure what a local run costs until its first COMMIT instead",
    )
    parser.add_argument(
        "--payloads",
        action="store_true",
        help="measure payloads with a schema instead, beside the same payloads verbatim",
    )
    parser.add_argument(
        "--row", action="append", choices=list(payloads.ROWS), help="with --payloads, only this one"
    )
    parser.add_argument(
        "--tail",
        action="store_true",
        help="measure the tail of a scan instead, compared with landing the same records",
    )
    _add_scaling_options(parser)
    _add_shapes_option(parser)
    options = parser.parse_args()
    for name, other in OTHERS.items():
        if getattr(options, name):
            other(options)
            return
    console = Console(width=150)
    run = payloads.measure if options.payloads else measure
    with servers(STATE / "bench") as ours:
        run(Bench(ours.broker, ours.s3.create_bucket(), ours.pids), options, console)


def _add_shapes_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shapes",
        nargs="?",
        const=shapes.ALL,
        metavar="NAME,NAME",
        help="measure other shapes of data beside a plain one instead; only those that begin so",
    )


def _add_scaling_options(parser: argparse.ArgumentParser) -> None:
    more_slots = parser.add_argument_group("more task slots")
    more_slots.add_argument(
        "--hot",
        action="store_true",
        help="measure 1, 2 and 4 task slots that land one Kafka partition instead",
    )
    more_slots.add_argument(
        "--records", type=int, default=16_000_000, help="of that Kafka partition, 250 B each"
    )
    more_slots.add_argument(
        "--scale",
        action="store_true",
        help="simulate up to 16 task slots under the real driver, and measure the driver, instead",
    )


def _add_whole_options(parser: argparse.ArgumentParser) -> None:
    whole_run = parser.add_argument_group("whole runs, beside plain Spark Structured Streaming")
    whole_run.add_argument(
        "--whole",
        action="store_true",
        help="measure whole runs instead, start-up and commits included, and print Markdown",
    )
    whole_run.add_argument(
        "--contender",
        action="append",
        choices=[each.name for each in CONTENDERS],
        help="only this one (may be given again)",
    )
    whole_run.add_argument(
        "--size",
        action="append",
        type=int,
        choices=list(whole.LOADS),
        help="bytes of a message (may be given again; default: 250)",
    )
    whole_run.add_argument(
        "--tls",
        action="store_true",
        help="reach the S3 server by https; not for Structured Streaming, whose Java has other CAs",
    )


def measure(bench: Bench, options: argparse.Namespace, console: Console) -> None:
    cases = options.case or list(CASES)
    begun, before = time.monotonic(), meter.usage(bench.server_pids)
    context = spark_context(bench.group(), "local[2]")
    runner = SparkRunner(context)
    started = meter.usage(bench.server_pids) - before
    console.print(
        f"session started in {time.monotonic() - begun:.1f} s wall, {started.total:.1f} CPU-s"
    )
    runs: list[Run] = []
    found: dict[str, floors.Floor] = {}
    for load in [load for load in LOADS if not options.topic or load.topic in options.topic]:
        seconds = topics.ensure(bench.broker, load)
        console.print(
            f"{load.topic}: {load.records:,} records of {load.size} B"
            + (f", loaded in {seconds:.0f} s" * bool(seconds))
        )
        found[load.topic] = floors.measure(bench.broker, load, bench.group().spec.output)
        for _ in range(options.repeats):
            for case in cases:
                runs.append(bench.run(runner, case, CASES[case][1], load))
                console.print(f"  {case:24} {runs[-1].mb_per_cpu_second:6.1f} MB/CPU-s")
    context.stop()
    console.print(_floors(found), _table(runs, found))
    if not options.no_memory:
        console.print(thousand_partitions())
    results = {
        "runs": [asdict(run) for run in runs],
        "floors": {topic: asdict(floor) for topic, floor in found.items()},
    }
    path = STATE / "bench" / "results.json"
    path.write_text(json.dumps(results, indent=1))
    console.print(f"all figures: {path}")


def _floors(found: dict[str, floors.Floor]) -> Table:
    names = (
        "topic",
        "consume alone",
        "gzip (ISA-L -2) alone",
        "zstd -3 alone",
        "upload alone, compressed",
        "gzip sink",
        "zstd sink",
    )
    table = Table(*names, title="floors, input MB per CPU-second")
    for topic, floor in found.items():
        compress = [
            f"{floor.compress[codec]:.0f} (ratio {floor.ratio[codec]:.2f})"
            for codec in ("gzip", "zstd")
        ]
        sinks = [f"{floor.sink(codec):.0f}" for codec in ("gzip", "zstd")]
        table.add_row(topic, f"{floor.consume:.0f}", *compress, f"{floor.upload:.0f}", *sinks)
    return table


def _table(runs: list[Run], found: dict[str, floors.Floor]) -> Table:
    names = (
        "topic", "case", "MB/CPU-s (min-max)", "of floor", "rec/CPU-s", "rec/s wall", "Java %",
        "ratio", "objects", "requests/GB", "worker peak MB", "tree peak MB",
    )  # fmt: skip
    table = Table(*names, title="medians")
    for topic, case in dict.fromkeys((run.topic, run.case) for run in runs):
        same = sorted(
            (r for r in runs if (r.topic, r.case) == (topic, case)),
            key=lambda r: r.mb_per_cpu_second,
        )
        speeds, run = [r.mb_per_cpu_second for r in same], same[len(same) // 2]
        table.add_row(
            topic,
            case,
            f"{median(speeds):.1f} ({speeds[0]:.1f}-{speeds[-1]:.1f})",
            f"{median(speeds) / found[topic].sink(CASES[case][0]):.0%}",
            f"{run.records / run.cpu_seconds:,.0f}",
            f"{run.records / run.wall_seconds:,.0f}",
            f"{run.java_seconds / run.cpu_seconds:.0%}",
            f"{run.input_mb / run.output_mb:.2f}",
            f"{run.objects}",
            f"{run.requests / run.input_mb * 1000:.0f}",
            f"{run.worker_peak_mb}",
            f"{run.tree_peak_mb}",
        )
    return table


if __name__ == "__main__":
    main()
