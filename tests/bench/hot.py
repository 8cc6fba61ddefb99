"""``make bench ARGS=--hot``: one Kafka partition that holds all the data, landed by 1, 2, 4 slots.

``landfall run --until-caught-up`` lands the topic as JSON by date, gzip, by ``--master local[n]``.
Throughput counts from the first COMMIT to the last one by their times in the ledger, so the start
of the JVM is not in it. The first COMMITs are small whatever there is: they are in it.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dev.servers.server import STATE
from landfall.api.contract import LANE
from landfall.api.spec import Output
from landfall.lane import Lane
from landfall.ledger import Commit, decode
from landfall.store.urls import open_store
from tests.bench import topics
from tests.bench.contenders import BY_DATE, Task, count_gzip_lines, landfall
from tests.bench.environment import Servers, servers
from tests.bench.process_tree import measure, new_counter
from tests.bench.topics import Load
from tests.bench.whole_tables import markdown, with_range
from tests.support.stores.s3 import Bucket

SPEC: Mapping[str, Any] = {**BY_DATE, "output": {"format": "Json", "codec": "Gzip"}}
SLOTS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class HotRun:
    """One landing of the topic.

    Attributes:
        slots: tasks that run at the same time.
        mb_per_second: payload MB a second, from the first COMMIT to the last.
        cpu_seconds: of all its processes, from the first one's start to the last one's end.
        seconds: until the command ended.
        slices: of the COMMIT that has most.
        objects: landed objects.
        landed_mb: their size.
    """

    slots: int
    mb_per_second: float
    cpu_seconds: float
    seconds: float
    slices: int
    objects: int
    landed_mb: float


def main(options: argparse.Namespace) -> None:
    """Run all and print a table, ready for the documentation."""
    load = Load(f"hot-{options.records}", options.records, 250, partitions=1)
    load_before = os.getloadavg()[0]
    with servers(STATE / "bench") as ours:
        topics.ensure(ours.broker, load)
        # Each repetition runs every number of slots, so that a busy minute hits all.
        runs = [_run(ours, load, slots) for _ in range(options.repeats) for slots in SLOTS]
    cores = os.cpu_count()
    print(f"{load.records:,} messages of {load.size} B, load average before {load_before:.1f}:\n")
    print(table(runs))
    if cores is not None and cores < max(SLOTS):
        print(f"\nThis machine has {cores} cores, so no row of more slots can be much faster.")
    (STATE / "bench" / "hot.json").write_text(json.dumps([asdict(run) for run in runs]))


def _run(ours: Servers, load: Load, slots: int) -> HotRun:
    """Land the topic into a bucket of its own.

    Raises:
        SystemExit: the command failed, or the ledger holds another number of records.
    """
    bucket = ours.s3.create_bucket()
    contender = landfall("hot", "", SPEC, count_gzip_lines, slots)
    with TemporaryDirectory() as folder:
        command = contender.prepare(Task(ours.broker.bootstrap, load.topic, bucket, Path(folder)))
        log = STATE / "bench" / "hot.log"
        measured = measure(command.argv, command.env, log, new_counter())
    commits = list(_commits(bucket))
    landed = sum(each.landed for commit in commits for each in commit.slices)
    sizes = [size for key, size in bucket.sizes("out/").items() if contender.is_data(key)]
    for key in bucket.keys(""):
        bucket.server.client.delete_object(Bucket=bucket.name, Key=key)
    if landed != load.records:
        raise SystemExit(f"{landed:,} records of {load.topic} are committed, not {load.records:,}")
    run = HotRun(
        slots,
        mb_per_second(commits),
        measured.cpu_seconds,
        measured.wall_seconds,
        max(len(commit.slices) for commit in commits),
        len(sizes),
        sum(sizes) / 1e6,
    )
    print(run, flush=True)
    return run


def _commits(bucket: Bucket) -> Iterator[Commit]:
    """The COMMITs in a bucket's ledger, in order."""
    output = {**bucket.output, "url": f"{bucket.url}/out"}
    lane = Lane(open_store(Output.model_validate(output)), bucket.name, LANE)
    records = (decode(seq, body) for seq, body in lane.bodies())
    return (record for record in records if isinstance(record, Commit))


def mb_per_second(commits: Sequence[Commit]) -> float:
    """Payload MB of all COMMITs after the first, divided by the seconds from the first to the last.

    Raises:
        ValueError: there are less than two COMMITs.
    """
    if len(commits) < 2:  # a first one and a last one
        raise ValueError("throughput is between two COMMITs at least: land more records")
    first, last = (datetime.fromisoformat(commits[at].header.time) for at in (0, -1))
    payload = sum(each.input_bytes for commit in commits[1:] for each in commit.slices)
    return payload / 1e6 / (last - first).total_seconds()


def table(runs: Sequence[HotRun]) -> str:
    """A row for each number of slots; ratios are of runs of the same repetition."""
    by_slots = {slots: [run for run in runs if run.slots == slots] for slots in SLOTS}
    rows = []
    for slots, same in by_slots.items():
        pairs = list(zip(same, by_slots[SLOTS[0]], strict=True))
        rows.append(
            [
                str(slots),
                with_range((run.mb_per_second for run in same), 0),
                with_range((run.mb_per_second / one.mb_per_second for run, one in pairs), 2),
                with_range(run.cpu_seconds for run in same),
                with_range((run.seconds for run in same), 0),
                with_range((run.slices for run in same), 0),
                with_range((run.landed_mb / run.objects for run in same), 0),
            ]
        )
    heads = (
        "slots", "MB a second", "times one slot", "CPU-s of the run", "wall s of the run",
        "slices of the largest COMMIT", "MB of an object",
    )  # fmt: skip
    return markdown(heads, rows)
