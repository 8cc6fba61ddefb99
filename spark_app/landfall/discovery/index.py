"""The index of known files in a store: looking names up, merging lists, what may be deleted.

One piece is in memory at a time, and of the lists those that the index does not have yet: so names
are to be looked up in their order, as a listing has them. Any other order is as right, and slow.

An index is only ever merged from lists that DISCOVERs name, and counts when a DISCOVER names it. A
piece is made for one index, whose ``through`` is in its key. Since the ledger accepts no index with
a lower one, an object made for an index up to the last one and not in it is of no use to any
later index.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import attrgetter

from landfall.discovery import part_lists, stored
from landfall.discovery.feed_keys import FeedKeys, through_of
from landfall.discovery.known import (
    VERSION,
    IndexPiece,
    KnownFile,
    Manifest,
    cut_into_pieces,
    decode_manifest,
    decode_piece,
    encode_manifest,
    encode_piece,
    learn,
)
from landfall.ledger import KnownFiles, PartList, digest
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.store import Slots

MAX_MERGED = 20
"""How many lists are merged at once: their files are in memory."""


class KnownIndex:
    """Known files, by name."""

    def __init__(self, slots: Slots, manifest: Manifest) -> None:
        """Look up in a stored index; nothing is read yet."""
        self._slots = slots
        self._manifest = manifest
        self._lasts = [piece.last for piece in manifest.pieces]
        self._recent: dict[str, KnownFile] = {}
        self._number = -1
        self._piece: Mapping[str, KnownFile] = {}

    @property
    def pieces(self) -> tuple[IndexPiece, ...]:
        """The pieces that are stored."""
        return self._manifest.pieces

    @property
    def recent(self) -> Mapping[str, KnownFile]:
        """Files that are in memory, by name, because the pieces do not have their lists yet."""
        return self._recent

    def learn(self, first: int, parts: Sequence[ListedPart]) -> None:
        """Add the parts of a list, from number ``first`` on: once a DISCOVER names it."""
        learn(self._recent, first, parts)

    def files(self) -> Iterator[KnownFile]:
        """All files, in the order of their names.

        Raises:
            Stalled, Retry: as ``find``.
        """
        pieces = (read_piece(self._slots, piece) for piece in self._manifest.pieces)
        in_pieces = chain.from_iterable(pieces)  # with one in memory at a time
        recent = (self._recent[name] for name in sorted(self._recent))
        older: KnownFile | None = None
        for file in heapq.merge(in_pieces, recent, key=attrgetter("name")):
            # Of two files of one name, the one from the stored index comes first.
            is_same = older is not None and older.name == file.name
            if older is not None and not is_same:
                yield older
            older = file.after(older) if is_same else file
        if older is not None:
            yield older

    def find(self, name: str) -> KnownFile | None:
        """Return what is known of the file of this name, or None.

        Raises:
            Stalled: LEDGER_BROKEN, a piece of the index is gone or damaged.
            Retry: the store failed.
        """
        recent = self._recent.get(name)
        if recent and recent.first >= 0:
            return recent
        found = self._find_in_pieces(name)
        return recent.after(found) if recent else found

    def _find_in_pieces(self, name: str) -> KnownFile | None:
        number = bisect_left(self._lasts, name)
        pieces = self._manifest.pieces
        if number == len(pieces) or name < pieces[number].first:
            return None
        if number != self._number:
            # Let go of the one before the next is read.
            self._number = -1
            self._piece = {}
            self._piece = {file.name: file for file in read_piece(self._slots, pieces[number])}
            self._number = number
        return self._piece.get(name)


def open_index(
    slots: Slots, keys: FeedKeys, known: KnownFiles | None, lists: Sequence[PartList]
) -> KnownIndex:
    """The files that the ledger knows: its last index, and the lists after it.

    To be opened again once a DISCOVER names another index, whose lists it then lets go of: what an
    index has that is neither the last nor the one before may be deleted.

    Args:
        slots: the store.
        keys: where the feed's objects are.
        known: the index that the ledger names; None for none.
        lists: lists that the ledger names, in order: all those with a part that is not in the
            index. Other lists are left out.

    Raises:
        Stalled: LEDGER_BROKEN, something of it is gone or damaged.
        Retry: the store failed.
    """
    manifest = read_manifest(slots, known)
    index = KnownIndex(slots, manifest)
    for listed in _after(manifest.through, lists):
        index.learn(listed.first, part_lists.read(slots, keys, listed))
    return index


def read_manifest(slots: Slots, known: KnownFiles | None) -> Manifest:
    """The manifest of the index that the ledger names; of an empty one for None.

    Raises:
        Stalled: LEDGER_BROKEN, it is gone, damaged, or not as the ledger records.
        Retry: the store failed.
    """
    if known is None:
        return Manifest(VERSION, 0, ())
    found = decode_manifest(known.key, stored.load(slots, known.key, known.sha256))
    files = sum(piece.files for piece in found.pieces)
    if (found.through, files) != (known.through, known.files):
        raise stored.broken(
            f"{known.key}: has {files} files of parts below {found.through}, "
            f"the ledger names {known.files} below {known.through}"
        )
    return found


def merge(
    slots: Slots, keys: FeedKeys, known: KnownFiles | None, lists: Sequence[PartList]
) -> KnownFiles:
    """Store an index that also has the files in these lists, or in the first ``MAX_MERGED``.

    Only pieces in which something changes are read and written.

    Args:
        slots: the store.
        keys: where the feed's objects are.
        known: the index that the ledger names; None for none.
        lists: lists that the ledger names, in order, as for ``open_index``.

    Raises:
        ValueError: the index has all of these lists.
        Stalled: LEDGER_BROKEN, something of it is gone or damaged.
        Retry: the store failed; calling again is safe.
    """
    before = read_manifest(slots, known)
    merged = _after(before.through, lists)[:MAX_MERGED]
    if not merged:
        raise ValueError(f"{keys.prefix}: nothing to merge into the index below {before.through}")
    through = merged[-1].end
    changes: dict[str, KnownFile] = {}
    for listed in merged:
        learn(changes, listed.first, part_lists.read(slots, keys, listed))
    pieces = tuple(_merged_pieces(slots, keys, through, (before.pieces, changes)))
    body = encode_manifest(through, pieces)
    sha256 = digest(body)
    key = keys.index(through, sha256)
    stored.store(slots, key, body)
    return KnownFiles(key, sha256, through, sum(piece.files for piece in pieces))


def unneeded(
    slots: Slots, keys: FeedKeys, last: KnownFiles, before: KnownFiles | None = None
) -> Iterator[str]:
    """Keys of indexes and pieces that may be deleted, once a DISCOVER names ``last``.

    Args:
        slots: the store.
        keys: where the feed's objects are.
        last: the index that the ledger names.
        before: the one that it named before, which a reader may still use.

    Raises:
        Stalled: LEDGER_BROKEN, one of the two is gone or damaged.
        Retry: the store failed.
    """
    kept = [known for known in (last, before) if known]
    needed = {known.key for known in kept}
    needed |= {piece.key for known in kept for piece in read_manifest(slots, known).pieces}
    found = chain(slots.list_after(keys.index_prefix), slots.list_after(keys.pieces_prefix))
    for stat in found:
        if stat.key not in needed and through_of(stat.key) <= last.through:
            yield stat.key


def _after(through: int, lists: Sequence[PartList]) -> list[PartList]:
    """The lists that an index does not have.

    Raises:
        ValueError: they do not follow it without a gap.
    """
    found = [listed for listed in lists if listed.end > through]
    ends = [through, *(listed.end for listed in found)]
    for end, listed in zip(ends, found, strict=False):
        if listed.first != end:
            raise ValueError(f"{listed.key}: parts from {listed.first}, expected {end}")
    return found


def _merged_pieces(
    slots: Slots,
    keys: FeedKeys,
    through: int,
    merged: tuple[Sequence[IndexPiece], Mapping[str, KnownFile]],
) -> Iterator[IndexPiece]:
    pieces, changes = merged
    names = sorted(changes)
    # A piece takes the names up to the first one of the next piece; the first takes all before it.
    starts = [0, *(bisect_left(names, piece.first) for piece in pieces[1:]), len(names)]
    for number, (start, end) in enumerate(pairwise(starts)):
        if start == end:
            yield pieces[number]
            continue
        files = {file.name: file for file in read_piece(slots, pieces[number])} if pieces else {}
        files |= {name: changes[name].after(files.get(name)) for name in names[start:end]}
        ordered = [files[name] for name in sorted(files)]
        is_last = number + 1 >= len(pieces)
        for some in cut_into_pieces(ordered, is_last=is_last):
            yield _store_piece(slots, keys, through, some)


def _store_piece(
    slots: Slots, keys: FeedKeys, through: int, files: Sequence[KnownFile]
) -> IndexPiece:
    body = encode_piece(through, files)
    sha256 = digest(body)
    key = keys.piece(through, sha256)
    stored.store(slots, key, body)
    return IndexPiece(
        first=files[0].name, last=files[-1].name, key=key, sha256=sha256, files=len(files)
    )


def read_piece(slots: Slots, piece: IndexPiece) -> tuple[KnownFile, ...]:
    """The files in a piece, in the order of their names.

    Raises:
        Stalled: LEDGER_BROKEN, the piece is gone or damaged.
        Retry: the store failed.
    """
    return decode_piece(piece, stored.load(slots, piece.key, piece.sha256))
