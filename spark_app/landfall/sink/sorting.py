"""From a chunk of records to rows per output partition: decode, transform, route, and let the format refuse.

Built once per group and worker, it holds no state between chunks, so what comes of a chunk depends on the chunk alone.
Rows that fall out on the way are described by their original bytes, whatever a decoder or a transform made of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from landfall import registry
from landfall.records import NO_BAD_ROWS, BadRows, Int64s, Records
from landfall.registry import Pipeline
from landfall.sink.rows import Layout
from landfall.spec import GroupSpec


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that fell out: the row it has in its chunk, at which stage, and why."""

    row: int
    stage: str
    error: str


@dataclass(frozen=True)
class Sorted:
    """What came of a chunk; its rows, its bad records and the filtered ones are all of the chunk.

    Attributes:
        outputs: output partitions with their rows, of the pipeline's layout.
        bad: the records that fell out, in order.
        filtered: how many were left out on purpose.
    """

    outputs: tuple[tuple[str, pa.RecordBatch], ...]
    bad: tuple[BadRecord, ...]
    filtered: int


@dataclass(frozen=True)
class Sorter:
    """The stages between the reader and the encoders."""

    stages: Pipeline
    layout: Layout

    @classmethod
    def of(cls, spec: GroupSpec) -> "Sorter":
        """Build what the spec asks for.

        Raises:
            Stalled: SPEC_INVALID, naming the option or the plug-in that is wrong.
        """
        stages = registry.pipeline(spec)
        return cls(stages, Layout.of(stages.format.wanted))

    def sort(self, records: Records) -> Sorted:
        """Send every record to its output partition, or say what became of it."""
        decoded = self.stages.decoder.decode(records)
        fallen = [("decode", records, decoded.bad)]
        filtered = decoded.filtered
        for transform in self.stages.transforms:
            before = decoded.records
            decoded = transform.apply(replace(decoded, bad=NO_BAD_ROWS, filtered=0))
            fallen.append(("transform", before, decoded.bad))
            filtered += decoded.filtered
        routed = self.stages.router.route(decoded.records, decoded.fields)
        refused = self.stages.format.refuse(decoded.records)
        fallen += [("route", decoded.records, routed.bad), ("encode", decoded.records, refused)]
        codes = routed.codes
        if refused:
            codes = codes.copy()
            codes[refused.rows] = -1
        rows = self.layout.rows(decoded.records, decoded.columns) if len(decoded.records) else None
        outputs = tuple(_split(rows, codes, routed.partitions)) if rows is not None else ()
        return Sorted(outputs, tuple(_bad(records, fallen)), filtered)


def _split(rows: pa.RecordBatch, codes: Int64s, partitions: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    if len(partitions) == 1 and not codes.any():
        yield partitions[0], rows
        return
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    for partition, start, end in zip(partitions, bounds[:-1], bounds[1:], strict=True):
        if end > start:
            yield partition, rows.take(pa.array(order[start:end]))


def _bad(records: Records, fallen: Sequence[tuple[str, Records, BadRows]]) -> list[BadRecord]:
    """Every record once, by the first stage that refused it."""
    found: dict[int, BadRecord] = {}
    for stage, before, bad in fallen:
        if bad:
            rows = np.searchsorted(records.offsets, before.offsets[bad.rows]).tolist()
            for row, error in zip(rows, bad.errors, strict=True):
                found.setdefault(row, BadRecord(row, stage, error))
    return [found[row] for row in sorted(found)]
