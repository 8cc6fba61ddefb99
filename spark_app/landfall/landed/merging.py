"""Rows of several objects in the order of their offsets, in chunks that depend on them alone. Pure.

Chunks are cut as Kafka's reader cuts them, so that the same records give the same objects,
wherever they are read from.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from landfall.landed.rows import ROWS
from landfall.ledger.task_results import CURRENT_RULES, LandingRules
from landfall.pipeline.records import Int64s, record_bytes
from landfall.source.messages import chunk_rows

Batches = Iterator[pa.RecordBatch]


def merged(sources: Sequence[tuple[int, Callable[[], Batches]]]) -> Iterator[pa.Table]:
    """The rows of all sources in the order of their offsets.

    An object is opened when its first offset is due, so those that follow each other are not open
    together. Of each open one a batch is in memory.

    Args:
        sources: first offset, and what opens the rows, in the order of the first offsets; the
            offsets of one increase.

    Raises:
        ValueError: an offset is there twice.
    """
    waiting, heads = list(sources), list[tuple[pa.RecordBatch, Batches]]()
    last = -1
    while waiting or heads:
        ends = [_offset(batch, -1) for batch, _ in heads]
        cut = min(ends) if heads else waiting[0][0]
        while waiting and waiting[0][0] <= cut:
            rows = waiting.pop(0)[1]()
            if (batch := _next(rows)) is not None:
                heads.append((batch, rows))
                cut = min(cut, _offset(batch, -1)) if len(heads) > 1 else _offset(batch, -1)
        taken, heads = _taken(heads, cut)
        if taken.num_rows:
            offsets = taken["offset"].to_numpy()
            if offsets[0] <= last or (np.diff(offsets) <= 0).any():
                raise ValueError(f"an offset from {offsets[0]} to {offsets[-1]} is there twice")
            last = int(offsets[-1])
            yield taken


def _taken(
    heads: Sequence[tuple[pa.RecordBatch, Batches]], cut: int
) -> tuple[pa.Table, list[tuple[pa.RecordBatch, Batches]]]:
    """The rows of all heads up to an offset, in order, and the heads without them."""
    taken, left = list[pa.RecordBatch](), list[tuple[pa.RecordBatch, Batches]]()
    for batch, rows in heads:
        count = int(np.searchsorted(batch["offset"].to_numpy(), cut, side="right"))
        taken.append(batch[:count])
        rest: pa.RecordBatch | None = batch[count:]
        if count == batch.num_rows:
            rest = _next(rows)
        if rest is not None:
            left.append((rest, rows))
    table = pa.Table.from_batches(taken, ROWS)
    return (table.sort_by("offset") if len(taken) > 1 else table), left


def _next(rows: Batches) -> pa.RecordBatch | None:
    """The next batch that has rows."""
    return next((batch for batch in rows if batch.num_rows), None)


def _offset(batch: pa.RecordBatch, row: int) -> int:
    found: int = batch["offset"][row].as_py()
    return found


def chunks(
    tables: Iterable[pa.Table],
    max_rows: int,
    target_bytes: int,
    rules: LandingRules = CURRENT_RULES,
) -> Iterator[pa.Table]:
    """The same rows in chunks.

    A chunk ends after ``max_rows`` rows, or with the row that makes it reach ``target_bytes``; keys
    and headers count, but by the first rules. What came before an error is given before it is
    raised.
    """
    pending = ROWS.empty_table()
    try:
        for table in tables:
            pending = pa.concat_tables([pending, table])
            while rows := chunk_rows(_sizes(pending, rules), max_rows, target_bytes):
                yield pending[:rows]
                pending = pending[rows:]
    except Exception:
        if pending.num_rows:
            yield pending
        raise
    if pending.num_rows:
        yield pending


def _sizes(table: pa.Table, rules: LandingRules) -> Int64s:
    if rules is LandingRules.PAYLOADS:
        return record_bytes(table["value"])
    return record_bytes(table["value"], table["key"], table["headers"].combine_chunks())
