"""JSON from a bucket, which any client with its credentials may have written. Pure.

msgspec lets three more errors pass than it documents, which are DecodeErrors here.
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
        DecodeError: it is no such value, no UTF-8, nested too deeply, or a number is too large.
    """
    try:
        return msgspec.json.decode(body, type=type)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"no UTF-8 text: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
    except OverflowError as error:
        raise msgspec.DecodeError(f"a number that is too large: {error}") from error
