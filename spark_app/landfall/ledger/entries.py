"""Entries that records list: who decided, which topic partitions, up to which offsets. Pure.

The names of the fields are part of the persisted format, as in ``records``.
"""

from enum import StrEnum

import msgspec

from landfall.errors import Reason
from landfall.ledger.offsets import OffsetRange, TopicPartition


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The author of a request for something that Landfall does not do by itself.

    Attributes:
        verb: the command, such as ``skip`` or ``unblock``.
        who: the person or program that asked.
        why: the reason they gave.
        requested: when they asked, ISO 8601 in UTC.
        id: of the request, so that asking twice has the effect of asking once; may be empty.
    """

    verb: str
    who: str
    why: str
    requested: str
    id: str = ""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A topic partition that enters the lane at offset ``start``.

    The topic id distinguishes a topic from another one created later under the same name. A
    ``feed`` is of files, and its offsets are those that DISCOVERs hand out. The files of an
    ``external`` feed are processed by other programs, by LEASEs, and nothing of them is landed.
    """

    topic_partition: TopicPartition
    topic_id: str
    start: int
    feed: bool = False
    external: bool = False


class Blocked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic partition that must not be landed, and why; ``offsets`` are those it concerns."""

    topic_partition: TopicPartition
    reason: Reason
    message: str
    offsets: OffsetRange


class Missing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decided objects that cannot be made now, of the record in slot ``commit``."""

    commit: int
    keys: tuple[str, ...]


class Permission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A topic partition that may be landed again.

    Below offset ``bad_records_until``, bad records over the limit are allowed; -1 for no offset.
    """

    topic_partition: TopicPartition
    bad_records_until: int = -1


class Horizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The event time ``until`` (ms) below which a topic is complete.

    ``drained`` are Kafka partitions with the checkpoint at which they had nothing more when the
    driver looked. For every other one, the latest event time landed is later than the horizon by at
    least the delay.
    """

    topic: str
    until: int
    drained: tuple[tuple[int, int], ...] = ()


class ClosedTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A topic that is landed up to the end of a range.

    ``ends`` are its Kafka partitions, each with the offset at which the range ends. ``complete`` is
    the event time (ms) up to which that makes the topic complete; -1 if it is not to be.
    """

    topic: str
    ends: tuple[tuple[int, int], ...]
    complete: int = -1


class Rolled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Slots ``first`` to ``last``, whose bytes are stored together in the segment ``key``.

    ``last`` is the OPEN that seals ``epoch``. ``sha256`` is of the segment's bytes, ``before``
    the hash of the slot before the first, and ``after`` the last one's.
    """

    first: int
    last: int
    epoch: int
    key: str
    sha256: str
    before: str
    after: str


class PartList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of files with the numbers ``first`` to ``end - 1``, listed in the object ``key``.

    ``sha256`` is of the object's bytes, ``files`` and ``bytes`` what the parts are of.
    """

    key: str
    sha256: str
    first: int
    end: int
    files: int
    bytes: int


class KnownFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of all parts below number ``through``, by the object ``key`` with this SHA-256."""

    key: str
    sha256: str
    through: int
    files: int


class Purpose(StrEnum):
    """The reason that objects are replaced."""

    COMPACT = "Compact"
    """Small ones are merged, and duplicates perhaps left out."""
    BACKFILL = "Backfill"
    """The same ranges are landed again, by other code or another spec."""
    UNDO = "Undo"
    """What was replaced comes back, under other names."""


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Objects that retire, and their replacements, listed in the object ``key``.

    Attributes:
        key: of the list.
        sha256: of the list's bytes, in hexadecimal digits.
        retired: how many objects retire.
        retired_rows: how many rows they have.
        objects: how many objects replace them.
        rows: how many rows these have.
    """

    key: str
    sha256: str
    retired: int
    retired_rows: int
    objects: int
    rows: int
