"""Reads one field of JSON documents, as the bytes that it has there.

Values are compared as they are written: ``1`` and ``1.0`` differ, and so do numbers with more
digits than a computer counts with. So no two rows are taken for duplicates that are none. Texts are
the same with and without escapes.
"""

from collections.abc import Callable
from typing import Any

import msgspec

_NOTHING = msgspec.Raw(b"")
_NULL = b"null"


def json_key(path: tuple[str, ...]) -> Callable[[bytes], bytes | None]:
    """What reads the field at a path; None if a document has none, or null in it."""
    decode = msgspec.json.Decoder(_nested(path)).decode

    def key_of(document: bytes) -> bytes | None:
        try:
            at: Any = decode(document)
            for _ in path[1:]:
                at = msgspec.UNSET if at is msgspec.UNSET else at.step
            found = bytes(_NOTHING if at is msgspec.UNSET else at.step)
            return _plain(found)
        except msgspec.DecodeError:
            return None  # not an object, or not one at a step of the path

    return key_of


def _nested(path: tuple[str, ...]) -> type[msgspec.Struct]:
    """A struct with the one field of each step, which leaves out everything else."""
    inner: type = msgspec.Raw
    default: object = _NOTHING
    made: type[msgspec.Struct] | None = None
    for name in reversed(path):
        field = msgspec.field(default=default, name=name)
        made = msgspec.defstruct("Step", [("step", inner, field)])
        inner, default = made | msgspec.UnsetType, msgspec.UNSET  # type: ignore[assignment]  # a type of msgspec's
    assert made is not None, "a path has a step"
    return made


def _plain(value: bytes) -> bytes | None:
    if not value or value == _NULL:
        return None
    if value.startswith(b'"') and b"\\" in value:
        return b'"' + msgspec.json.decode(value, type=str).encode("utf-8", "surrogatepass") + b'"'
    return value
