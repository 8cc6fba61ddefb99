"""Compares a COMMIT's counts of each part of a file with the file and the objects. Pure.

The records of a part that are in the file, and its dead letters, are known for every format. Only
formats with offsets show which rows of data objects belong to which part.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from landfall_audit.checks.judge import DEAD_LETTERS, Int64s, ObjectRows, ReferenceRecords
from landfall_audit.feeds.lists import SPAN
from landfall_audit.ledger.corrections import Range


def wrong_counts(
    range_: Range, records: ReferenceRecords, objects: Sequence[ObjectRows]
) -> Iterator[str]:
    """Describe each part that is counted otherwise than it was landed.

    Of a range whose rows are in other objects by now, or in none, only the records of the files are
    compared.
    """
    if range_.parts is None:
        return
    totals = _by_part([records.offsets])
    yield from _differences(
        {n: sum(of) for n, of in range_.parts.items()}, totals, "records", "file"
    )
    if range_.lost or range_.dead_letters_expired or range_.replayed or range_.pieces:
        return
    for column, what, is_letters in ((0, "landed rows", False), (2, "dead letters", True)):
        offsets = [o.offsets for o in objects if (o.place == DEAD_LETTERS) is is_letters]
        known = [array for array in offsets if array is not None]
        counted = {number: of[column] for number, of in range_.parts.items()}
        found = _by_part(known)
        # Rows that are missing from objects, or twice, are faults of these.
        if len(known) == len(offsets) and found.total() == sum(counted.values()):
            yield from _differences(counted, found, what, "objects")


def _differences(
    counted: Mapping[int, int], found: Counter[int], what: str, where: str
) -> Iterator[str]:
    for number in sorted(found.keys() | counted.keys()):
        if found[number] != counted.get(number, 0):
            expected = f"counts {counted.get(number, 0)} {what} of part {number}"
            yield f"{expected}, found {found[number]} in its {where}"


def _by_part(offsets: Sequence[Int64s]) -> Counter[int]:
    found = Counter[int]()
    for array in offsets:
        found.update((array // SPAN).tolist())
    return found
