"""Replaces text in fields or columns, value by value: what ``Mask`` and ``Hash`` share."""

from collections.abc import Callable, Sequence
from itertools import product

import msgspec
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.transforms.documents import (
    NULL,
    find,
    put,
    raw_of,
    read_documents,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, with_columns

Change = Callable[[str], str]


def with_replaced(decoded: Decoded, paths: Sequence[Path], change: Change) -> Decoded:
    """Return the rows with other text at these paths.

    What is no text in JSON is changed as the text that it is written with. Null and absent values
    stay.

    Raises:
        ValueError: a column is not of text.
    """
    seen: dict[str, str] = {}

    def replaced(text: str) -> str:
        # Values repeat, and a keyed hash costs more than a look-up.
        made = seen.get(text)
        if made is None:
            made = seen[text] = change(text)
        return made

    if decoded.columns is not None:
        columns = columns_by_name(decoded.columns)
        for path in paths:
            columns[".".join(path)] = _column(column_of(decoded.columns, path), path, replaced)
        return with_columns(decoded, columns)
    decoded, documents = read_documents(decoded)
    present = [document for document in documents if document is not None]
    for document, path in product(present, paths):
        raw = find(document, path)
        if raw is not None and raw != NULL:
            put(document, path, raw_of(replaced(_text(raw))))
    return with_documents(decoded, documents, paths, {})


def _column(array: pa.Array, path: Path, replaced: Change) -> pa.StringArray:
    if not pa.types.is_string(array.type):
        raise ValueError(f"column {'.'.join(path)} is {array.type}; only a String is replaced")
    return pa.array(
        [None if text is None else replaced(text) for text in array.to_pylist()], pa.string()
    )


def _text(raw: msgspec.Raw) -> str:
    text = bytes(raw)
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()
