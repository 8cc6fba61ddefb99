"""Keys of what is stored of a feed's files. Pure.

All of them are under the feed's own prefix, which has nothing else::

    _landfall/<group>/<lane>-files/<topic>/<first:020d>-<sha16>.json.gz
        the parts that one DISCOVER numbers from ``first`` on
    _landfall/<group>/<lane>-files/<topic>/known/<through:020d>-<sha16>.json.gz
        an index of the files of all parts below ``through``
    _landfall/<group>/<lane>-files/<topic>/known-pieces/<through:020d>-<sha16>.json.gz
        a piece of that index, and of those after it that did not change the piece

``sha16`` is the start of the SHA-256 of the object's bytes.
"""

import re
from dataclasses import dataclass

from landfall.ledger.feeds import part_lists
from landfall.ledger.names import object_names

_NUMBERED = re.compile(r"([0-9]{20})-[0-9a-f]{16}\.json\.gz")


@dataclass(frozen=True, slots=True)
class FeedKeys:
    """Where the files of a feed are described.

    Attributes:
        group: name of the group.
        lane: name of its lane.
        topic: the feed's topic.

    Raises:
        ValueError: a name is not legal.
    """

    group: str
    lane: str
    topic: str

    def __post_init__(self) -> None:
        # Both raise ValueError for what would be somewhere else.
        object_names.ledger_prefix(self.group, self.lane)
        object_names.dead_letters_prefix(self.group, self.topic)

    @property
    def prefix(self) -> str:
        """The prefix that everything of the feed has, and no other key."""
        lane = object_names.ledger_prefix(self.group, self.lane).removesuffix("/")
        return f"{lane}-files/{self.topic}/"

    @property
    def index_prefix(self) -> str:
        """The prefix of stored indexes."""
        return f"{self.prefix}known/"

    @property
    def pieces_prefix(self) -> str:
        """The prefix of stored pieces of indexes."""
        return f"{self.prefix}known-pieces/"

    def part_list(self, first: int, sha256: str) -> str:
        """The key of the list of parts whose first number is ``first``."""
        return part_lists.list_key(
            group=self.group, lane=self.lane, topic=self.topic, first=first, sha256=sha256
        )

    def index(self, through: int, sha256: str) -> str:
        """The key of an index of the files of all parts below ``through``."""
        return f"{self.index_prefix}{_numbered(through, sha256)}"

    def piece(self, through: int, sha256: str) -> str:
        """The key of a piece that was made for the index of all parts below ``through``."""
        return f"{self.pieces_prefix}{_numbered(through, sha256)}"


def through_of(key: str) -> int:
    """Up to which number the index goes that an index or a piece with this key was made for.

    Raises:
        ValueError: it is the key of neither.
    """
    match = _NUMBERED.fullmatch(key.rpartition("/")[2])
    if not match:
        raise ValueError(f"not the key of an index, or of a piece of one: {key!r}")
    return int(match[1])


def _numbered(number: int, sha256: str) -> str:
    if not 0 <= number <= object_names.MAX_OFFSET or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"not a number and a SHA-256: {number}, {sha256!r}")
    return f"{number:020d}-{sha256[:16]}.json.gz"
