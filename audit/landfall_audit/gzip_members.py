"""Gzip members of the ledger, unpacked with a limit: a writer of the ledger could make bombs.

By a module of its own: the auditor shares none with the writer.
"""

import zlib

MAX_MEMBER_BYTES, MAX_LIST_BYTES = 256 * 2**20, 512 * 2**20
"""Of a segment's member, and of a list of parts or of replaced objects."""
MAX_SEGMENT_BYTES = 1024 * 2**20
"""Of all members of a segment together."""
_GZIP = 31
"""The ``wbits`` of a gzip member."""


def unpacked(packed: bytes, max_bytes: int) -> bytes:
    """The content of a member; of several, of the first.

    Raises:
        ValueError: it is damaged, cut off, or longer than the limit.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        body = unpacker.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"damaged: {error}") from error
    if len(body) > max_bytes or not unpacker.eof:
        raise ValueError(f"damaged: it is cut off, or longer than {max_bytes >> 20} MiB")
    return body
