"""Where rows with one offset may be now, after objects took the place of others. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from landfall.checks.locate import Committed, row_of
from landfall.ledger import Purpose, Replace
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import NewObject, Replaced, Section
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import LandedObject


@dataclass(frozen=True, slots=True)
class Place:
    """Rows of an object that may hold an offset.

    Attributes:
        slot: of the COMMIT, REPLAY or REPLACE that names the object.
        landed: the object.
        first_row: of these rows in the object, counted from 0.
        rows: which they are: all, or those of a section.
        is_in_order: whether they are in the order of their offsets.
        is_alone: whether all of them are of the same Kafka partition.
    """

    slot: int
    landed: LandedObject
    first_row: int
    rows: LandedObject | Section
    is_in_order: bool = True
    is_alone: bool = True

    def row_of(self, offset: int) -> int | None:
        """The row of an offset in the object; None if only reading the object can show it."""
        row = row_of(self.rows, offset) if self.is_in_order else None
        return None if row is None else self.first_row + row


def leaving_out(replacements: Iterable[Replace]) -> Replace | None:
    """The last of these that may have left records out: a duplicate, or by other code."""
    is_merge = Purpose.COMPACT
    found = (each for each in replacements if each.duplicates or each.purpose is not is_merge)
    return next(iter([*found][-1:]), None)


def places(
    group: str,
    tp: TopicPartition,
    offset: int,
    committed: Committed,
    replaced: Iterable[tuple[Replace, Replaced]],
) -> list[Place]:
    """Where an offset may be.

    What merges rows of a former life of the topic partition has none of this one.

    Args:
        group: name of the group.
        tp: the topic partition.
        offset: in it.
        committed: what the ledger says of it.
        replaced: the REPLACEs that concern it and are applied, with their lists.
    """
    found = [Place(committed.slot_of(o), o, 0, o) for o in committed.candidates(offset)]
    replayed = {slice_.dead_letters for _, slice_ in committed.replays}
    for record, listed in replaced:
        retired = {each.landed.upload.key for each in listed.retire}
        gone = [each for each in found if each.landed.upload.key in retired]
        found = [each for each in found if each.landed.upload.key not in retired]
        is_merge = not changes_rows(record.purpose, record.undoes)
        for new in listed.objects:
            if new.landed.upload.key in replayed:
                continue
            if object_names.origin(group, new.landed.upload.key).topic == tp.topic:
                new_places = _places_in(record.header.seq, new, tp.partition, offset)
                found += (p for p in new_places if not is_merge or _is_made_of(p, gone))
    return found


def _is_made_of(place: Place, gone: Iterable[Place]) -> bool:
    """Whether rows of a merged object may be those of one of these places, which retired.

    An object is merged within its folder.
    """
    folder = place.landed.upload.key.rpartition("/")[0]
    return any(each.landed.upload.key.rpartition("/")[0] == folder for each in gone)


def _places_in(slot: int, new: NewObject, partition: int, offset: int) -> Iterator[Place]:
    first_row = 0
    for section in new.sections:
        is_in = section.partition == partition
        if is_in and section.first_offset <= offset <= section.last_offset and section.rows:
            if new.mixed:
                is_alone = {each.partition for each in new.sections} == {partition}
                yield Place(slot, new.landed, 0, new.landed, is_in_order=False, is_alone=is_alone)
                return
            yield Place(slot, new.landed, first_row, section)
        first_row += section.rows
