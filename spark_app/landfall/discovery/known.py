"""Known files, and how an index of them is stored. Pure.

An index is a *manifest*, which a DISCOVER names, and *pieces*: each has the files between two
names, in the order of names. A piece is an object of its own, so that an index shares with the one
before it all pieces in which nothing changed. Names are in the order of their UTF-8, as in
listings.

The fields of ``KnownFile`` are persisted, as arrays in this order.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise

import msgspec

from landfall import untrusted_json
from landfall.discovery import stored
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile

VERSION = 1
"""Version of the format. Pieces and manifests of any other version are rejected."""
PIECE_FILES = 50_000
"""How many files a piece has at most."""
PIECE_TEXT_BYTES = 8 * 2**20
"""How many bytes names and ETags in a piece have at most, if it has more than one file."""


class FileState(StrEnum):
    """A listed file."""

    NEW = "new"
    """No part of a file of this name has a number."""
    CHANGED = "changed"
    """Parts of another version of it have numbers."""
    STARTED = "started"
    """Parts of this version have numbers, but not all."""
    KNOWN = "known"
    """All parts of this version have numbers."""


class KnownFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last version of a file that has numbers.

    Attributes:
        name: name of the file.
        etag: its ETag, in full: nothing shorter distinguishes two versions for certain.
        size: of the whole file, in bytes.
        listed_to: the byte up to which its parts have numbers.
        number: the last of these numbers.
        first: the first of them; -1 if it is in an older list.
        is_left_out: a decision excludes this version from landing.
    """

    name: str
    etag: str
    size: int
    listed_to: int
    number: int
    first: int = -1
    is_left_out: bool = False

    def after(self, older: "KnownFile | None") -> "KnownFile":
        """The same, with what only an older list contains of the file."""
        if self.first >= 0 or older is None:
            return self
        return msgspec.structs.replace(self, first=older.first)


class IndexPiece(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A stored piece of an index: the files named from ``first`` to ``last``."""

    first: str
    last: str
    key: str
    sha256: str
    files: int


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An index: the files of all parts below ``through``, in pieces."""

    version: int
    through: int
    pieces: tuple[IndexPiece, ...]


class _KnownPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    # That pieces made for different indexes differ is why old ones may be deleted: see ``index``.
    version: int
    through: int
    files: tuple[KnownFile, ...]


_encoder = msgspec.json.Encoder(order="deterministic")
_manifests = msgspec.json.Decoder(Manifest)
_pieces = msgspec.json.Decoder(_KnownPiece)


def state_of(file: ListedFile, known: KnownFile | None) -> FileState:
    """Return what is known of a listed file, by what is known of its name."""
    if known is None:
        return FileState.NEW
    if (known.size, known.etag) != (file.size, file.etag):
        return FileState.CHANGED
    return FileState.STARTED if known.listed_to < file.size else FileState.KNOWN


def learn(known: dict[str, KnownFile], first: int, parts: Iterable[ListedPart]) -> None:
    """Add the files in a list that a DISCOVER has named; lists are to be added in order.

    Args:
        known: where they are added, by name.
        first: the number of the first part.
        parts: the parts in the list.
    """
    for number, part in enumerate(parts, first):
        # A part that gets another number is of a version that is known, or no longer the last.
        if part.is_new:
            file = KnownFile(
                name=part.name,
                etag=part.etag,
                size=part.size,
                listed_to=part.end,
                number=number,
                first=-1 if part.goes_on else number,
                is_left_out=part.is_left_out,
            )
            known[part.name] = file.after(known.get(part.name))


def encode_piece(through: int, files: Sequence[KnownFile]) -> bytes:
    """The bytes of a piece that is made for the index of all parts below ``through``."""
    return stored.packed(_encoder.encode(_KnownPiece(VERSION, through, tuple(files))))


def decode_piece(piece: IndexPiece, body: bytes) -> tuple[KnownFile, ...]:
    """The files in the bytes of a piece, in the order of names.

    Raises:
        Stalled: LEDGER_BROKEN, the bytes are not this piece, or not of a supported version.
    """
    try:
        found = untrusted_json.decode_by(_pieces.decode, stored.unpacked(piece.key, body))
    except (msgspec.DecodeError, ValueError) as error:
        raise stored.broken(f"{piece.key}: not a piece of an index: {error}") from error
    _check_version(piece.key, found.version)
    files = found.files
    ends = (files[0].name, files[-1].name, len(files)) if files else ("", "", 0)
    if ends != (piece.first, piece.last, piece.files):
        raise stored.broken(
            f"{piece.key}: has {ends[2]} files from {ends[0]!r} to {ends[1]!r}, "
            "not as its index records"
        )
    if any(one.name >= other.name for one, other in pairwise(files)):
        raise stored.broken(f"{piece.key}: has files that are not in the order of their names")
    return files


def encode_manifest(through: int, pieces: Sequence[IndexPiece]) -> bytes:
    """The bytes of the manifest of an index."""
    return stored.packed(_encoder.encode(Manifest(VERSION, through, tuple(pieces))))


def decode_manifest(key: str, body: bytes) -> Manifest:
    """The manifest in these bytes.

    Raises:
        Stalled: LEDGER_BROKEN, the bytes are not a manifest, or not of a supported version.
    """
    try:
        found = untrusted_json.decode_by(_manifests.decode, stored.unpacked(key, body))
    except (msgspec.DecodeError, ValueError) as error:
        raise stored.broken(f"{key}: not an index of known files: {error}") from error
    _check_version(key, found.version)
    if any(one.last >= other.first for one, other in pairwise(found.pieces)):
        raise stored.broken(f"{key}: has pieces that are not in the order of names")
    return found


def cut_into_pieces(files: Sequence[KnownFile], *, is_last: bool) -> Iterator[Sequence[KnownFile]]:
    """Files in the order of names, cut so that no piece is too large.

    The last piece of an index is filled before another one begins, since most names grow. Any other
    piece is cut into even ones, which have room for names between.
    """
    sizes = [len(file.name.encode()) + len(file.etag) for file in files]
    many, long = -(-len(files) // PIECE_FILES), -(-sum(sizes) // PIECE_TEXT_BYTES)
    most = PIECE_FILES if is_last else -(-len(files) // max(many, long, 1))
    start = taken = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start >= most or taken + size > PIECE_TEXT_BYTES):
            yield files[start:index]
            start, taken = index, 0
        taken += size
    if files:
        yield files[start:]


def _check_version(key: str, version: int) -> None:
    if version != VERSION:
        raise stored.broken(
            f"{key}: version {version} is not supported, this software reads version {VERSION}"
        )
