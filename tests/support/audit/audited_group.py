"""A group that lands to a folder by a sample ledger, and what an audit finds there."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.store.file import FileStore
from landfall_audit import PartitionResult
from landfall_audit.buckets import open_bucket
from landfall_audit.checks.inspection import AuditScope, Findings, inspect
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import GeneratedLog, Message
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

TP = TopicPartition("clicks", 0)
DAY = 1_795_219_200_000
"""2026-11-21, the day of all records of ``SampleLedger``, in milliseconds."""


def message(offset: int) -> Message:
    return Message(offset, b'{"o":%d}' % offset, timestamp_ms=DAY + offset % 1000)


class Landed:
    """A group that lands to a folder, and its ledger."""

    def __init__(self, root: Path, **spec: Any) -> None:
        kafka = {"bootstrapServers": "localhost:1", "topics": ["clicks"]}
        output = {
            "url": f"file://{root}",
            "format": "Json",
            "codec": "None",
            **spec.pop("output", {}),
        }
        self.group = parse_group(
            {
                "apiVersion": "landfall.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": GROUP},
                "spec": {
                    "source": {"kafka": kafka},
                    "decode": {"format": "Json"},
                    "output": output,
                    **spec,
                },
            }
        )
        self.root = root
        self.sample = SampleLedger(FileStore(root)).open().add(TP)

    def with_decode(self, **decode: Any) -> ConsumerGroup:
        """The group with another way to decode payloads."""
        whole = self.group.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return parse_group({**whole, "spec": {**whole["spec"], "decode": decode}})

    def land(self, start: int, end: int, *, applied: bool = True, complete: bool = True) -> None:
        self.sample.commit(self.sample.land(TP, start, end), complete=complete)
        if applied:
            self.sample.applied().open()

    def audit(self, log: GeneratedLog, **scope: Any) -> Findings:
        return inspect(
            for_auditor(self.group),
            open_bucket(for_auditor(self.group.spec.output)),
            log,
            AuditScope(**scope),
        )

    def found(self, log: GeneratedLog, **scope: Any) -> dict[str, Any]:
        """What an audit finds in the topic partition, without zeros."""
        result = self.audit(log, **scope).results.get(("clicks", 0), PartitionResult())
        return {name: value for name, value in asdict(result).items() if value}
