"""Which offsets can be read, by what was found out about ranges of them. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable

from landfall.errors import Stalled
from landfall.landed.pieces import FoundRange
from landfall.ledger.offsets import OffsetRange


def first_stretch(
    offsets: OffsetRange, ranges: Iterable[FoundRange], not_landed: Callable[[int], Stalled]
) -> tuple[OffsetRange, Stalled | None]:
    """The first part of a range that can be read, or that cannot be, and then why.

    An offset can be read if a range without a fault covers it, and none with one.

    Args:
        offsets: the range; not empty.
        ranges: what is known, in any order; they may overlap.
        not_landed: says what is wrong with an offset that no range covers.
    """
    edges: dict[int, Counter[Stalled | None]] = {offsets.start: Counter()}
    for range_, why in ranges:
        start, end = max(range_.start, offsets.start), min(range_.end, offsets.end)
        if start < end:
            edges.setdefault(start, Counter())[why] += 1
            edges.setdefault(end, Counter())[why] -= 1
    covering, first = Counter[Stalled | None](), tuple[Stalled | None, ...]()
    for at in sorted(edges):
        for why, change in edges[at].items():
            covering[why] += change
        faults = [why for why, count in covering.items() if why and count > 0]
        wrong = None if covering[None] and not faults else next(iter(faults), not_landed(at))
        if not first:
            first = (wrong,)
        elif (wrong is None) != (first[0] is None):
            return OffsetRange(offsets.start, at), first[0]
    return offsets, first[0]
