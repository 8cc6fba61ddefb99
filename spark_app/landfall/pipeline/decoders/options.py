"""Reads the ``options`` of a decoder or transform into a checked value; also for plug-ins."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(options: Mapping[str, object], into: type[Options]) -> Options:
    """Convert ``options`` to a value of the type ``into``.

    Declare that type with ``forbid_unknown_fields=True``; otherwise misspelled
    options go unnoticed.

    Raises:
        ValueError: an option is unknown, missing or of the wrong type; the message names it.

    Example::

        class Options(msgspec.Struct, forbid_unknown_fields=True):
            separator: str = ","

        separator = read_options(options, Options).separator
    """
    try:
        return msgspec.convert(dict(options), into)
    except msgspec.ValidationError as error:
        raise ValueError(f"options: {error}") from error
