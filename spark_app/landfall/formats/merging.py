"""Objects of a format, merged into one: what compaction does with small ones.

A format whose objects can be merged has a method ``merger() -> Merger | None``; None if its options
do not allow it. The objects of a format without the method stay as they are.

A merger is given the objects in order, one after the other, and writes their rows, in this order,
to one new object. Where it can, it copies compressed bytes as they are. It reads every row
nevertheless: the caller compares their number with the ledger's.

=============================  ======================================================
format                         without duplicates left out
=============================  ======================================================
Json, Text                     blocks are copied; with ``Gzip`` into a single member
SequenceFile, Avro             blocks are copied, with another sync marker
Parquet                        large row groups are copied, other rows encoded again
Orc                            rows are encoded again, in stripes of full size
=============================  ======================================================

Objects with schemas of their own are merged with objects of the same schema only: ``schema_of``
returns the one they have.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""Which rows of an object are kept."""
ReadRange = Callable[[int, int], bytes]
"""Reads so many bytes of an object from a byte on; a negative one counts from the end."""
Keys = Sequence[bytes | None]
"""The key of each row; None if it has none. Rows with equal keys are duplicates."""


class NotMergeableError(ValueError):
    """An object is sound, and cannot be merged with other objects, or its rows not be compared."""


class Merger(Protocol):
    """Writes the rows of several objects to one."""

    @property
    def rows(self) -> int:
        """How many rows the objects that were added have, those left out included."""
        ...

    def schema_of(self, read: ReadRange, size: int) -> str:
        """Return a text that differs for objects that cannot be merged; often the same for all.

        Raises:
            ValueError: the object is damaged.
        """
        ...

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:
        """The keys of an object's rows, some at a time, in order.

        Raises:
            NotMergeableError: its rows cannot be compared by this field.
            ValueError: the object is damaged.
        """
        ...

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """Read an object to its end, and yield the next bytes of the new one.

        Args:
            source: the object.
            kept: which of its rows are kept; all if it is None.

        Raises:
            NotMergeableError: it cannot be merged with those before.
            ValueError: the object is damaged.
        """
        ...

    def finish(self) -> bytes:
        """The last bytes of the new object. The merger is not used again."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Return whether rows follow each other as in the objects that were added."""
        ...


class Sorter(Protocol):
    """Writes the rows of several objects to one, sorted by a field.

    A merger whose rows have fields has a method ``sorter(path, memory) -> Sorter``: numbers come
    first, as numbers, then texts; rows without the field, or with null in it, come last. Rows with
    the same value stay in their order. At most about twice ``memory`` bytes of rows are in memory,
    all other rows on the local disk.
    """

    @property
    def rows(self) -> int:
        """How many rows the objects that were added have, those left out included."""
        ...

    def add(self, source: BinaryIO, kept: Mask | None = None) -> None:
        """Read an object to its end; see ``Merger.add``."""
        ...

    def written(self) -> Iterator[bytes]:
        """The new object, piece by piece, once all objects were added."""
        ...

    def close(self) -> None:
        """Delete what is on the disk."""
        ...


class Tee:
    """A stream that keeps what was read from it since the last ``take``."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._taken: list[bytes] = []

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        chunk = self._stream.read(size)
        self._taken.append(chunk)
        return chunk

    def take(self) -> bytes:
        """The bytes that were read since the last call."""
        taken = self._taken
        self._taken = []
        return b"".join(taken)
