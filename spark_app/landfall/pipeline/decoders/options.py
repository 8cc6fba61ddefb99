"""Reading the ``options`` of a decoder, a transform or a format into a checked value."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(options: Mapping[str, object], into: type[Options]) -> Options:
    """Make the options a value of ``into``; declare it with ``forbid_unknown_fields=True``.

    Raises:
        ValueError: an option is unknown, missing or of another type; the message names it.
    """
    try:
        return msgspec.convert(dict(options), into)
    except msgspec.ValidationError as error:
        raise ValueError(f"options: {error}") from error
