"""A group in a folder whose objects are merged, and what an audit finds there."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from landfall import registry
from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall_audit import Fault, FaultKind
from landfall_audit.checks.inspection import Findings
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.auditor_fakes import GeneratedLog, of_messages
from tests.support.ledger.sample_replacing import Merge, Row

OTHER = TopicPartition("clicks", 1)
END = 12
"""The offset after the last one of both topic partitions."""
STEP = 4
"""How many records each object has."""
EXTENSIONS = {"Json": ".json", "SequenceFile": ".seq", "Parquet": ".parquet"}
OFFSETS = frozenset({"SequenceFile", "Parquet"})
"""The formats whose rows have offsets."""


class Hour(Landed):
    """Two topic partitions of a topic with one output partition; all is landed and visible."""

    def __init__(self, root: Path, format_: str = "Json", **spec: Any) -> None:
        output = {"format": format_, **({"codec": "None"} if format_ == "Json" else {})}
        super().__init__(root, output={"codec": None, **output}, **spec)
        self.has_offsets = format_ in OFFSETS
        self.sample.extension = EXTENSIONS[format_]
        self.sample.body = self.encoded
        self.sample.add(OTHER)
        self.objects: list[tuple[int, LandedObject]] = []
        for start in range(0, END, STEP):
            slices = [self.sample.land(tp, start, start + STEP) for tp in (TP, OTHER)]
            self.sample.commit(*slices)
            self.objects += [(self.sample.state.seq, o) for s in slices for o in s.objects]
        self.sample.shown()

    def encoded(self, offsets: Sequence[int]) -> bytes:
        """An object with the rows of these offsets."""
        encoder = registry.output_format(self.group.spec.output).encoder()
        body = b"".join(
            encoder.encode(Block(of_messages(TP, [message(offset)]))) for offset in offsets
        )
        return body + encoder.finish()

    def path(self, key: str) -> Path:
        """Where an object is."""
        return self.root / key

    def merge(self, rows: Sequence[Row] | None = None) -> Merge:
        """A merge of all objects; nothing is recorded."""
        return Merge.of(self.sample, self.objects, rows)

    def retire(self, merge: Merge) -> None:
        """Do what is left of a REPLACE that is recorded, and record that it is applied."""
        merge.complete().keep_copies()
        for each in merge.listed.retire:
            self.path(each.landed.upload.key).unlink()
        self.sample.shown()

    def merged(self, rows: Sequence[Row] | None = None) -> Merge:
        """A merge of all objects that is applied."""
        merge = self.merge(rows).record()
        self.retire(merge)
        return merge

    def findings(self) -> Findings:
        """What an audit finds."""
        return self.audit(GeneratedLog(END, message))

    def faults(self) -> list[Fault]:
        """The faults that an audit finds."""
        return self.findings().faults

    def kinds(self) -> list[FaultKind]:
        """What is wrong with objects and lists, each kind once."""
        return sorted({fault.kind for fault in self.faults()})

    def counts(self) -> dict[int, dict[str, Any]]:
        """Counts by Kafka partition, without zeros."""
        return {
            partition: {name: value for name, value in asdict(result).items() if value}
            for (_, partition), result in self.findings().results.items()
        }


def all_rows(*, left_out: Sequence[Row] = ()) -> list[Row]:
    """All rows that are landed but some, in another order than they were landed."""
    rows = [(partition, offset) for offset in reversed(range(END)) for partition in (1, 0)]
    return [row for row in rows if row not in left_out]


WHOLE = {partition: {"expected": END, "found": END} for partition in (0, 1)}
"""What an audit counts if all is well."""
