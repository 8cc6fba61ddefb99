"""Turning payloads into fields that can be routed on and columns that can be written.

A decoder is built once per task by ``Name.of(options, wanted)`` and sees columns, never single
records. Yours is found by ``package.module:Name``, like ours by ``Raw``, ``Json``, ``Delimited``,
``Regex``: see ``landfall.registry``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import NO_BAD_ROWS, BadRows, FieldValues, Int64s, Records

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the later stages ask of a decoder.

    Attributes:
        fields: paths of payload fields, for the event time and for ``{field:path}`` in the route;
            ``("meta", "ts")`` is ``ts`` inside ``meta``. For delimited and regex payloads a path is
            one column or group name.
        schema: typed columns to extract (``decoders.columns.schema_of``), or None if the payload is
            written as it is.
        json: whether ``Decoded.records.values`` must be JSON objects (format ``Json``).
        timestamps, keys, headers: whether the format writes these columns of ``Records``. Only then
            are they carried to its blocks: each costs CPU per record. Decoders and transforms may
            look at them anyway.
    """

    fields: tuple[Path, ...] = ()
    schema: pa.Schema | None = None
    json: bool = False
    timestamps: bool = False
    keys: bool = False
    headers: bool = False


@dataclass(frozen=True)
class Decoded:
    """What came of some records.

    Attributes:
        records: the rows that decoded, in order.
        fields: for each wanted path, the values of exactly those rows.
        columns: typed columns of exactly those rows, when a schema was wanted.
        bad: the rows that did not, by their position in what ``decode`` was given, increasing.
        filtered: how many rows were left out on purpose (transforms do this; decoders do not).
        positions: of each row in what ``decode`` was given; None while no row has fallen out.
    """

    records: Records
    fields: Mapping[Path, FieldValues] = field(default_factory=dict)
    columns: pa.RecordBatch | None = None
    bad: BadRows = NO_BAD_ROWS
    filtered: int = 0
    positions: Int64s | None = None

    def keep(self, mask: npt.NDArray[np.bool_]) -> "Decoded":
        """Go on with the rows where ``mask``, shape (rows,), is true; the others are filtered out on purpose."""
        kept = np.flatnonzero(mask)
        return (
            self
            if len(kept) == len(self.records)
            else self._picked(kept, self.bad, len(self.records) - len(kept))
        )

    def reject(self, errors: Mapping[int, str]) -> "Decoded":
        """Go on without these rows, by their position in ``records``: they are bad."""
        if not errors:
            return self
        rows = np.array(sorted(errors), np.int64)
        positions = rows if self.positions is None else self.positions[rows]
        said = dict(zip(self.bad.rows.tolist(), self.bad.errors, strict=True))
        said |= {
            position: errors[row]
            for position, row in zip(positions.tolist(), rows.tolist(), strict=True)
        }
        bad = BadRows(
            np.array(sorted(said), np.int64), [said[position] for position in sorted(said)]
        )
        return self._picked(np.delete(np.arange(len(self.records)), rows), bad, 0)

    def _picked(self, rows: Int64s, bad: BadRows, filtered: int) -> "Decoded":
        return Decoded(
            self.records.take(rows),
            {path: _pick(values, rows) for path, values in self.fields.items()},
            None if self.columns is None else self.columns.take(pa.array(rows)),
            bad,
            self.filtered + filtered,
            rows if self.positions is None else self.positions[rows],
        )


def _pick(values: FieldValues, rows: Int64s) -> FieldValues:
    if isinstance(values, list):
        return [values[row] for row in rows.tolist()]
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))


class Decoder(Protocol):
    """Payloads in, fields and columns out."""

    def decode(self, records: Records) -> Decoded:
        """Decode every row or say what is wrong with it; never raises for what a payload holds."""
        ...


class DecoderType(Protocol):
    """What the registry finds under a decoder's name."""

    def of(self, options: Mapping[str, object], wanted: Wanted) -> Decoder:
        """Build the decoder from ``spec.decode``'s options.

        Raises:
            ValueError: an option is unknown, missing or out of range; the message names it.
        """
        ...


class Transform(Protocol):
    """A step between decoding and routing: injects fields, rewrites payloads, filters rows.

    It must depend on the rows alone (no clock, no randomness, no service that changes its mind), or
    a range read again would not give the same objects.
    """

    @property
    def fields(self) -> tuple[Path, ...]:
        """Payload fields it reads, beyond those of the route."""
        ...

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows to go on with; ``Decoded.keep`` leaves rows out on purpose, ``Decoded.reject`` as bad."""
        ...


class TransformType(Protocol):
    """What ``transforms[].use`` names."""

    def of(self, options: Mapping[str, object]) -> Transform:
        """Build the step from its options.

        Raises:
            ValueError: an option is unknown, missing or out of range; the message names it.
        """
        ...


__all__: Sequence[str] = (
    "Decoded",
    "Decoder",
    "DecoderType",
    "Path",
    "Transform",
    "TransformType",
    "Wanted",
)
