"""JSON of other programs, such as a file of the bucket or a server's answer. Pure.

``msgspec`` does not document it, but raises ``UnicodeDecodeError`` and ``RecursionError`` as well,
and ``OverflowError`` where a struct checks a range of more than 64 bits.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


@overload
def decode(body: bytes | str, type: type[T]) -> T: ...
@overload
def decode(body: bytes | str, type: Any = Any) -> Any: ...
def decode(body: bytes | str, type: Any = Any) -> Any:  # noqa: A002  # as msgspec calls it
    """Return the value of a JSON text.

    Raises:
        DecodeError: it is no such value, no UTF-8, nested too deeply, or has a number that is too
            large.
    """
    return decode_by(lambda text: msgspec.json.decode(text, type=type), body)


def decode_by(read: Callable[[bytes | str], T], body: bytes | str) -> T:
    """Return the value of a JSON text by the method ``decode`` of a decoder. Raises alike."""
    try:
        return read(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"no UTF-8 text: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
    except OverflowError as error:
        raise msgspec.DecodeError(f"a number that is too large: {error}") from error


def parse_document(body: bytes | None) -> dict[str, Any]:
    """Return the JSON object that a file of the bucket holds.

    Raises:
        ValueError: it holds none, or one that is nested too deeply.
    """
    found = decode_by(json.loads, body or b"")
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, no object")  # noqa: TRY004  # of a file
    return found
