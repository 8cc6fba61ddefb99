"""Publishers without one of their rules: the crash machine notices."""

from collections.abc import Callable
from typing import Any

import pytest

from landfall import ledger
from landfall.ledger import Commit, Repair, State, Visible
from landfall.ledger.decisions import decided_objects
from landfall.ledger.task_results import LandedObject
from landfall.publish import Stretch
from landfall.publish.tables import TablePublisher
from tests.crashes.playing import play_schedules
from tests.crashes.process import Wrong
from tests.crashes.publishing import Table, Tables

Patch = pytest.MonkeyPatch
SCHEDULES = 400


def _trusts_its_cursor(patch: Patch) -> None:
    """Appends what it has read, whatever the table says that it has."""

    def append(self: TablePublisher, table: str, part: Any) -> tuple[int, bool]:
        return self.tables.append(table, lambda _: part.stretch), True

    patch.setattr(TablePublisher, "_append", append)


def _looks_for_no_lost_rows(patch: Patch) -> None:
    """Believes that each table has what the cursor says."""
    patch.setattr(Tables, "through", lambda *_: 10**9)


def _changes_what_it_has_not_read(patch: Patch) -> None:
    """Writes rows and position without regard for others who have changed the table meanwhile."""

    def append(self: Tables, table: str, after: Callable[[int], Stretch]) -> int:
        loaded = self.tables.get(table, Table())
        stretch = after(loaded.through)
        self.gate("commit")
        rows = tuple((o.landed.upload.key, o.landed.upload.token) for o in stretch.objects)
        if rows:
            now = self.tables.get(table, Table())
            self.tables[table] = Table((*now.rows, *rows), stretch.through)
        return self.tables.get(table, Table()).through

    patch.setattr(Tables, "append", append)


def _takes_what_is_decided_for_visible(patch: Patch) -> None:
    """Publishes objects as soon as a COMMIT names them; a REPAIR may name others."""

    def fold_applied(state: State, body: bytes) -> tuple[State, Visible]:
        record = ledger.decode(state.seq + 1, body)
        objects: tuple[LandedObject, ...] = ()
        if isinstance(record, Commit):
            objects = decided_objects(record)
        elif isinstance(record, Repair):
            objects = record.objects
        due = (state.seq + 1,) * len(objects)
        return ledger.fold(state, body), Visible(objects, due)

    patch.setattr(ledger, "fold_applied", fold_applied)


@pytest.mark.rest
@pytest.mark.parametrize(
    "without",
    [
        _trusts_its_cursor,
        _looks_for_no_lost_rows,
        _changes_what_it_has_not_read,
        _takes_what_is_decided_for_visible,
    ],
)
def test_each_rule_of_publishers_is_needed(
    without: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    without(monkeypatch)

    with pytest.raises(Wrong, match="published"):
        play_schedules(SCHEDULES)
