"""Lands a topic by warm Spark tasks, and counts what that takes.

Parts are uploaded and not completed, so nothing is committed. CPU-seconds are user and system time
of driver, JVM and Python workers, without the broker and the S3 server.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.spark.session import SparkRunner
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.store.urls import open_store
from landfall.task import Batch
from tests.bench import meter
from tests.bench.topics import PARTITIONS, Load
from tests.support.kafka.broker import Broker
from tests.support.stores.s3 import Bucket

WARM_UP_RECORDS = 20_000


@dataclass(frozen=True)
class Run:
    """One measured landing of a topic."""

    case: str
    topic: str
    records: int
    input_mb: float
    output_mb: float
    objects: int
    requests: int
    wall_seconds: float
    java_seconds: float
    python_seconds: float
    worker_peak_mb: int
    tree_peak_mb: int

    @property
    def cpu_seconds(self) -> float:
        return self.java_seconds + self.python_seconds

    @property
    def mb_per_cpu_second(self) -> float:
        return self.input_mb / self.cpu_seconds


@dataclass(frozen=True)
class Bench:
    """The servers, and what a group needs to reach them."""

    broker: Broker
    bucket: Bucket
    server_pids: tuple[int, ...]

    def group(self, **spec: Any) -> ConsumerGroup:
        output = {
            "url": f"{self.bucket.url}/bench",
            "s3": {
                "endpoint": self.bucket.server.endpoint,
                "pathStyle": True,
                "region": "us-east-1",
            },
            **spec.pop("output", {}),
        }
        kafka = {"bootstrapServers": self.broker.bootstrap, "topicPattern": ".*"}
        document = {"source": {"kafka": kafka}, "output": output, **spec}
        head = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "bench"},
        }
        return parse_group({**head, "spec": document})

    def land(
        self, runner: SparkRunner, group: ConsumerGroup, load: Load, records: int | None = None
    ) -> list[SliceResult]:
        """Land the first ``records`` of each Kafka partition, all of them when None."""
        each = min(records or load.records, load.records // PARTITIONS)
        bins = [
            (Slice(TopicPartition(load.topic, p), OffsetRange(0, each)),) for p in range(PARTITIONS)
        ]
        return runner.run(Batch(group, uuid4().hex), bins)

    def give_up(self, group: ConsumerGroup, results: list[SliceResult]) -> None:
        """Abort all uploads."""
        store = open_store(group.spec.output)
        for result in results:
            assert isinstance(result, LandedSlice), result
            for landed in result.objects:
                store.abort(landed.upload.key, landed.upload.upload_id)

    def run(self, runner: SparkRunner, case: str, spec: Mapping[str, Any], load: Load) -> Run:
        group = self.group(**spec)
        self.give_up(group, self.land(runner, group, load, WARM_UP_RECORDS))
        meter.forget_peaks(self.server_pids)
        before, begun = meter.usage(self.server_pids), time.monotonic()
        results = self.land(runner, group, load)
        wall, spent = time.monotonic() - begun, meter.usage(self.server_pids) - before
        peaks = meter.peaks(self.server_pids)
        self.give_up(group, results)
        landed = [result for result in results if isinstance(result, LandedSlice)]
        assert sum(result.landed for result in landed) == load.records
        uploads = [o.upload for result in landed for o in result.objects]
        return Run(
            case,
            load.topic,
            load.records,
            sum(result.input_bytes for result in landed) / 1e6,
            sum(upload.size for upload in uploads) / 1e6,
            len(uploads),
            # begin, parts, complete of each object, and the COMMIT
            sum(len(upload.parts) + 2 for upload in uploads) + 1,
            wall,
            spent.java,
            spent.python,
            *peaks,
        )
