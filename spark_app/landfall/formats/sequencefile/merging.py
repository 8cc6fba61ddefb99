"""SequenceFiles, merged: blocks and records are copied with another sync marker."""

from collections.abc import Iterator
from typing import BinaryIO

from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange, Tee
from landfall.formats.sequencefile.rows import Header, Source, check_sync, read_header

_ESCAPE = b"\xff\xff\xff\xff"
_SYNC = -1


class SequenceMerger:
    """Merges SequenceFiles of one kind; the header is that of the first."""

    keeps_order = True

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._kind, self._sync = b"", b""
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
        tee, before = Tee(source), self.rows
        file = Source(tee)  # type: ignore[arg-type]  # it reads only
        header = read_header(file)
        begun = tee.take()
        kind = begun[: -len(header.sync)]
        if not self._kind:
            self._kind, self._sync = kind, header.sync
            yield begun
        elif kind != self._kind:
            raise NotMergeableError(
                "its keys or its compression are not those of the objects before it"
            )
        copy = self._block if header.blocks else self._record
        while (length := file.int32_or_end()) is not None:
            at = self.rows - before
            copied = copy(file, header, length, tee)
            if kept is None or _is_kept(kept[at : self.rows - before]):
                yield copied

    def finish(self) -> bytes:
        """See ``Merger``."""
        return b""

    def _block(self, file: Source, header: Header, escape: int, tee: Tee) -> bytes:
        if escape != _SYNC:
            raise ValueError(f"no sync marker before byte {file.position}")
        check_sync(file, header)
        tee.take()
        self.rows += file.vint()
        for _ in range(4):
            file.take(file.vint())
        return _ESCAPE + self._sync + tee.take()

    def _record(self, file: Source, header: Header, length: int, tee: Tee) -> bytes:
        if length == _SYNC:
            check_sync(file, header)
            tee.take()
            return _ESCAPE + self._sync
        file.take(4)
        file.take(length)
        self.rows += 1
        return tee.take()


def _is_kept(rows: Mask) -> bool:
    """Whether a block is kept; a sync marker between records has no rows, and is."""
    if rows.any() and not rows.all():
        raise NotMergeableError("a block has rows that are kept, and others")
    return not len(rows) or bool(rows.all())
