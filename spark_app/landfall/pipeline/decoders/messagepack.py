"""Decoder ``MessagePack``: reads the wanted fields of payloads that are MessagePack maps.

The format is https://github.com/msgpack/msgpack/blob/master/spec.md. A payload is decoded
if it is exactly one map and nothing follows it. Parts that are not wanted are skipped, and their
structure is checked, but not whether their text is UTF-8. Fields are found by paths of text keys;
keys of other types are allowed and have no path. Of a repeated key the last value counts. Nesting
beyond what the interpreter's stack bears (about 1,000 levels) makes a row bad, as in ``Json``.

How a value is seen as a field, in a typed column, and in JSON:

=============  ==========================  ===========================  ======================
MessagePack    field                       typed column                 JSON
=============  ==========================  ===========================  ======================
int (to 2^64)  number                      Int32, Int64 in range,       number
                                           Float64, Timestamp, Decimal
float          number                      Float64, Timestamp, Decimal  number; NaN and
                                                                        infinities: a bad row
str            text                        String, Date, Timestamp,     text
                                           Decimal
bin            base64 text                 Binary, Decimal (unscaled)   base64 text
timestamp      ISO-8601 text in UTC        Timestamp                    ISO-8601 text in UTC
map, array     no single value             Json, List, Struct           object, array
other ext      no single value             none                         a bad row
=============  ==========================  ===========================  ======================

The base64 alphabet is the standard one, padded (RFC 4648, section 4), as in the JSON mapping of
Protobuf and of ``Json``'s Binary columns. Timestamps are cut to microseconds. In JSON a key that is
a number becomes text. With ``decode.values: Common`` times, NaN and infinities are as
``landfall.pipeline.common_values`` has them. Secor reads one number or numeric text from a
MessagePack payload and writes the payload unchanged; a group without columns and another format
than Json does the same here.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Any

import msgspec
import pyarrow as pa

from landfall.api.spec import ColumnType
from landfall.pipeline import common_values
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.documents import UNREADABLE, Documents, WireFormat, as_list
from landfall.pipeline.decoders.messagepack_times import with_cut_times
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.typed_columns import (
    JSON_TYPES,
    TypedColumn,
    json_type,
    record_batch,
    typed_columns,
)
from landfall.pipeline.records import FieldValues, Records

_TYPES: Mapping[ColumnType, Any] = {
    **JSON_TYPES,
    # msgspec allows no union of text and datetime. ``record_batch`` checks what it is given.
    ColumnType.TIMESTAMP: object,
    ColumnType.DECIMAL: object,
    # Made JSON first, as for Json.
    ColumnType.LIST: msgspec.Raw,
    ColumnType.STRUCT: msgspec.Raw,
}
_WIRE = WireFormat(
    "messagepack",
    msgspec.msgpack.Decoder,
    msgspec.msgpack.Decoder(dict[object, msgspec.Raw]),
    b"\x80",
    is_text=False,
    type_of=partial(json_type, types=_TYPES),
)
_MAP = msgspec.msgpack.Decoder(dict[object, object])
_ANY = msgspec.msgpack.Decoder()
_JSON = msgspec.json.Encoder()

_TIMES = {int, float, str, datetime, NoneType}

_MAYBE_NOT_FINITE = re.compile(rb"\xca[\x7f\xff][\x80-\xff]|\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
"""A float32 or float64 whose exponent is all ones. Other bytes may look the same."""
_MAYBE_UNCOMMON = re.compile(
    _MAYBE_NOT_FINITE.pattern + rb"|[\xd6\xd7]\xff|\xc7[\x08\x0c]\xff|\xc8\x00[\x08\x0c]\xff"
    rb"|\xc9\x00\x00\x00[\x08\x0c]\xff",
    re.DOTALL,
)
"""The same, or a timestamp: what msgspec writes as other JSON than the common one."""


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``MessagePack``: none."""


@dataclass(frozen=True)
class MessagePackDecoder:
    """Decodes MessagePack maps.

    Attributes:
        documents: extracts the wanted values.
        wanted: what the later stages need.
    """

    documents: Documents
    wanted: Wanted

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "MessagePackDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is given.
        """
        read_options(options, Options)
        return cls(Documents.of(_WIRE, wanted), wanted)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is a map, with its fields and columns, and as JSON if wanted."""
        payloads = with_cut_times(records.values)
        values, errors = self.documents.extract(payloads)
        common = self.wanted.common
        fields = {
            path: _plain(values[leaf], common) for path, leaf in self.documents.fields.items()
        }
        json_errors: Mapping[int, str] = {}
        if self.wanted.json:
            as_json, json_errors = _as_json(payloads, common)
            records = records.with_values(as_json)
        if self.wanted.schema is None:
            return Decoded(records, fields).reject({**json_errors, **errors})
        typed = typed_columns(self.wanted.schema)
        text_errors: dict[int, str] = {}
        columns = [
            _column(column, values[leaf], text_errors, common)
            for column, leaf in zip(typed, self.documents.columns, strict=True)
        ]
        batch, column_errors = record_batch(self.wanted.schema, columns)
        # The most specific error comes last: an unreadable row is null in every column, too.
        return Decoded(records, fields, batch).reject(
            {**json_errors, **column_errors, **text_errors, **errors}
        )


def _plain(column: FieldValues, common: bool) -> FieldValues:  # noqa: FBT001  # of the decoder
    """Return field values with binary and timestamps as text."""
    if isinstance(column, list) and not {bytes, datetime}.isdisjoint(map(type, column)):
        as_text = common_values.of_python if common else _as_text
        return [as_text(value) for value in column]
    return column


def _as_text(value: object) -> object:
    match value:
        case bytes():
            return common_values.base64_text(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return value


def _column(
    column: TypedColumn,
    values: FieldValues,
    errors: dict[int, str],
    common: bool,  # noqa: FBT001
) -> Sequence[object] | pa.StringArray:
    """Return values as ``record_batch`` wants them; adds to ``errors``."""
    match column.type:
        case ColumnType.JSON | ColumnType.LIST | ColumnType.STRUCT:
            texts, column_errors = _json_texts(as_list(values), common)
            errors |= {
                row: f"column {column.name}: {error}"
                for row, error in column_errors.items()
                if row not in errors
            }
            return texts
        case ColumnType.TIMESTAMP:
            return _times(column, as_list(values), errors)
        case _:
            return as_list(values)


def _times(
    column: TypedColumn, values: Sequence[object], errors: dict[int, str]
) -> Sequence[object]:
    """Return integers and text, and timestamps as text; other values are null and errors."""
    times: list[object] = [None] * len(values)
    for row, value in enumerate(values):
        # ``type`` and not ``isinstance``: True is no time.
        if type(value) in _TIMES:
            times[row] = _as_text(value)
        elif row not in errors:
            errors[row] = f"column {column.name}: expected Timestamp, got {value!r:.80}"
    return times


def _json_texts(
    raws: Sequence[object],
    common: bool,  # noqa: FBT001
) -> tuple[pa.StringArray, Mapping[int, str]]:
    texts: list[str | None] = [None] * len(raws)
    errors = {}
    for row, raw in enumerate(raws):
        if isinstance(raw, msgspec.Raw):
            try:
                texts[row] = _encode(_ANY.decode(raw), careful=True, common=common).decode()
            except (*UNREADABLE, TypeError) as error:
                errors[row] = str(error)
    return pa.array(texts, pa.string()), errors


def _as_json(
    payloads: pa.BinaryArray,
    common: bool,  # noqa: FBT001
) -> tuple[pa.BinaryArray, Mapping[int, str]]:
    """Return every payload as a JSON object, and errors by row; a null stays null."""
    buffer, odd = payloads.buffers()[2], _MAYBE_UNCOMMON if common else _MAYBE_NOT_FINITE
    careful = buffer is not None and odd.search(buffer) is not None
    objects: list[bytes | None] = []
    errors = {}
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            found = None if payload is None else _MAP.decode(payload)
            objects.append(
                None if found is None else _encode(found, careful=careful, common=common)
            )
        except (*UNREADABLE, TypeError) as error:
            objects.append(None)
            errors[row] = f"messagepack: {error}"
    return pa.array(objects, pa.binary()), errors


def _encode(value: object, *, careful: bool, common: bool) -> bytes:
    """Return a value as JSON; with ``common`` as ``common_values`` has it.

    Raises:
        ValueError: the value is not finite, without ``common``.
        TypeError: the value is of an extension type, or a key is neither text nor a number.

    Args:
        value: as msgspec has decoded it.
        careful: whether numbers that are not finite, and times, are looked for, which costs time.
        common: whether JSON has the common values.
    """
    if careful and common:
        return _JSON.encode(common_values.of_python(value, in_json=True))
    if careful:
        _check_finite(value)
    return _JSON.encode(value)


def _check_finite(value: object) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise ValueError(f"JSON has no number {value}")
        case dict():
            for key, inner in value.items():
                _check_finite(key)
                _check_finite(inner)
        case list() | tuple():
            for inner in value:
                _check_finite(inner)
