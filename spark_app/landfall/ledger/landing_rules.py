"""By which rules a slice is cut into chunks and objects. Pure.

A REPAIR lands a committed slice again and needs the same objects with the same rows. Which rows an
object has depends on where chunks end, because memory is checked after each, and on what memory is
counted. So a result says by which rules it was made, and its slice is landed again by these.
"""

from enum import IntEnum


class LandingRules(IntEnum):
    """The rules there have been. Results of a version without this number have ``PAYLOADS``."""

    PAYLOADS = 1
    """A chunk ends by records and payload bytes; each buffered batch has an overhead of 2 KiB."""
    ALL_BYTES = 2
    """A chunk ends by keys and headers, too, and by cells; buffered rows count as what they cost.
    """
    LARGE_ROWS = 3
    """A large row begins an object of its own if the object before has none, where the format asks
    for it. Small columns of Parquet are packed cheaply, which decides how many bytes memory holds.
    """

    @classmethod
    def of(cls, number: int) -> "LandingRules":
        """Return the rules of a result; those of a later version are not known here.

        The newest rules are the best guess for them: if they give other rows, nothing is replaced.
        """
        return cls(min(number, CURRENT_RULES))


CURRENT_RULES = LandingRules.LARGE_ROWS
