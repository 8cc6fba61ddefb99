"""Replaced objects stay as long as a kept snapshot or version of a table names them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from landfall.driver.replacing.grace_period import ASK_AGAIN
from landfall.errors import DestinationAway
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.task_results import DecidedObject
from landfall.publish import DueObjects, Hold
from landfall.publish.building import publisher
from landfall.publish.delta import DeltaMaintenanceOptions, _hold
from landfall.publish.iceberg.expiry import NamingSnapshots, SnapshotLimits, naming
from landfall.publish.iceberg.options import IcebergTableSettings
from landfall.publish.iceberg.tables import IcebergTables
from landfall.publish.tables import TablePublisher
from tests.support.ledger.cleaned_up import Cleaner
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.lake import CLICKS, ORDERS, Lake, Landed, delta_lake, iceberg_lake
from tests.unit.publish.iceberg.test_iceberg_maintenance import DAY as DAY_MS
from tests.unit.publish.iceberg.test_iceberg_maintenance import KEY, NOW, each_minute, metadata
from tests.unit.publish.test_replacing import ParquetMerge

TABLE = "lake.clicks"
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def merge(lake: Lake, *numbers: int) -> ParquetMerge:
    """Merge objects, by their numbers among all that landed; the old ones stay."""
    sample = lake.landed.sample
    landed = [
        DecidedObject(state.seq, each)
        for state, visible in Lane(sample.store, GROUP, LANE).folded(State())
        for each in visible.objects
    ]
    retire = tuple(landed[number] for number in numbers)
    made = ParquetMerge(sample, retire, sample.state.applied_through)
    made.record(retires_later=True).complete()
    sample.shown()
    return made


def iceberg(root: Path, *, maintains: bool | None = None) -> Lake:
    """A table of three objects, each in a snapshot of its own."""
    lake = iceberg_lake(root)
    settings = IcebergTableSettings({}, limits=SnapshotLimits(100, 5 * DAY), maintains=maintains)
    connect: Callable[[], Any] = lake.connect
    made = replace(lake, connect=lambda: replace(connect(), settings=settings))
    for _ in range(3):
        made.landed.land(CLICKS).settle()
        made.publish()
    return made


def load(lake: Lake) -> Any:
    tables: Any = lake.connect()
    return tables._load(TABLE)


def publisher_of(lake: Lake) -> TablePublisher:
    tables: Any = lake.connect()
    return replace(lake.landed.publisher(tables), hold_of=tables.hold)


def cleaner(lake: Lake) -> Cleaner:
    return Cleaner(lake.landed.store, {"lake": lambda: publisher_of(lake)})


def rows_of_snapshots(lake: Lake) -> list[int]:
    """How many rows each snapshot of the table has, oldest first; every file of it is read."""
    table = load(lake)
    found = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number)
    return [len(table.scan(snapshot_id=each.snapshot_id).to_arrow()) for each in found]


# ----------------------------------------------------------------------------------- Iceberg


def test_each_kept_snapshot_is_whole_until_the_old_ones_are_old_enough_to_expire(
    tmp_path: Path,
) -> None:
    lake = iceberg(tmp_path)
    made = merge(lake, 0, 1)
    driver = cleaner(lake)
    assert driver.advance() == []
    assert "publisher lake is at slot" in driver.grace.problem
    lake.publish()

    driver.advance(HOUR)
    assert driver.advance(HOUR) == []
    assert "replaced objects of 1 REPLACE stay: publisher lake: " in driver.grace.held
    assert "3 snapshots of table lake.clicks may name them until " in driver.grace.held
    assert driver.grace.problem == ""
    assert driver.advance(4 * DAY) == []
    assert rows_of_snapshots(lake) == [10, 20, 30, 30]

    assert driver.advance(DAY) == []  # the snapshots expire, and queries of them have time to end
    assert rows_of_snapshots(lake) == [30]
    assert driver.advance(HOUR) == [made.slot]
    assert not {each.key for each in made.retire} & {*lake.landed.keys("clicks")}
    assert rows_of_snapshots(lake) == [30]
    assert driver.grace.held == ""
    assert lake.is_whole()


def test_a_tag_keeps_the_objects_that_its_snapshot_names_and_no_others(tmp_path: Path) -> None:
    lake = iceberg(tmp_path)
    load(lake).manage_snapshots().create_tag(
        load(lake).metadata.current_snapshot_id, "audited"
    ).commit()
    tagged = merge(lake, 0, 1)
    lake.landed.land(CLICKS).settle().land(CLICKS).settle()
    lake.publish()
    later = merge(lake, 3, 4)
    lake.publish()
    driver = cleaner(lake)

    for _ in range(8):
        driver.advance(2 * DAY)

    assert "tag audited of table lake.clicks names them" in driver.grace.held
    kept = {*lake.landed.keys("clicks")}
    assert {each.key for each in tagged.retire} <= kept
    assert not {each.key for each in later.retire} & kept
    assert rows_of_snapshots(lake) == [10, 20, 30, 30, 50]

    load(lake).manage_snapshots().remove_tag("audited").commit()
    assert driver.advance(HOUR) == []
    assert driver.advance(HOUR) == [tagged.slot]
    assert rows_of_snapshots(lake) == [30, 50]
    assert lake.is_whole()


def test_a_table_that_is_not_maintained_keeps_its_snapshots_and_their_files_for_a_while(
    tmp_path: Path,
) -> None:
    lake = iceberg(tmp_path, maintains=False)
    made = merge(lake, 0, 1)
    lake.publish()
    driver = cleaner(lake)

    assert driver.advance(4 * DAY) == []
    assert rows_of_snapshots(lake) == [10, 20, 30, 30]
    assert driver.advance(2 * DAY) == [made.slot]
    assert len(load(lake).metadata.snapshots) == 4


def test_a_table_holds_no_objects_of_another_table(tmp_path: Path) -> None:
    lake = iceberg(tmp_path)
    lake.landed.land(ORDERS).settle().land(ORDERS).settle()
    lake.publish()
    of_orders = merge(lake, 3, 4)
    lake.publish()
    lake.drop("lake.orders")
    lake.landed.rows.pop("lake.orders")

    assert cleaner(lake).advance() == [of_orders.slot]
    assert rows_of_snapshots(lake) == [10, 20, 30]


def test_a_catalog_that_does_not_answer_holds_what_it_may_name_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = iceberg(tmp_path)
    first, second = merge(lake, 0, 1), merge(lake, 2)
    lake.publish()
    asked = list[int]()

    def hold(_: IcebergTables, __: str, due: DueObjects, ___: datetime) -> Hold | None:
        asked.append(due.slot)
        if len(asked) == 1:
            raise DestinationAway("the catalog does not answer")
        return None

    monkeypatch.setattr(IcebergTables, "hold", hold)
    driver = cleaner(lake)

    assert driver.advance() == [second.slot]
    assert driver.grace.held.endswith("publisher lake: the catalog does not answer")
    assert driver.advance(ASK_AGAIN) == [first.slot]


def test_positions_of_snapshots_tell_which_objects_they_name() -> None:
    table = metadata(each_minute(20, others=(1, 11, 12)))
    limits = SnapshotLimits(100, timedelta(minutes=30))

    def of(landed: int, replaced: int) -> NamingSnapshots:
        return naming(table, KEY, (landed, replaced), limits, NOW)

    assert (
        of(1, 2) == NamingSnapshots()
    )  # snapshot 1, of another engine, is from before all own ones
    assert (of(4, 5).count, of(4, 5).until_ms) == (1, NOW + 14 * 60_000)
    assert of(10, 11).count == 3  # snapshots 11 and 12 have what snapshot 10 has
    assert of(20, 25).refs == ("main",)
    assert of(21, 25) == NamingSnapshots()
    table.snapshots.remove(table.snapshots[9])
    assert of(10, 11).count == 2  # what snapshots 11 and 12 have is not known


def test_old_snapshots_of_other_engines_and_heads_of_branches_do_not_expire() -> None:
    table = metadata(each_minute(20, others=(11, 12)), audited=5)
    found = naming(table, KEY, (4, 13), SnapshotLimits(100, timedelta(0)), NOW + DAY_MS)

    assert found.refs == ("audited",)
    assert found.count == 0
    assert [each.snapshot_id for each in found.old] == [4, 6, 7, 8, 9]  # 10 is before 11


# --------------------------------------------------------------------------------------- Delta


def test_each_version_of_a_delta_table_is_whole_until_it_is_old(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    for _ in range(3):
        lake.landed.land(CLICKS).settle()
        lake.publish()
    made = merge(lake, 0, 1)
    lake.publish()
    tables: Any = lake.connect()
    hold = lake.landed.publisher(tables)
    held = replace(hold, hold_of=lambda *at: _hold(DeltaMaintenanceOptions().age(), *at))
    driver = Cleaner(lake.landed.store, {"lake": lambda: held})
    driver.now = datetime(2026, 11, 21, 5, tzinfo=UTC)  # of the sample ledger's records

    assert driver.advance(6 * DAY) == []
    assert "versions of table lake.clicks may name them until 2026-11-28T05:00Z" in (
        driver.grace.held
    )
    folder = str(tmp_path / "tables" / TABLE)

    def rows(version: int) -> int:
        found = QueryBuilder().register("t", DeltaTable(folder, version=version))
        return len(pa.table(found.execute("select * from t").read_all()))

    assert [rows(version) for version in range(1, 5)] == [10, 20, 30, 30]
    assert driver.advance(DAY) == [made.slot]
    assert lake.is_whole()


# ------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("readers", "option", "holds"),
    [
        ("Tables", {}, True),
        ("Listing", {}, False),
        ("Listing", {"keepFiles": True}, True),
        ("Tables", {"keepFiles": False}, False),
    ],
)
@pytest.mark.parametrize("kind", ["Iceberg", "Delta"])
def test_tables_keep_files_unless_readers_list_folders(
    tmp_path: Path, kind: str, readers: str, option: dict[str, bool], *, holds: bool
) -> None:
    landed = Landed(tmp_path)
    options: dict[str, Any] = {
        "Iceberg": {"catalog": {"type": "sql", "uri": "sqlite://", "warehouse": "file:///w"}},
        "Delta": {"table": f"file://{tmp_path}/tables/{{topic}}"},
    }[kind]
    context = landed.context(
        kind,
        {**options, "maintenance": option},
        compact={"readers": readers},
        completeness={"delay": "1h"},
    )
    built: Any = publisher(context.group, context.entry, context.store)

    assert (built.hold_of is not None) is holds


def test_a_publisher_without_options_holds_nothing(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    due = DueObjects(3, datetime(2026, 11, 21, tzinfo=UTC), ())

    assert landed.publisher(SimpleNamespace()).hold(due, due.time) is None  # type: ignore[arg-type]  # nothing is asked
