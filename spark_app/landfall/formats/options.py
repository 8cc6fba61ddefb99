"""Reads and checks the options of a format; an error names the option and what is expected.

Each method of ``FormatOptions`` takes one option out, and ``close`` raises an error for those left
over. Plug-ins may use it too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from landfall.api.spec import Codec
from landfall.api.values import quantity
from landfall.api.words import did_you_mean
from landfall.formats.codecs import LEVELS
from landfall.pipeline.decoders.options import unknown_option

Choice = TypeVar("Choice", bound=StrEnum)

MAX_BLOCK_BYTES = 2**30
"""Bytes of rows that are encoded together at most.

An Arrow column, a page of Parquet and a block of Avro end at 2 GiB; the rows that complete a block,
and what a type adds to the text of a payload, must fit, too. More is no error, so that a group
whose ``taskMemory`` ends its blocks earlier continues.
"""
_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


class Tombstones(StrEnum):
    """The treatment of tombstones, records without a value, by a format without nulls."""

    DEAD_LETTER = "DeadLetter"
    """Make it a dead letter."""
    EMPTY = "Empty"
    """Write it like an empty payload."""
    NULL = "Null"
    """Write the word ``null``."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column by which rows are sorted."""

    column: str
    descending: bool

    @property
    def order(self) -> str:
        """The order as Arrow calls it."""
        return "descending" if self.descending else "ascending"


def _one_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


class FormatOptions:
    """The options of one format.

    Every method raises ValueError if the option is wrong. An option that is None
    counts as left out.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._remaining = {name: value for name, value in options.items() if value is not None}
        self._known: list[str] = []

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        return self._remaining.pop(name, default)

    def choice(self, name: str, default: Choice, allowed: Iterable[Choice] | None = None) -> Choice:
        """Return one member of the enum of ``default``, or only of ``allowed`` if that is given."""
        value = self._take(name, default)
        choices = tuple(type(default)) if allowed is None else tuple(allowed)
        for choice in choices:
            if value == choice:
                return choice
        shown = str(value) if isinstance(value, StrEnum) else value
        hint = did_you_mean(str(shown), choices)
        raise ValueError(f"option {name}: must be {_one_of(choices)}, got {shown!r}{hint}")

    def codec(self, default: Codec, *others: Codec) -> Codec:
        """Return the codec: one of these, ``default`` if it is left out."""
        return self.choice("codec", default, (default, *others))

    def level(self, codec: Codec, levels: Mapping[Codec, range] = LEVELS) -> int | None:
        """Return the level of the codec, one that it has in ``levels``; None for its default."""
        value, allowed = self._take("level", None), levels.get(codec)
        if value is None:
            return None
        if allowed is None:
            raise ValueError(f"option level: codec {codec} has no levels, got {value!r}")
        if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
            raise ValueError(
                f"option level: codec {codec} has the levels {allowed[0]} to {allowed[-1]}, "
                f"got {value!r}"
            )
        return value

    def tombstones(self, default: Tombstones, other: Tombstones) -> Tombstones:
        """Return what to do with tombstones: one of these two."""
        return self.choice("tombstones", default, (default, other))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"option {name}: {value!r} is not true or false")  # noqa: TRY004  # see class
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Return names, given as a list or as a single one; none if it is left out."""
        value = self._take(name, [])
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item for item in found):
            raise ValueError(f"option {name}: {value!r} is not a list of names")
        if len(set(found)) < len(found):
            raise ValueError(f"option {name}: {value!r} has a name twice")
        return tuple(found)

    def flag_or_names(self, name: str) -> bool | tuple[str, ...] | None:
        """Return true, false or names; None if it is left out."""
        if isinstance(value := self._remaining.get(name), bool):
            self._take(name, value)
            return value
        return self.names(name) or None

    def sort_keys(self, name: str) -> tuple[SortKey, ...]:
        """Return columns to sort by, in order; one that begins with ``-`` descends."""
        keys = tuple(
            SortKey(key.removeprefix("-"), key.startswith("-")) for key in self.names(name)
        )
        if len({key.column for key in keys}) < len(keys):
            raise ValueError(f"option {name}: a column comes twice")
        return keys

    def quantity(self, name: str, default: int) -> int:
        """Return a positive number of bytes, given as a number or as text such as ``32Mi``.

        What is above ``MAX_BLOCK_BYTES`` counts as this many.
        """
        try:
            value = quantity(self._take(name, default))
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from error
        if value < 1:
            raise ValueError(f"option {name}: {value} is not more than 0 bytes")
        return min(value, MAX_BLOCK_BYTES)

    def delimiter(self, name: str, default: str) -> bytes:
        r"""Return bytes given as UTF-8 text with C's escapes ``\n \r \t \0 \\ \xHH``."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise ValueError(f"option {name}: {value!r} is not text")  # noqa: TRY004  # see class

        def unescape(match: re.Match[bytes]) -> bytes:
            code = match[1]
            if len(code) == 3:
                return bytes.fromhex(code[1:].decode())
            if code not in _ESCAPED:
                raise ValueError(
                    rf"option {name}: {value!r} has an escape other than \n \r \t \0 \\ \xHH"
                )
            return _ESCAPED[code]

        return _ESCAPE.sub(unescape, value.encode())

    def extension(self, default: str) -> str:
        """Return the file name extension, empty or with its leading dot."""
        value = self._take("extension", default)
        if not isinstance(value, str) or not re.fullmatch(r"(\.[A-Za-z0-9-]+)*", value):
            raise ValueError(
                f"option extension: {value!r} is neither empty nor like .json.gz (letters, digits,"
                " hyphens)"
            )
        return value

    def close(self) -> None:
        """Check that every option given is one that a method above took.

        Raises:
            ValueError: an option is unknown; the message names it and the known ones.
        """
        if self._remaining:
            raise ValueError(unknown_option(sorted(self._remaining), self._known))
