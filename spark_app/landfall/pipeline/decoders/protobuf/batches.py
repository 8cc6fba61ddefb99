"""Reads whole columns of messages with ptars, a decoder in Rust.

Only messages that ``admission`` admits are read here. ptars takes some payloads that are no
messages, such as one with a group that another one ends, so ``messages`` checks payloads first.
What is left that ptars does not take fails for a whole batch, which is halved until the rows are
found that ``messages`` then reads alone. Only leaves that ptars reads as google.protobuf does are
read here: single fields of single messages, not of a ``oneof``, where ptars gives all members
that a payload holds and google.protobuf the last. It gives a message of a recursive type as bytes,
and unknown numbers of closed enums; rows with these and with a Timestamp out of range are left to
``messages``, too.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders.protobuf.admission import plain, refusal
from landfall.pipeline.decoders.protobuf.schema import TIMES, ProtobufLeaf, is_single

_PER_SECOND = {"ms": 10**3, "us": 10**6}


class MessageHandler:
    """ptars' reader of a message, which reads payloads once that are asked for twice in a row."""

    def __init__(self, read: Callable[[pa.BinaryArray], pa.RecordBatch]) -> None:
        """Keep what reads."""
        self._read = read
        self._last: weakref.ref[pa.BinaryArray] | None = None
        self._batch: pa.RecordBatch | None = None

    def read(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        """Return a column for each field.

        Raises:
            ValueError: ptars does not take a payload.
        """
        if self._batch is None or self._last is None or self._last() is not payloads:
            with _no_panic():
                self._batch = self._read(payloads)
            self._last = weakref.ref(payloads, self._forget)
        return self._batch

    def _forget(self, payloads: weakref.ref[pa.BinaryArray]) -> None:
        if payloads is self._last:
            self._batch = None


@dataclass(frozen=True)
class Batches:
    """Reads leaves from columns of messages.

    Attributes:
        handler: reads the message.
        leaves: what to read.
    """

    handler: MessageHandler
    leaves: Sequence[ProtobufLeaf]

    @classmethod
    def of(cls, handler: MessageHandler | None, leaves: Sequence[ProtobufLeaf]) -> "Batches | None":
        """Return a reader of these leaves; None if ptars cannot read one, or no message."""
        if handler is None or not all(map(_is_plain, leaves)):
            return None
        made = cls(handler, leaves)
        try:
            columns, _ = made.read(pa.array([], pa.binary()))
        except (KeyError, pa.ArrowException):
            return None
        types = [column.type for column in columns]
        return made if types == [leaf.wire for leaf in leaves] else None

    def read(self, messages: pa.BinaryArray) -> tuple[Sequence[pa.Array], npt.NDArray[np.bool_]]:
        """Return a column per leaf, and which rows ``messages`` must read, shape (rows,)."""
        rows = len(messages)
        try:
            batch = self.handler.read(messages)
        except ValueError:
            if rows == 1:
                return [pa.nulls(1, leaf.wire) for leaf in self.leaves], np.ones(1, np.bool_)
            half = rows // 2
            left, left_odd = self.read(messages.slice(0, half))
            right, right_odd = self.read(messages.slice(half))
            joined = [pa.concat_arrays(pair) for pair in zip(left, right, strict=True)]
            return joined, np.concatenate([left_odd, right_odd])
        odd = np.zeros(rows, np.bool_)
        return [_column(batch, leaf, odd) for leaf in self.leaves], odd


def handler_of(descriptor: Any) -> MessageHandler | None:
    """Return ptars' reader of a message; None if it may not read it, or is not installed."""
    if refusal(descriptor) is not None:
        return None
    try:
        import ptars  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    try:
        with _no_panic():
            files, message = plain(descriptor)
            handler = ptars.HandlerPool(files).get_for_message(message)
        made = MessageHandler(handler.array_to_record_batch)
        # What ptars makes of types shows in no message as well.
        made.read(pa.array([], pa.binary()))
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        return None
    return made


@contextmanager
def _no_panic() -> Iterator[None]:
    """Raise a ValueError where ptars panics.

    A bug of ptars shows as an error of PyO3 that is no Exception, as of a map of messages with an
    entry that has no value. It would end the task of Spark.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"ptars: {error}") from error


def _column(batch: pa.RecordBatch, leaf: ProtobufLeaf, odd: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a leaf's column; adds to ``odd``."""
    column = batch.column(leaf.path[0].name)
    for field in leaf.path[1:]:
        if not pa.types.is_struct(column.type):
            # Of a message inside itself ptars gives the bytes, which a leaf of bytes is not.
            raise KeyError(field.name)
        # ``field`` alone would show what is below a null.
        column = pc.struct_field(column, [field.name])
    enum = leaf.field.enum_type
    if enum is not None and enum.is_closed:
        odd |= unknown_numbers(column, [value.number for value in enum.values])
    return times(column, TIMES, odd) if leaf.wire == TIMES and is_time(column.type) else column


def is_time(wire: pa.DataType) -> bool:
    """Return whether ptars gives a column of this type for a Timestamp."""
    fields = list(wire) if pa.types.is_struct(wire) else []
    return [(field.name, field.type) for field in fields] == [
        ("seconds", pa.int64()),
        ("nanos", pa.int32()),
    ]


def times(made: pa.StructArray, type_: pa.DataType, odd: npt.NDArray[np.bool_]) -> pa.Array:
    """Return Timestamps, cut to the unit of a type; adds to ``odd`` what is out of its range."""
    per_second = _PER_SECOND[type_.unit]
    seconds, nanos = (made.field(i).fill_null(0).to_numpy() for i in range(2))
    limit = 2**63 // per_second - 4  # nanos of 32 bits hold up to three seconds
    odd |= (seconds > limit) | (seconds < -limit)
    ticks = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(ticks, pa.int64(), mask=np.asarray(made.is_null())).cast(type_)


def unknown_numbers(column: pa.Array, known: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which values of an enum have other numbers; null has none."""
    is_known = pc.is_in(column, pa.array([*known, None], column.type))
    return ~np.asarray(is_known)


def _is_plain(leaf: ProtobufLeaf) -> bool:
    return (
        leaf.how != "json"
        and is_single(leaf.field)
        and not any(_in_oneof(field) for field in leaf.path)
    )


def _in_oneof(field: Any) -> bool:
    # ``optional`` in proto3 makes a oneof of one field, whose name begins so.
    oneof = field.containing_oneof
    return oneof is not None and not (len(oneof.fields) == 1 and oneof.name.startswith("_"))
