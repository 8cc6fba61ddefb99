"""Copies in microseconds of landed Parquet files that hold milliseconds.

Iceberg has timestamps and times in microseconds alone, and Spark believes it of every file: it
reads milliseconds as a thousandth, in January 1970, or, with its other reader, skips row groups by
such bounds, so that a filter loses rows (ADR 0038). Landfall wrote milliseconds once. A table gets
a copy of such a file, in the folder of its own data, and the landed object stays as it is.

A copy has a name of its own each time, because another process may have committed an earlier one
with its size. A copy that no commit names is an orphan of the table, and is never read.
"""

import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.formats.merging import NotMergeableError
from landfall.formats.parquet import ParquetFormat, as_stored_now


def is_outdated(columns: pa.Schema) -> bool:
    """Return whether a file with these columns needs a copy."""
    return not columns.remove_metadata().equals(as_stored_now(columns))


def own_folder(table: Any) -> str:
    """The folder of a table's data files that Landfall makes, by its pyiceberg ``Table``."""
    location = table.metadata.location.rstrip("/")
    folder = table.properties.get("write.data.path", f"{location}/data")
    return f"{folder.rstrip('/')}/landfall"


@dataclass(frozen=True)
class Copies:
    """Copies for one table, each made once.

    Attributes:
        landed: a pyiceberg ``FileIO`` that reads landed files.
        own: the ``FileIO`` of the table, which writes its files.
        folder: where the table's data files are.
    """

    landed: Any
    own: Any
    folder: str
    _made: dict[str, str] = field(default_factory=dict)
    # One at a time: each holds about a row group in memory.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, landed: Any, table: Any, made: dict[str, str]) -> "Copies":
        """Return copies for a pyiceberg table; ``made`` has and gets copies by landed files."""
        return cls(landed, table.io, own_folder(table), made)

    def of_file(self, url: str) -> str:
        """Return the URL of the copy of a landed file, which is made if there is none yet.

        Raises:
            Stalled: DESTINATION_CONFLICT, the file holds a time that has no microseconds.
            OSError: a store does not answer.
        """
        with self._lock:
            if url not in self._made:
                target = f"{self.folder}/{uuid4()}-{url.rpartition('/')[2]}"
                self._copy(url, target)
                self._made[url] = target
            return self._made[url]

    def _copy(self, url: str, target: str) -> None:
        merger = ParquetFormat.of({}).merger()
        try:
            with (
                self.landed.new_input(url).open() as source,
                self.own.new_output(target).create() as copy,
            ):
                for some in merger.add(source):
                    copy.write(some)
                copy.write(merger.finish())
        except NotMergeableError as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT, f"object {url} has no copy in microseconds: {error}"
            ) from None
