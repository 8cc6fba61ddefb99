"""Finds which contents have numbers: the file that has the ETag and the size of another one.

What counts is each file's last version with numbers, if all its parts have some and none of them is
parked or given up. So these do not count, and a copy under another name is landed:

- a version that was overwritten: it cannot be compared any more, and it may never have been read;
- a file with a part that could not be read, or was given up by a decision: its copy may be the only
  one that can be read. Rows that were read before the damage are then landed twice;
- one without a byte: there is nothing to land twice.

A copy is found while the first file waits to be landed, too. If that one turns out to be unreadable
it is parked, and the next listing of all names takes the copy: what is left out is known nowhere,
and is judged again by each.

In memory are only fingerprints of contents, 8 bytes a file, for each piece of the index. A piece
never changes, so after a merge only the pieces that it made are read. Two contents may have one
fingerprint: a file with the same contents is read from the piece, by its ETag and size in full. So
a collision costs a request, and never leaves a file out.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from landfall.discovery.index import KnownIndex, read_piece
from landfall.discovery.known import IndexPiece, KnownFile
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store import Slots

MAX_CONFIRMED = 10_000
"""Number of files whose contents are remembered; for more, the piece is read again."""


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """The file that has certain contents, and the piece in which it was found."""

    other: KnownFile
    piece: str


class KnownContents:
    """The contents of the files in an index. Used by one thread at a time."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._index: KnownIndex | None = None
        self._stored: dict[str, array[int]] = {}
        self._recent: dict[int, str] = {}
        self._confirmed: dict[str, _Confirmed] = {}
        self._read: tuple[str, tuple[KnownFile, ...]] = "", ()

    def follow(self, index: KnownIndex) -> None:
        """Know what this index has. Only pieces that no earlier one had are read.

        Raises:
            Stalled: LEDGER_BROKEN, a piece is gone or damaged.
            Retry: the store failed; calling again continues.
        """
        if self._index is index:
            return
        kept = {piece.key for piece in index.pieces}
        self._stored = {
            key: fingerprints for key, fingerprints in self._stored.items() if key in kept
        }
        for piece in index.pieces:
            if piece.key not in self._stored:
                files = read_piece(self._slots, piece)
                self._stored[piece.key] = array("Q", sorted(map(_fingerprint_of, files)))
        self._recent = {_fingerprint_of(file): file.name for file in index.recent.values()}
        self._index = index

    def let_go(self) -> None:
        """Let go of what ``follow`` finds again without a request of its own."""
        self._index, self._recent, self._read = None, {}, ("", ())

    def learn(self, parts: Iterable[ListedPart]) -> None:
        """Add the files in a list that the index has just learned."""
        self._recent |= {fingerprint(p.etag, p.size): p.name for p in parts if p.is_new}

    def other_name(
        self, file: ListedFile, counts: Callable[[KnownFile], bool] = lambda _: True
    ) -> str | None:
        """The name of another file with the same contents; None if there is none.

        Args:
            file: a file.
            counts: whether a version with numbers counts, of those that have all of them.

        Raises:
            Stalled: LEDGER_BROKEN, a piece is gone or damaged.
            Retry: the store failed.
        """
        for other in self._with_contents(file):
            if other.name != file.name and other.listed_to == other.size and counts(other):
                return other.name
        return None

    def _with_contents(self, file: ListedFile) -> Iterator[KnownFile]:
        """The files that have these contents, as they are known now."""
        index, wanted = self._index, fingerprint(file.etag, file.size)
        if index is None or not file.size:
            return
        recent = index.recent.get(self._recent.get(wanted, ""))
        if recent and _has_contents(recent, file):
            yield recent
        before = self._confirmed.get(file.name)
        if before and _has_contents(before.other, file) and self._is_current(before):
            yield before.other
        for piece in index.pieces:
            if _has(self._stored[piece.key], wanted):
                yield from self._confirm(index, piece, file)

    def _is_current(self, confirmed: _Confirmed) -> bool:
        """Return whether the index has the file as it was confirmed."""
        is_newer = self._index is not None and confirmed.other.name in self._index.recent
        return confirmed.piece in self._stored and not is_newer

    def _confirm(
        self, index: KnownIndex, piece: IndexPiece, file: ListedFile
    ) -> Iterator[KnownFile]:
        if self._read[0] != piece.key:
            self._read = "", ()  # let go of the one before the next is read
            self._read = piece.key, read_piece(self._slots, piece)
        for other in self._read[1]:
            if _has_contents(other, file) and other.name not in index.recent:
                if len(self._confirmed) >= MAX_CONFIRMED:
                    self._confirmed.clear()
                self._confirmed[file.name] = _Confirmed(other, piece.key)
                yield other


def fingerprint(etag: str, size: int) -> int:
    """64 bits that two contents hardly ever share."""
    hashed = hashlib.blake2b(f"{size} {etag}".encode(), digest_size=8)
    return int.from_bytes(hashed.digest())


def _fingerprint_of(file: KnownFile) -> int:
    return fingerprint(file.etag, file.size)


def _has_contents(one: KnownFile, other: ListedFile) -> bool:
    return (one.etag, one.size) == (other.etag, other.size)


def _has(fingerprints: "array[int]", wanted: int) -> bool:
    at = bisect_left(fingerprints, wanted)
    return at < len(fingerprints) and fingerprints[at] == wanted
