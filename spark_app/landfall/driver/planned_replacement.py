"""Objects that are ready to take the place of others."""

from dataclasses import dataclass

from landfall.ledger import Purpose
from landfall.ledger.offsets import Slice
from landfall.ledger.replacement_lists import Replaced


@dataclass(frozen=True, slots=True)
class PlannedReplacement:
    """What a REPLACE will say.

    Attributes:
        token: what is in the metadata of each new object.
        purpose: what it is for.
        listed: the objects that retire, and those that are uploaded and not completed.
        read_through: the slot up to which the ledger was read for it.
        folders: in which any of these objects are, sorted.
        slices: per topic partition, from the first of the records in these objects to the last.
        duplicates: rows that have the key of another one, and are in no new object.
    """

    token: str
    purpose: Purpose
    listed: Replaced
    read_through: int
    folders: tuple[str, ...]
    slices: tuple[Slice, ...]
    duplicates: int = 0
