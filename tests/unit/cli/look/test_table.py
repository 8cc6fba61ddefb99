"""``landfall table``: what it shows of tables of a SQL catalog and of Delta tables in folders."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.look.table import GroupTables, read_tables
from landfall.errors import DestinationAway, Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.task_results import DecidedObject
from landfall.publish.health import Details, TableHealth
from landfall.publish.iceberg import maintenance
from landfall.publish.iceberg.tables import IcebergTables
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.lake import CLICKS, ORDERS, Landed
from tests.support.publishers.played_publisher import PLAYED
from tests.unit.publish.delta.test_delta_rewritten import delete_row_by_vector
from tests.unit.publish.test_replacing import ParquetMerge

Captured = pytest.CaptureFixture[str]
KEPT: dict[str, Any] = {"keepFiles": True}
DAY = timedelta(days=1)


class Lake:
    """A group with two topics, and a publisher of each type."""

    def __init__(self, root: Path, *publishers: dict[str, Any]) -> None:
        self.root, self.landed = root, Landed(root)
        (root / "tables").mkdir()
        self.uri = f"sqlite:///{root}/catalog.db"
        self.warehouse = f"file://{root}/warehouse"
        self.file = str(root / "group.yaml")
        described = document(GROUP, publish=[*publishers] or [self.iceberg(), self.delta()])
        described["spec"]["output"] = self.landed.described({})
        Path(self.file).write_text(yaml.safe_dump(described))

    def iceberg(self, **options: Any) -> dict[str, Any]:
        catalog = {"type": "sql", "uri": self.uri, "warehouse": self.warehouse}
        return {"name": "lake", "type": "Iceberg", "options": {"catalog": catalog, **options}}

    def delta(self, **options: Any) -> dict[str, Any]:
        table = f"file://{self.root}/tables/lake.{{topic}}"
        return {"name": "delta", "type": "Delta", "options": {"table": table, **options}}

    def publishes(self, *publishers: dict[str, Any]) -> "Lake":
        described = yaml.safe_load(Path(self.file).read_text())
        described["spec"]["publish"] = [*publishers]
        Path(self.file).write_text(yaml.safe_dump(described))
        return self

    def land(self, count: int = 1) -> "Lake":
        """Land objects of clicks and publish each, by the command."""
        for _ in range(count):
            self.landed.land(CLICKS).settle()
            assert self.publish() == ExitCode.OK
        return self

    def publish(self) -> int:
        return main(["publish", self.file])

    def merge(self, *numbers: int) -> None:
        """Merge objects of all that landed, by their numbers; the old ones are not deleted yet."""
        sample = self.landed.sample
        folded = Lane(sample.store, GROUP, LANE).folded(State())
        landed = [DecidedObject(s.seq, each) for s, visible in folded for each in visible.objects]
        retire = tuple(landed[number] for number in numbers)
        made = ParquetMerge(sample, retire, sample.state.applied_through)
        made.record(retires_later=True).complete()
        sample.shown()

    def catalog(self) -> Any:
        return SqlCatalog("landfall", uri=self.uri, warehouse=self.warehouse).load_table(
            "lake.clicks"
        )

    def look(self, *names: str, now: datetime | None = None) -> GroupTables:
        return read_tables(GroupStore.of(Path(self.file)), names, now or datetime.now(UTC))

    def tables(self, name: str, now: datetime | None = None) -> list[TableHealth]:
        report = self.look(name, now=now).publishers[0]
        assert not report.error
        return [each.health for each in report.tables or ()]

    def shown(self, capsys: Captured, *argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["table", self.file, *argv])
        return code, *capsys.readouterr()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path, {"name": "x", "type": PLAYED, "options": {"path": "x"}})
    return made.publishes(made.iceberg(), made.delta())


def details(health: TableHealth) -> Details:
    assert health.exists
    assert health.details
    return health.details


# ------------------------------------------------------------------------------ what is looked at


def test_files_and_versions_are_those_that_the_destination_has(lake: Lake) -> None:
    lake.land(3)
    sizes = [stat.size for stat in lake.landed.store.list_after("clicks/")]

    (of_iceberg,), (of_delta,) = lake.tables("lake"), lake.tables("delta")

    assert (of_iceberg.table, of_delta.table) == (
        "lake.clicks",
        f"file://{lake.root}/tables/lake.clicks",
    )
    for each in (of_iceberg, of_delta):
        files = details(each).files
        assert (files.count, files.bytes, files.small) == (3, sum(sizes), 3)
        assert each.slot == lake.landed.sample.state.seq
        assert not each.lacks_any
    log = Path(lake.root / "tables/lake.clicks/_delta_log")
    of_log = [path.stat().st_size for path in log.iterdir()]
    assert details(of_delta).versions.count == 4  # the first version made it
    assert (
        details(of_delta).metadata.bytes == sum(of_log) == details(of_delta).metadata.current_bytes
    )
    loaded = lake.catalog()
    assert details(of_iceberg).versions.count == len(loaded.snapshots()) == 3
    first = min(each.timestamp_ms for each in loaded.snapshots())
    assert details(of_iceberg).versions.oldest == datetime.fromtimestamp(first / 1000, UTC)
    folder = Path(loaded.location().removeprefix("file://")) / "metadata"
    assert details(of_iceberg).metadata.bytes == sum(p.stat().st_size for p in folder.iterdir())
    assert details(of_iceberg).metadata.files == len([*folder.iterdir()])


def test_files_below_the_size_that_is_merged_are_small(lake: Lake) -> None:
    lake.land(2)
    sizes = [stat.size for stat in lake.landed.store.list_after("clicks/")]
    described = yaml.safe_load(Path(lake.file).read_text())
    described["spec"] |= {"compact": {"below": max(sizes)}, "completeness": {"delay": "1h"}}
    Path(lake.file).write_text(yaml.safe_dump(described))

    counts = [details(lake.tables(name)[0]).files.small for name in ("lake", "delta")]

    assert counts == [sum(size < max(sizes) for size in sizes)] * 2
    assert lake.look().small_bytes == max(sizes)


def test_a_table_that_lacks_objects_names_how_many_and_since_when(lake: Lake) -> None:
    lake.land()
    has = lake.landed.sample.state.seq
    lake.landed.land(CLICKS, ORDERS).settle().land(CLICKS).settle()
    landed_at = datetime.fromisoformat(lake.landed.sample.state.last_commit_time or "")

    report = lake.look(now=landed_at + timedelta(minutes=3)).publishers[0]

    clicks, orders = report.tables or ()
    assert (clicks.health.slot, clicks.lag_slots) == (has, lake.landed.sample.state.seq - has)
    assert (clicks.health.waiting_objects, clicks.lag_seconds) == (2, 180)
    assert (orders.health.table, orders.health.waiting_objects) == ("lake.orders", 1)
    assert (orders.health.slot, orders.health.exists) == (-1, False)
    assert lake.publish() == ExitCode.OK
    assert [each.lag_slots for each in lake.look().publishers[0].tables or ()] == [0, 0]


def test_a_table_without_new_records_is_up_to_date(lake: Lake) -> None:
    lake.landed.land(ORDERS).settle()
    lake.land(2)

    assert [(each.table, each.lacks_any) for each in lake.tables("lake")] == [
        ("lake.clicks", False),
        ("lake.orders", False),
    ]


def test_a_table_that_was_dropped_lacks_everything(lake: Lake) -> None:
    lake.land(2)
    SqlCatalog("landfall", uri=lake.uri, warehouse=lake.warehouse).drop_table("lake.clicks")

    (found,) = lake.tables("lake")

    assert (found.exists, found.slot, found.waiting_objects) == (False, -1, 2)


def test_a_table_that_was_rolled_back_lacks_what_came_later(lake: Lake) -> None:
    lake.land(3)
    loaded = lake.catalog()
    first = loaded.history()[0].snapshot_id
    loaded.manage_snapshots().rollback_to_snapshot(first).commit()

    (found,) = lake.tables("lake")

    assert found.waiting_objects == 2
    assert details(found).files.count == 1


def test_a_cursor_that_is_lost_makes_no_table_seem_lacking(lake: Lake) -> None:
    lake.land(2)
    for path in (lake.root / "landed/_landfall").rglob("lake.json"):
        path.unlink()

    (found,) = lake.tables("lake")

    assert (found.table, found.lacks_any) == ("lake.clicks", False)


# ---------------------------------------------------------------------------------- stored twice


def test_replaced_objects_count_until_they_are_deleted_and_what_keeps_them_is_named(
    lake: Lake,
) -> None:
    lake.publishes(lake.iceberg(maintenance=KEPT), lake.delta(maintenance=KEPT)).land(3)
    old = [stat.size for stat in lake.landed.store.list_after("clicks/")][:2]
    lake.merge(0, 1)
    assert [each.waiting_replacements for each in lake.tables("lake")] == [1]
    lake.publish()

    (of_iceberg,), (of_delta,) = lake.tables("lake"), lake.tables("delta")

    for each in (of_iceberg, of_delta):
        assert (each.retained.objects, each.retained.bytes) == (2, sum(old))
        assert details(each).files.count == 2
    assert "3 snapshots of table lake.clicks may name them until" in of_iceberg.retained.why
    snapshots = lake.catalog().snapshots()
    last = datetime.fromtimestamp(snapshots[-2].timestamp_ms / 1000, UTC)
    assert of_iceberg.retained.until == last + 5 * DAY
    applied = datetime.fromisoformat(lake.landed.sample.state.last_commit_time or "")
    (of_delta,) = lake.tables("delta", now=applied + DAY)
    assert "versions of table" in of_delta.retained.why
    (of_delta,) = lake.tables("delta", now=applied + 8 * DAY)
    assert (of_delta.retained.objects, of_delta.retained.why) == (2, "")


def test_a_look_expires_nothing(lake: Lake) -> None:
    """The driver's question to a table does, once its snapshots are old enough."""
    lake.publishes(lake.iceberg(maintenance=KEPT)).land(3)
    lake.merge(0, 1)
    lake.publish()
    before = lake.catalog().metadata_location

    (found,) = lake.tables("lake", now=datetime.now(UTC) + 6 * DAY)

    assert found.retained.why == "3 snapshots of table lake.clicks that name them expire"
    assert lake.catalog().metadata_location == before


def test_a_tag_that_keeps_objects_is_named(lake: Lake, capsys: Captured) -> None:
    lake.publishes(lake.iceberg(maintenance=KEPT)).land(2)
    loaded = lake.catalog()
    tags = loaded.manage_snapshots()
    tags.create_tag(loaded.metadata.current_snapshot_id, "audited").commit()
    lake.merge(0, 1)
    lake.publish()

    code, out, _ = lake.shown(capsys)

    assert code == ExitCode.OK
    assert "2 replaced objects kept: tag audited of table lake.clicks names them" in out
    assert "branches and tags: audited" in out


def test_deleted_rows_are_counted_by_their_files(lake: Lake) -> None:
    lake.land(2)
    delete_row_by_vector(lake, 0, 3)

    assert details(lake.tables("delta")[0]).files.deletes == 1


# ------------------------------------------------------------------------------------------ care


def test_the_last_expiry_and_what_it_left_are_shown(
    lake: Lake, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_800_000_000.0]

    def time() -> float:
        clock[0] += 3600
        return clock[0]

    monkeypatch.setattr("time.time", time)
    monkeypatch.setattr(maintenance, "BATCH", 3)
    settings = {"keepSnapshots": 1, "expireAfter": "1s"}
    lake.publishes(lake.iceberg(maintenance=settings)).land(5)

    (found,) = lake.tables("lake")

    care = details(found).care
    assert care.maintained
    assert care.outcome == "3 snapshots expired"
    assert care.last
    assert care.garbage >= 3
    assert details(found).versions.count == 2
    out = lake.shown(capsys)[1]
    assert "3 snapshots expired, " in out
    assert f"{care.garbage} files of metadata to be deleted next time" in out


@pytest.mark.parametrize(
    ("options", "shown"), [({}, "none yet"), ({"maintenance": {"enabled": False}}, "off")]
)
def test_whether_a_table_is_maintained_is_shown(
    lake: Lake, capsys: Captured, options: dict[str, Any], shown: str
) -> None:
    lake.publishes(lake.iceberg(**options)).land()

    assert shown in lake.shown(capsys)[1]


def test_delta_tables_name_their_last_checkpoint(lake: Lake, capsys: Captured) -> None:
    lake.publishes(lake.delta()).land(2)
    table = DeltaTable(f"{lake.root}/tables/lake.clicks")
    table.create_checkpoint()
    lake.land()
    log = lake.root / "tables/lake.clicks/_delta_log"
    for version in (0, 1):
        (log / f"{version:020}.json").unlink()  # as a clean-up does that Spark runs

    (found,) = lake.tables("delta")

    assert details(found).care.outcome == "checkpoint of version 2, log kept from version 2"
    assert details(found).versions.count == 2
    newest = [log / f"{2:020}.checkpoint.parquet", log / f"{3:020}.json"]
    assert details(found).metadata.current_bytes == sum(path.stat().st_size for path in newest)
    assert "checkpoint of version 2" in lake.shown(capsys)[1]


# ------------------------------------------------------------------------------ what goes wrong


def test_a_table_whose_last_pass_failed_waits_for_a_user_and_the_command_shows_why(
    lake: Lake, capsys: Captured
) -> None:
    lake.publishes(lake.iceberg(schemaEvolution="None")).land()
    lake.landed.land(CLICKS).settle()
    last = max(Path(lake.root / "landed/clicks").rglob("*.parquet"))
    read = pq.read_table(last)
    pq.write_table(read.append_column("more", pa.array([1] * len(read))), last)
    assert lake.publish() == ExitCode.STALLED

    code, out, err = lake.shown(capsys)

    assert code == ExitCode.FAULT
    assert "1 object" in out
    assert f"the last pass did not bring it up to date; `landfall publish {lake.file} lake`" in (
        " ".join(err.split())
    )
    capsys.readouterr()
    assert main(["publish", lake.file, "lake"]) == ExitCode.STALLED
    assert (
        "does not fit table lake.clicks: column more is not in the table" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DestinationAway("the catalog does not answer"), ExitCode.UNAVAILABLE),
        (Stalled(Reason.DESTINATION_CONFLICT, "another group has it"), ExitCode.FAULT),
    ],
)
def test_a_table_that_cannot_be_read_hides_no_other_one(
    lake: Lake,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: ExitCode,
) -> None:
    lake.landed.land(CLICKS, ORDERS).settle()
    lake.publish()
    through = IcebergTables.through

    def failing(self: IcebergTables, table: str) -> int:
        if table == "lake.clicks":
            raise error
        return through(self, table)

    monkeypatch.setattr(IcebergTables, "through", failing)

    found, out, err = lake.shown(capsys, "lake")

    assert found == code
    assert str(error) in err
    assert any(line.startswith("lake.orders") and " nothing" in line for line in out.splitlines())


def test_a_publisher_that_cannot_be_built_hides_no_other_one(lake: Lake, capsys: Captured) -> None:
    lake.land().publishes(lake.iceberg(nonsense=1), lake.delta())

    code, out, err = lake.shown(capsys)

    assert code == ExitCode.FAULT
    assert "nonsense" in err
    assert "delta (Delta): 1 table" in out


def test_a_type_that_shows_no_tables_shows_its_position(lake: Lake, capsys: Captured) -> None:
    lake.publishes({"name": "own", "type": PLAYED, "options": {"path": str(lake.root / "own")}})
    lake.land()

    code, out, _ = lake.shown(capsys)

    assert code == ExitCode.OK
    seq = lake.landed.sample.state.seq
    shown = f"own ({PLAYED}): through slot {seq} of {seq}; this type does not show its tables"
    assert shown in out


def test_of_bigquery_it_is_known_what_a_table_lacks(lake: Lake, capsys: Captured) -> None:
    place = {"project": "shop-prod", "dataset": "raw", "staging": "gs://stage/landfall"}
    options = {**place, "endpoint": "http://127.0.0.1:1"}
    lake.publishes({"name": "warehouse", "type": "BigQuery", "options": options})
    described = yaml.safe_load(Path(lake.file).read_text())
    described["spec"]["output"]["options"] = {"envelope": False}
    Path(lake.file).write_text(yaml.safe_dump(described))
    lake.landed.land(CLICKS).settle()

    (found,) = lake.tables("warehouse")

    assert (found.table, found.slot, found.waiting_objects) == ("shop-prod.raw.clicks", -1, 1)
    assert (found.exists, found.details) == (None, None)
    assert lake.shown(capsys)[0] == ExitCode.OK


def test_without_tables_or_a_ledger_there_is_nothing_to_look_at(
    lake: Lake, capsys: Captured, tmp_path: Path
) -> None:
    lake.publishes({"name": "done", "type": "Success", "options": {}})
    assert lake.shown(capsys)[0] == ExitCode.NOTHING
    described = yaml.safe_load(Path(lake.file).read_text())
    described["spec"]["output"]["url"] = f"file://{tmp_path}/elsewhere"
    Path(lake.file).write_text(yaml.safe_dump(described))

    lake.publishes(lake.delta())

    assert lake.shown(capsys)[0] == ExitCode.NOTHING


def test_json_has_what_is_known_of_each_table(lake: Lake, capsys: Captured) -> None:
    lake.land(2)

    code, out, _ = lake.shown(capsys, "-o", "json")

    assert code == ExitCode.OK
    found = json.loads(out)
    assert [each["name"] for each in found["publishers"]] == ["lake", "delta"]
    table = found["publishers"][0]["tables"][0]
    assert table["table"] == "lake.clicks"
    assert table["details"]["files"]["count"] == 2
    assert (table["lag_slots"], table["lag_seconds"], table["waiting_objects"]) == (0, 0.0, 0)
    assert (found["slots"], found["small_bytes"]) == (lake.landed.sample.state.seq + 1, 64 << 20)
