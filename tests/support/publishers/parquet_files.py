"""Landed Parquet files that are changed behind the ledger's back."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.formats.parquet import ParquetEncoder, ParquetFormat
from tests.support.publishers.lake import Landed


def rewritten(landed: Landed, key: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put another file in the place of an object."""
    path = Path(landed.url(key).removeprefix("file://"))
    body = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(path.read_bytes()))), body)
    path.write_bytes(body.getvalue())


def landed_again(
    path: Path, change: Callable[[pa.Table], pa.Table], group_rows: int = 1_000
) -> None:
    """Replace an object by the file that landing would write of other rows."""
    table = change(pq.read_table(io.BytesIO(path.read_bytes())))
    encoder = ParquetEncoder(ParquetFormat.of({}))
    starts = range(0, len(table), group_rows)
    groups = [encoder.write(table.slice(start, group_rows), None) for start in starts]
    path.write_bytes(b"".join([*groups, encoder.finish()]))


def with_column(
    name: str, values: Sequence[Any], kind: pa.DataType | None = None
) -> Callable[[pa.Table], pa.Table]:
    """Add a column, or replace it."""

    def change(table: pa.Table) -> pa.Table:
        kept = table.drop_columns([name]) if name in table.column_names else table
        return kept.append_column(name, pa.array(values, kind))

    return change
