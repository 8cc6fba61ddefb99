"""JSON from a bucket, which any client with its credentials may have written. Pure.

msgspec lets two more errors pass than it documents, which are DecodeErrors here.
"""

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
        DecodeError: it is no such value, no UTF-8, or nested too deeply.
    """
    try:
        return msgspec.json.decode(body, type=type)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"no UTF-8 text: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
