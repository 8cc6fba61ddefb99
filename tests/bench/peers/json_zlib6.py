"""Landfall's ``Json`` format with zlib's level 6 for gzip instead of ISA-L's level 2.

Secor, Kafka Connect and Spark use this library and level by default. A group names the format as
``tests.bench.peers.json_zlib6:JsonZlib6``; the whole-run benchmark compares both, because the
library is the largest single difference between Landfall and its peers.
"""

import zlib

from landfall.formats import Encoder, codecs, text
from landfall.formats.jsonlines import JsonFormat

_LEVEL = 6
_GZIP_WINDOW_BITS = 31


class Zlib6Compressor:
    """One gzip member, compressed as one stream."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)

    def compress(self, block: codecs.Bytes) -> bytes:
        """What the stream gives for this block; the rest of it comes with a later one."""
        return self._stream.compress(block)

    def finish(self) -> bytes:
        """The rest of the stream, and the trailer."""
        return self._stream.flush()


class JsonZlib6(JsonFormat):
    """The format ``Json`` with another compressor."""

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        return text.LinesEncoder(self.lines, Zlib6Compressor())
