"""Parses the file name of an object, without the code that wrote it.

``<generation>_<kafka partition>_<start, 20 digits><extension>`` if it was landed. A replacement has
the slot of its plan as a prefix, ``r0000000977_``, or in names of older software as a suffix,
``.r977``.
"""

import re
from dataclasses import dataclass

PATTERN = r"(?:r[0-9]{10,}_)?[0-9]+_[0-9]+_[0-9]{20}(?:\.[^/]*)?"
"""Matches the file name of an object."""
_NAME = re.compile(
    r"(?:r([0-9]{10,})_)?([0-9]+)_([0-9]+)_([0-9]{20})(?:\.r([0-9]+)(?=\.|$))?((?:\.[^/]*)?)"
)


@dataclass(frozen=True, slots=True)
class Basename:
    """The parts of an object's file name; ``plan`` is None if it was landed."""

    generation: int
    partition: int
    start: int
    plan: int | None
    extension: str

    @property
    def as_landed(self) -> str:
        """The file name without the plan."""
        return f"{self.generation}_{self.partition}_{self.start:020d}{self.extension}"


def parse(key: str) -> Basename | None:
    """Parse an object's file name; None if it is no object's."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    if match is None:
        return None
    plan = match[1] or match[5]
    numbers = int(match[2]), int(match[3]), int(match[4])
    return Basename(*numbers, None if plan is None else int(plan), match[6])


def named(key: str) -> Basename:
    """Parse the file name of an object that the ledger names.

    Raises:
        ValueError: it is no object's.
    """
    found = parse(key)
    if found is None:
        raise ValueError(f"{key}: not the name of an object")
    return found


def is_new(key: str) -> bool:
    """Return whether an object has the name of a replacement."""
    found = parse(key)
    return found is not None and found.plan is not None


def unplanned(key: str) -> str:
    """The key of an object without the slot that its REPLACE was planned by."""
    folder, slash, _ = key.rpartition("/")
    found = parse(key)
    return key if found is None else f"{folder}{slash}{found.as_landed}"
