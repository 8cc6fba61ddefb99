"""What a driver is asked to record as a REPLACE, once somebody has prepared it."""

from dataclasses import dataclass

from landfall.ledger import Purpose
from landfall.ledger.offsets import Slice
from landfall.ledger.replacement_lists import Replaced


@dataclass(frozen=True, slots=True)
class PlannedReplacement:
    """A REPLACE whose new objects are uploaded and not completed; see ``landfall.ledger.Replace``.

    Attributes:
        token: what the new objects carry.
        purpose: what it is for.
        listed: the objects that retire, and those that take their place.
        read_through: the slot up to which the ledger was read for it.
        duplicates: rows that have the key of another one, and are in no new object.
        slices: per topic partition, from the first of the records to the last.
        folders: in which any of the objects are, sorted.
    """

    token: str
    purpose: Purpose
    listed: Replaced
    read_through: int
    duplicates: int
    slices: tuple[Slice, ...]
    folders: tuple[str, ...]
