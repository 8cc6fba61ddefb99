"""Stores a publisher's position, as a hint: an old one costs work, never a row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from landfall import untrusted_json
from landfall.ledger.names import object_names
from landfall.store import Slots

_PUBLISHER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class Position:
    """The position of a publisher.

    Attributes:
        through: the last slot through which everything is published, except for ``lacking``; -1 for
            none.
        tables: for each table, the last of these slots that makes objects of it visible, or
            replaces some.
        emptied: where the ledger ended when all tables were emptied; they contain nothing that was
            replaced by then. -1 if that was never done.
        lacking: for tables that could not be brought up to ``through``, a slot before all that they
            lack.
    """

    through: int = -1
    tables: Mapping[str, int] = field(default_factory=dict)
    emptied: int = -1
    lacking: Mapping[str, int] = field(default_factory=dict)

    @property
    def published(self) -> int:
        """The last slot through which everything is published, in every table."""
        return min((self.through, *self.lacking.values()))


class _StoredPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The persisted form; the names of the fields are the format."""

    through: int
    tables: dict[str, int]
    destination: str
    emptied: int = -1
    lacking: dict[str, int] = {}


class PublisherCursor:
    """The position of one publisher.

    It belongs to a destination, named by all that identifies it: a publisher that is pointed
    elsewhere starts again.
    """

    def __init__(self, slots: Slots, key: str, destination: str) -> None:
        """Read nothing yet; ``key`` is from ``cursor_key``."""
        self._slots = slots
        self._key = key
        self._destination = destination

    @classmethod
    def of(
        cls, slots: Slots, lane: tuple[str, str], name: str, destination: str
    ) -> "PublisherCursor":
        """The cursor of a publisher by its name, in a lane: its group and its name."""
        return cls(slots, cursor_key(*lane, name), destination)

    def read(self) -> Position:
        """The position; the start if there is none, or it is damaged or of another destination.

        Raises:
            Retry: the store does not answer.
        """
        body = self._slots.read(self._key)
        try:
            found = untrusted_json.decode(body or b"", type=_StoredPosition)
        except msgspec.DecodeError:
            return Position()
        if found.destination != self._destination:
            return Position()
        return Position(found.through, found.tables, found.emptied, found.lacking)

    def write(self, position: Position) -> None:
        """Store a position, after everything through it is published.

        Raises:
            Retry: the store does not answer.
        """
        stored = _StoredPosition(
            through=position.through,
            tables=dict(position.tables),
            destination=self._destination,
            emptied=position.emptied,
            lacking=dict(position.lacking),
        )
        self._slots.overwrite(self._key, msgspec.json.encode(stored))


def cursor_key(group: str, lane: str, publisher: str) -> str:
    """The key of a publisher's hint.

    Raises:
        ValueError: a name is not legal.
    """
    if not _PUBLISHER.fullmatch(publisher):
        raise ValueError(f"not the name of a publisher: {publisher!r}")
    return f"{published_prefix(group, lane)}{publisher}.json"


def published_prefix(group: str, lane: str) -> str:
    """The prefix of publishers' keys, which no slot of the ledger has.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{object_names.lane_prefix(group, lane)}-published/"
