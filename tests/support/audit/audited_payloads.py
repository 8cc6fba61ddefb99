"""Payloads that are landed by the writer, and audited: what the auditor's own decoders find."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.decoders import UsedSchema
from landfall.pipeline.records import Records
from landfall.schemas import RegisteredSchema, encode_schema
from landfall.schemas.stored import StoredSchemas, registry_name
from landfall.store.file import FileStore
from landfall.task import Batch
from landfall.task.landing import land
from landfall_audit import FaultKind
from landfall_audit.checks.inspection import Findings
from tests.support.audit.audited_group import TP, Landed
from tests.support.audit.auditor_fakes import GeneratedLog, Message, of_messages
from tests.support.ledger.sample_ledger import GROUP, LANE


class AuditedPayloads:
    """A group that has landed some records, whose files a test may change.

    Attributes:
        slice: what was landed.
    """

    def __init__(self, root: Path, messages: Sequence[Message], **spec: Any) -> None:
        """Land records at the offsets from 0."""
        self._messages = messages
        self.landed = Landed(root, **spec)
        whole = Slice(TP, OffsetRange(0, len(messages)))
        store = FileStore(root)
        (made,) = land(Batch(self.landed.group, "token-2"), [whole], self, store)
        assert isinstance(made, LandedSlice), made
        self.slice = made
        self.landed.sample.commit(made).applied().open()

    def read(self, slice_: Slice) -> Iterator[Records]:
        """As the source of the writer."""
        yield of_messages(slice_.topic_partition, self._messages)

    def in_kafka(self, messages: Sequence[Message]) -> None:
        """Let Kafka hold other records than those that were landed."""
        self._messages = messages

    @property
    def files(self) -> Sequence[Path]:
        """The data objects."""
        return sorted(
            self.landed.root / o.upload.key
            for o in self.slice.objects
            if not o.upload.key.startswith("_landfall/")
        )

    def audit(self) -> Findings:
        """What an audit finds."""
        log = GeneratedLog(len(self._messages), self._messages.__getitem__)
        return self.landed.audit(log)

    def wrong_values(self) -> list[str]:
        """What the audit says about single records."""
        findings = self.audit()
        assert all(fault.kind is FaultKind.VALUE for fault in findings.faults), findings.faults
        return [f"{fault.what}: {fault.message}" for fault in findings.faults]


def payloads(*values: bytes | None, **more: Any) -> list[Message]:
    """Records with these payloads, dated today."""
    return [
        Message(offset, value, timestamp_ms=1_795_219_200_000 + offset, **more)
        for offset, value in enumerate(values)
    ]


def declared(format_: str, *columns: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A spec that lands declared columns as Parquet."""
    decode = {"format": format_, "columns": [*columns], **more}
    return {"decode": decode, "output": {"format": "Parquet", "codec": None}}


def stored_schema(
    made: AuditedPayloads, registry: str, schema_id: int, schema: object, kind: str = "AVRO"
) -> None:
    """Store a schema and its id as drivers do."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    store = StoredSchemas(FileStore(made.landed.root), GROUP, LANE)
    body = encode_schema(RegisteredSchema(kind, text))
    store.keep(UsedSchema(body, registry_name(registry), str(schema_id)))
