"""Avro's binary encoding of numbers, lengths and blocks.

Source: Apache Avro 1.12 specification, "Binary Encoding".
"""

import struct
from collections.abc import Callable, Mapping, Sequence


def number(value: int) -> bytes:
    """Return an int or a long of at most 64 bits: a zigzag varint."""
    left, made = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def prefixed(content: bytes) -> bytes:
    """Return bytes or the UTF-8 of a text after their length."""
    return number(len(content)) + content


def blocks(items: Sequence[bytes]) -> bytes:
    """Return the items of an array, or the entries of a map, as one block."""
    return (number(len(items)) + b"".join(items) if items else b"") + b"\0"


REAL: Mapping[str, Callable[[object], bytes]] = {
    "float": lambda value: struct.pack("<f", value),
    "double": lambda value: struct.pack("<d", value),
}
"""A floating-point number by the name of its type; raises OverflowError if it has no room."""
