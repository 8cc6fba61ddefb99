"""Groups objects that fit into one load: of one format and one schema.

The schema is read from the object itself: the header of an Avro file, the footer of a Parquet file.
Lines of JSON have none.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.api.column_names import is_reserved, same_but_case
from landfall.publish.bigquery.loads import LoadedObject
from landfall.store import Slots

AVRO = "AVRO"
PARQUET = "PARQUET"
JSON = "NEWLINE_DELIMITED_JSON"
FORMATS = {"Avro": AVRO, "Parquet": PARQUET, "Json": JSON}
"""The formats of a group that BigQuery loads, as it calls them."""
WORKERS = 8
_READ_BYTES = 1 << 16
_SCHEMA = b"avro.schema"
_UNREADABLE = (ValueError, EOFError, OSError, pa.ArrowException)  # pyarrow's of a footer: OSError
_WAY_OUT = "rename one in the group, and leave out by `skip` what has landed with it"


class _AvroField(msgspec.Struct):
    """A column of an Avro file, as far as it is read."""

    name: str


class _AvroRecord(msgspec.Struct):
    """The schema of an Avro file, as far as it is read."""

    fields: list[_AvroField] = []


class Kinds:
    """Finds the kinds of objects, and caches them."""

    def __init__(self, slots: Slots, format_of: Callable[[str], str]) -> None:
        """Read nothing yet; ``format_of`` is the format of an object by its key."""
        self._slots = slots
        self.format_of = format_of
        self._kind = lru_cache(100_000)(self._kind_of)

    def of(self, objects: Sequence[LoadedObject]) -> list[str]:
        """Return for each object the kind that it shares with all that one job may load with it.

        An object that cannot be read is a kind of its own: its job reports the problem.

        Raises:
            Retry: the store does not answer.
        """
        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(self._kind, objects))

    def problem_of(self, each: LoadedObject) -> str:
        """Why no table can have the columns of an object; "" if one can, or it cannot be read.

        BigQuery would refuse the job, with a different message for each reason.

        Raises:
            Retry: the store does not answer.
        """
        try:
            return problem_of_names(self._names(each))
        except _UNREADABLE:
            return ""

    def _names(self, each: LoadedObject) -> list[str]:
        match self.format_of(each.key):
            case "PARQUET":
                return list(self._parquet(each).names)
            case "AVRO":
                fields = msgspec.json.decode(self._avro(each), type=_AvroRecord).fields
                return [field.name for field in fields]
        return []

    def _kind_of(self, each: LoadedObject) -> str:
        found = self.format_of(each.key)
        if found == JSON:
            return found
        try:
            is_avro = found == AVRO
            schema = self._avro(each) if is_avro else self._parquet(each).serialize().to_pybytes()
        except _UNREADABLE:
            return f"{found} {each.key}"
        return f"{found} {hashlib.sha256(schema).hexdigest()}"

    def _avro(self, each: LoadedObject) -> bytes:
        """The schema in the header (Avro 1.12, "Object Container Files")."""
        size = _READ_BYTES
        while True:
            header = self._slots.read_range(each.key, 0, size) or b""
            try:
                return _avro_schema(io.BytesIO(header))
            except EOFError:
                if size >= each.size:
                    raise
                size *= 16

    def _parquet(self, each: LoadedObject) -> Any:
        with pa.PythonFile(_RangedFile(self._slots, each), mode="r") as file:
            return pq.read_schema(file).remove_metadata()


def problem_of_names(names: Sequence[str]) -> str:
    """Why no table can have columns of these names; "" if one can."""
    for name in names:
        if is_reserved("BigQuery", name):
            return f"column {name} has a name that BigQuery reserves; {_WAY_OUT}"
    for two in same_but_case(names):
        return f"columns {two[0]} and {two[1]} are one name in BigQuery; {_WAY_OUT}"
    return ""


def _avro_schema(stream: io.BytesIO) -> bytes:
    if _taken(stream, 4) != b"Obj\x01":
        raise ValueError("no Avro file")
    while count := _long(stream):
        if count < 0:
            count = -count
            _long(stream)
        for _ in range(count):
            name = _taken(stream, _long(stream))
            value = _taken(stream, _long(stream))
            if name == _SCHEMA:
                return value
    raise ValueError("no schema")


def _taken(stream: io.BytesIO, size: int) -> bytes:
    body = stream.read(size)
    if size < 0 or len(body) < size:
        raise EOFError
    return body


def _long(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = _taken(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1)
        if shift > 63:
            raise ValueError("no number")


class _RangedFile(io.RawIOBase):
    """A file over an object that reads only the ranges that are needed."""

    def __init__(self, slots: Slots, each: LoadedObject) -> None:
        self._slots = slots
        self._object = each
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._object.size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = self._object.size - self._at
        size = left if size < 0 else min(size, left)
        body = self._slots.read_range(self._object.key, self._at, size) if size > 0 else b""
        self._at += len(body or b"")
        return body or b""
