"""Files of other programs in a bucket, and a group that lands them in another folder of it."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import FsckReport, examine
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.process.run import RunOptions, drive
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import FeedState, State
from landfall.ledger.offsets import TopicPartition
from landfall_audit import PartitionResult
from landfall_audit.buckets import open_buckets
from landfall_audit.checks.inspection import inspect
from tests.support.audit.audited_spec import for_auditor
from tests.support.stores.s3 import Bucket

TOPIC = "hits"
TP = TopicPartition(TOPIC, 0)


def rows(numbers: Iterable[int]) -> bytes:
    """Rows of JSON, one for each number."""
    return b"".join(b'{"id":%d}\n' % number for number in numbers)


@dataclass(frozen=True)
class FeedScene:
    """A bucket with files in ``in/`` and what is landed of them in ``out/``."""

    bucket: Bucket

    def put(self, name: str, body: bytes) -> None:
        self.bucket.write(f"in/{name}", body)

    def document(self, **feed: Any) -> dict[str, Any]:
        """The group's YAML, with these fields of its feed."""
        s3 = self.bucket.output["s3"]
        own = {"topic": TOPIC, "url": f"{self.bucket.url}/in", "s3": s3, "reader": "JsonLines"}
        times = {"settle": "1ms", "discoveryInterval": "100ms", "retryInterval": "1h"}
        output = {"url": f"{self.bucket.url}/out", "s3": s3, "format": "Json"}
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "scene"},
            "spec": {
                "source": {"files": [{**own, **times, **feed}]},
                "decode": {"format": "Json"},
                "output": output,
                "uploadPolicy": {"maxAge": "100ms"},
                "tuning": {"pollInterval": "50ms", "httpPort": 0},
            },
        }

    def group(self, **feed: Any) -> ConsumerGroup:
        return parse_group(self.document(**feed))

    def land(self, **feed: Any) -> ExitCode:
        """Land what is there, in this process."""
        group = self.group(**feed)
        options = RunOptions(until_caught_up=True, http_port=0)
        return drive(group, open_stores(group.spec), InProcessRunner(), options)

    def state(self) -> State:
        return Lane(open_stores(self.group().spec), "scene", LANE).read()

    @property
    def feed(self) -> FeedState:
        """What the ledger knows of the feed."""
        return self.state().feeds[TP]

    def found(self) -> int:
        """How many parts have numbers."""
        return sum(feed.end for feed in self.state().feeds.values())

    def landed(self) -> Counter[int]:
        """How often each number is landed."""
        keys = [key for key in self.bucket.keys(f"out/{TOPIC}/") if not key.endswith("/_SUCCESS")]
        bodies = (gzip.decompress(self.bucket.read(key)) for key in keys)
        return Counter(json.loads(line)["id"] for body in bodies for line in body.splitlines())

    def file(self, folder: Path, **feed: Any) -> str:
        """The group's file in a folder, for the command line."""
        path = folder / "group.yaml"
        path.write_text(yaml.safe_dump(self.document(**feed)))
        return str(path)

    def fsck(self) -> FsckReport:
        """What ``fsck --deep`` reports."""
        group = self.group()
        return examine(GroupStore(group, open_stores(group.spec)), deep=True)

    def audit(self, **feed: Any) -> PartitionResult:
        """What ``audit`` finds in the rows of the feed; it may find no fault beside."""
        group = self.group(**feed)
        found = inspect(for_auditor(group), open_buckets(for_auditor(group.spec)), None)
        assert found.faults == []
        return found.results[TOPIC, 0]

    def faults(self) -> list[str]:
        """What ``fsck --deep`` finds, and uploads that are still open."""
        report = self.fsck()
        assert report.has_objects, "fsck did not check the objects"
        return [str(finding) for finding in report.findings] + self.bucket.open_uploads()


def once(numbers: Iterable[int]) -> Counter[int]:
    """Each of these numbers once."""
    return Counter(dict.fromkeys(numbers, 1))
