"""Reads payloads with a compiled schema: one column, and what is wrong with bad rows."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders.avro.cursor import AvroCursor, Data, ErrorTexts
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.records import Int64s


def payload_data(
    payloads: pa.BinaryArray, *, is_strict: bool = False
) -> tuple[Data, Int64s, Int64s]:
    """Return the bytes of all payloads, and where in them each one starts and ends.

    A null is an empty payload. With ``is_strict``, what is skipped is checked, too.
    """
    _, offsets_buffer, content = payloads.buffers()
    all_offsets = np.frombuffer(offsets_buffer or b"\0\0\0\0", np.int32)
    of_rows = all_offsets[payloads.offset : payloads.offset + len(payloads) + 1]
    offsets: Int64s = of_rows.astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    data = Data.of(np.frombuffer(content or b"", np.uint8)[first:last], is_strict=is_strict)
    return data, offsets[:-1] - first, offsets[1:] - first


def read(node: Node, data: Data, start: Int64s, end: Int64s) -> tuple[pa.Array, Mapping[int, str]]:
    """Read the values that are exactly the bytes ``[start, end)`` of their rows.

    Returns:
        A column with a value for each row, and short messages by row. Values of rows with a message
        mean nothing.
    """
    cursor = AvroCursor(data, start.copy(), end, ErrorTexts())
    column = node.read(cursor)
    cursor.fail(cursor.at != cursor.end, "bytes left over after the value")
    errors = {
        int(row): f"avro: {cursor.texts.texts[cursor.errors[row]].removeprefix(': ')}"
        for row in np.flatnonzero(cursor.errors >= 0)
    }
    return column, errors
