import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from landfall import cli
from landfall.api.spec import Output
from landfall.cli.parser import parser
from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import filled
from landfall.registry import output_format
from landfall.store.file import FileStore
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

TP = TopicPartition("clicks", 0)
EXTENSIONS = {"Json": ".json", "SequenceFile": ".seq"}

SPEC = """
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: {group}, namespace: tests}}
spec:
  source: {{kafka: {{bootstrapServers: "localhost:1", topics: [clicks]}}}}
  output: {{url: "file://{root}", format: {format}, codec: None}}
"""


@cache
def made_once() -> argparse.ArgumentParser:
    return parser()


@pytest.fixture(autouse=True)
def _one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make the parser costs more than most commands here, which run more than a thousand times.

    A process makes one; that it is made at all is for tests of ``python -m landfall``.
    """
    monkeypatch.setattr(cli, "parser", made_once)


class Landed:
    """A group file and a ledger: slot 0 OPEN, slot 1 ADD, slot 2 COMMIT of ``clicks/0[0, 10)``."""

    def __init__(self, root: Path, format_: str) -> None:
        self.root = root
        self.file = str(root.parent / "group.yaml")
        Path(self.file).write_text(SPEC.format(group=GROUP, root=root, format=format_))
        self.format = output_format(
            Output.model_validate({"url": f"file://{root}", "format": format_, "codec": "None"})
        )
        self.sample = SampleLedger(FileStore(root), body=self.body, extension=EXTENSIONS[format_])
        self.sample.open().add(TP)
        self.first = self.sample.land(TP, 0, 10)
        self.sample.commit(self.first)

    def body(self, offsets: Sequence[int]) -> bytes:
        encoder = self.format.encoder()
        values = [b'{"o":%d}' % o for o in offsets]
        return encoder.encode(Block(filled(TP, list(offsets), values))) + encoder.finish()

    @property
    def object(self) -> Path:
        """The file of the first COMMIT."""
        return self.root / self.first.objects[0].upload.key


@pytest.fixture
def landed(tmp_path: Path) -> Callable[[str], Landed]:
    return lambda format_: Landed(tmp_path / "root", format_)
