"""The interface of formats, which a plug-in implements: rows into the bytes of an object, and back.

A ``Format`` is built from ``spec.output``: in the driver, which thereby checks the resource before
it reads anything, and once in each worker process. It makes an ``Encoder`` for each object, and
reads its own objects back for ``landfall cat``, ``locate`` and ``verify``. A class is named by a
built-in name (``Text``, ``Json``, ``SequenceFile``, ``Parquet``, ``Avro``) or by an import path,
``package.module:Name``; ``landfall.registry`` treats both alike.

An encoder is given blocks: runs of rows whose boundaries depend on the data alone. The same blocks
must always give the same bytes, because a slice that is landed again must give the same objects; so
no clock, no randomness, and no file names or host names in headers. A task keeps thousands of
objects open, so an encoder should hold as little as possible between two blocks: compressors are
made per block, not per object (a gzip object is still a single member, see ``formats.codecs``).

An exception from ``encode`` or ``finish`` is treated as a bug: the rows that cause it by themselves
become dead letters, see ``landfall.task.faults``; otherwise the slice fails, is logged with its
traceback and is retried with backoff. Rows that the format cannot represent must be returned by
``refuse`` instead, which makes them dead letters. A format of typed columns may have a method
``refuse_columns(columns: pa.RecordBatch) -> Mapping[int, str]``, which returns errors by row for
rows that it cannot represent because of what their columns hold. A format whose objects can be
merged has a method ``merger``, see ``formats.merging``. Where an encoder needs to know from the
first row on that rows are large, the format has ``large_row_bytes``: the first row whose payload is
that long begins another object, which also takes all rows after it. ``before_large_rows`` returns
the format as it was by the landing rules before these.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import BadRows, Records


@dataclass(frozen=True)
class Block:
    """Rows for one object, in the order of their offsets.

    Attributes:
        records: the rows. Of the optional columns (timestamps, keys, headers) only those that the
            format asked for in ``Format.wanted`` can be read.
        columns: the typed columns of exactly these rows, if the group declares a schema or takes
            the payloads' schema.
        schema: the payloads' own schema, the same for all blocks of an object, if the format or the
            group asks for it.
    """

    records: Records
    columns: pa.RecordBatch | None = None
    schema: RowSchema | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row read back from an object.

    Attributes:
        offset: its Kafka offset if the format stores it, else None.
        value: its payload, or None for a tombstone. A row of typed columns is given as JSON.
        key: its Kafka key if the format stores it.
        timestamp: its Kafka timestamp in milliseconds if the format stores it.
    """

    offset: int | None
    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None


class Encoder(Protocol):
    """Writes one object."""

    def encode(self, block: Block) -> bytes:
        """Return the next bytes of the object; may be empty while the encoder gathers rows."""
        ...

    def finish(self) -> bytes:
        """Return the last bytes of the object. The encoder is not used again."""
        ...

    @property
    def held_bytes(self) -> int:
        """The memory this encoder holds now, in bytes, which the task counts against its budget."""
        ...


class Format(Protocol):
    """Makes encoders, and reads what they wrote."""

    @property
    def extension(self) -> str:
        """The file name extension with its dot, such as ``.json.gz``; may be empty."""
        ...

    @property
    def wanted(self) -> Wanted:
        """The values this format needs from the decoder, beyond the fields that the route reads."""
        ...

    @property
    def block_bytes(self) -> int:
        """How many payload bytes make a good block; the task buffers rows up to this size.

        Blocks may be smaller, when the task runs short of memory and at the end of a slice.
        """
        ...

    def refuse(self, records: Records) -> BadRows:
        """Return the rows this format cannot represent, such as one that holds its delimiter."""
        ...

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        ...

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back, row by row, in order.

        Raises:
            ValueError: the bytes are not in this format or end early; the message names the place.
                A damaged object must never give fewer rows silently.
        """
        ...


class FormatType(Protocol):
    """The class that ``spec.output.format`` names."""

    def of(self, options: Mapping[str, object]) -> Format:
        """Build the format.

        Args:
            options: ``spec.output.options`` with ``spec.output.codec`` as ``codec`` (None if it is
                not set). ``formats.options.FormatOptions`` reads and checks them.

        Raises:
            ValueError: an option is unknown, missing or out of range; the message must name it.
        """
        ...
