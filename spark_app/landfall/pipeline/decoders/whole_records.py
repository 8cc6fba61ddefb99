"""Decodes whole records: payloads, and keys and headers where the group reads them.

Fields of keys and headers have paths that no field of a payload has, for no step of one is empty.
Keys are decoded by a decoder of their own, as if they were payloads. A header is text: of several
with one name the last counts, as in Kafka's ``Headers.lastHeader``. A record whose key cannot be
decoded, or whose header is wanted and is no text, is bad.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType
from landfall.pipeline.decoders import Decoded, Decoder, Path, Wanted
from landfall.pipeline.decoders.texts import utf8
from landfall.pipeline.decoders.typed_columns import record_batch, typed_columns
from landfall.pipeline.pinned import PinnedFile, ReadsFiles
from landfall.pipeline.records import UNREADABLE_HEADERS, FieldValues, Int64s, Records

_KEY, _HEADER = ("", "key"), ("", "header")
WHOLE_KEY: Path = _KEY
"""The path of a key as it is, as text."""


def key_path(path: Sequence[str]) -> Path:
    """Return the path of a field of keys; of the whole key if ``path`` is empty."""
    return (*_KEY, *path)


def header_path(name: str) -> Path:
    """Return the path of a header."""
    return (*_HEADER, name)


def last_headers(headers: pa.ListArray, name: str) -> dict[int, bytes | None]:
    """Return the value of the last header of a name, by row; rows without it are absent.

    Args:
        headers: of the type ``HEADERS``; rows that are null have none.
        name: of the header.
    """
    parents, flat = pc.list_parent_indices(headers), headers.flatten()
    if not len(flat):
        return {}
    named = pc.equal(pc.struct_field(flat, "key"), name)
    rows = pc.filter(parents, named).to_pylist()
    values = pc.filter(pc.struct_field(flat, "value"), named).to_pylist()
    return dict(zip(rows, values, strict=True))


@dataclass(frozen=True)
class Parts:
    """The wanted fields, by the part of a record that has them.

    Attributes:
        value: of payloads.
        key: fields of keys, without ``key_path``; None if not even the whole key is wanted.
        whole_key: whether the key as text is wanted.
        headers: names of headers.
    """

    value: tuple[Path, ...]
    key: tuple[Path, ...]
    whole_key: bool
    headers: tuple[str, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> "Parts":
        """Divide paths."""
        keys = [path for path in paths if path[:2] == _KEY]
        headers = [path for path in paths if path[:2] == _HEADER]
        value = tuple(path for path in paths if path not in keys and path not in headers)
        of_keys = tuple(path[2:] for path in keys if len(path) > 2)
        names = tuple(path[2] for path in headers)
        return cls(value, of_keys, WHOLE_KEY in keys, names)


@dataclass(frozen=True)
class Declared:
    """The typed columns that a group declares, by the part of a record they are read from.

    Attributes:
        value: columns of payloads; None if there are none, as for keys and headers.
        key: columns of keys.
        headers: columns of headers; the path of each is the header's name.
    """

    value: pa.Schema | None = None
    key: pa.Schema | None = None
    headers: pa.Schema | None = None

    @property
    def together(self) -> pa.Schema | None:
        """All of them, in this order; None if there are none."""
        fields = [column for part in (self.value, self.key, self.headers) for column in part or ()]
        return pa.schema(fields) if fields else None


@dataclass(frozen=True)
class WholeRecords:
    """Decodes payloads, keys and headers.

    Attributes:
        value: decodes payloads.
        key: decodes keys; None if nothing in them is wanted.
        parts: the wanted fields.
        declared: the typed columns.
    """

    value: Decoder
    key: Decoder | None
    parts: Parts
    declared: Declared

    @property
    def files(self) -> tuple[PinnedFile, ...]:
        """The files that the decoder of payloads has read."""
        return self.value.files if isinstance(self.value, ReadsFiles) else ()

    @staticmethod
    def of_value(wanted: Wanted, parts: Parts, declared: Declared) -> Wanted:
        """Return what is wanted of payloads."""
        return replace(wanted, fields=parts.value, schema=declared.value)

    @staticmethod
    def of_key(parts: Parts, declared: Declared) -> Wanted:
        """Return what is wanted of keys."""
        return Wanted(parts.key, declared.key, is_key=True)

    def decode(self, records: Records) -> Decoded:
        """Return every row whose payload, key and headers can be read.

        Raises:
            Retry: what a decoder needs is away.
        """
        decoded = self.value.decode(records)
        more = [self._headers(records)]
        if self.parts.whole_key:
            more.append(_whole_keys(records))
        if self.key is not None:
            found = self.key.decode(records.with_values(records.keys))
            more.append(_of_keys(found, len(records)))
            decoded = replace(decoded, used=(*decoded.used, *found.used))
        return self._together(decoded, more)

    def _together(self, decoded: Decoded, more: Sequence["_More"]) -> Decoded:
        kept = np.arange(len(decoded.records)) if decoded.positions is None else decoded.positions
        errors: dict[int, str] = {}
        for part in more:
            errors = {**part.errors, **errors}
        wrong = {i: errors[row] for i, row in enumerate(kept.tolist()) if row in errors}
        good = decoded.reject(wrong)
        kept = np.arange(len(good.records)) if good.positions is None else good.positions
        fields = dict(good.fields)
        arrays = (
            {}
            if good.columns is None
            else dict(zip(good.columns.schema.names, good.columns.columns, strict=True))
        )
        for part in more:
            fields |= {path: _take(values, kept) for path, values in part.fields.items()}
            if part.columns is not None:
                taken = part.columns.take(pa.array(kept))
                arrays |= dict(zip(taken.schema.names, taken.columns, strict=True))
        return replace(good, fields=fields, columns=self._batch(arrays))

    def _batch(self, arrays: Mapping[str, pa.Array]) -> pa.RecordBatch | None:
        schema = self.declared.together
        if schema is None:
            return None
        plain = pa.schema([pa.field(column.name, column.type) for column in schema])
        return pa.record_batch([arrays[column.name] for column in schema], schema=plain)

    def _headers(self, records: Records) -> "_More":
        typed = typed_columns(self.declared.headers) if self.declared.headers is not None else ()
        names = (*self.parts.headers, *(".".join(column.path) for column in typed))
        if not names:
            return _More()
        listed = records.headers
        errors = dict.fromkeys(np.flatnonzero(listed.is_null()).tolist(), UNREADABLE_HEADERS)
        raw = {name: _column(last_headers(listed, name), len(records)) for name in names}
        texts: dict[str, pa.StringArray] = {}
        binary = {".".join(c.path) for c in typed if c.type is ColumnType.BINARY}
        for name in (*self.parts.headers, *({*names} - binary)):
            texts[name], wrong = utf8(raw[name])
            errors = {row: f"header {name}: {text}" for row, text in wrong.items()} | errors
        fields = {header_path(name): texts[name] for name in self.parts.headers}
        if self.declared.headers is None:
            return _More(fields, None, errors)
        values = [
            raw[".".join(c.path)] if c.type is ColumnType.BINARY else texts[".".join(c.path)]
            for c in typed
        ]
        columns, of_columns = record_batch(self.declared.headers, values)
        return _More(fields, columns, {**of_columns, **errors})


@dataclass(frozen=True)
class _More:
    """The values that are read of all rows in addition to payloads.

    Attributes:
        fields: by path, one value per row.
        columns: typed columns.
        errors: what is wrong, by row; values of such rows mean nothing.
    """

    fields: Mapping[Path, FieldValues] = field(default_factory=dict)
    columns: pa.RecordBatch | None = None
    errors: Mapping[int, str] = field(default_factory=dict)


def _of_keys(decoded: Decoded, rows: int) -> _More:
    """Spread what was decoded over all rows; bad ones are absent."""
    errors = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    errors = {row: f"key: {error}" for row, error in errors.items()}
    fields: Mapping[Path, FieldValues] = decoded.fields
    columns = decoded.columns
    if decoded.positions is not None:
        places = np.zeros(rows, np.int64)
        places[decoded.positions] = np.arange(len(decoded.positions))
        is_absent = np.ones(rows, np.bool_)
        is_absent[decoded.positions] = False
        fields = {path: _spread(values, places, is_absent) for path, values in fields.items()}
        columns = columns and columns.take(pa.array(places, mask=is_absent))
    return _More({key_path(path): values for path, values in fields.items()}, columns, errors)


def _spread(values: FieldValues, places: Int64s, is_absent: npt.NDArray[np.bool_]) -> FieldValues:
    if isinstance(values, pa.Array):
        return values.take(pa.array(places, mask=is_absent))
    plain = values if isinstance(values, list) else values.tolist()
    return [
        None if absent else plain[place]
        for place, absent in zip(places.tolist(), is_absent.tolist(), strict=True)
    ]


def _whole_keys(records: Records) -> _More:
    texts, wrong = utf8(records.keys)
    return _More({WHOLE_KEY: texts}, None, {row: f"key: {text}" for row, text in wrong.items()})


def _column(values: Mapping[int, bytes | None], rows: int) -> pa.BinaryArray:
    return pa.array([values.get(row) for row in range(rows)], pa.binary())


def _take(values: FieldValues, rows: Int64s) -> FieldValues:
    if isinstance(values, list):
        return [values[row] for row in rows.tolist()]
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
