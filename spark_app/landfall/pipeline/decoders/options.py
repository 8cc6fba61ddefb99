"""Reads the ``options`` of a decoder or transform into a checked value; also for plug-ins."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from landfall.api.words import did_you_mean

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
        known = [field.encode_name for field in msgspec.structs.fields(into)]
        if unknown := sorted(options.keys() - set(known)):
            raise ValueError(unknown_option(unknown, known)) from error
        raise ValueError(f"options: {error}") from error


def unknown_option(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Return the error for unknown options, with the nearest known one."""
    names = ", ".join(unknown)
    expected = f"the options are {', '.join(sorted(known))}" if known else "there are none"
    plural = "s" if len(unknown) > 1 else ""
    return f"options: unknown option{plural} {names}{did_you_mean(unknown[0], known)}; {expected}"
