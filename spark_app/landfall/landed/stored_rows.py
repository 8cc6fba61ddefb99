"""Rows of landed objects with their offsets, data and dead letters alike."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from landfall.api.contract import LANE
from landfall.formats import Format, column_reading
from landfall.formats.column_reading import copied
from landfall.landed.copies import WithCopies
from landfall.landed.opened_group import OpenedGroup
from landfall.ledger.task_results import LandedObject, ObjectKind

Payload = bytes | None
_READ_ROWS = 4096


def stored_rows(
    opened: OpenedGroup, format_: Format, landed: LandedObject
) -> Iterator[tuple[int | None, Payload]]:
    """Offset and payload of each row; the offset is None if the format stores none.

    If the object is being replaced at this moment, its copy is read.

    Raises:
        ValueError: the object is damaged.
        FileNotFoundError: the object is missing.
    """
    with _opened(opened, landed.key) as stream:
        if landed.kind is ObjectKind.DEAD_LETTERS:
            yield from _payloads(stream)
        else:
            yield from ((row.offset, row.value) for row in format_.rows(stream))


def _payloads(letters: BinaryIO) -> Iterator[tuple[int, Payload]]:
    with copied(letters) as file:
        columns = ("offset", "value")
        for batch in column_reading.dead_letters(file).batches(_READ_ROWS, columns):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)


def _opened(opened: OpenedGroup, key: str) -> AbstractContextManager[BinaryIO]:
    try:
        return opened.store.open(key)
    except FileNotFoundError:
        copy = WithCopies(opened.store, (opened.name, LANE)).copy_of(key)
        if copy is None:
            raise
        return opened.store.open(copy)


def dead_letter_texts(opened: OpenedGroup, landed: LandedObject, row: int) -> tuple[str, str]:
    """The stage that failed and the error of a dead letter, which may quote its payload.

    Args:
        opened: the group.
        landed: the object of dead letters.
        row: of the dead letter, counted from 0.

    Raises:
        ValueError: the object is damaged, or has fewer rows.
        FileNotFoundError: the object is missing.
    """
    with _opened(opened, landed.key) as stream, copied(stream) as file:
        first = 0
        for batch in column_reading.dead_letters(file).batches(_READ_ROWS, ("stage", "error")):
            if row < first + len(batch):
                found = batch.slice(row - first, 1).to_pylist()[0]
                return str(found.get("stage", "")), str(found["error"])
            first += len(batch)
    raise ValueError(f"{landed.key}: has {first} rows, not row {row}")
