"""Reads whole messages into the columns of ``whole``, with ptars and google.protobuf."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.decoders import arrow_values
from landfall.pipeline.decoders.protobuf import whole
from landfall.pipeline.decoders.protobuf.batches import MessageHandler
from landfall.pipeline.decoders.protobuf.messages import ProtobufMessages
from landfall.pipeline.decoders.protobuf.schema import MAX_FIELDS, MAX_LEVELS, is_small
from landfall.pipeline.decoders.protobuf.whole import MessageField
from landfall.pipeline.decoders.row_schemas import RowSchema, columns_digest


@dataclass(frozen=True)
class ProtobufColumns:
    """Reads messages of one type.

    Attributes:
        fields: of the message.
        oneofs: the names of the members of each of its oneofs.
        handler: reads columns with ptars; None if it does not read all fields.
        messages: reads one message.
        schema: of the rows.
        columns: the types of the columns.
    """

    fields: tuple[MessageField, ...]
    oneofs: tuple[tuple[str, ...], ...]
    handler: MessageHandler | None
    messages: ProtobufMessages
    schema: RowSchema
    columns: pa.Schema

    @classmethod
    def of(
        cls, descriptor: Any, messages: ProtobufMessages, handler: MessageHandler | None
    ) -> "ProtobufColumns":
        """Return what reads messages of this type.

        Raises:
            ValueError: the message has no fields, or too many.
        """
        if not is_small(descriptor):
            raise ValueError(
                f"message {descriptor.full_name} has more than {MAX_FIELDS} fields, with nested "
                f"ones, or more than {MAX_LEVELS} levels"
            )
        of_message = whole.members(descriptor)
        fields = of_message.fields
        if not fields:
            raise ValueError(f"message {descriptor.full_name} has no fields, so no columns")
        columns = pa.schema([(member.name, member.arrow) for member in fields])
        schema = RowSchema(columns_digest(descriptor.full_name, columns), descriptor.full_name)
        if handler is not None:
            wire = handler.read(pa.array([], pa.binary())).schema
            types = {field.name: field.type for field in wire}
            if not all(
                member.name in types and whole.same_wire(member, types[member.name])
                for member in fields
            ):
                handler = None
        return cls(
            fields=fields,
            oneofs=of_message.oneofs,
            handler=handler,
            messages=messages,
            schema=schema,
            columns=columns,
        )

    def read(self, payloads: pa.BinaryArray, errors: dict[int, str]) -> pa.RecordBatch:
        """Return the columns of all rows, null where there is no payload or an error.

        Args:
            payloads: messages, but for the rows with errors, and null for tombstones.
            errors: what is wrong with rows; gets what is found wrong here.
        """
        present = np.array(payloads.is_valid())
        present[list(errors)] = False
        rows = np.flatnonzero(present)
        given = payloads if present.all() else payloads.take(pa.array(rows))
        odd = np.zeros(len(rows), np.bool_)
        if self.handler is None:
            odd[:] = True
            arrays = [pa.nulls(len(rows), member.arrow) for member in self.fields]
        else:
            arrays = self._fast(self.handler, given, odd)
        arrays = self._patched(arrays, given, odd, (rows, errors))
        if len(rows) < len(payloads):
            places = np.zeros(len(payloads), np.int64)
            places[rows] = np.arange(len(rows))
            at = pa.array(places, mask=~present)
            arrays = [array.take(at) for array in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def _fast(
        self, handler: MessageHandler, given: pa.BinaryArray, odd: npt.NDArray[np.bool_]
    ) -> list[pa.Array]:
        """Return the columns that ptars reads; ``odd`` gets the rows to read otherwise."""
        parts: list[list[pa.Array]] = [[] for _ in self.fields]
        for start, end, batch in _batches(handler, given, 0):
            part = odd[start:end]
            if batch is None:
                part[:] = True
            else:
                whole.mark_oneofs(self.oneofs, batch, part)
            for member, pieces in zip(self.fields, parts, strict=True):
                pieces.append(
                    pa.nulls(end - start, member.arrow)
                    if batch is None
                    else whole.column(member, batch.column(member.name), part)
                )
        return [_together(pieces) for pieces in parts]

    def _patched(
        self,
        arrays: list[pa.Array],
        given: pa.BinaryArray,
        odd: npt.NDArray[np.bool_],
        of_whole: tuple[npt.NDArray[np.int64], dict[int, str]],
    ) -> list[pa.Array]:
        """Return the columns with the odd rows read message by message; adds to the errors."""
        rows, errors = of_whole
        slow = np.flatnonzero(odd).tolist()
        if not slow:
            return arrays
        values: list[Sequence[object]] = []
        for row in slow:
            try:
                values.append(self._values(given[row].as_py()))
            except ValueError as error:
                errors.setdefault(int(rows[row]), f"protobuf: {error}")
                values.append([None] * len(self.fields))
        return [
            arrow_values.patched(before, slow, pa.array(column, member.arrow))
            for member, before, column in zip(
                self.fields, arrays, zip(*values, strict=True), strict=True
            )
        ]

    def _values(self, payload: bytes) -> Sequence[object]:
        message = self.messages.read(payload)
        reader = whole.WholeMessageReader(lambda inner: self.messages.json(inner).decode())
        return reader.values(message, self.fields)


def _batches(
    handler: MessageHandler, given: pa.BinaryArray, start: int
) -> Iterator[tuple[int, int, pa.RecordBatch | None]]:
    """Yield consecutive ranges as ptars reads them, with None for a row that it cannot read."""
    rows = len(given)
    try:
        yield start, start + rows, handler.read(given)
    except ValueError:
        if rows == 1:
            yield start, start + 1, None
            return
        half = rows // 2
        yield from _batches(handler, given.slice(0, half), start)
        yield from _batches(handler, given.slice(half), start + half)


def _together(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
