"""A table's position in a ledger, the objects that it left out, and its index. Pure.

A table stores this together with its rows, in its destination's form. Keys are packed into text,
since a pass may leave out thousands.
"""

import base64
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from landfall import untrusted_json
from landfall.errors import Reason, Stalled

NONE = -1
"""The position of a table that has nothing."""
MAX_KEYS_BYTES = 64 << 20
"""How many bytes of keys a table may name, unpacked: hundreds of thousands."""
_DIGITS = 19
"""A number with as many digits is none of a slot."""


@dataclass(frozen=True)
class NamedIndex:
    """The index of a keyed table.

    Attributes:
        files: names its files.
        keys: describes its keys.
    """

    files: str
    keys: str


@dataclass(frozen=True)
class TablePosition:
    """The position of a table.

    Attributes:
        through: the slot through which it has everything.
        left_out: keys of objects before it that were not added, because they are replaced later;
            None if the table does not record them.
        index: of a keyed table; None if it is none.
    """

    through: int = NONE
    left_out: frozenset[str] | None = frozenset()
    index: NamedIndex | None = None


@dataclass(frozen=True)
class OtherLanes:
    """The other lanes that publish to a table.

    Attributes:
        table: its name.
        keyed: by lane, whether it keeps the table keyed.
    """

    table: str
    keyed: Mapping[str, bool]

    def check_mode(self, *, keyed: bool) -> None:
        """Return if no lanes share a table that one of them keeps keyed.

        Rows are found by Kafka partition and offset, which rows of another lane may have as well.

        Args:
            keyed: whether this lane keeps it so.

        Raises:
            Stalled: DESTINATION_CONFLICT, some do.
        """
        for name, is_keyed in sorted(self.keyed.items()):
            if keyed or is_keyed:
                raise Stalled(
                    Reason.DESTINATION_CONFLICT,
                    f"table {self.table} has rows of {name} as well, and a keyed table has rows of "
                    "one group: publish to another table, or drop this one",
                )

    def check_none(self) -> None:
        """Return if a table has no rows of other lanes: to fill it again would remove these.

        Raises:
            Stalled: DESTINATION_CONFLICT, it has.
        """
        if self.keyed:
            lanes = ", ".join(sorted(self.keyed))
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {self.table} has rows of {lanes}; drop it to publish it again",
            )


def slot_of(text: object) -> int:
    """Return the position that a table names.

    Raises:
        ValueError: it is no number of a slot, and not -1.
    """
    found = int(text) if isinstance(text, str | int) and len(str(text)) < _DIGITS else NONE - 1
    if found < NONE:
        raise ValueError(f"{str(text)[:_DIGITS]!r} is no number of a slot")
    return found


def pack(keys: Collection[str]) -> str:
    """Return keys as text: empty for none, otherwise base64 of a compressed JSON array."""
    return packed(msgspec.json.encode(sorted(keys))) if keys else ""


def unpack(text: str | None) -> frozenset[str] | None:
    """Return the keys that ``pack`` made a text of; None for None.

    Raises:
        ValueError: it is no such text, or has too many keys: any client that may write to the table
            may have written it.
    """
    if not text:
        return None if text is None else frozenset()
    try:
        return untrusted_json.decode(unpacked(text), type=frozenset[str])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def packed(body: bytes) -> str:
    """Return bytes as a short text."""
    return base64.b64encode(zlib.compress(body)).decode()


def unpacked(text: str) -> bytes:
    """Return the bytes that ``packed`` made a text of.

    Raises:
        ValueError: it is no such text, or one of too many bytes.
    """
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(base64.b64decode(text), MAX_KEYS_BYTES)
    except (TypeError, zlib.error) as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError(f"keys that end early, or have more than {MAX_KEYS_BYTES >> 20} MiB")
    return body
