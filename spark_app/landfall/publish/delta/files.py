"""Landed Parquet files as files of a Delta table, by their footers.

Its statistics come from the footer: rows, and for columns of numbers, dates, times and short text
the minimum, the maximum and the number of nulls, by which readers skip files. Columns with NaN have
no bounds, because engines differ in where NaN is. Its partition values come from the folders it is
in, as Hive writes them.

Source: https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Add File", "Per-file Statistics"
"""

import json
import math
import posixpath
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.schema import DataType, PrimitiveType

from landfall.errors import Reason, Stalled
from landfall.formats.parquet.float_bounds import from_metadata
from landfall.ledger.names.object_names import parse_key
from landfall.memory_limit import bounded
from landfall.pipeline.route import DEFAULT_PARTITION

READERS = 16
"""How many footers are read concurrently."""
MAX_TEXT = 64
"""Longer text has no statistics: shortened, it would be no bound."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_INTEGERS = {"integer": range(-(2**31), 2**31), "long": range(-(2**63), 2**63)}
_FLOATS = ("FLOAT", "DOUBLE")
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
"""A later time has no millisecond after it."""


@dataclass(frozen=True)
class DeltaFile:
    """A landed file.

    Attributes:
        key: of the object.
        url: its absolute URI; delta-rs escapes what a log must not hold.
        columns: all columns of the file.
        size: in bytes.
        statistics: of the file, as JSON.
    """

    key: str
    url: str
    columns: pa.Schema
    size: int
    statistics: str


class OpensFiles(Protocol):
    """The part of a ``pyarrow.fs.FileSystem`` that is needed."""

    def open_input_file(self, path: str) -> Any:
        """A file that can be read at any place."""
        ...


@dataclass(frozen=True)
class LandedFiles:
    """Reads landed files.

    Attributes:
        system: has them.
        root: the output root in it; may be empty.
        url: of an object, by its key.
    """

    system: OpensFiles
    root: str
    url: Callable[[str], str]

    def read(self, keys: Sequence[str]) -> list[DeltaFile]:
        """The files, by their footers.

        Raises:
            Stalled: OBJECT_LOST, one is missing or is no Parquet file.
            OSError: the store does not answer.
        """
        with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
            return [*pool.map(self._file, keys)]

    def _file(self, key: str) -> DeltaFile:
        url = self.url(key)
        try:
            with self.system.open_input_file(posixpath.join(self.root, key)) as opened, bounded():
                footer, size = pq.read_metadata(opened), opened.size()
        except FileNotFoundError:
            raise Stalled(Reason.OBJECT_LOST, f"object {url} is not there") from None
        except pa.ArrowInvalid as error:
            raise Stalled(Reason.OBJECT_LOST, f"object {url} is no Parquet file: {error}") from None
        columns = footer.schema.to_arrow_schema().remove_metadata()
        return DeltaFile(key=key, url=url, columns=columns, size=size, statistics=stats(footer))


def partition_folders(key: str) -> list[tuple[str, str | None]]:
    """The folders of an object with a name and a value, such as ``dt`` and ``2026-11-21``."""
    found = []
    for folder in parse_key(key).output_partition.split("/"):
        name, equals, value = folder.partition("=")
        if equals:
            found.append((name, None if value == DEFAULT_PARTITION else unquote(value)))
    return found


def partition_value(text: str | None, kind: DataType) -> str | None:
    """The value of a folder as a log has it in a partition column of a type.

    Source: PROTOCOL.md, "Partition Value Serialization"

    Raises:
        ValueError: it is no value of that type.
    """
    name = kind.type if isinstance(kind, PrimitiveType) else ""
    if text is None or name not in {"date", *_INTEGERS}:
        return text
    if name == "date":
        with suppress(ValueError):  # the calendar does not have it
            if _DAY.fullmatch(text):
                return date.fromisoformat(text).isoformat()
    elif _INTEGER.fullmatch(text) and int(text) in _INTEGERS[name]:
        return str(int(text))
    raise ValueError(f"folder value {text!r} is no {name}, as the table's partition column is")


def stats(footer: pq.FileMetaData) -> str:
    """The statistics of a file in the form of a Delta log."""
    floats = from_metadata(footer.metadata)
    ranges = {name: of.range for name, of in floats.items()}
    nulls = {name: of.nulls for name, of in floats.items()}
    finite = {n: r for n, r in ranges.items() if r and math.isfinite(r[0]) and math.isfinite(r[1])}
    least: dict[str, Any] = {name: lower for name, (lower, _) in finite.items()}
    greatest: dict[str, Any] = {name: upper for name, (_, upper) in finite.items()}
    for column in range(footer.num_columns):
        path = footer.schema.column(column)
        if path.max_repetition_level or "." in path.path or path.path != path.name:
            continue  # lists and members of structures
        if path.physical_type in _FLOATS:
            continue  # Parquet's bounds do not count NaN
        chunks = [footer.row_group(index).column(column) for index in range(footer.num_row_groups)]
        known = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
        if len(known) < len(chunks) or not all(chunk.has_null_count for chunk in known):
            continue
        nulls[path.name] = sum(chunk.null_count for chunk in known)
        bounds = [chunk for chunk in known if chunk.num_values]
        if not bounds or not all(chunk.has_min_max for chunk in bounds):
            continue
        lower = _bound(min(chunk.min for chunk in bounds), upwards=False)
        upper = _bound(max(chunk.max for chunk in bounds), upwards=True)
        if lower is not None and upper is not None:
            least[path.name], greatest[path.name] = lower, upper
    found = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest}
    return json.dumps({**found, "nullCount": nulls})


def _bound(value: Any, *, upwards: bool) -> Any:
    """A bound as JSON; None if there is none that holds in the form of the log."""
    match value:
        case bool():
            return None
        case datetime():
            return _time(value, upwards=upwards)
        case date():
            return value.isoformat()
        case str() if len(value) > MAX_TEXT:
            return None
    return value if isinstance(value, int | str) else None


def _time(value: datetime, *, upwards: bool) -> str | None:
    """A time in milliseconds, rounded so that it stays a bound; None without a time zone."""
    if value.tzinfo is None:
        return None
    at = value.astimezone(UTC)
    if upwards and at.microsecond % 1000:
        if at > _LAST:
            return None
        at += timedelta(milliseconds=1)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z" if at.year >= 1000 else None
