"""Columns as the extension takes them: buffers of Arrow, which it reads where they are."""

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from landfall.pipeline.records import Int64s, Selected

NativeColumn: TypeAlias = tuple[
    pa.Buffer | None, pa.Buffer, pa.Buffer | None, int, int, Int64s | None
]
"""Validity bits, bounds, bytes, the first row in these, how many rows, and which of them."""


def of(selected: Sequence[Selected]) -> list[NativeColumn]:
    """Return rows of binary columns as ``landfall_native`` takes them; nothing is copied."""
    return [
        (*values.buffers(), values.offset, len(values), positions) for values, positions in selected
    ]
