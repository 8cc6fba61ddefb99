"""Turning rows into the bytes of an object, and back.

An ``Encoder`` writes one object. It is fed blocks: runs of rows cut at places that depend on the
data alone, so the same rows always give the same bytes. Between two blocks it should hold as little
as it can, since a task keeps thousands open: compressors are per block, not per object (a gzip
object is still one single member, see ``formats.codecs``).

A ``Format`` makes encoders and can read its own objects back, for ``landfall cat``, ``locate`` and
``verify``. Yours is found by ``package.module:Name``, like ours by ``Text``, ``Json``,
``SequenceFile``, ``Parquet``: see ``landfall.registry``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import BadRows, Records


@dataclass(frozen=True)
class Block:
    """Rows for one object, in order, with the typed columns of exactly these rows when the group declares a schema."""

    records: Records
    columns: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row read back from an object.

    Attributes:
        offset: its Kafka offset, where the format stores it (SequenceFile, Parquet), else None.
        value: its payload, or None for a tombstone; for typed columns the row as JSON.
        key: its Kafka key, where the format stores it.
        timestamp: Kafka's record timestamp in milliseconds, where the format stores it.
    """

    offset: int | None
    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None


class Encoder(Protocol):
    """Writes one object."""

    def encode(self, block: Block) -> bytes:
        """The next bytes of the object; may be empty while the encoder gathers."""
        ...

    def finish(self) -> bytes:
        """The last bytes. The encoder is not used again."""
        ...

    @property
    def held_bytes(self) -> int:
        """Memory this encoder holds now, for the task's budget; an honest estimate in bytes."""
        ...


class Format(Protocol):
    """Makes encoders, and reads what they wrote."""

    @property
    def extension(self) -> str:
        """The file name's ending with its dot, such as ``.json.gz``; may be empty."""
        ...

    @property
    def wanted(self) -> Wanted:
        """What this format asks of the decoder beyond the fields of the route."""
        ...

    @property
    def block_bytes(self) -> int:
        """Payload bytes that make a good block."""
        ...

    def refuse(self, records: Records) -> BadRows:
        """The rows this format cannot hold faithfully, such as a payload with the delimiter inside."""
        ...

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        ...

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back, a row at a time, in order.

        Raises:
            ValueError: the bytes are not of this format, or end early; the message says where.
        """
        ...


class FormatType(Protocol):
    """What the registry finds under a format's name."""

    def of(self, options: Mapping[str, object]) -> Format:
        """Build the format from ``spec.output``'s codec and options.

        Raises:
            ValueError: an option is unknown, missing or out of range; the message names it.
        """
        ...
