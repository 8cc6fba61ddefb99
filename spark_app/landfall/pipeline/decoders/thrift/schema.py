"""The structs of a Thrift IDL, as the readers of payloads need them.

thriftpy2 parses the IDL; nothing else of it is used, because its readers neither bound the depth of
a payload nor report which bytes they left. Types are defined by the Thrift IDL
(https://thrift.apache.org/docs/idl); numbers are the binary protocol's type ids.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from itertools import count
from typing import Any, TypeAlias

from landfall.errors import how_to_install
from landfall.pipeline.decoders import Path


class WireType(IntEnum):
    """Type ids of the binary protocol (Thrift binary protocol specification, "Struct encoding")."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15
    UUID = 16


INTEGERS: Mapping[WireType, int] = {
    WireType.BYTE: 1,
    WireType.I16: 2,
    WireType.I32: 4,
    WireType.I64: 8,
}
"""The integers, each with its bytes in the binary protocol."""

_BINARY = 18
"""thriftpy2's type of ``binary``, which is a string on the wire."""


@dataclass(frozen=True)
class ThriftScalar:
    """A number, a boolean, or a string; ``symbols`` are the names of an enum's numbers."""

    wire: WireType
    is_binary: bool = False
    symbols: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ThriftItems:
    """A list or a set."""

    wire: WireType
    item: "Type"


@dataclass(frozen=True)
class ThriftMap:
    """A map."""

    key: "Type"
    value: "Type"
    wire: WireType = WireType.MAP


@dataclass(frozen=True, eq=False)
class ThriftStruct:
    """A struct, union or exception; types may be recursive, hence the filling of ``fields``."""

    name: str
    fields: dict[int, "ThriftField"] = field(default_factory=dict, repr=False)
    wire: WireType = WireType.STRUCT

    def find(self, part: str) -> "ThriftField":
        """Return the field with this name, or, if the part is a number, with this id.

        Raises:
            ValueError: there is none.
        """
        for member in self.fields.values():
            if member.name == part or str(member.id) == part:
                return member
        names = ", ".join(member.name for member in self.fields.values())
        raise ValueError(f"struct {self.name} has no field {part!r}; its fields are {names}")


Type: TypeAlias = ThriftScalar | ThriftItems | ThriftMap | ThriftStruct


@dataclass(frozen=True)
class ThriftField:
    """A field of a struct."""

    id: int
    name: str
    type: Type
    required: bool


def resolve(struct: ThriftStruct, path: Path) -> tuple[tuple[int, ...], Type]:
    """Return the ids that lead to a field, and its type.

    Raises:
        ValueError: there is no such field, or the path leads through something that is no struct.
    """
    ids: list[int] = []
    at: Type = struct
    for part in path:
        if not isinstance(at, ThriftStruct):
            name = ".".join(path)
            raise ValueError(f"field {name!r} is inside of something that is no struct")  # noqa: TRY004  # as for any wrong option
        found = at.find(part)
        ids.append(found.id)
        at = found.type
    return tuple(ids), at


def load(
    idl: str | None, file: str | None, struct: str, read_file: Callable[[str], bytes]
) -> tuple[ThriftStruct, str]:
    """Return a struct of an IDL that is given as text or as a file, which may include more.

    With it the checksum of the file: its SHA-256; where it includes more, the SHA-256 of the
    checksums of all, in the order in which they are first included.

    Raises:
        ValueError: the IDL cannot be read or has no such struct, or thriftpy2 is not installed.
    """
    try:
        import thriftpy2  # noqa: PLC0415  # an extra
        from thriftpy2.parser.exc import ThriftParserError  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            f"Thrift needs the package thriftpy2: {how_to_install('thrift')} ({error})"
        ) from error
    checksum = ""
    try:
        if file is not None:
            # thriftpy2 would fetch a URL.
            if "://" in file:
                raise ValueError(f"options: file {file!r} must be a path")
            # What is parsed the second time has the checksum that was there before and after.
            before = _checksum(thriftpy2.load(file, module_name=_module(file)), read_file)
            module = thriftpy2.load(file, module_name=_module(file))
            checksum = _checksum(module, read_file)
            if checksum != before:
                raise ValueError(f"options: file {file} changes while it is read")
        else:
            module = thriftpy2.load_fp(io.StringIO(idl or ""), _module("idl"))
    except (ThriftParserError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"options: {'file' if file else 'idl'}: {error}") from error
    kinds = module.__thrift_meta__
    classes = {
        definition.__name__: definition
        for kind in ("structs", "unions", "exceptions")
        for definition in kinds[kind]
    }
    if struct not in classes:
        raise ValueError(
            f"options: struct {struct!r} is not in the IDL; it has {', '.join(sorted(classes))}"
        )
    return _struct(classes[struct], {}), checksum


_LOADS = count()


def _module(file: str) -> str:
    # thriftpy2 keeps modules by name, and modules of included files by the name of the one that
    # includes them, if that ends with its file's. So no two loads may have one name: another file
    # "shared.thrift", of another folder, would be taken for the first.
    stem = file.rpartition("/")[2].removesuffix(".thrift")
    return f"landfall_{next(_LOADS)}_{stem}_thrift"


def _checksum(module: Any, read_file: Callable[[str], bytes]) -> str:
    digests: dict[str, str] = {}
    unread = [module]
    while unread:
        each = unread.pop(0)
        if each.__thrift_file__ not in digests:
            digests[each.__thrift_file__] = sha256(read_file(each.__thrift_file__)).hexdigest()
            unread += each.__thrift_meta__["includes"]
    checksums = list(digests.values())
    return checksums[0] if len(checksums) == 1 else sha256("".join(checksums).encode()).hexdigest()


def _struct(described: Any, known: dict[Any, ThriftStruct]) -> ThriftStruct:
    if described not in known:
        known[described] = made = ThriftStruct(described.__name__)
        for id_, (wire, name, *inner, required) in described.thrift_spec.items():
            made.fields[id_] = ThriftField(
                id_, name, _type((wire, *inner) if inner else wire, known), bool(required)
            )
    return known[described]


def _type(described: Any, known: dict[Any, ThriftStruct]) -> Type:
    wire, inner = described if isinstance(described, tuple) else (described, None)
    match wire:
        case WireType.STRUCT:
            return _struct(inner, known)
        case WireType.LIST | WireType.SET:
            return ThriftItems(WireType(wire), _type(inner, known))
        case WireType.MAP:
            key, value = inner
            return ThriftMap(_type(key, known), _type(value, known))
        case _:
            symbols = getattr(inner, "_VALUES_TO_NAMES", {})
            is_binary = wire == _BINARY
            return ThriftScalar(
                WireType.STRING if is_binary else WireType(wire), is_binary, symbols
            )
