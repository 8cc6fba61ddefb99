"""Shows the outcome of records at every stage of a ``Partitioner``, one after the other.

Nothing is written. ``landfall try`` shows it. ``Partitioner.partition`` decides what happens to a
record in production; a property test holds both together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from landfall.api.spec import GroupSpec
from landfall.formats.typed_rows import plain_rows
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import FieldValues, Records
from landfall.pipeline.transforms.payloads import JsonPayloads
from landfall.pipeline.transforms.steps import RoutedColumns
from landfall.task.faults import StageFault, stage
from landfall.task.partitioning import Partitioner, refused_rows

DECODE = "decode"


class Fate(StrEnum):
    """The outcome of a record."""

    LANDS = "Lands"
    LEFT_OUT = "LeftOut"
    DEAD_LETTER = "DeadLetter"


@dataclass(frozen=True)
class Seen:
    """A record after a stage.

    Attributes:
        stage: its name: ``decode``, or as ``transforms[0] Filter``.
        payload: what the payload is now; None for a tombstone.
        columns: its typed columns, if there are any.
        fields: values of the payload fields that later stages read; only of ``decode``.
    """

    stage: str
    payload: bytes | None
    columns: Mapping[str, object] | None
    fields: Mapping[str, object]


@dataclass
class Trial:
    """A record and its outcome.

    Attributes:
        row: its position in the records that were tried.
        seen: the record after each stage that it came through.
        fate: its outcome.
        stage: the stage that left it out or rejected it; empty if it lands.
        detail: the output partition it lands in, or why it is a dead letter.
    """

    row: int
    seen: list[Seen]
    fate: Fate = Fate.LANDS
    stage: str = ""
    detail: str = ""


def trials(partitioner: Partitioner, spec: GroupSpec, records: Records) -> list[Trial]:
    """Return the outcome of each of these records.

    Args:
        partitioner: of the records' topic.
        spec: what it was built from.
        records: consecutive records of one topic partition.
    """
    try:
        with stage(DECODE):
            return _tried(partitioner, spec, records)
    except StageFault as fault:
        culprits = partitioner.culprits(records)
        if not culprits:
            raise fault.error from None
    others = [row for row in range(len(records)) if row not in culprits]
    tried = [
        Trial(row=row, seen=[], fate=Fate.DEAD_LETTER, stage=bad.stage, detail=bad.error)
        for row, bad in culprits.items()
    ]
    for trial in trials(partitioner, spec, records.take(np.array(others, np.int64))):
        trial.row = others[trial.row]
        tried.append(trial)
    return sorted(tried, key=lambda trial: trial.row)


def _tried(partitioner: Partitioner, spec: GroupSpec, records: Records) -> list[Trial]:
    tried = [Trial(row, []) for row in range(len(records))]
    decoded = partitioner.stages.decoder.decode(records).with_schema()
    _after(DECODE, DECODE, decoded, tried)
    for name, step in zip(_names(partitioner, spec), partitioner.stages.transforms, strict=True):
        decoded = step.apply(decoded)
        _after(name, "transform", decoded, tried)
    _route(partitioner, decoded, tried)
    return tried


def _names(partitioner: Partitioner, spec: GroupSpec) -> Iterator[str]:
    """Yield the names of all steps: first the spec's, then the ones that follow them."""
    for i, step in enumerate(partitioner.stages.transforms):
        if i < len(spec.transforms):
            yield f"transforms[{i}] {spec.transforms[i].use}"
        else:
            assert isinstance(step, JsonPayloads | RoutedColumns), "nothing else follows"
            yield "payload" if isinstance(step, JsonPayloads) else ""


def _after(name: str, stage: str, decoded: Decoded, trials: Sequence[Trial]) -> None:
    """Note what a stage has made of the records; without a name it changes nothing to see."""
    bad = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    rows = _rows(decoded, len(trials))
    left = {row: i for i, row in enumerate(rows)}
    for trial in trials:
        if trial.fate is not Fate.LANDS:
            continue
        if trial.row in bad:
            trial.fate, trial.stage, trial.detail = Fate.DEAD_LETTER, stage, bad[trial.row]
        elif trial.row not in left:
            trial.fate = Fate.LEFT_OUT
            trial.stage = name
        elif name:
            trial.seen.append(_seen(name, decoded, left[trial.row]))


def _rows(decoded: Decoded, count: int) -> list[int]:
    positions = np.arange(count) if decoded.positions is None else decoded.positions
    found: list[int] = positions.tolist()
    return found


def _seen(name: str, decoded: Decoded, row: int) -> Seen:
    return Seen(
        name,
        decoded.records.values[row].as_py(),
        _columns(decoded, row),
        {
            ".".join(filter(None, path)): _value(values, row)
            for path, values in decoded.fields.items()
        }
        if name == DECODE
        else {},
    )


def _columns(decoded: Decoded, row: int) -> Mapping[str, object] | None:
    """Return the typed columns of a row, including its own schema's."""
    batch, at = decoded.columns, row
    for part in decoded.by_schema or ():
        place = int(np.searchsorted(part.rows, row))
        if place < len(part.rows) and part.rows[place] == row:
            batch, at = part.columns, place
    if batch is None:
        return None
    return plain_rows(batch.slice(at, 1))[0]


def _value(values: FieldValues, row: int) -> object:
    value = values[row]
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value.item() if isinstance(value, np.generic) else value


def _route(partitioner: Partitioner, decoded: Decoded, trials: Sequence[Trial]) -> None:
    """Note where the records land, and why those do not that cannot be routed or written."""
    if not len(decoded.records):
        return
    rows = _rows(decoded, len(trials))
    routed = partitioner.stages.router.route(decoded.records, decoded.fields)
    for row, code in zip(rows, routed.codes.tolist(), strict=True):
        trials[row].detail = routed.partitions[code] if code >= 0 else ""
    refused = refused_rows(partitioner.stages.format, decoded)
    for name, bad in (("encode", refused), ("route", routed.bad)):
        for position, error in zip(bad.rows.tolist(), bad.errors, strict=True):
            trial = trials[rows[position]]
            trial.fate = Fate.DEAD_LETTER
            trial.stage = name
            trial.detail = error
