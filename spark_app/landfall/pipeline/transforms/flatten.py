"""Step ``Flatten``: makes the fields of nested objects fields of the record.

| option | default | meaning |
|---|---|---|
| ``fields`` | all | names of the objects, or of the columns, that are flattened |
| ``separator`` | ``_`` | what joins the names: ``meta.user.id`` becomes ``meta_user_id`` |

Objects inside of objects are flattened, too, down to 100 levels; arrays and empty objects stay as
they are. A record
in which two fields get one name is rejected; two such columns are an error of the spec. A column is
flattened if it is a struct; a null struct makes all its columns null.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import (
    Document,
    inner,
    read_documents,
    with_documents,
)
from landfall.pipeline.transforms.names import columns_by_name, paths_of, with_columns

_MAX_DEPTH = 100


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Flatten``."""

    fields: tuple[str, ...] | None = None
    separator: str = "_"


@dataclass(frozen=True)
class Flatten:
    """Makes the fields of nested objects fields of the record.

    Attributes:
        names: the objects or columns that are flattened; None for all.
        separator: what joins names.
        writes: the columns it makes; in JSON form they depend on the payload.
    """

    names: frozenset[str] | None
    separator: str
    writes: tuple[Path, ...] = ()
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Flatten":
        """Build the step; ValueError names a wrong option."""
        read = read_options(options, Options)
        names = None
        if read.fields is not None:
            paths = paths_of("fields", read.fields)
            if context.schema is None and any(len(path) > 1 for path in paths):
                raise ValueError("option fields: name objects of the record, not nested ones")
            names = frozenset(read.fields)
        step = cls(names, read.separator)
        if context.schema is None:
            return step
        if names is not None and not (names <= set(context.schema.names)):
            missing = sorted(names - set(context.schema.names))
            raise ValueError(f"option fields: no column {', '.join(missing)}")
        made = (name for field in context.schema for name, _ in step.flat_types(field))
        written = (name for name in made if name not in context.schema.names)
        return cls(names, read.separator, tuple((name,) for name in written))

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with flat objects; reject those in which two fields get one name."""
        if decoded.columns is not None:
            return self._columns(decoded, decoded.columns)
        decoded, documents = read_documents(decoded)
        errors: dict[int, str] = {}
        for row, document in enumerate(documents):
            if document is not None:
                flattened: Document = {}
                for name, raw in self._flat_values(document):
                    if name in flattened:
                        errors[row] = f"flatten: two fields become {name!r:.80}"
                    flattened[name] = raw
                documents[row] = flattened
        # Any field of the record may have been made just now.
        written = [path for path in decoded.fields if len(path) == 1]
        return with_documents(decoded, documents, written, errors)

    def _columns(self, decoded: Decoded, columns: pa.RecordBatch) -> Decoded:
        flat: dict[str, pa.Array] = {}
        for name, column in columns_by_name(columns).items():
            for flat_name, array in self._flat_columns(name, column):
                if flat_name in flat:
                    raise ValueError(f"two columns become {flat_name!r}")
                flat[flat_name] = array
        return with_columns(decoded, flat)

    def flat_types(self, field: pa.Field) -> Iterator[tuple[str, pa.DataType]]:
        """The names and types of the columns that a column becomes."""
        empty = pa.array([], field.type)
        for name, array in self._flat_columns(field.name, empty):
            yield name, array.type

    def _flat_columns(self, name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        if not pa.types.is_struct(array.type) or not (self.names is None or name in self.names):
            yield name, array
            return
        yield from self._flat_struct(name, array)

    def _flat_struct(self, name: str, array: pa.StructArray) -> Iterator[tuple[str, pa.Array]]:
        for field, part in zip(array.type, array.flatten(), strict=True):
            inside = f"{name}{self.separator}{field.name}"
            if pa.types.is_struct(part.type):
                yield from self._flat_struct(inside, part)
            else:
                yield inside, part

    def _flat_values(self, document: Document) -> Iterator[tuple[str, msgspec.Raw]]:
        for name, raw in document.items():
            if self.names is None or name in self.names:
                yield from self._flat_object(name, raw, _MAX_DEPTH)
            else:
                yield name, raw

    def _flat_object(
        self, name: str, raw: msgspec.Raw, levels: int
    ) -> Iterator[tuple[str, msgspec.Raw]]:
        below = inner(raw) if levels else None
        if not below:
            yield name, raw
            return
        for part, value in below.items():
            yield from self._flat_object(f"{name}{self.separator}{part}", value, levels - 1)
