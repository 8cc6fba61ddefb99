"""Changes of an Iceberg table that make a new snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NewSnapshot:
    """The changes of a snapshot.

    Attributes:
        files: files that are added, each a ``DataFile`` of rows.
        summary: lines for its summary.
        removed: the paths of files that are removed, also of files of deletes; None for all.
        moves_rows: whether the added files have exactly the rows of the removed ones. Streams skip
            such a snapshot.
        deletes: files of deletes that are added, each a ``DataFile``.
    """

    files: Sequence[Any]
    summary: Mapping[str, str]
    removed: frozenset[str] | None = frozenset()
    moves_rows: bool = False
    deletes: Sequence[Any] = ()
