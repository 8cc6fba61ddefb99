"""From a chunk of records to rows per output partition: decode, transform, route, and let the format refuse.

Built once per group and worker, it holds no state between chunks, so what comes of a chunk depends
on the chunk alone. Rows that fall out on the way are described by their original bytes, whatever a
decoder or a transform made of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall import registry
from landfall.api.spec import GroupSpec
from landfall.pipeline.records import BadRows, Int64s, Records
from landfall.registry import Pipeline
from landfall.task.rows import Layout


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
        bad = _told("decode", decoded.bad)
        for transform in self.stages.transforms:
            decoded = transform.apply(decoded)
            bad = _told("transform", decoded.bad) | bad
        left = decoded.records
        if not len(left):
            return Sorted((), _ordered(bad), decoded.filtered)
        routed = self.stages.router.route(left, decoded.fields)
        refused = self.stages.format.refuse(left)
        codes = routed.codes
        if routed.bad or refused:
            rows = np.searchsorted(records.offsets, left.offsets)
            bad = _told("encode", refused, rows) | _told("route", routed.bad, rows) | bad
            codes = codes.copy()
            codes[refused.rows] = -1
        outputs = _split(self.layout.rows(left, decoded.columns), codes, routed.partitions)
        return Sorted(tuple(outputs), _ordered(bad), decoded.filtered)


def _told(stage: str, bad: BadRows, rows: Int64s | None = None) -> dict[int, BadRecord]:
    """Bad rows by their row in the chunk, which ``rows`` tells from theirs."""
    found = bad.rows if rows is None else rows[bad.rows]
    return {
        row: BadRecord(row, stage, error)
        for row, error in zip(found.tolist(), bad.errors, strict=True)
    }


def _ordered(bad: Mapping[int, BadRecord]) -> tuple[BadRecord, ...]:
    return tuple(bad[row] for row in sorted(bad))


def _split(
    rows: pa.RecordBatch, codes: Int64s, partitions: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    if len(partitions) == 1 and not codes.any():
        yield partitions[0], rows
        return
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    for partition, start, end in zip(partitions, bounds[:-1], bounds[1:], strict=True):
        if end > start:
            yield partition, rows.take(pa.array(order[start:end]))
