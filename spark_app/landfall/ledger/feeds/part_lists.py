"""The bytes of part lists: which parts of files a DISCOVER numbers. Pure.

A list is an object of its own, named by the SHA-256 of its bytes, that is stored before the
DISCOVER which names it (docs/adr/0027). It is gzipped text, which ``zcat`` shows: a header line of
JSON, and a line for each part, in the order of their numbers::

    {"version":1,"topic":"feed","first":7,"parts":2}
    ["in/a.json.gz","5f0c…",1048576,1763700000000,0,1048576]
    ["in/b.csv","77aa…",4096,1763700001000,0,4096,3,2,100]

of name, ETag and size of the file, when it was last modified (milliseconds since 1970-01-01 UTC),
the first byte of the part, and the one after its last. A part that had another number before has
that, how often it was tried, and how many of its rows are landed.

A version of a file that a user *left out* for good has one part of no bytes, after its last one.
So it has a number and is known to every later driver, as all files with numbers are, and no row of
it is ever read.
"""

import re
import zlib
from collections.abc import Sequence
from itertools import groupby

import msgspec

from landfall import untrusted_json
from landfall.ledger.entries import PartList
from landfall.ledger.feeds import MAX_LISTED, SPAN
from landfall.ledger.gzip_members import unpack
from landfall.ledger.names import object_names
from landfall.ledger.records import digest

VERSION = 1
"""The version of the format that this software writes."""
_GZIP = 31
"""The ``wbits`` of a gzip member."""
_MAX_BYTES = 64 * 2**20
"""How large a list is at most: ten thousand names of the greatest length are a sixth of it."""
MAX_NAME_BYTES = 1024
"""How long the name of a file may be, in UTF-8: S3's limit of a key."""


class ListedPart(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part of a file in a list.

    Attributes:
        name: of the file, relative to where the group looks for files.
        etag: of the version of the file that was found.
        size: of that version, in bytes.
        modified: when it was last modified, in milliseconds since 1970-01-01 UTC.
        start: its first byte.
        end: the byte after its last.
        former: the number that it had before; -1 if it is new.
        attempt: how often it was tried under former numbers.
        skip: how many of its rows are landed.
    """

    name: str
    etag: str
    size: int
    modified: int
    start: int
    end: int
    former: int = -1
    attempt: int = 0
    skip: int = 0

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def is_new(self) -> bool:
        """True if it had no number before."""
        return self.former == -1

    @property
    def goes_on(self) -> bool:
        """True if there are parts before it in its version of the file."""
        return 0 < self.start < self.size

    @property
    def is_left_out(self) -> bool:
        """True if it only marks its version of the file as not to be landed."""
        return 0 < self.size == self.start


class _PartListHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    topic: str
    first: int
    parts: int


def list_key(group: str, lane: str, topic: str, first: int, sha256: str) -> str:
    """The key of a list; lists of a feed sort by their first numbers.

    Raises:
        ValueError: a name is not legal, the number is negative, or ``sha256`` is none.
    """
    prefix = object_names.lane_prefix(group, lane)
    if not re.fullmatch("[0-9a-f]{64}", sha256) or first < 0:
        raise ValueError(f"not the number and the SHA-256 of a list: {first}, {sha256!r}")
    object_names.check_topic(topic)
    return f"{prefix}-files/{topic}/{first:020d}-{sha256[:16]}.json.gz"


def check_name(name: str) -> None:
    """Raise ``ValueError`` if no file of this name can be in a list."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"not the name of a file, which is UTF-8: {name!r}") from error
    if not 0 < size <= MAX_NAME_BYTES:
        raise ValueError(f"a name of {size} bytes, not 1 to {MAX_NAME_BYTES}: {name!r}")


def encode_list(
    group: str, lane: str, topic: str, first: int, parts: Sequence[ListedPart]
) -> tuple[PartList, bytes]:
    """A list of parts with the numbers from ``first`` on: what a DISCOVER names, and its bytes.

    Raises:
        ValueError: there are too few or too many parts, or one of them is none of a file.
    """
    if not 0 < len(parts) <= MAX_LISTED:
        raise ValueError(f"{topic}: a list of {len(parts)} parts")
    for number, part in enumerate(parts, first):
        _check(topic, number, part)
    head = _PartListHead(VERSION, topic, first, len(parts))
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    encoder = msgspec.json.Encoder()
    body = b"".join(
        (
            *(packer.compress(encoder.encode(line) + b"\n") for line in (head, *parts)),
            packer.flush(),
        )
    )
    sha256 = digest(body)
    key = list_key(group=group, lane=lane, topic=topic, first=first, sha256=sha256)
    return PartList(
        key=key,
        sha256=sha256,
        first=first,
        end=first + len(parts),
        files=_files(parts),
        bytes=_bytes(parts),
    ), body


def decode_list(topic: str, named: PartList, body: bytes) -> tuple[ListedPart, ...]:
    """The parts of a list that a DISCOVER of this topic names, in the order of their numbers.

    Raises:
        ValueError: the bytes are not what the DISCOVER names.
    """
    if digest(body) != named.sha256:
        raise ValueError(f"{named.key}: not the list that the ledger names")
    try:
        lines = unpack(body, _MAX_BYTES).splitlines()
        head = untrusted_json.decode(lines[0], type=_PartListHead)
        parts = tuple(untrusted_json.decode(line, type=ListedPart) for line in lines[1:])
    except (ValueError, msgspec.MsgspecError, IndexError) as error:
        raise ValueError(f"{named.key}: not a list of parts: {error}") from None
    if head.version != VERSION:
        raise ValueError(f"{named.key}: of version {head.version}, this software knows {VERSION}")
    said = (topic, named.first, named.end, named.files, named.bytes)
    found = (head.topic, head.first, head.first + len(parts), _files(parts), _bytes(parts))
    if found != said or head.parts != len(parts):
        raise ValueError(f"{named.key}: lists {found}, the ledger records {said}")
    for number, part in enumerate(parts, named.first):
        _check(named.key, number, part)
    return parts


def _check(where: str, number: int, part: ListedPart) -> None:
    is_part = 0 <= part.start <= part.end <= part.size and (len(part) or part.start == part.size)
    is_new = part.is_new and not (part.attempt or part.skip)
    is_again = 0 <= part.former < number and part.attempt >= 1 and 0 <= part.skip < SPAN
    try:
        check_name(part.name)
    except ValueError as error:
        raise ValueError(f"{where}: number {number}: {error}") from None
    if not (is_part and (is_new or is_again)):
        raise ValueError(f"{where}: number {number} is no part of a file: {part}")


def _files(parts: Sequence[ListedPart]) -> int:
    """How many files the parts are of: the parts of a file are adjacent."""
    return sum(1 for _ in groupby(parts, lambda part: (part.name, part.etag)))


def _bytes(parts: Sequence[ListedPart]) -> int:
    return sum(map(len, parts))
