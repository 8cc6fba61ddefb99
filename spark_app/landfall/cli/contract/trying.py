"""Writes landed rows under a new schema and lands them in memory, by the stages that land them.

What each becomes is compared with the row that landed. Nothing is written anywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.cli.contract.findings import RowOutcome, TriedRow, TriedRows
from landfall.cli.contract.landed_rows import LandedRow, payload_value
from landfall.cli.contract.new_schema import NewSchema, under
from landfall.formats.typed_rows import plain_rows
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.pipeline.decoders.avro.writing import CannotHoldError, encode_value
from landfall.pipeline.records import Records, of_columns
from landfall.reading import rows as landed
from landfall.reading.in_memory import land_in_memory
from landfall.task import Batch
from landfall.task.partitioning import Partitioner, Partitioners
from landfall.task.trial import Fate, Trial, trials

_TOKEN = "contract"  # noqa: S105  # of a batch that nothing stores
_MOST = 60
"""Characters of a value that are quoted."""


def tried_rows(
    group: ConsumerGroup, spec: GroupSpec, path: str, new: NewSchema, rows: Sequence[LandedRow]
) -> TriedRows:
    """Return the outcome of each row, in the order of topic partitions and offsets.

    Args:
        group: the group.
        spec: of the topic.
        path: of the fields that it is made of.
        new: the schema.
        rows: of one topic.

    Raises:
        Stalled: SPEC_INVALID, the stages cannot be built with the new schema.
    """
    changed = under(spec, new.text)
    # By their offsets, rows are found again.
    options = {**changed.output.options, "envelope": True}
    changed = changed.model_copy(
        update={"output": changed.output.model_copy(update={"options": options})}
    )
    stages = _Stages(
        group.model_copy(update={"spec": changed}), Partitioner.of(changed, path), changed
    )
    steps_change_rows = any(step.use != "Filter" for step in spec.transforms)
    found = list[TriedRow]()
    ordered = sorted(enumerate(rows), key=lambda pair: (pair[1].topic_partition, _at(*pair)))
    for _, of_partition in groupby(ordered, lambda pair: pair[1].topic_partition):
        # Where a merged object has a row once more, its offset comes again.
        by_offset = {_at(*pair): pair[1] for pair in of_partition}
        found += _of_partition(
            stages, new, by_offset, original=spec, compares_values=not steps_change_rows
        )
    return TriedRows(found, compares_values=not steps_change_rows)


def _at(number: int, row: LandedRow) -> int:
    return number if row.offset is None else row.offset


@dataclass(frozen=True)
class _Stages:
    """The stages of a topic with the new schema."""

    group: ConsumerGroup
    partitioner: Partitioner
    spec: GroupSpec

    def landed(self, records: Records) -> Mapping[int, Mapping[str, Any]]:
        """Return rows as they land, by their offsets."""
        first, last = int(records.offsets[0]), int(records.offsets[-1])
        slice_ = Slice(records.topic_partition, OffsetRange(first, last + 1))
        batch = Batch(self.group, _TOKEN)
        _, bodies = land_in_memory(Partitioners(self.spec), batch, slice_, [records], 0)
        batches = (
            batch for body in bodies for batch in landed.batches(body, self.spec.output, None)
        )
        return {row["_offset"]: row for batch in batches for row in plain_rows(batch)}


def _of_partition(
    stages: _Stages,
    new: NewSchema,
    rows: Mapping[int, LandedRow],
    *,
    original: GroupSpec,
    compares_values: bool,
) -> Iterator[TriedRow]:
    payloads, found = dict[int, bytes](), dict[int, TriedRow]()
    for offset, row in rows.items():
        try:
            payloads[offset] = encode_value(new.schema, payload_value(original, new.schema, row))
        except CannotHoldError as error:
            found[offset] = TriedRow(row.place, RowOutcome.NOT_HELD, str(error))
    if payloads:
        records = _records(rows, payloads)
        outcomes = trials(stages.partitioner, stages.spec, records)
        lands = [trial.row for trial in outcomes if trial.fate is Fate.LANDS]
        again = stages.landed(records.take(np.array(lands, np.int64))) if lands else {}
        for trial, offset in zip(outcomes, payloads, strict=True):
            after = again.get(offset)
            found[offset] = _outcome(rows[offset], trial, after if compares_values else None)
    yield from (found[offset] for offset in rows)


def _records(rows: Mapping[int, LandedRow], payloads: Mapping[int, bytes]) -> Records:
    tp = next(iter(rows.values())).topic_partition
    offsets = np.array(list(payloads), np.int64)
    times = np.array([rows[offset].timestamp_ms for offset in payloads], np.int64)
    return of_columns(tp, offsets, pa.array(payloads.values(), pa.binary()), timestamps=times)


def _outcome(row: LandedRow, trial: Trial, after: Mapping[str, Any] | None) -> TriedRow:
    match trial.fate:
        case Fate.DEAD_LETTER:
            text = f"{trial.stage}: {trial.detail}"
            return TriedRow(row.place, RowOutcome.DEAD_LETTER, text)
        case Fate.LEFT_OUT:
            return TriedRow(row.place, RowOutcome.LEFT_OUT, f"by {trial.stage}")
    changes = [] if after is None else list(_changes(row.values, after))
    if changes:
        return TriedRow(row.place, RowOutcome.CHANGED, "; ".join(changes))
    return TriedRow(row.place, RowOutcome.SAME)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a landed row that have another value now; new columns do not count."""
    for name, value in before.items():
        now = after.get(name)
        if not _is_same(value, now):
            gone = "" if name in after else " (the column is gone)"
            yield f"{name}: {_quoted(value)} becomes {_quoted(now)}{gone}"


def _quoted(value: Any) -> str:
    return "null" if value is None else f"{value!r:.{_MOST}}"


def _is_same(before: Any, after: Any) -> bool:
    match before, after:
        case dict(), dict():
            return all(_is_same(value, after.get(name)) for name, value in before.items())
        case list(), list():
            pairs = zip(before, after, strict=False)
            return len(before) == len(after) and all(_is_same(*pair) for pair in pairs)
    # NaN equals nothing.
    return bool(before == after) or repr(before) == repr(after)
