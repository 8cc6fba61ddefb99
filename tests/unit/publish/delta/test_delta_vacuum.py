"""VACUUM by delta-rs of tables that were maintained, merged, undone and changed by other engines.

Which files it lists, and which it deletes: docs/publishers/delta.md, docs/adr/0097.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from landfall.ledger.task_results import DecidedObject
from landfall.publish.context import Context
from landfall.publish.delta import tables
from tests.support.publishers.lake import CLICKS, Landed
from tests.unit.publish.delta.test_delta import inside, options, publish
from tests.unit.publish.delta.test_delta_rewritten import merge, removed, undo
from tests.unit.publish.test_replacing import ParquetMerge, _landed

YEAR_HOURS = 365 * 24
AGE_SECONDS = 400 * 86_400
"""The age of all files that the table no longer has: over, by Delta's default of a week."""


@dataclass
class Lived:
    """A table with a past, and the objects of its topic.

    Attributes:
        landed: the group's ledger and objects.
        context: of the publisher.
        folder: the table's.
        in_log: the landed object that another engine removed, as the log names it.
        offsets: of the rows that the table has.
    """

    landed: Landed
    context: Context
    folder: Path
    in_log: str
    offsets: list[int]

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder))

    def objects(self) -> list[str]:
        """The keys of all objects of the topic that are in the store."""
        return [key for key in self.landed.keys("clicks") if key.endswith(".parquet")]

    def vacuum(self, hours: int | None, **how: Any) -> list[str]:
        """Vacuum; return the keys of the objects that it lists."""
        listed = [unquote(path) for path in self.table.vacuum(hours, **how)]
        return [key for key in self.objects() if any(path.endswith(key) for path in listed)]

    def rows(self, version: int | None = None) -> list[int]:
        read = DeltaTable(str(self.folder), version=version)
        found = QueryBuilder().register("t", read).execute("select _offset from t").read_all()
        return sorted(pa.table(found)["_offset"].to_pylist())


def paths(folder: Path) -> set[str]:
    """The paths of the files that a table has, without escapes."""
    return {*map(unquote, pa.table(DeltaTable(str(folder)).get_add_actions())["path"].to_pylist())}


@pytest.fixture(params=[False, True], ids=["apart", "around"])
def lived(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lived:
    """Merged, undone, merged again, changed by another engine; the table lacks the last object."""
    is_around: bool = request.param
    then = time.time() - AGE_SECONDS
    monkeypatch.setattr(tables, "time", SimpleNamespace(time=lambda: then))
    if is_around:
        landed, context = inside(tmp_path, *["_landed/dt=2026-11-21"] * 4)
        folder = tmp_path / "landed/clicks"
    else:
        landed = Landed(tmp_path)
        context = landed.context("Delta", options(tmp_path))
        folder = tmp_path / "tables/clicks"
        for _ in range(4):
            landed.land(CLICKS).settle()
    publish(context)
    lake: Any = SimpleNamespace(landed=landed)
    old = [DecidedObject(each.landed_slot, each.landed) for each in _landed(landed.sample)]
    made = merge(lake, old[:2])
    publish(context)
    undo(made)
    publish(context)
    kept = ParquetMerge(landed.sample, (*old[2:],), landed.sample.state.applied_through)
    kept.record(retires_later=True).complete()
    landed.sample.shown()
    publish(context)
    before = paths(folder)
    landed.land(CLICKS).settle()
    publish(context)
    (in_log,) = paths(folder) - before
    lines = [{"commitInfo": {"timestamp": 0, "operation": "DELETE"}}, removed(in_log)]
    path = folder / f"_delta_log/{DeltaTable(str(folder)).version() + 1:020}.json"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    landed.land(CLICKS).settle()  # not published yet
    for each in landed.keys("clicks"):
        os.utime(tmp_path / "landed" / each, (then, then))
    return Lived(landed, context, folder, in_log, [*range(40)])


def test_the_default_of_delta_rs_lists_what_the_table_no_longer_has_and_deletes_no_object(
    lived: Lived,
) -> None:
    """Only if the table is elsewhere; around its objects, nothing is listed."""
    objects, is_around = lived.objects(), not lived.in_log.startswith("file:")
    removed_last = next(key for key in objects if lived.in_log.endswith(key.rpartition("/")[2]))

    listed = lived.vacuum(None, dry_run=True)
    assert (removed_last in listed) is not is_around
    assert is_around is not bool(listed)
    for full in (False, True):
        lived.vacuum(None, dry_run=False, full=full)

    assert lived.objects() == objects
    assert lived.rows() == lived.offsets


@pytest.mark.parametrize("full", [False, True])
def test_no_retention_at_all_deletes_no_object_either(lived: Lived, *, full: bool) -> None:
    objects, before = lived.objects(), lived.table.version()

    lived.vacuum(0, dry_run=False, enforce_retention_duration=False, full=full)

    assert lived.objects() == objects
    assert lived.rows() == lived.offsets
    assert lived.rows(before - 2) == [*range(40)]  # of the objects that were kept
    publish(lived.context)
    assert lived.rows() == [*lived.offsets, *range(50, 60)]


def test_less_than_the_retention_is_refused(lived: Lived) -> None:
    """A table around its objects keeps what it removed for a century."""
    with pytest.raises(DeltaError, match="minimum retention for vacuum"):
        lived.vacuum(0, dry_run=True)
    if not lived.in_log.startswith("file:"):
        with pytest.raises(DeltaError, match="minimum retention for vacuum"):
            lived.vacuum(YEAR_HOURS, dry_run=True)


def test_files_of_other_engines_are_deleted(lived: Lived) -> None:
    """It is theirs to do, and shows that VACUUM would have deleted landed objects elsewhere."""
    stray = lived.folder / "part-0.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))

    lived.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)

    assert not stray.exists()


def test_a_checkpoint_and_a_cleaned_log_lose_no_row(lived: Lived) -> None:
    """Landfall finds its position by the application transaction then."""
    lived.table.create_checkpoint()
    for path in (lived.folder / "_delta_log").glob("*.json"):
        os.utime(path, (0, 0))

    lived.table.cleanup_metadata()

    assert len([*(lived.folder / "_delta_log").glob("*.json")]) == 1
    assert lived.rows() == lived.offsets
    publish(lived.context)
    assert lived.rows() == [*lived.offsets, *range(50, 60)]
