"""Gzip members of the ledger: segments, lists of parts, lists of replaced objects. Pure.

A program that may write to the bucket can write a member that becomes gigabytes, so each kind has a
limit that a driver's memory can bear.
"""

import zlib

WBITS = 31
"""The ``wbits`` of a gzip member."""


def unpack(packed: bytes, max_bytes: int) -> bytes:
    """Return the content of exactly one member.

    Raises:
        ValueError: it is damaged, cut off, longer than the limit, or has more after it.
    """
    unpacker = zlib.decompressobj(WBITS)
    try:
        body = unpacker.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"damaged: {error}") from error
    if len(body) > max_bytes or not unpacker.eof or unpacker.unused_data:
        raise ValueError(
            f"damaged: it is cut off, longer than {max_bytes >> 20} MiB, or has more after it"
        )
    return body
