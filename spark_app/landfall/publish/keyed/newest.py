"""Finds the newest row of a key in a keyed table, by the table's index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.publish.keyed.index import IndexLost
from landfall.publish.keyed.passes import KeyedFile, KeyedPass
from landfall.publish.keyed.rows import (
    KeySettings,
    NoKeys,
    entry_of,
    numbers_of,
)
from landfall.publish.table_position import NONE, TablePosition

Ended = Mapping[int, Sequence[int]]
"""The highest generation of each ended lifetime of a topic, by Kafka partition."""


@dataclass(frozen=True, slots=True)
class NewestRow:
    """The newest row of a key, as of a table's position.

    Attributes:
        table: its name or URL.
        slot: the slot of the ledger through which it has everything.
        partition: the Kafka partition of the row; None if the table never had a row of the key.
        lifetime: of the row's topic partition, counted from 0.
        offset: of the row.
        is_shown: whether the table has the row: no, if it deletes its key.
    """

    table: str
    slot: int
    partition: int | None = None
    lifetime: int = 0
    offset: int = 0
    is_shown: bool = False


@runtime_checkable
class HasKeys(Protocol):
    """Tables of the newest row of each key."""

    def newest(self, table: str, key: Mapping[str, str], ended: Ended) -> NewestRow | None:
        """Return the newest row of a key; None if there is no such table yet.

        Args:
            table: its name or URL.
            key: the values of its columns as text, such as ``7``.
            ended: the lifetimes of its topic.

        Raises:
            Stalled: SPEC_INVALID, the key is not one of the table; DESTINATION_CONFLICT, it has no
                index of these keys.
            Retry: the store or the catalog does not answer.
        """
        ...


def newest_row(
    planned: KeyedPass, position: TablePosition, columns: pa.Schema, key: Mapping[str, str]
) -> NewestRow:
    """Return the newest row of a key.

    Args:
        planned: a pass over the table, whose files have lifetimes.
        position: of the table.
        columns: of the table.
        key: see ``HasKeys``.

    Raises:
        Stalled, Retry: see ``HasKeys``.
    """
    entry = _entry(planned.keys, columns, key)
    if position.through == NONE:
        return NewestRow(planned.table, NONE)
    try:
        index = planned.index(position)
        known, found = index.newest(entry) if index else (None, None)
    except IndexLost as error:
        raise _without_index(planned.table, str(error)) from None
    if known is None or found is None:
        raise _without_index(planned.table, "its index is of other options")
    if not known[0]:
        return NewestRow(planned.table, position.through)
    row = found["row"]
    is_shown = any(_is_in(planned, file, row) for file in planned.live.with_any(row))
    partition, lifetime, offset = numbers_of(int(row[0]))
    return NewestRow(planned.table, position.through, partition, lifetime, offset, is_shown)


def _without_index(table: str, why: str) -> Stalled:
    again = "the next pass of the publisher makes the index again"
    return Stalled(Reason.DESTINATION_CONFLICT, f"table {table}: {why}; {again}")


def _is_in(planned: KeyedPass, file: KeyedFile, row: Any) -> bool:
    """Return whether the table has a row in a file."""
    at = np.flatnonzero(planned.opens.ids(file) == row[0])
    return bool(np.setdiff1d(at, planned.opens.deleted(file)).size)


def _entry(settings: KeySettings, columns: pa.Schema, key: Mapping[str, str]) -> Any:
    if key.keys() != {*settings.key}:
        wanted = " ".join(f"--key {name}=VALUE" for name in settings.key)
        raise Stalled(Reason.SPEC_INVALID, f"the key of the table is {wanted}")
    values = []
    for name in settings.key:
        type_ = columns.field(name).type if name in columns.names else pa.string()
        try:
            values.append(pa.array([key[name]]).cast(type_))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            why = f"--key {name}={key[name]}: {key[name]!r} is no {type_}, as the table has it"
            raise Stalled(Reason.SPEC_INVALID, why) from None
    try:
        return entry_of(settings, values)
    except NoKeys as error:
        raise Stalled(Reason.SPEC_INVALID, f"--key: {error}") from None
