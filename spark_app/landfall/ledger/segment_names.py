"""Keys of segments, and how to parse them. Pure; see ``landfall.ledger.object_names``."""

import re
from dataclasses import dataclass

from landfall.ledger.object_names import MAX_OFFSET, lane_prefix

_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9]{10})-([0-9a-f]{16})\.seg")
_EPOCHS = 10**10


def segments_prefix(group: str, lane: str) -> str:
    """The prefix that the segments of this ledger have, and no other key.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-segments/"


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The parts of a segment's key.

    Attributes:
        first: number of its first slot.
        last: number of its last slot, which seals an epoch.
        epoch: the epoch that slot ``last`` seals.
        digest: the first 16 hexadecimal digits of the SHA-256 of the segment's bytes.

    Raises:
        ValueError: the numbers are not those of a stretch of slots, or the digest is not one.
    """

    first: int
    last: int
    epoch: int
    digest: str

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= MAX_OFFSET or not 0 <= self.epoch < _EPOCHS:
            raise ValueError(f"not slots of an epoch: {self.first}, {self.last}, {self.epoch}")
        if not re.fullmatch("[0-9a-f]{16}", self.digest):
            raise ValueError(f"not 16 hexadecimal digits: {self.digest!r}")


def segment_key(group: str, lane: str, name: SegmentName) -> str:
    """The key of a segment; ``parse_segment_key`` is the inverse. Keys sort by their first slots.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    numbers = f"{name.first:020d}-{name.last:020d}-{name.epoch:010d}"
    return f"{segments_prefix(group, lane)}{numbers}-{name.digest}.seg"


def parse_segment_key(group: str, lane: str, key: str) -> SegmentName:
    """The parts of a segment's key.

    Raises:
        ValueError: the key is not that of a segment of this ledger.
    """
    prefix = segments_prefix(group, lane)
    match = _SEGMENT.fullmatch(key.removeprefix(prefix))
    if not key.startswith(prefix) or not match:
        raise ValueError(f"not a segment under {prefix}: {key!r}")
    return SegmentName(int(match[1]), int(match[2]), int(match[3]), match[4])
