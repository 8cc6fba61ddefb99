"""Deletion vectors: which rows of a file a Delta table does not have.

All vectors of a version are in one file of the table's folder, whose name is random: no two
versions have it. Python's own Z85 begins with 3.13, so it is written out here.

Source: PROTOCOL.md, "Deletion Vectors", "Deletion Vector File Storage Format"
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from pyroaring import BitMap64

from landfall.publish.keyed.rows import Positions

Descriptor = Mapping[str, Any]
"""How a log names a vector."""
PREFIX = "deletion_vector_"
"""The beginning of the names of files of vectors."""
MAX_BYTES = 512 << 20
"""Larger vectors are not read."""
_MAGIC = struct.pack("<I", 1681511377)
_VERSION = b"\x01"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_TEXT = 20
"""How many characters a UUID has in Z85."""


class VectorUnreadable(Exception):  # noqa: N818  # the name is the state
    """A deletion vector is not there, damaged, or in a place that is not known."""


@dataclass
class VectorFile:
    """The vectors of a version, until they are written.

    Attributes:
        id: in the name of the file.
        body: of the file.
    """

    id: UUID = field(default_factory=uuid4)
    body: bytearray = field(default_factory=lambda: bytearray(_VERSION))
    _places: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, positions: Positions) -> int:
        """Add a vector of rows, at least one; return its number in ``descriptors``."""
        vector = BitMap64(positions.tolist())
        payload = _MAGIC + vector.serialize()
        self._places.append((len(self.body), len(payload), len(vector)))
        self.body += struct.pack(">I", len(payload)) + payload
        self.body += struct.pack(">I", zlib.crc32(payload))
        return len(self._places) - 1

    @property
    def is_filled(self) -> bool:
        """True if it has a vector."""
        return bool(self._places)

    @property
    def name(self) -> str:
        """The name of the file in the table's folder."""
        return f"{PREFIX}{self.id}.bin"

    @property
    def descriptors(self) -> list[dict[str, Any]]:
        """How a log names its vectors, in the order in which they were added."""
        where = _as_z85(self.id.bytes)
        return [
            {
                "storageType": "u",
                "pathOrInlineDv": where,
                "offset": offset,
                "sizeInBytes": size,
                "cardinality": cardinality,
            }
            for offset, size, cardinality in self._places
        ]


def file_of(descriptor: Descriptor) -> str | None:
    """The name of a vector's file in the table's folder; None if it is in no such file.

    Raises:
        VectorUnreadable: the log names no file.
    """
    if descriptor.get("storageType") != "u":
        return None
    text = str(descriptor.get("pathOrInlineDv"))
    folder, name = text[:-_UUID_TEXT], _from_z85(text[-_UUID_TEXT:])
    if len(name) != 16:
        raise VectorUnreadable(f"a deletion vector names no file: {text[:100]!r}")
    return f"{folder}{'/' if folder else ''}{PREFIX}{UUID(bytes=name)}.bin"


def positions_of(
    descriptor: Descriptor, read_range: Callable[[str, int, int], bytes | None]
) -> Positions:
    """The rows of a vector, sorted.

    Args:
        descriptor: as the log has it.
        read_range: reads a part of a file of the table's folder.

    Raises:
        VectorUnreadable: it is not there, is damaged, or is in another place.
        Retry: the store does not answer.
    """
    size, offset = int(descriptor["sizeInBytes"]), int(descriptor.get("offset") or 0)
    if not 0 < size <= MAX_BYTES:
        raise VectorUnreadable(f"a deletion vector of {size} bytes is not read")
    if descriptor["storageType"] == "i":
        return _positions(_from_z85(str(descriptor["pathOrInlineDv"]))[:size])
    if (name := file_of(descriptor)) is None:
        where = descriptor["pathOrInlineDv"]
        raise VectorUnreadable(f"deletion vector {where} is not in the table's folder")
    framed = read_range(name, offset, size + 8)
    if framed is None or len(framed) != size + 8:
        raise VectorUnreadable(f"deletion vector {name} is not there")
    payload = framed[4:-4]
    if framed[-4:] != struct.pack(">I", zlib.crc32(payload)):
        raise VectorUnreadable(f"deletion vector {name} is damaged at {offset}")
    return _positions(payload)


def _positions(payload: bytes) -> Positions:
    if payload[:4] != _MAGIC:
        raise VectorUnreadable("a deletion vector has an unknown form")
    try:
        return np.array(BitMap64.deserialize(payload[4:]), np.int64)
    except (ValueError, OverflowError, IndexError) as error:
        raise VectorUnreadable(f"a deletion vector is damaged: {error}") from error


def _as_z85(body: bytes) -> str:
    return "".join(map(_digits, struct.unpack(f">{len(body) // 4}I", body)))


def _digits(number: int) -> str:
    found = ""
    for _ in range(5):
        number, digit = divmod(number, len(_Z85))
        found = _Z85[digit] + found
    return found


def _from_z85(text: str) -> bytes:
    """Return bytes of a text whose length is a multiple of five.

    Raises:
        VectorUnreadable: it is no such text.
    """
    found = b""
    for begin in range(0, len(text), 5):
        number = 0
        for digit in text[begin : begin + 5]:
            number = number * len(_Z85) + _Z85.find(digit)
        if number >> 32 or len(text) % 5 or not {*text} <= {*_Z85}:
            raise VectorUnreadable(f"{text[:100]!r} names no deletion vector")
        found += number.to_bytes(4, "big")
    return found
