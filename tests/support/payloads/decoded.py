"""What a decoder made of each row, as plain values that tests compare."""

import numpy as np

from landfall.pipeline.decoders import Decoded


def as_list(values: object) -> list[object]:
    """A column of fields as Python values."""
    if isinstance(values, list):
        return values
    plain: list[object] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()  # type: ignore[attr-defined]  # an Arrow array has no types
    return plain


def results(decoded: Decoded) -> dict[int, object]:
    """Return for each offset the error, or everything decoded from the row."""
    rows = zip(
        decoded.records.offsets.tolist(),
        decoded.records.values.to_pylist(),
        *(as_list(values) for values in decoded.fields.values()),
        *([decoded.columns.to_pylist()] if decoded.columns is not None else []),
        strict=True,
    )
    bad = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    return {**{offset: repr(rest) for offset, *rest in rows}, **bad}
