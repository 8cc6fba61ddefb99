"""Confluent's framing of Protobuf payloads: magic byte, schema id, message indexes.

A payload is ``00``, a schema id of four bytes, and the indexes of the message in its file: their
number and each of them as a zigzag varint, where a lone ``00`` stands for the first message
(Confluent documentation, "Wire format"). Ids are not looked up: the schema is given in the
resource. A decoder with a registry takes the ids from ``Frames``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import Int64s

Bools = npt.NDArray[np.bool_]

_HEADER = 5
_FIRST = (0,)


@dataclass(frozen=True)
class Frames:
    """Payloads taken apart.

    Attributes:
        ids: the schema id of each payload, shape (rows,); -1 where there is none.
        bodies: the messages; null where a payload is null or bad.
        errors: what is wrong, by row.
    """

    ids: Int64s
    bodies: pa.BinaryArray
    errors: dict[int, str]


def frames(payloads: pa.BinaryArray, expected: Sequence[int]) -> Frames:
    """Take payloads apart whose message must be the one at the index path ``expected``."""
    rows = len(payloads)
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :][: rows + 1]
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    content = np.frombuffer(payloads.buffers()[2] or b"", np.uint8)
    present = np.array(payloads.is_valid())
    framed = np.flatnonzero(present & (ends - starts > _HEADER))
    heads = content[starts[framed, np.newaxis] + np.arange(_HEADER + 1)]
    framed, heads = framed[heads[:, 0] == 0], heads[heads[:, 0] == 0]
    ids = np.full(rows, -1, np.int64)
    ids[framed] = heads[:, 1:_HEADER].astype(np.int64) @ (256 ** np.arange(3, -1, -1))
    errors = dict.fromkeys(
        np.flatnonzero(present & (ids < 0)).tolist(), "protobuf: no Confluent header"
    )
    # Nearly every payload of the first message has the lone 00, which needs no second look.
    starts[framed] += _HEADER + 1
    is_first = heads[:, _HEADER] == 0
    known = is_first if tuple(expected) == _FIRST else np.zeros(len(framed), np.bool_)
    for row in framed[~known].tolist():
        indexes, size = message_indexes(payloads[row].as_py())
        starts[row] += size - _HEADER - 1
        if not size:
            errors[row] = "protobuf: malformed message indexes"
        elif tuple(indexes) != tuple(expected):
            errors[row] = f"protobuf: message indexes {list(indexes)} in place of {list(expected)}"
    present[list(errors)] = False
    return Frames(ids, _bodies(payloads, starts, ends, present), errors)


def _bodies(payloads: pa.BinaryArray, starts: Int64s, ends: Int64s, good: Bools) -> pa.BinaryArray:
    """Return the bytes ``[start, end)`` of the good rows, which are null elsewhere."""
    kept = np.flatnonzero(good)
    # The bodies and the headers between them, as one Arrow array over the same data; taking every
    # second value copies the bodies in C++.
    offsets = np.empty(2 * len(kept) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts[kept], ends[kept]
    offsets[-1] = offsets[-2] if len(kept) else 0
    buffers = [None, pa.py_buffer(offsets), payloads.buffers()[2]]
    segments = pa.Array.from_buffers(pa.binary(), 2 * len(kept), buffers)
    places = np.zeros(len(good), np.int64)
    places[kept] = np.arange(0, 2 * len(kept), 2)
    return segments.take(pa.array(places, mask=~good))


def message_indexes(payload: bytes, at: int = _HEADER) -> tuple[Sequence[int], int]:
    """Return the message indexes at a position, and where they end; 0 if they are malformed."""
    count, at = _zigzag(payload, at)
    indexes: list[int] = []
    if not 0 <= count <= len(payload):
        return (), 0
    for _ in range(count):
        index, at = _zigzag(payload, at)
        if index < 0:
            return (), 0
        indexes.append(index)
    return (indexes or _FIRST), at


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most 32 bits and the position after it; -1 if there is none."""
    number = 0
    for i, byte in enumerate(payload[at : at + 5]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + i + 1
    return -1, at
