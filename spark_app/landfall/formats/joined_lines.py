"""Payloads joined to lines: by the extension, which copies each once, or by Arrow.

The result is the same. The extension gathers rows that were only chosen, writes the delimiters and
replaces line breaks in that copy; Arrow takes a pass for each.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats import native_columns
from landfall.formats.codecs import Bytes
from landfall.native import hot_path
from landfall.pipeline.records import Records

_LINE_BREAKS = (b"\n", b"\r")


@dataclass(frozen=True)
class Lines:
    """How payloads become lines.

    Attributes:
        delimiter: what follows each payload.
        tombstone: what a tombstone is written as; None if the format cannot write any.
        unbroken: whether line breaks inside a payload become spaces.
    """

    delimiter: bytes
    tombstone: bytes | None = None
    unbroken: bool = False

    def join(self, records: Records) -> Bytes:
        """Return the lines of these records.

        Raises:
            ValueError: there is a tombstone, and the format cannot write any.
        """
        module, selected = hot_path().module, records.selected
        if module and not any(values.null_count for values, _ in selected):
            columns = native_columns.of(selected)
            return memoryview(module.lines(columns, self.delimiter, self.unbroken))
        return payload_bytes(self._joined(records))

    def _joined(self, records: Records) -> pa.BinaryArray:
        values = records.values
        if values.null_count:
            if self.tombstone is None:
                # Tombstones are bad rows by now. Their lines would vanish from the object.
                plural = "s" if values.null_count > 1 else ""
                raise ValueError(
                    f"{records.topic_partition}: {values.null_count} tombstone{plural} in a block"
                    " of a format that cannot write any"
                )
            values = values.fill_null(self.tombstone)
        # Only white space of JSON is below 0x0e: one look tells that there is no line break.
        for line_break in _LINE_BREAKS if self.unbroken and _least(values) < 0x0E else ():
            if contains(values, line_break[0]):
                values = pc.replace_substring(values, pattern=line_break, replacement=b" ")
        return pc.binary_join_element_wise(values, self.delimiter, b"")


def payload_bytes(values: pa.BinaryArray) -> memoryview:
    """Return the bytes of all values back to back, without copying; no value may be null."""
    _, bounds, payload = values.buffers()
    if len(values) == 0 or payload is None:
        return memoryview(b"")
    ends = np.frombuffer(bounds, np.int32, len(values) + 1, 4 * values.offset)
    return memoryview(payload)[ends[0] : ends[-1]]


def contains(values: pa.BinaryArray, byte: int) -> bool:
    """Whether any value has this byte."""
    # NumPy reads the buffer as it is; ``in`` would need a copy of it.
    return bool((np.frombuffer(payload_bytes(values), np.uint8) == byte).any())


def _least(values: pa.BinaryArray) -> int:
    """The least byte of all values; 255 if there is none."""
    return int(np.frombuffer(payload_bytes(values), np.uint8).min(initial=255))
