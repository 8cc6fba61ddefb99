"""Turning payloads into fields that can be routed on and columns that can be written.

A decoder is built once per task by ``Name.of(options, wanted)`` and sees columns, never single records. Yours is found by
``package.module:Name``, like ours by ``Raw``, ``Json``, ``Delimited``, ``Regex``: see ``landfall.registry``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from landfall.records import NO_BAD_ROWS, BadRows, FieldValues, Records


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the later stages ask of a decoder.

    Attributes:
        fields: paths of payload fields, for the event time and for ``{field:path}`` in the route; ``("meta", "ts")``
            is ``ts`` inside ``meta``. For delimited and regex payloads a path is one column or group name.
        schema: typed columns to extract, or None if the payload is written as it is.
        json: whether ``Decoded.records.values`` must be JSON objects on a single line (formats ``Json``).
        timestamps, keys, headers: whether the format writes these columns of ``Records``. Only then are they carried to
            its blocks: each costs CPU per record. Decoders and transforms may look at them anyway.
    """

    fields: tuple[tuple[str, ...], ...] = ()
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
        bad: the rows that did not, by their position in what ``decode`` was given.
        filtered: how many rows were left out on purpose (transforms do this; decoders do not).
    """

    records: Records
    fields: Mapping[tuple[str, ...], FieldValues] = field(default_factory=dict)
    columns: pa.RecordBatch | None = None
    bad: BadRows = NO_BAD_ROWS
    filtered: int = 0


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
    """A step between decoding and routing: injects fields, rewrites payloads, filters rows."""

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows to go on with; those left out on purpose are added to ``filtered``, bad ones to ``bad``."""
        ...


__all__: Sequence[str] = ("Decoded", "Decoder", "DecoderType", "Transform", "Wanted")
