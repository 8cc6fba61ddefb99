"""Taking a format's options apart, so that a wrong one is refused by its name and with what would have been right.

Each method takes one option out; ``close`` refuses what nobody took.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from landfall.api.spec import Codec
from landfall.api.values import quantity

Choice = TypeVar("Choice", bound=StrEnum)

_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


class Tombstones(StrEnum):
    """What becomes of a record without a value in a format that has no null."""

    DEAD_LETTER = "DeadLetter"
    EMPTY = "Empty"
    """Written like an empty payload."""
    NULL = "Null"
    """Written as the word ``null``."""


class Options:
    """The options of one format, taken one by one."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self._left = {name: value for name, value in options.items() if value is not None}
        self._taken: list[str] = []

    def _take(self, name: str, default: object) -> object:
        self._taken.append(name)
        return self._left.pop(name, default)

    def choice(self, name: str, default: Choice, allowed: Iterable[Choice] | None = None) -> Choice:
        """One word of a closed list: the type of ``default``, or ``allowed`` out of it."""
        kind, value = type(default), self._take(name, default)
        words = tuple(kind) if allowed is None else tuple(allowed)
        for word in words:
            if value == word:
                return word
        raise ValueError(f"option {name}: {value!r} is not one of {', '.join(words)}")

    def codec(self, default: Codec, *others: Codec) -> Codec:
        """The codec: ``default`` when left out, else that or one of ``others``."""
        return self.choice("codec", default, (default, *others))

    def tombstones(self, default: Tombstones, other: Tombstones) -> Tombstones:
        """What becomes of tombstones: one of these two."""
        return self.choice("tombstones", default, (default, other))

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"option {name}: {value!r} is not true or false")  # noqa: TRY004  # all are ValueErrors
        return value

    def quantity(self, name: str, default: int) -> int:
        """Bytes, as a number or as ``32Mi``; more than none."""
        try:
            value = quantity(self._take(name, default))
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from error
        if value < 1:
            raise ValueError(f"option {name}: {value} is not more than 0 bytes")
        return value

    def delimiter(self, name: str, default: str) -> bytes:
        r"""Some bytes, written as text (UTF-8) in which ``\n \r \t \0 \\ \xHH`` mean what they mean in C."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise ValueError(f"option {name}: {value!r} is not text")  # noqa: TRY004  # all are ValueErrors

        def unescaped(found: re.Match[bytes]) -> bytes:
            code = found[1]
            if len(code) == 3:
                return bytes.fromhex(code[1:].decode())
            if code not in _ESCAPED:
                raise ValueError(
                    rf"option {name}: {value!r} has an escape that is not one of \n \r \t \0 \\ \xHH"
                )
            return _ESCAPED[code]

        return _ESCAPE.sub(unescaped, value.encode())

    def extension(self, default: str) -> str:
        """The file name's ending, empty or with its dot."""
        value = self._take("extension", default)
        if not isinstance(value, str) or not re.fullmatch(r"(\.[A-Za-z0-9-]+)*", value):
            raise ValueError(
                f"option extension: {value!r} is not empty or such as .json.gz (letters, digits, -)"
            )
        return value

    def close(self) -> None:
        """Refuse what is left.

        Raises:
            ValueError: an option is unknown; the message names it and those that are known.
        """
        if self._left:
            unknown, known = ", ".join(sorted(self._left)), ", ".join(sorted(self._taken))
            raise ValueError(f"unknown option {unknown}: this format knows {known}")
