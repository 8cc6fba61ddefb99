"""Step ``GeoIp``: adds what a MaxMind DB file knows of an IP address.

| option | default | meaning |
|---|---|---|
| ``file`` | | a ``.mmdb`` file, where drivers and executors have it |
| ``sha256`` | | its checksum; a file with another one is refused |
| ``ip`` | | the field or column, of type String, that holds the address |
| ``values`` | | what is added, as ``path=name`` or ``path=name:Type``, such as |
| | | ``country.iso_code=country`` or ``location.latitude=lat:Float64`` |

Types are ``String`` (default), ``Int64`` and ``Float64``. What the file does not have of an
address, or has in another type, is null in a column and no field in JSON; so is everything of what
is no address.

The file is read into memory and by Python (``maxminddb``), so that what is looked up is what the
checksum covers; each distinct address of a batch is looked up once.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from landfall.api.spec import ColumnType
from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.typed_columns import ARROW
from landfall.pipeline.pinned import PinnedFile, read_pinned
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import (
    find,
    put,
    python_values,
    raw_of,
    read_documents,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, path_of, with_columns

try:
    import maxminddb
except ImportError:  # the extra "geoip" of this package
    maxminddb = None  # type: ignore[assignment]  # mypy has it

Row: TypeAlias = tuple[object, ...]
"""The values of an address, in the order of the option ``values``."""

_PYTHON: Mapping[ColumnType, type] = {
    ColumnType.STRING: str,
    ColumnType.INT64: int,
    ColumnType.FLOAT64: float,
}
_INT64 = range(-(2**63), 2**63)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``GeoIp``."""

    file: str
    sha256: str
    ip: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is added: where it is in the file, its name, and its type."""

    path: Path
    name: str
    type: ColumnType

    @classmethod
    def of(cls, text: str) -> "Value":
        """Read ``path=name:Type``; raises ValueError."""
        path, equals, rest = text.partition("=")
        name, _, type_ = rest.partition(":")
        if not equals or not name or (type_ or "String") not in _PYTHON:
            raise ValueError(
                f"option values: expected path=name or path=name:Type with "
                f"{', '.join(_PYTHON)}, got {text!r}"
            )
        return cls(path_of(path), name, ColumnType(type_ or "String"))

    def find(self, record: object) -> object:
        """Return the value in a record of the file; None if it has none of this type."""
        for step in self.path:
            record = record.get(step) if isinstance(record, dict) else None
        python = _PYTHON[self.type]
        if type(record) is int and python is float:
            return float(record)
        if type(record) is not python or (type(record) is int and record not in _INT64):
            return None
        return record


@dataclass(frozen=True)
class GeoIp:
    """Adds what a MaxMind DB file knows of an IP address.

    Attributes:
        path: the field or column with the address.
        values: what is added.
        reader: the file.
        files: which file it is.
    """

    path: Path
    values: tuple[Value, ...]
    reader: Any = field(repr=False, compare=False)
    files: tuple[PinnedFile, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "GeoIp":
        """Build the step; ValueError names a wrong option or an error of the file."""
        if maxminddb is None:
            raise ValueError("GeoIp needs maxminddb: install landfall with its extra geoip")
        read = read_options(options, Options)
        values = tuple(map(Value.of, read.values))
        names = [value.name for value in values]
        if not names or len(set(names)) < len(names):
            raise ValueError("option values: name at least one, and none twice")
        if context.schema is not None and (taken := sorted(set(names) & set(context.schema.names))):
            raise ValueError(f"option values: there is a column {', '.join(taken)} already")
        data = read_pinned(read.file, read.sha256, context.read_file)
        try:
            reader = maxminddb.open_database(BytesIO(data), maxminddb.MODE_FD)
        except (maxminddb.InvalidDatabaseError, ValueError, IndexError) as error:
            raise ValueError(f"option file: {read.file}: {error}") from error
        return cls(path_of(read.ip), values, reader, (PinnedFile(read.file, read.sha256),))

    @property
    def writes(self) -> tuple[Path, ...]:
        """The names of what is added."""
        return tuple((value.name,) for value in self.values)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with what the file knows of their addresses."""
        if decoded.columns is not None:
            column = column_of(decoded.columns, self.path)
            if not pa.types.is_string(column.type):
                raise ValueError(f"option ip: column {'.'.join(self.path)} is {column.type}")
            rows = self._rows(column.to_pylist())
            added = {
                value.name: pa.array([row[i] for row in rows], ARROW[value.type])
                for i, value in enumerate(self.values)
            }
            return with_columns(decoded, {**columns_by_name(decoded.columns), **added})
        decoded, documents = read_documents(decoded)
        raws = [None if document is None else find(document, self.path) for document in documents]
        addresses, errors = python_values(raws, self.path)
        for document, row in zip(documents, self._rows(addresses), strict=True):
            for value, cell in zip(self.values, row, strict=True):
                if document is not None and cell is not None:
                    put(document, (value.name,), raw_of(cell))
        return with_documents(decoded, documents, self.writes, errors)

    def _rows(self, addresses: Sequence[object]) -> list[Row]:
        known = {address: self._row(address) for address in _texts(addresses)}
        nothing: Row = (None,) * len(self.values)
        return [known[address] if isinstance(address, str) else nothing for address in addresses]

    def _row(self, address: str) -> Row:
        try:
            record = self.reader.get(ipaddress.ip_address(address))
        except (ValueError, maxminddb.InvalidDatabaseError):
            # No address, an IPv6 address in a file of IPv4, or a damaged record of the file.
            record = None
        return tuple(value.find(record) for value in self.values)


def _texts(addresses: Iterable[object]) -> set[str]:
    return {address for address in addresses if isinstance(address, str)}
