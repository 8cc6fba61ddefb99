"""Files that a user names, and how a part of one is listed again. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from landfall.ledger import ParkedPart
from landfall.ledger.feeds.part_lists import ListedPart


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """State of the files that a user names.

    Attributes:
        parked: their parked parts, by number; of all files if none is named.
        ignored: their parts that were given up, in the same way.
        changed: those that have another version now, with the parts that it would have.
        unknown: names without any number.
        unreadable: why a version that is there now has no parts, by name.
    """

    parked: Mapping[int, ListedPart]
    ignored: Mapping[int, ListedPart] = field(default_factory=dict)
    changed: Mapping[str, tuple[ListedPart, ...]] = field(default_factory=dict)
    unknown: Collection[str] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)


def tried_again(number: int, part: ListedPart, parked: ParkedPart) -> ListedPart:
    """The part as it is listed under another number."""
    return ListedPart(
        name=part.name,
        etag=part.etag,
        size=part.size,
        modified=part.modified,
        start=part.start,
        end=part.end,
        former=number,
        attempt=parked.attempt,
        # Rows that are landed under a former number are not counted under this one.
        skip=max(part.skip, parked.skip),
    )
