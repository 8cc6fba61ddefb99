"""Step ``Rename``: gives fields or columns other names; its options are the new names by the old.

All names change at once, so two fields can swap theirs. A field keeps its place in its object, and
a column its place; a field that moves to another object becomes its last. A field that a payload
does not have is no error. A payload that has a field of the new name already is rejected; a column
of the new name is an error of the spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import (
    Document,
    find,
    put,
    read_documents,
    remove,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, path_of, with_columns


@dataclass(frozen=True)
class Rename:
    """Gives fields or columns other names.

    Attributes:
        names: the new names by the old.
        writes: the new names.
    """

    names: Mapping[Path, Path]
    writes: tuple[Path, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Rename":
        """Build the step; ValueError names a wrong option."""
        del context  # a name is a path or a column, as there is one
        names: dict[Path, Path] = {}
        for old, new in options.items():
            if not isinstance(new, str) or not new:
                raise ValueError(f"options: {old}: expected the new name, got {new!r}")
            names[path_of(old)] = path_of(new)
        if not names:
            raise ValueError("options: name at least one field, as old: new")
        if len(set(names.values())) < len(names):
            raise ValueError("options: two fields get one name")
        return cls(names, tuple(names.values()))

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with other names; reject those that have the new name already."""
        if decoded.columns is not None:
            return self._columns(decoded)
        decoded, documents = read_documents(decoded)
        errors: dict[int, str] = {}
        for row, document in enumerate(documents):
            if document is not None:
                documents[row], error = self._renamed(document)
                if error:
                    errors[row] = error
        return with_documents(decoded, documents, self.writes, errors)

    def _columns(self, decoded: Decoded) -> Decoded:
        assert decoded.columns is not None
        for old in self.names:
            column_of(decoded.columns, old)
        texts = {".".join(old): ".".join(new) for old, new in self.names.items()}
        columns = columns_by_name(decoded.columns)
        renamed = {texts.get(name, name): column for name, column in columns.items()}
        if len(renamed) < len(columns):
            taken = sorted(set(texts.values()) & (columns.keys() - texts.keys()))
            raise ValueError(f"options: there is a column {', '.join(taken)} already")
        return with_columns(decoded, renamed)

    def _renamed(self, document: Document) -> tuple[Document, str | None]:
        moved = {}
        for old, new in self.names.items():
            if len(old) == len(new) == 1:
                continue
            if (value := remove(document, old)) is not None:
                moved[new] = value
        top = {old[0]: new[0] for old, new in self.names.items() if len(old) == len(new) == 1}
        renamed = {top.get(name, name): value for name, value in document.items()}
        if len(renamed) < len(document):
            taken = sorted(set(top.values()) & (document.keys() - top.keys()))
            return document, f"rename: there is a field {', '.join(taken)} already"
        for new, value in moved.items():
            if find(renamed, new) is not None:
                return document, f"rename: there is a field {'.'.join(new)} already"
            if not put(renamed, new, value):
                return document, f"rename: what is above {'.'.join(new)} is no object"
        return renamed, None
