"""Reads flat and nested structs of numbers and strings in the binary protocol, all records at once.

A cursor per record stands at a field; in each turn the next field of every record is read. Records
that have the same field there, nearly always all of them, are read by a few NumPy calls. Nothing
here decides that a payload is bad: a record that is not plain (another container than a list of
numbers, a repeated or missing field, a length that leaves the record, text that is not UTF-8) is
``odd``, and ``protocols`` reads it alone. So both agree on every payload by construction, as far as
this module reads the plain ones rightly.

Source: "Thrift Binary protocol encoding", doc/specs in the Apache Thrift repository.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.decoders.thrift.schema import (
    ThriftItems,
    ThriftScalar,
    ThriftStruct,
    WireType,
)
from landfall.pipeline.records import Int64s

Ids: TypeAlias = tuple[int, ...]
Bools: TypeAlias = npt.NDArray[np.bool_]

_SLACK = 16
_MAX_DEPTH = 16
_SIZES: Mapping[int, int] = {
    WireType.BOOL: 1,
    WireType.BYTE: 1,
    WireType.DOUBLE: 8,
    WireType.I16: 2,
    WireType.I32: 4,
    WireType.I64: 8,
    WireType.UUID: 16,
}
_ARROW: Mapping[WireType, pa.DataType] = {
    WireType.BOOL: pa.bool_(),
    WireType.DOUBLE: pa.float64(),
    **dict.fromkeys((WireType.BYTE, WireType.I16, WireType.I32, WireType.I64), pa.int64()),
}


def arrow_type(scalar: ThriftScalar) -> pa.DataType:
    """Return the type of the column that a scalar makes; an enum has the type of its numbers."""
    if scalar.wire is WireType.STRING:
        return pa.binary() if scalar.is_binary else pa.string()
    return pa.string() if scalar.wire is WireType.UUID else _ARROW[scalar.wire]


class _Data:
    """The bytes of all records, seen as unaligned big-endian numbers."""

    def __init__(self, payloads: pa.BinaryArray) -> None:
        offsets = np.frombuffer(payloads.buffers()[1], np.int32)
        self.offsets = offsets[payloads.offset : payloads.offset + len(payloads) + 1].astype(
            np.int64
        )
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        self.bytes = np.zeros(last - first + _SLACK, np.uint8)
        if last > first:
            self.bytes[: last - first] = np.frombuffer(payloads.buffers()[2], np.uint8)[first:last]
        self.offsets -= first
        view = self.bytes
        self.views: Mapping[int, npt.NDArray[np.generic]] = {
            WireType.BOOL: view,
            WireType.BYTE: view.view(np.int8),
            **{
                wire: np.ndarray((len(view) - size + 1,), f">{kind}{size}", view, strides=(1,))
                for wire, kind, size in (
                    (WireType.I16, "i", 2),
                    (WireType.I32, "i", 4),
                    (WireType.I64, "i", 8),
                    (WireType.DOUBLE, "f", 8),
                )
            },
        }


@dataclass
class _Column:
    """The values of one field: the rows that have it, and its numbers or byte positions."""

    scalar: ThriftScalar
    has: Bools
    numbers: npt.NDArray[np.generic]
    ends: Int64s = field(default_factory=lambda: np.empty(0, np.int64))


class ThriftScan:
    """One pass over a column of payloads.

    Attributes:
        odd: which rows ``protocols`` must read, shape (rows,).
    """

    def __init__(
        self, payloads: pa.BinaryArray, schema: ThriftStruct, wanted: Sequence[Ids]
    ) -> None:
        self._data = _Data(payloads)
        rows = len(payloads)
        self._end = self._data.offsets[1:]
        self.odd: Bools = np.zeros(rows, np.bool_)
        self._wanted = frozenset(wanted)
        self._columns: dict[Ids, _Column] = {}
        self._structs: dict[Ids, Bools] = {}
        every = np.arange(rows)
        at = self._struct(every, self._data.offsets[:-1].copy(), schema, ())
        self.odd |= at != self._end

    def column(self, ids: Ids, scalar: ThriftScalar) -> pa.Array:
        """Return the values of a field; null where it is absent, and in odd rows.

        Text that is not UTF-8 makes its row odd, so read ``odd`` after the columns.
        """
        found = self._columns.get(ids)
        if found is None:
            return pa.nulls(len(self.odd), arrow_type(scalar))
        if scalar.wire is WireType.STRING:
            return self._strings(found, is_binary=scalar.is_binary)
        return pa.array(found.numbers, arrow_type(scalar), mask=~found.has | self.odd)

    def has_struct(self, ids: Ids) -> Bools:
        """Return which rows have the struct at these ids, shape (rows,)."""
        return self._structs.get(ids, np.zeros(len(self.odd), np.bool_))

    def _struct(self, rows: Int64s, at: Int64s, schema: ThriftStruct | None, ids: Ids) -> Int64s:
        """Read a struct of each row, from the positions ``at``; return the positions after it."""
        at = at.copy()
        self._structs.setdefault(ids, np.zeros(len(self.odd), np.bool_))[rows] = True
        seen = {id_: np.zeros(len(rows), np.bool_) for id_ in schema.fields} if schema else {}
        active = np.arange(len(rows))
        while len(active):
            ended = at[active] >= self._end[rows[active]]
            if ended.any():
                self.odd[rows[active[ended]]] = True
                active = active[~ended]
                continue
            wires = self._data.bytes[at[active]]
            stop = wires == WireType.STOP
            if stop.any():
                at[active[stop]] += 1
                active, wires = active[~stop], wires[~stop]
            if not len(active):
                break
            numbers = self._data.views[WireType.I16][at[active] + 1].astype(np.int64)
            for wire, id_, here in _groups(wires, numbers):
                part = active[here]
                inner = schema.fields.get(id_) if schema else None
                type_ = inner.type if inner and inner.type.wire == wire else None
                self._mark(seen.get(id_) if type_ else None, rows, part)
                place = (*ids, id_)
                at[part] = self._value((wire, type_, place), rows[part], at[part] + 3)
            # A row that what was just read makes odd is read no further.
            active = active[~self.odd[rows[active]]]
        for id_, has in seen.items():
            if schema and schema.fields[id_].required:
                self.odd[rows[~has]] = True
        return at

    def _mark(self, seen: Bools | None, rows: Int64s, part: Int64s) -> None:
        if seen is not None:
            self.odd[rows[part[seen[part]]]] = True
            seen[part] = True

    def _value(self, kind: tuple[int, object, Ids], rows: Int64s, at: Int64s) -> Int64s:
        """Read one value of each row; return the positions after it, never beyond the end."""
        wire, type_, ids = kind
        at = np.minimum(at, self._end[rows])
        if wire in _SIZES:
            after = at + _SIZES[wire]
            if isinstance(type_, ThriftScalar) and ids in self._wanted:
                self._put(ids, type_, rows, self._data.views[wire][at])
        elif wire == WireType.STRING:
            lengths = self._data.views[WireType.I32][at].astype(np.int64)
            self.odd[rows[lengths < 0]] = True
            after = at + 4 + np.maximum(lengths, 0)
            if isinstance(type_, ThriftScalar) and ids in self._wanted:
                self._put(ids, type_, rows, at + 4, np.minimum(after, self._end[rows]))
        elif wire == WireType.STRUCT and len(ids) < _MAX_DEPTH:
            after = self._struct(rows, at, type_ if isinstance(type_, ThriftStruct) else None, ids)
        elif wire in {WireType.LIST, WireType.SET}:
            after = self._list(type_ if isinstance(type_, ThriftItems) else None, rows, at)
        else:
            after = self._end[rows] + 1
        beyond = after > self._end[rows]
        if beyond.any():
            self.odd[rows[beyond]] = True
            after = np.minimum(after, self._end[rows])
        return after

    def _list(self, type_: ThriftItems | None, rows: Int64s, at: Int64s) -> Int64s:
        """Skip a list of numbers; rows with another one, or not of the type, are odd."""
        kinds = self._data.bytes[at]
        counts = self._data.views[WireType.I32][at + 1].astype(np.int64)
        sizes = np.zeros(256, np.int64)
        sizes[list(_SIZES)] = list(_SIZES.values())
        strange = (sizes[kinds] == 0) | (counts < 0)
        if type_ is not None:
            strange |= kinds != type_.item.wire
        self.odd[rows[strange]] = True
        return at + 5 + sizes[kinds] * np.maximum(counts, 0)

    def _put(
        self,
        ids: Ids,
        scalar: ThriftScalar,
        rows: Int64s,
        numbers: npt.NDArray[np.generic],
        ends: Int64s | None = None,
    ) -> None:
        count = len(self.odd)
        column = self._columns.get(ids)
        if column is None:
            numbers_type = bool if scalar.wire is WireType.BOOL else numbers.dtype.newbyteorder("=")
            column = self._columns[ids] = _Column(
                scalar,
                np.zeros(count, np.bool_),
                np.zeros(count, numbers_type),
                np.zeros(count if ends is not None else 0, np.int64),
            )
        column.has[rows] = True
        column.numbers[rows] = numbers if scalar.wire is not WireType.BOOL else numbers != 0
        if ends is not None:
            column.ends[rows] = ends

    def _strings(self, column: _Column, *, is_binary: bool) -> pa.Array:
        kept = np.flatnonzero(column.has & ~self.odd)
        # The strings and the gaps between them, as one Arrow array over the data itself; taking
        # every second value copies the strings in C++.
        offsets = np.empty(2 * len(kept) + 1, np.int32)
        offsets[0:-1:2], offsets[1::2] = column.numbers[kept], column.ends[kept]
        offsets[-1] = offsets[-2] if len(kept) else 0
        segments = pa.Array.from_buffers(
            pa.binary(),
            2 * len(kept),
            [None, pa.py_buffer(offsets), pa.py_buffer(self._data.bytes)],
        )
        places = np.zeros(len(self.odd), np.int64)
        places[kept] = np.arange(0, 2 * len(kept), 2)
        absent = np.ones(len(self.odd), np.bool_)
        absent[kept] = False
        found = segments.take(pa.array(places, mask=absent))
        if is_binary:
            return found
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            for row, value in enumerate(found.to_pylist()):
                self.odd[row] |= value is not None and not _is_utf8(value)
            return self._strings(column, is_binary=False)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _groups(wires: npt.NDArray[np.uint8], ids: Int64s) -> list[tuple[int, int, slice | Int64s]]:
    """Return the distinct pairs of type and field id, each with where they are."""
    keys = (ids << 8) | wires
    first = int(keys[0])
    if (keys == first).all():
        return [(first & 0xFF, first >> 8, slice(None))]
    return [(key & 0xFF, key >> 8, np.flatnonzero(keys == key)) for key in np.unique(keys).tolist()]
