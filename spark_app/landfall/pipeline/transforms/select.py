"""Step ``Select``: keeps some fields or columns, or leaves some out.

| option | meaning |
|---|---|
| ``fields`` | names of what is kept; columns get this order |
| ``drop`` | names of what is left out; give one of the two |

A field that a payload does not have is not kept and is no error; a column that does not exist is.
A route may use a field that was left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import (
    Document,
    find,
    put,
    read_documents,
    remove,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, paths_of, with_columns


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Select``."""

    fields: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Select:
    """Keeps some fields or columns.

    Attributes:
        names: what is kept, or left out.
        is_kept: which of the two.
    """

    names: tuple[Path, ...]
    is_kept: bool
    fields: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Select":
        """Build the step; ValueError names a wrong option."""
        del context  # a name is a path or a column, as there is one
        read = read_options(options, Options)
        if (read.fields is None) == (read.drop is None):
            raise ValueError("options: give one of fields and drop")
        if read.drop is not None:
            return cls(paths_of("drop", read.drop), is_kept=False)
        return cls(paths_of("fields", read.fields or ()), is_kept=True)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return all rows, with less in them."""
        if decoded.columns is not None:
            named = {".".join(path): column_of(decoded.columns, path) for path in self.names}
            every = columns_by_name(decoded.columns)
            left = {name: column for name, column in every.items() if name not in named}
            if not self.is_kept and not left:
                raise ValueError("option drop: names all columns")
            return with_columns(decoded, named if self.is_kept else left)
        decoded, documents = read_documents(decoded)
        for row, document in enumerate(documents):
            if document is not None:
                documents[row] = self._selected(document)
        return with_documents(decoded, documents, (), {})

    def _selected(self, document: Document) -> Document:
        if not self.is_kept:
            for path in self.names:
                remove(document, path)
            return document
        kept: Document = {}
        for path in self.names:
            if (value := find(document, path)) is not None:
                put(kept, path, value)
        return kept
