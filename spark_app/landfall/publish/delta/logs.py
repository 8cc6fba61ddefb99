"""Where the logs of Delta tables are, and how their versions are made.

delta-rs itself reads and writes logs in folders and on S3, where it creates a version if absent. In
other stores, a log is read and written through Landfall's own ``Slots``: ``copied_log``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from landfall.publish.s3_access import Recent

LOG = "_delta_log"
_LEAST_SECRET = 4
"""Shorter values of a secret would hide parts of words."""
_SECRET = re.compile("secret|token|key|password|sas", re.IGNORECASE)
"""Storage options that must not appear in messages."""


def name_of(version: int) -> str:
    """The name of the file of a version, in a log."""
    return f"{version:020}.json"


class LoadedTable(DeltaTable):
    """A version of a table, as delta-rs has read it."""

    @property
    def url(self) -> str:
        """The URL of the table's folder, which its files' relative paths begin at."""
        return self.table_uri

    def paths_with_vectors(self) -> list[str]:
        """The paths of files that have deletion vectors, as the log has them."""
        if "deletionVectors" not in (self.protocol().reader_features or ()):
            return []
        paths: list[str] = pa.table(self.deletion_vectors())["filepath"].to_pylist()
        return paths


@dataclass(frozen=True)
class LogFile:
    """A file of a log.

    Attributes:
        name: below ``_delta_log``.
        size: in bytes.
        time: looks up when it was written; None if that is not known.
    """

    name: str
    size: int
    time: Callable[[], datetime | None]


class TableLogs(Protocol):
    """The logs of tables, by the URLs of their folders."""

    def load(self, table: str) -> LoadedTable | None:
        """The newest version of a table; None if it does not exist."""
        ...

    def create(
        self, table: str, columns: Schema, by: Sequence[str], configuration: Mapping[str, str]
    ) -> None:
        """Create a table that did not exist.

        Raises:
            CommitFailedError: it exists now.
        """
        ...

    def committing(self, loaded: LoadedTable) -> AbstractContextManager[None]:
        """A version that delta-rs makes of a table inside is the table's next version afterwards.

        Raises:
            CommitFailedError: another writer has made that version.
        """
        ...

    def files(self, loaded: LoadedTable) -> Sequence[LogFile]:
        """All files of a table's log."""
        ...

    def failed(self, text: str) -> str:
        """Return the text of an error without secrets; what was looked up is looked up again."""
        ...


@dataclass(frozen=True)
class StorageLogs:
    """Logs that delta-rs reaches itself.

    Attributes:
        storage: the storage options, looked up at each use.
    """

    storage: Recent[dict[str, str]]

    def load(self, table: str) -> LoadedTable | None:
        """See ``TableLogs``."""
        try:
            return LoadedTable(table, storage_options=self.storage())
        except TableNotFoundError:
            return None

    def create(
        self, table: str, columns: Schema, by: Sequence[str], configuration: Mapping[str, str]
    ) -> None:
        """See ``TableLogs``."""
        DeltaTable.create(
            table,
            columns,
            mode="ignore",
            partition_by=[*by],
            configuration=dict(configuration),
            storage_options=self.storage(),
        )

    def committing(self, loaded: LoadedTable) -> AbstractContextManager[None]:  # noqa: ARG002
        """See ``TableLogs``."""
        return nullcontext()

    def files(self, loaded: LoadedTable) -> Sequence[LogFile]:
        """See ``TableLogs``.

        Raises:
            OSError: the store does not answer.
        """
        handler: Any = DeltaStorageHandler(loaded.table_uri, self.storage())
        found = pafs.PyFileSystem(handler).get_file_info(pafs.FileSelector(LOG))
        return [LogFile(f.base_name, f.size or 0, partial(_time, f)) for f in found]

    def failed(self, text: str) -> str:
        """See ``TableLogs``."""
        for name, value in self.storage().items():
            if len(value) >= _LEAST_SECRET and _SECRET.search(name):
                text = text.replace(value, "***")
        self.storage.forget()
        return text


def _time(file: pafs.FileInfo) -> datetime:
    return datetime.fromtimestamp(file.mtime_ns / 1e9, UTC)
