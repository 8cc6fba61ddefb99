"""Files of other programs in a folder, and a group that lands them in another one."""

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
from landfall.cli import main
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.process.run import RunOptions, drive
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.store import Store
from landfall.store.folder_files import FolderFiles

TOPIC = "hits"
TP = TopicPartition(TOPIC, 0)


def rows(numbers: Iterable[int]) -> bytes:
    """Rows of JSON, one for each number."""
    return b"".join(b'{"id":%d}\n' % number for number in numbers)


@dataclass(frozen=True)
class FolderFeed:
    """A folder with files in ``in/``, what is landed of them in ``out/``, and the group's file."""

    root: Path

    def put(self, name: str, body: bytes) -> Path:
        path = self.root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return path

    def etag(self, name: str) -> str:
        """The ETag of a file as it is now."""
        found = FolderFiles(self.root / "in").find(name)
        assert found
        return found.etag

    def document(self, spec: dict[str, Any], **feed: Any) -> dict[str, Any]:
        own = {"topic": TOPIC, "url": f"file://{self.root}/in", "reader": "JsonLines"}
        times = {"settle": "1ms", "discoveryInterval": "100ms", "retryInterval": "1h"}
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "scene"},
            "spec": {
                "source": {"files": [{**own, **times, **feed}]},
                "decode": {"format": "Json"},
                "output": {"url": f"file://{self.root}/out", "format": "Json"},
                "uploadPolicy": {"maxAge": "100ms"},
                "tuning": {"pollInterval": "50ms", "httpPort": 0},
                **spec,
            },
        }

    def group(self, spec: dict[str, Any] | None = None, **feed: Any) -> ConsumerGroup:
        """The group, whose file is written, too."""
        document = self.document(spec or {}, **feed)
        self.file.write_text(yaml.safe_dump(document))
        return parse_group(document)

    @property
    def file(self) -> Path:
        return self.root / "group.yaml"

    def land(
        self, spec: dict[str, Any] | None = None, *, store: Store | None = None, **feed: Any
    ) -> ExitCode:
        """Land what is there, in this process."""
        group = self.group(spec, **feed)
        options = RunOptions(until_caught_up=True, http_port=0)
        return drive(group, store or open_stores(group.spec), InProcessRunner(), options)

    def store(self) -> Store:
        return open_stores(self.group().spec)

    def cli(self, *arguments: str) -> int:
        """Run a command with the group's file."""
        command, *others = arguments
        return main([command, str(self.file), *others])

    def state(self) -> State:
        group = self.group()
        return Lane(open_stores(group.spec), "scene", LANE).read()

    def objects(self) -> list[Path]:
        found = (path for path in (self.root / "out" / TOPIC).rglob("*") if path.is_file())
        return sorted(path for path in found if path.name != "_SUCCESS")

    def landed(self) -> Counter[int]:
        """How often each number is landed."""
        bodies = (gzip.decompress(path.read_bytes()) for path in self.objects())
        return Counter(json.loads(line)["id"] for body in bodies for line in body.splitlines())
