"""The interfaces of decoders and transforms, which a plug-in implements.

A decoder turns payloads into fields, by which records are dated and routed, and into typed columns,
which formats such as Parquet write. A transform changes, filters or rejects decoded rows before
they are routed. Both see whole columns (Arrow and NumPy arrays), never single records.

A class is named in the resource either by a built-in name, such as ``Json`` or ``Avro``, or by an
import path, ``package.module:Name``; ``landfall.registry`` treats decoders of both kinds alike. Its
class method ``of`` is called with the options from the resource: in the driver, which thereby
checks the resource before it reads anything, and once in each worker process. A decoder or
transform must keep no state between calls and must depend on the rows alone: no clock, no
randomness, no remote service. A range that is read again after a crash must give exactly the same
objects.

A payload that cannot be decoded is data, not an error: reject its row with ``Decoded.reject``. It
becomes a dead letter and counts toward ``badRecords.maxRatio``; with ``badRecords.policy: Fail`` it
stalls its topic partition instead. An exception from ``decode`` or ``apply`` is treated as a bug:
the records that cause it by themselves become dead letters, and are counted and reported as
unexpected. If no single record causes it, the slice is retried with backoff while other slices
continue.

One exception is none: a ``landfall.errors.Retry`` out of ``decode`` means that something the
decoder needs is away, such as a schema registry (``SchemasAway``). The slice fails with it and is
retried, and no record of it becomes a dead letter. The answers of such a service must never change:
schemas by their id do not.

Example: a decoder whose only field is the length of the payload::

    class Length:
        def __init__(self, wanted: Wanted) -> None:
            self._wanted = wanted

        @classmethod
        def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Length":
            if options or wanted.schema is not None or wanted.json:
                raise ValueError("Length takes no options and decodes no columns or JSON")
            return cls(wanted)

        def decode(self, records: Records) -> Decoded:
            lengths = pc.binary_length(records.values).to_pylist()
            empty = {row: "empty payload" for row, length in enumerate(lengths) if length == 0}
            return Decoded(records, {path: lengths for path in self._wanted.fields}).reject(empty)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.decoders.row_schemas import SchemaRows, together
from landfall.pipeline.pinned import no_file
from landfall.pipeline.records import NO_BAD_ROWS, BadRows, FieldValues, Int64s, Records

Path: TypeAlias = tuple[str, ...]
"""Where a field is in the payload: ``("meta", "ts")`` is ``ts`` inside ``meta``."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The needs of the later stages of a decoder.

    Attributes:
        fields: paths of the payload fields that the event time, the route (``{field:path}``) and
            the transforms read. For delimited and regex payloads a path, joined by dots, is the
            name of one column or group.
        schema: the typed columns to extract, as made by ``typed_columns.schema_of``, or None if the
            payload is written as it is.
        json: whether every value of ``Decoded.records`` must be a JSON object (format ``Json``).
        zeros: whether JSON has fields that payloads do not have because they hold the default of
            their type, as fields of Protobuf without presence.
        columns: whether the format writes the typed columns, if the group declares any, and not the
            payloads.
        own_columns: whether the typed columns follow the payloads' own schemas; the decoder
            then returns ``Decoded.by_schema``. Only a decoder whose class has
            ``has_schemas = True`` is asked for these and the next.
        bodies: whether the format copies payloads together with their schema; the decoder then
            returns ``Decoded.by_schema`` without columns, and as payloads what the schema encodes.
        timestamps: whether the format writes Kafka timestamps. Only the columns that are asked for
            here are carried to the format, because each costs CPU per record. Decoders and
            transforms may read all of them in any case.
        keys: whether the format writes record keys.
        headers: whether the format writes record headers.
        is_key: whether the payloads are the keys of records.
        common: whether fields and JSON have the values of ``landfall.pipeline.common_values``; if
            not, those that the decoder has always given.
        read_file: returns the bytes of a file that an option names; raises OSError.
    """

    fields: tuple[Path, ...] = ()
    schema: pa.Schema | None = None
    json: bool = False
    zeros: bool = False
    columns: bool = False
    own_columns: bool = False
    bodies: bool = False
    timestamps: bool = False
    keys: bool = False
    headers: bool = False
    is_key: bool = False
    common: bool = False
    read_file: Callable[[str], bytes] = no_file

    @property
    def by_schema(self) -> bool:
        """Return whether rows are wanted by the schemas of their own."""
        return self.own_columns or self.bodies


@dataclass(frozen=True, slots=True)
class UsedSchema:
    """A schema from elsewhere, such as a registry, that payloads were decoded with.

    A task stores it alongside the ledger before its result names it, so that what landed can be
    read when the schema is known nowhere else any more.

    Attributes:
        body: the schema, as ``landfall.schemas.encode_schema`` writes it.
        registry: which registry it is from, as 16 hexadecimal digits.
        schema_id: what that registry calls it; empty if it was not asked for by an id.
    """

    body: bytes
    registry: str
    schema_id: str = ""


@dataclass(frozen=True)
class Decoded:
    """Decoded rows, and an account of the rows that fell out.

    Every row given to ``decode`` is exactly one of: kept (in ``records``), bad, or filtered. The
    task checks the sum. ``keep`` and ``reject`` maintain it; use them instead of building a smaller
    ``Decoded`` by hand.

    Attributes:
        records: the rows that are kept, in their original order.
        fields: for each wanted path the values of exactly these rows. Give the cheapest of an int64
            array, an Arrow string array (null means absent) or a list (None means absent).
        columns: the typed columns of exactly these rows, if a schema was wanted.
        by_schema: these rows by their own schemas, if that was wanted; each in exactly one.
        bad: the rows that could not be decoded or were rejected, by their position in the records
            given to ``decode``, increasing.
        filtered: how many rows transforms left out on purpose, and records that an
            envelope of ``spec.decode.envelope`` has no row for. No other decoder filters.
        positions: for each kept row its position in the records given to ``decode``, shape (rows,);
            None while no row has fallen out.
        used: schemas from elsewhere that the rows given to ``decode`` were decoded with, bad ones
            included. Tasks read it of the decoder; transforms need not keep it.
    """

    records: Records
    fields: Mapping[Path, FieldValues] = field(default_factory=dict)
    columns: pa.RecordBatch | None = None
    bad: BadRows = NO_BAD_ROWS
    filtered: int = 0
    positions: Int64s | None = None
    by_schema: tuple[SchemaRows, ...] | None = None
    used: tuple[UsedSchema, ...] = ()

    def keep(self, mask: npt.NDArray[np.bool_]) -> "Decoded":
        """Return the rows where ``mask``, shape (rows,), is true; the rest counts as filtered."""
        kept = np.flatnonzero(mask)
        return (
            self
            if len(kept) == len(self.records)
            else self._take(kept, self.bad, len(self.records) - len(kept))
        )

    def with_schema(self) -> "Decoded":
        """Return the rows that have a schema of their own, if rows are wanted by these.

        The remaining rows become bad: a row that a decoder forgets must not vanish silently.
        """
        if self.by_schema is None:
            return self
        known = [part.rows for part in self.by_schema]
        if sum(map(len, known)) == len(self.records):
            return self
        rows = np.setdiff1d(np.arange(len(self.records)), np.concatenate([*known, _NO_ROWS]))
        return self.reject(dict.fromkeys(rows.tolist(), "a tombstone, which has no schema"))

    def reject(self, errors: Mapping[int, str]) -> "Decoded":
        """Return the rows that are not in ``errors``; those that are become bad rows.

        Args:
            errors: short messages by row, where a row is a position in
                ``self.records``, not in what ``decode`` was given. Do not put the whole
                payload in: dead letters hold it anyway.
        """
        if not errors:
            return self
        rows = np.array(sorted(errors), np.int64)
        positions = rows if self.positions is None else self.positions[rows]
        by_position = dict(zip(self.bad.rows.tolist(), self.bad.errors, strict=True))
        by_position |= {
            position: errors[row]
            for position, row in zip(positions.tolist(), rows.tolist(), strict=True)
        }
        bad = BadRows(
            np.array(sorted(by_position), np.int64),
            [by_position[position] for position in sorted(by_position)],
        )
        return self._take(np.delete(np.arange(len(self.records)), rows), bad, 0)

    def _take(self, rows: Int64s, bad: BadRows, filtered: int) -> "Decoded":
        return Decoded(
            records=self.records.take(rows),
            fields={path: _take_values(values, rows) for path, values in self.fields.items()},
            columns=None if self.columns is None else self.columns.take(pa.array(rows)),
            bad=bad,
            filtered=self.filtered + filtered,
            positions=rows if self.positions is None else self.positions[rows],
            by_schema=None
            if self.by_schema is None
            else together(s.take(rows) for s in self.by_schema),
            used=self.used,
        )


_NO_ROWS = np.empty(0, np.int64)


def _take_values(values: FieldValues, rows: Int64s) -> FieldValues:
    if isinstance(values, list):
        return [values[row] for row in rows.tolist()]
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))


class Decoder(Protocol):
    """Turns payloads into fields and columns."""

    def decode(self, records: Records) -> Decoded:
        """Decode a chunk of records.

        Args:
            records: consecutive visible records of one topic partition. ``records.values`` is an
                Arrow binary array, shape (rows,), in which null is a tombstone.

        Returns:
            All rows, each either decoded or bad. Must not raise because of what a payload holds: an
            exception fails the whole slice (see the module's description).

        Raises:
            Retry: what the decoder needs is away; the slice is tried again.
        """
        ...


class DecoderType(Protocol):
    """The class that ``spec.decode.format`` names."""

    def of(self, options: Mapping[str, object], wanted: Wanted) -> Decoder:
        """Build the decoder.

        Args:
            options: ``spec.decode.options``, and ``spec.decode.registry``, if the group has one, as
                ``registry``: its ``urls``, the name of its ``secret`` or None, and its
                ``timeout_seconds``. ``options.read_options`` checks them against a declared
                ``msgspec.Struct``.
            wanted: what the later stages need. Refuse here what the decoder cannot deliver.

        Raises:
            ValueError: an option is unknown, missing or out of range, or ``wanted`` asks for
                something the decoder cannot deliver. The message must name it; the group then stops
                with ``SpecInvalid`` and the path of the field.
        """
        ...


class Transform(Protocol):
    """A step between decoding and routing: adds fields, rewrites payloads, filters or rejects rows.

    The result must depend on the rows alone (no clock, no randomness, no remote service), because a
    range that is read again must give the same objects.
    """

    @property
    def fields(self) -> tuple[Path, ...]:
        """Paths of the payload fields this step reads, so that the decoder extracts them."""
        ...

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows that continue to the next step.

        ``Decoded.keep`` leaves rows out on purpose, ``Decoded.reject`` makes them bad,
        ``Records.with_values`` replaces payloads, and a field added to ``fields`` can be
        used in the route as ``{field:name}``. Rows must stay in order. Must not raise
        because of what a row holds.
        """
        ...


class TransformType(Protocol):
    """The class that ``spec.transforms[].use`` names."""

    def of(self, options: Mapping[str, object]) -> Transform:
        """Build the step from ``spec.transforms[].options``.

        Raises:
            ValueError: an option is unknown, missing or out of range; the message must name it.
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
