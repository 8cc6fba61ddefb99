"""SequenceFiles, merged: blocks and records are copied with another sync mark."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange
from landfall.formats.parts import LANDED_LIMITS
from landfall.formats.sequencefile.file import (
    Item,
    Mark,
    RecordRun,
    SequenceFileBlock,
    SequenceFileHeader,
    items,
    read_header,
)
from landfall.formats.sequencefile.landed import KIND
from landfall.formats.sequencefile.writables import vint
from landfall.formats.streams import ENDLESS, damage_located, source_of


class SequenceMerger:
    """Merges SequenceFiles of one kind, with the header of the first."""

    keeps_order = True

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._header: SequenceFileHeader | None = None
        self.rows = 0

    def schema_of(self, read: ReadRange, size: int) -> str:  # noqa: ARG002  # of the protocol
        """See ``Merger``."""
        return ""

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:  # noqa: ARG002  # of the protocol
        """See ``Merger``."""
        raise NotMergeableError("rows have no fields")

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``; of a block, all rows are kept or none.

        So it is where an object is cut between those that were merged, which have blocks of their
        own.
        """
        file = source_of(source)
        with damage_located(KIND):
            header = read_header(file)
            if self._header is None:
                self._header = header
                yield header.written()
            elif replace(header, sync=b"") != replace(self._header, sync=b""):
                raise NotMergeableError(
                    "its keys or its compression differ from the objects before it"
                )
            row = 0
            for item in items(file, header, LANDED_LIMITS, ENDLESS):
                of_item = None if kept is None else kept[row : row + len(item)]
                yield _copied(self._header.mark, item, of_item)
                row += len(item)
        self.rows += row

    def finish(self) -> bytes:
        """See ``Merger``."""
        return b""


def _copied(mark: bytes, item: Item, kept: Mask | None) -> bytes:
    """Return what is copied of an item."""
    chosen = np.ones(len(item), np.bool_) if kept is None else kept
    is_whole = bool(chosen.all())
    match item:
        case Mark():
            return mark
        case SequenceFileBlock():
            if not is_whole:
                if chosen.any():
                    raise NotMergeableError(
                        "a block has both rows that are kept and rows that are not"
                    )
                return b""
            sizes = (vint(len(part)) for part in item.parts)
            parts = (piece for both in zip(sizes, item.parts, strict=True) for piece in both)
            return b"".join((mark, vint(item.count), *parts))
        case RecordRun():
            if is_whole:
                return item.content[int(item.starts[0]) : item.end]
            rows = np.flatnonzero(chosen)
            spans = item.whole
            both = zip(spans.starts[rows].tolist(), spans.ends[rows].tolist(), strict=True)
            return b"".join(item.content[start:end] for start, end in both)
