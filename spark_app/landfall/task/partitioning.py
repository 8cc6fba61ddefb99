"""Turns a chunk of records into rows per output partition: decodes, transforms and routes.

A ``Partitioner`` is built once per worker process and entry of ``spec.topics``. It keeps no state
between chunks, so the result depends on the chunk alone. Bad records refer to rows of the original
chunk, so that dead letters hold the original payload, not what a decoder or a transform made of it.

A record that makes a stage raise an unexpected exception is a bad record, too: see
``landfall.task.faults``.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from landfall import registry
from landfall.api.spec import GroupSpec, Rotate, TopicSpecs
from landfall.formats import Format
from landfall.pipeline.decoders import Decoded, UsedSchema
from landfall.pipeline.decoders.row_schemas import RowSchema, SchemaRows
from landfall.pipeline.records import BadRows, Int64s, Records
from landfall.registry import Pipeline
from landfall.schemas.stored import StoredSchemas
from landfall.task.faults import StageFault, find_culprits, stage
from landfall.task.rows import ChosenRows, RowLayout

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be landed.

    Attributes:
        row: its position in the chunk.
        stage: the stage that failed: ``read``, ``decode``, ``transform``, ``route`` or ``encode``.
        error: what is wrong with it.
        is_unexpected: whether the stage raised an exception that it must not raise: a bug.
        detail: the exception's own text, which may quote the payload: only the dead letter has it.
    """

    row: int
    stage: str
    error: str
    is_unexpected: bool = False
    detail: str = ""


@dataclass(frozen=True)
class PartitionedChunk:
    """A chunk divided by output partition; rows, bad and filtered records add up to the chunk.

    Attributes:
        chosen: output partitions with their rows, in the partitioner's layout.
        bad: records that cannot be landed, in the order of their offsets.
        filtered: how many records transforms left out on purpose.
        schemas: the schema of each of ``chosen``, if rows have schemas of their own. An output
            partition is then there once for each, the one with its first row first.
        used: the schemas from elsewhere that the chunk was decoded with.
        times_ms: of each row in ``chosen``, in the order of offsets, the event time or the Kafka
            timestamp if that is earlier; None if the route reads no event time.
    """

    chosen: tuple[tuple[str, ChosenRows], ...]
    bad: tuple[BadRecord, ...]
    filtered: int
    schemas: tuple[RowSchema | None, ...] = ()
    used: tuple[UsedSchema, ...] = ()
    times_ms: Int64s | None = None

    @property
    def outputs(self) -> tuple[tuple[str, pa.RecordBatch], ...]:
        """``chosen`` with the rows of each as a batch."""
        return tuple((partition, rows.taken()) for partition, rows in self.chosen)

    @property
    def columns(self) -> int:
        """The columns of the widest rows, with those inside of columns; 0 if there are no rows."""
        schemas = {id(rows.batch): rows.batch.schema for _, rows in self.chosen}
        return max(map(count_columns, schemas.values()), default=0)

    def objects(self) -> Iterator[tuple[str, ChosenRows, RowSchema | None]]:
        """The contents of separate objects: output partition, rows, schema."""
        schemas = self.schemas or (None,) * len(self.chosen)
        for (partition, rows), schema in zip(self.chosen, schemas, strict=True):
            yield partition, rows, schema


@dataclass(frozen=True)
class Partitioner:
    """The stages between the reader and the encoders.

    Attributes:
        stages: decoder, transforms, router and format.
        layout: the columns that the format writes.
        rotate: when an object ends.
        stored: where used schemas are stored; None where nothing is landed.
    """

    stages: Pipeline
    layout: RowLayout
    rotate: Rotate = field(default_factory=Rotate)
    stored: StoredSchemas | None = None

    @property
    def columns(self) -> int | None:
        """The declared columns, with those inside of columns; None if payloads have their own."""
        wanted = self.stages.wanted
        if wanted.own_columns:
            return None
        return 0 if wanted.schema is None else count_columns(wanted.schema)

    @classmethod
    def of(
        cls, spec: GroupSpec, path: str = "spec", stored: StoredSchemas | None = None
    ) -> "Partitioner":
        """Build the stages that the spec names; errors begin with the path of its fields.

        Raises:
            Stalled: SPEC_INVALID; the message names the option or the plug-in that is wrong.
        """
        stages = registry.pipeline(spec, path, stored)
        return cls(stages, RowLayout.of(stages.format.wanted), spec.output.rotate, stored)

    def partition(self, records: Records) -> PartitionedChunk:
        """Assign every record to its output partition, or account for it as bad or filtered."""
        if records.unreadable:
            bad = {row: BadRecord(row, "read", why) for row, why in records.unreadable.items()}
            return self.without(records, bad)
        try:
            return self._partition(records)
        except StageFault as fault:
            culprits = self.culprits(records)
            if not culprits:
                raise fault.error from None
            return self.without(records, culprits)

    def culprits(self, records: Records) -> dict[int, BadRecord]:
        """Return the records that make a stage raise an unexpected exception, by their rows."""
        found = find_culprits(
            len(records),
            lambda rows: self._partition(records.take(np.arange(rows.start, rows.stop))),
        )
        return _unexpected(records, found)

    def encoding_culprits(self, records: Records, chunk: PartitionedChunk) -> dict[int, BadRecord]:
        """Return the records of a chunk that its format cannot encode and did not refuse."""
        found: dict[int, StageFault] = {}
        for _, rows, schema in chunk.objects():
            numbered, layout = rows.numbered(), replace(self.layout, schema=schema)

            def encode(
                part: range, rows: ChosenRows = numbered, layout: RowLayout = layout
            ) -> None:
                encoder = self.stages.format.encoder()
                block = layout.chosen_block(
                    records.topic_partition, [rows.part(part.start, part.stop)]
                )
                with stage("encode"):
                    encoder.encode(block)
                    encoder.finish()

            in_chunk = np.searchsorted(records.offsets, rows.offsets)
            for row, fault in find_culprits(len(rows), encode).items():
                found[int(in_chunk[row])] = fault
        return _unexpected(records, found)

    def _partition(self, records: Records) -> PartitionedChunk:
        with stage("decode"):
            decoded = self.stages.decoder.decode(records).with_schema()
        return replace(self._after_decoding(records, decoded), used=decoded.used)

    def without(self, records: Records, bad: Mapping[int, BadRecord]) -> PartitionedChunk:
        """Return the chunk of the other records, and these as bad ones."""
        rows = np.setdiff1d(np.arange(len(records)), np.array(sorted(bad), np.int64))
        if not len(rows):
            return PartitionedChunk((), _ordered(bad), 0)
        chunk = self.partition(records.take(rows))
        later = {int(rows[b.row]): replace(b, row=int(rows[b.row])) for b in chunk.bad}
        return replace(chunk, bad=_ordered({**later, **bad}))

    def _after_decoding(self, records: Records, decoded: Decoded) -> PartitionedChunk:
        # ``|`` keeps the right side: a record stays with the first stage that rejected it, because
        # ``Decoded.bad`` accumulates and contains the rows of the stages before, too.
        bad = _bad_records("decode", decoded.bad)
        for transform in self.stages.transforms:
            with stage("transform"):
                decoded = transform.apply(decoded)
            bad = _bad_records("transform", decoded.bad) | bad
        remaining = decoded.records
        if not len(remaining):
            return PartitionedChunk((), _ordered(bad), decoded.filtered)
        with stage("route"):
            routed = self.stages.router.route(remaining, decoded.fields)
        with stage("encode"):
            refused = refused_rows(self.stages.format, decoded)
        codes = routed.codes
        if routed.bad or refused:
            # These rows are positions in ``remaining``; offsets, which are unique and increasing,
            # lead back to positions in the chunk.
            rows = np.searchsorted(records.offsets, remaining.offsets)
            by_format = _bad_records("encode", refused, rows)
            bad = by_format | _bad_records("route", routed.bad, rows) | bad
            codes = codes.copy()
            codes[refused.rows] = -1
        schemas: tuple[RowSchema, ...] = ()
        with stage("encode"):
            if decoded.by_schema is not None:
                chosen, schemas = self._by_schema(
                    remaining, decoded.by_schema, codes, routed.partitions
                )
            else:
                rows_out = self.layout.rows(remaining, decoded.columns)
                chosen = tuple(_split(rows_out, codes, routed.partitions))
        times = _times(routed.times_ms, remaining, codes)
        return PartitionedChunk(chosen, _ordered(bad), decoded.filtered, schemas, times_ms=times)

    def _by_schema(
        self,
        records: Records,
        parts: Sequence[SchemaRows],
        codes: Int64s,
        partitions: Sequence[str],
    ) -> tuple[tuple[tuple[str, ChosenRows], ...], tuple[RowSchema, ...]]:
        """Return the rows of each output partition and schema, and the schemas."""
        found: list[tuple[int, str, ChosenRows, RowSchema]] = []
        for part in parts:
            # Nearly always all rows have one schema, and need no copy.
            is_all = len(part.rows) == len(records)
            rows = self.layout.rows(records if is_all else records.take(part.rows), part.columns)
            for partition, of_partition in _split(rows, codes[part.rows], partitions):
                first = int(of_partition.offsets[0])
                found.append((first, partition, of_partition, part.schema))
        # The object with the first row of an output partition must be begun first.
        found.sort(key=lambda each: each[0])
        return (
            tuple((partition, rows) for _, partition, rows, _ in found),
            tuple(schema for *_, schema in found),
        )


class Partitioners:
    """The partitioner of each topic of a group, built when a slice of the topic is landed first."""

    def __init__(self, spec: GroupSpec, stored: StoredSchemas | None = None) -> None:
        """Build nothing yet; ``stored`` as of a partitioner."""
        self._specs = TopicSpecs.of(spec)
        self._stored = stored
        self._built: dict[int | None, Partitioner] = {}

    def entry_of(self, topic: str) -> int | None:
        """Return the entry of ``spec.topics`` that applies to a topic; None for the group's own."""
        return self._specs.entry_of(topic)

    def for_topic(self, topic: str) -> Partitioner:
        """Return the partitioner of a topic; topics under the same entry share one.

        Raises:
            Stalled: SPEC_INVALID, as ``Partitioner.of``.
        """
        entry = self.entry_of(topic)
        if entry not in self._built:
            path = "spec" if entry is None else f"spec.topics[{entry}]"
            self._built[entry] = Partitioner.of(self._specs.for_topic(topic), path, self._stored)
        return self._built[entry]


@lru_cache(1024)
def count_columns(schema: pa.Schema) -> int:
    """Return how many values a row has: a column with inner columns has theirs and its own."""
    return sum(_count(field.type) for field in schema)


def _count(type_: pa.DataType) -> int:
    return 1 + sum(_count(type_.field(i).type) for i in range(type_.num_fields))


def _unexpected(records: Records, faults: Mapping[int, StageFault]) -> dict[int, BadRecord]:
    """Return the bad records that cause these faults, by row; logs the first of them."""
    for row in sorted(faults)[:1]:
        log.error(
            "records made dead letters because of a bug",
            extra={
                "records": len(faults),
                "first": f"{records.topic_partition}@{records.offsets[row]}",
                "stage": faults[row].stage,
                "error": faults[row].summary,
            },
        )
    return {
        row: BadRecord(row, f.stage, f.summary, is_unexpected=True, detail=str(f.error))
        for row, f in faults.items()
    }


def refused_rows(format_: Format, decoded: Decoded) -> BadRows:
    """Return the rows that a format cannot represent, for what their columns hold as well."""
    refused = format_.refuse(decoded.records)
    of_columns = getattr(format_, "refuse_columns", None)
    if of_columns is None:
        return refused
    errors = dict(of_columns(decoded.columns)) if decoded.columns is not None else {}
    for part in decoded.by_schema or ():
        if part.columns is not None:
            rows = part.rows.tolist()
            errors |= {rows[row]: error for row, error in of_columns(part.columns).items()}
    if not errors:
        return refused
    errors |= dict(zip(refused.rows.tolist(), refused.errors, strict=True))
    return BadRows(np.array(sorted(errors), np.int64), [errors[row] for row in sorted(errors)])


def _bad_records(stage: str, bad: BadRows, rows: Int64s | None = None) -> dict[int, BadRecord]:
    """Return bad records by their row in the chunk; ``rows[i]`` is the chunk's row of row ``i``."""
    in_chunk = bad.rows if rows is None else rows[bad.rows]
    return {
        row: BadRecord(row, stage, error)
        for row, error in zip(in_chunk.tolist(), bad.errors, strict=True)
    }


def _times(times_ms: Int64s | None, records: Records, codes: Int64s) -> Int64s | None:
    """Return the times by which completeness is known, of the rows that have an output."""
    if times_ms is None:
        return None
    return np.minimum(times_ms, records.timestamps)[codes >= 0]


def _ordered(bad: Mapping[int, BadRecord]) -> tuple[BadRecord, ...]:
    return tuple(bad[row] for row in sorted(bad))


def _split(
    rows: pa.RecordBatch, codes: Int64s, partitions: Sequence[str]
) -> Iterator[tuple[str, ChosenRows]]:
    """Divide rows by output partition; rows whose code is -1 are left out."""
    if len(partitions) == 1 and not codes.any():
        yield partitions[0], ChosenRows(rows)
        return
    # A stable sort keeps the rows of each output partition in the order of their offsets.
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(partitions) + 1)).tolist()
    parts = ChosenRows(rows, order).divided(bounds)
    yield from ((name, part) for name, part in zip(partitions, parts, strict=True) if len(part))
