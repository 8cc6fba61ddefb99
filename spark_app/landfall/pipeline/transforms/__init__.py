"""Transforms that need no code: what a built-in step sees, and what it may change.

A step stands between the decoder and the route. It changes what is landed of a row in one of two
forms, which the group chooses, not the step:

=============  ==========================================  ========================================
form           when                                        what a step reads and changes
=============  ==========================================  ========================================
columns        the group declares ``spec.decode.columns``  ``Decoded.columns``, by column name
JSON payload   it declares none                            the payload, by path (``meta.ts``); every
                                                           value that no step writes keeps its bytes
=============  ==========================================  ========================================

A step that only decides about rows (``Filter``) changes neither, and reads payload fields as the
decoder extracted them. Where the columns have changed and the format writes payloads, the payloads
are made of the columns at the end (``landfall.pipeline.transforms.payloads``).

Every row given to a step is exactly one of: kept, left out on purpose (``Decoded.keep``, counted as
filtered) or rejected with a reason (``Decoded.reject``, a dead letter). Rows keep their order. The
result of a row depends on this row and the options alone, never on adjacent rows: that is why
it is the same on every reading, however a range is cut into chunks. A tombstone in JSON form stays
a tombstone: no step gives it fields.

A route reads, for each name, what the last step wrote under it, else the payload's own field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from landfall.api.spec import Timestamp
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Path, Transform
from landfall.pipeline.pinned import no_file
from landfall.pipeline.records import FieldValues, of_columns


def _no_secret(name: str) -> Mapping[str, str]:
    raise ValueError(f"option secret: no secret {name!r}")


@dataclass(frozen=True)
class TransformContext:
    """The inputs of a built-in step, in addition to its options.

    Attributes:
        schema: the typed columns as the steps before leave them; None in JSON form.
        timestamp: the group's ``spec.decode.timestamp``.
        event_columns: the typed columns that read the same field.
        timezone: the time zone of the group's route.
        written: the names that the steps before have written.
        read_secret: returns the values of a mounted Secret by key.
        read_file: returns the bytes of a file; raises OSError.
    """

    schema: pa.Schema | None = None
    timestamp: Timestamp | None = None
    event_columns: frozenset[str] = frozenset()
    timezone: str = "UTC"
    read_secret: Callable[[str], Mapping[str, str]] = _no_secret
    read_file: Callable[[str], bytes] = no_file
    written: frozenset[Path] = frozenset()

    def has_column(self, path: Path) -> bool:
        """Return whether a typed column has this name."""
        return self.schema is not None and ".".join(path) in self.schema.names

    def is_event_time(self, path: Path) -> bool:
        """Return whether a name is the field of the event time, as the decoder read it."""
        if self.timestamp is None or path in self.written:
            return False
        if self.schema is not None:
            return ".".join(path) in self.event_columns
        return path == self.timestamp.path

    def is_written_column(self, path: Path) -> bool:
        """Return whether a step before has written the typed column of this name."""
        return path in self.written and self.has_column(path)


class BuiltInTransform(Transform, Protocol):
    """A built-in transform."""

    @property
    def writes(self) -> tuple[Path, ...]:
        """The names this step gives values to, which later stages read from it."""
        ...

    @property
    def rewrites(self) -> bool:
        """Return whether it changes columns or payloads, and does not only decide about rows."""
        ...


def schema_after(step: BuiltInTransform, schema: pa.Schema) -> pa.Schema:
    """Return the typed columns that the step makes of these.

    It is applied to no rows, so that what does not fit the columns is found before any are read.

    Raises:
        ValueError: a column that the step names does not exist, or has a wrong type.
    """
    none = of_columns(TopicPartition("none", 0), np.empty(0, np.int64), pa.array([], pa.binary()))
    fields: dict[Path, FieldValues] = {path: [] for path in step.fields}
    applied = step.apply(Decoded(none, fields, _empty(schema)))
    assert applied.columns is not None, "a step keeps the form of the rows"
    return applied.columns.schema


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
