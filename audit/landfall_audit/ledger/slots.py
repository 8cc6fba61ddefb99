"""The bytes of a ledger's slots, read independently of the code that writes them.

A ledger's closed stretches are in segments, ``_landfall/<group>/0-segments/``: gzip members of one
slot a line, then an index that is not used here. The directory before the last 16 bytes gives the
positions of the slots' members. Slots that follow are under
``_landfall/<group>/0/<epoch>/<index>.json``.
"""

import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from landfall_audit import untrusted_json
from landfall_audit.buckets import Bucket
from landfall_audit.gzip_members import MAX_MEMBER_BYTES, MAX_SEGMENT_BYTES, unpacked

_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9]{10})-[0-9a-f]{16}\.seg")
_TRAILER_BYTES = 16
_READERS = 16
"""How many slots are read concurrently."""
_AHEAD = 64
"""How many slots are read before they are used."""


def slots(bucket: Bucket, group: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each slot, in order; a slot of a segment is named after the segment.

    What is missing shows in the numbers and hashes that the slots hold.

    Raises:
        ValueError: a segment is damaged.
    """
    lane = f"_landfall/{group}/0"
    at, next_epoch = 0, 0
    for last, epoch, key in _segments(bucket, f"{lane}-segments/"):
        lines = _lines(_read(bucket, key))
        yield from ((key.rpartition("/")[2], body) for body in lines[at - last - 1 :])
        at, next_epoch = last + 1, epoch + 1
    first = f"{lane}/{next_epoch:010d}/"
    keys = (key for key, _ in bucket.visible(f"{lane}/") if key >= first)
    for key, body in _read_ahead(bucket, keys):
        yield key.removeprefix(f"{lane}/"), body


def _read_ahead(bucket: Bucket, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Keys and bytes in the order of the keys; the next ``_AHEAD`` are being read meanwhile."""
    waiting: deque[tuple[str, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(_READERS, "slot")
    try:
        for key in keys:
            waiting.append((key, pool.submit(_read, bucket, key)))
            if len(waiting) > _AHEAD:
                yield _oldest(waiting)
        while waiting:
            yield _oldest(waiting)
    finally:
        pool.shutdown(cancel_futures=True)


def _oldest(waiting: deque[tuple[str, Future[bytes]]]) -> tuple[str, bytes]:
    key, body = waiting.popleft()
    return key, body.result()


def _read(bucket: Bucket, key: str) -> bytes:
    with bucket.open(key) as stream:
        return stream.read()


def _segments(bucket: Bucket, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Last slot, last epoch and key of the segments that adjoin from slot 0 on."""
    at, found = 0, list[tuple[int, int, int, str]]()
    for key, _ in bucket.visible(prefix):
        if match := _SEGMENT.fullmatch(key.removeprefix(prefix)):
            found.append((int(match[1]), -int(match[2]), int(match[3]), key))
    for first, last, epoch, key in sorted(found):
        if first <= at <= -last:
            yield -last, epoch, key
            at = -last + 1


def _lines(body: bytes) -> list[bytes]:
    trailer = body[-_TRAILER_BYTES:]
    if trailer[:8] != b"LANDSEG1":
        raise ValueError("not a segment")
    size = struct.unpack(">Q", trailer[8:])[0]
    lines, size_read = list[bytes](), 0
    try:
        packed = body[-_TRAILER_BYTES - size : -_TRAILER_BYTES]
        directory = untrusted_json.decode(unpacked(packed, MAX_MEMBER_BYTES))
        members = (body[start : start + length] for _, start, length in directory["blocks"])
        for member in members:
            block = unpacked(member, min(MAX_MEMBER_BYTES, MAX_SEGMENT_BYTES - size_read))
            lines += block.splitlines()
            size_read += len(block)
    except ValueError as error:
        raise ValueError(f"a damaged segment: {error}") from error
    return lines
