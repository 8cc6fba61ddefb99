"""The schema id of a payload, as Confluent's clients write it.

A payload begins with a byte 0 and the schema's id, four bytes, big-endian (Confluent documentation,
"Wire format"). Newer clients can leave the payload alone instead and put the id into a record
header, ``__value_schema_id`` or ``__key_schema_id``: a byte 1 and the 16 bytes of a GUID, or the
same bytes as before a payload (``header_schema_id_serializer`` of confluent-kafka). Where a record
has both, the header counts, as in ``dual_schema_id_deserializer``; of a repeated header the last.

AWS Glue puts a byte 3, a byte for the compression and a UUID before the payload (AWS Glue Schema
Registry, serializer). Its registry has another API, so such rows are bad, and the reason names
Glue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders.whole_records import last_headers
from landfall.pipeline.records import Int64s, Records

ID_BYTES = 5
"""The length of the id before a payload."""
NO_SCHEMA = -1
MAX_ID = 2**31 - 1
"""The largest id of a registry, which numbers schemas with Java's int.

Confluent's answers a larger number like a wrong URL, so that asking for one is waiting for ever.
"""
SchemaId: TypeAlias = int | str
"""A number, or the text of a GUID."""

_GLUE, _GLUE_BYTES = 3, 18
_GUID_BYTES = 17


@dataclass(frozen=True)
class Framed:
    """The schemas of payloads, and where their bodies begin.

    Attributes:
        codes: index into ``ids``, shape (rows,); ``NO_SCHEMA`` for tombstones and bad rows.
        ids: the ids, each as often as it comes with different ``rests``.
        rests: what follows each id in a record header, Protobuf's message indexes; None where that
            is in the payload.
        header_bytes: how many bytes of each payload come before its body, shape (rows,).
        errors: what is wrong, by row.
    """

    codes: Int64s
    ids: Sequence[SchemaId]
    rests: Sequence[bytes | None]
    header_bytes: Int64s
    errors: Mapping[int, str]


@dataclass(frozen=True)
class Framing:
    """Where ids are.

    Attributes:
        kind: begins error messages.
        in_headers: whether record headers are looked at.
        is_key: whether the payloads are keys.
    """

    kind: str
    in_headers: bool = False
    is_key: bool = False

    @property
    def header(self) -> str:
        """The name of the record header."""
        return "__key_schema_id" if self.is_key else "__value_schema_id"

    def frames(self, records: Records) -> Framed:
        """Return which schemas these payloads have."""
        rows = len(records)
        codes = np.full(rows, NO_SCHEMA, np.int64)
        found = _HeaderValues([], [], {})
        if self.in_headers:
            self._of_headers(records, codes, found)
        by_header = (codes != NO_SCHEMA) | _rows_of(found.errors, rows)
        numbers = ids_before(records.values)
        numbers[by_header] = NO_SCHEMA
        distinct, inverse = np.unique(numbers, return_inverse=True)
        first = len(found.ids)
        found.ids.extend(distinct.tolist())
        found.rests.extend([None] * len(distinct))
        is_before = numbers != NO_SCHEMA
        codes[is_before] = first + inverse[is_before]
        present = np.asarray(records.values.is_valid())
        wrong = np.flatnonzero(present & ~by_header & ~is_before)
        errors = found.errors | self.problems(records, wrong)
        codes[~present] = NO_SCHEMA
        header_bytes = np.where(is_before, ID_BYTES, 0)
        return Framed(
            codes=codes,
            ids=found.ids,
            rests=found.rests,
            header_bytes=header_bytes,
            errors={row: text for row, text in errors.items() if present[row]},
        )

    def problems(self, records: Records, rows: Int64s) -> dict[int, str]:
        """Return why these rows, which have no id before the payload, are bad."""
        if not len(rows):
            return {}
        named = {} if self.in_headers else last_headers(records.take(rows).headers, self.header)
        return {
            row: self._problem(records.values[row].as_py() or b"", is_named=i in named)
            for i, row in enumerate(rows.tolist())
        }

    def _problem(self, payload: bytes, *, is_named: bool) -> str:
        if is_named:
            return (
                f"{self.kind}: the schema's id is in the record's header {self.header}; "
                "set option schemaId: Header"
            )
        if payload[:1] == b"\x03" and len(payload) >= _GLUE_BYTES:
            return f"{self.kind}: has the header of AWS Glue, whose registry is not supported"
        if len(payload) < ID_BYTES:
            return f"{self.kind}: too short for a schema id"
        if payload[:1] == b"\0":
            return f"{self.kind}: the number before the payload is above {MAX_ID}: no schema id"
        return f"{self.kind}: does not begin with the byte 0 of a schema id"

    def _of_headers(self, records: Records, codes: Int64s, found: "_HeaderValues") -> None:
        known: dict[bytes | None, int | str] = {}
        for row, value in last_headers(records.headers, self.header).items():
            if value not in known:
                known[value] = found.add(value, f"{self.kind}: header {self.header}")
            code = known[value]
            if isinstance(code, str):
                found.errors[row] = code
            else:
                codes[row] = code


@dataclass(frozen=True)
class _HeaderValues:
    ids: list[SchemaId]
    rests: list[bytes | None]
    errors: dict[int, str]

    def add(self, value: bytes | None, what: str) -> int | str:
        """Return the code of a header's value, or what is wrong with it."""
        value = value or b""
        number = int.from_bytes(value[1:ID_BYTES])
        if value[:1] == b"\0" and len(value) >= ID_BYTES and number <= MAX_ID:
            self.ids.append(number)
            self.rests.append(value[ID_BYTES:])
        elif value[:1] == b"\x01" and len(value) >= _GUID_BYTES:
            self.ids.append(_guid(value[1:_GUID_BYTES]))
            self.rests.append(value[_GUID_BYTES:])
        else:
            return f"{what} is no schema id"
        return len(self.ids) - 1


def _guid(value: bytes) -> str:
    """Return the text of a GUID (RFC 9562, section 4)."""
    text = value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def ids_before(payloads: pa.BinaryArray) -> Int64s:
    """Return the number before each payload, shape (rows,); ``NO_SCHEMA`` where there is none."""
    rows = len(payloads)
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :][: rows + 1]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    content = np.frombuffer(payloads.buffers()[2] or b"", np.uint8)
    ids = np.full(rows, NO_SCHEMA, np.int64)
    long = np.flatnonzero(np.asarray(payloads.is_valid()) & (lengths >= ID_BYTES))
    heads = content[starts[long, np.newaxis] + np.arange(ID_BYTES)]
    numbers = heads[:, 1:].astype(np.int64) @ (256 ** np.arange(3, -1, -1))
    is_id = (heads[:, 0] == 0) & (numbers <= MAX_ID)
    ids[long[is_id]] = numbers[is_id]
    return ids


def _rows_of(errors: Mapping[int, str], rows: int) -> np.ndarray:
    mask = np.zeros(rows, np.bool_)
    mask[list(errors)] = True
    return mask
