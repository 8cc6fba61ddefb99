"""Snapshots of Iceberg tables that expire, and what never does."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from landfall.publish.building import publisher
from landfall.publish.iceberg import maintenance
from landfall.publish.iceberg.expiry import SnapshotLimits, expired
from landfall.publish.iceberg.maintenance import Maintenance
from landfall.publish.iceberg.options import IcebergTableSettings
from landfall.publish.iceberg.tables import IcebergTables
from landfall.publish.table_position import pack, unpack
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.lake import CLICKS, Killed, Lake, iceberg_lake, killed_at
from tests.unit.publish.delta.test_delta_rewritten import replace as merge
from tests.unit.publish.delta.test_delta_rewritten import undo

KEY = "landfall.shop.0.through"
TABLE = "lake.clicks"
UUID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 24 * 3_600_000
NOW = 20_000 * DAY


# ------------------------------------------------------------------------------- which expire


def snapshot(number: int, at: int, parent: int | None, *, own: bool = True) -> Any:
    named = {KEY: str(number)} if own else {}
    summary = SimpleNamespace(additional_properties=named)
    return SimpleNamespace(
        snapshot_id=number,
        timestamp_ms=at,
        parent_snapshot_id=parent,
        summary=summary,
        sequence_number=number,
    )


def metadata(snapshots: Iterable[Any], properties: Any = None, **tags: int) -> Any:
    """A table whose branch ``main`` is at the last snapshot."""
    found = [*snapshots]
    heads = {"main": found[-1].snapshot_id, **tags}
    refs = {name: SimpleNamespace(snapshot_id=of) for name, of in heads.items()}
    return SimpleNamespace(snapshots=found, refs=refs, properties=properties or {})


def each_minute(count: int, others: Iterable[int] = ()) -> list[Any]:
    """Snapshots 1 to ``count``, the last of them now; some are of other engines."""
    ages = range(count - 1, -1, -1)
    return [
        snapshot(number, NOW - age * MINUTE, number - 1 or None, own=number not in {*others})
        for number, age in enumerate(ages, 1)
    ]


def left(table: Any, limits: SnapshotLimits) -> list[int]:
    gone = {each.snapshot_id for each in expired(table, KEY, limits, NOW)}
    return [each.snapshot_id for each in table.snapshots if each.snapshot_id not in gone]


NO_HOURS = timedelta(0)


def test_the_newest_stay_and_the_last_of_each_hour_for_a_day_and_of_each_day_until_it_is_old() -> (
    None
):
    week = metadata(each_minute(7 * 24 * 60 + 1))

    stay = left(week, SnapshotLimits(100, timedelta(days=5)))

    newest, before = stay[-100:], stay[:-100]
    assert newest == [*range(newest[-1] - 99, newest[-1] + 1)]
    ages = [(NOW - each.timestamp_ms) for each in week.snapshots if each.snapshot_id in before]
    hours = [hour * HOUR + MINUTE for hour in range(2, 24)]  # the last one of each
    days = [day * DAY + MINUTE for day in range(1, 5)]
    assert ages == [*reversed(days), *reversed(hours)]


def test_one_an_hour_stays_no_longer_than_one_a_day() -> None:
    stay = left(metadata(each_minute(7 * 24 * 60 + 1)), SnapshotLimits(1, timedelta(hours=3)))

    assert [stay[-1] - each for each in stay] == [121, 61, *range(10, -1, -1)]


def test_few_or_young_snapshots_stay() -> None:
    assert left(metadata(each_minute(30)), SnapshotLimits(30, NO_HOURS)) == [*range(1, 31)]
    assert left(metadata(each_minute(30)), SnapshotLimits(2, NO_HOURS)) == [*range(20, 31)]


def test_branches_and_tags_stay() -> None:
    table = metadata(each_minute(60), audited=7, wap=20)

    assert left(table, SnapshotLimits(20, NO_HOURS)) == [7, 20, *range(41, 61)]


def test_snapshots_of_others_stay_and_the_last_own_one_before_each() -> None:
    table = metadata(each_minute(60, others=(11, 12, 30)))

    assert left(table, SnapshotLimits(20, NO_HOURS)) == [10, 11, 12, 29, 30, *range(41, 61)]


def test_properties_of_the_table_keep_more() -> None:
    count = {"history.expire.min-snapshots-to-keep": "40"}
    age = {"history.expire.max-snapshot-age-ms": str(30 * MINUTE)}

    assert left(metadata(each_minute(60), count), SnapshotLimits(20, NO_HOURS)) == [*range(21, 61)]
    assert left(metadata(each_minute(60), age), SnapshotLimits(20, NO_HOURS)) == [*range(30, 61)]
    with pytest.raises(ValueError, match=r"max-snapshot-age-ms is no number: 'long'"):
        expired(
            metadata(each_minute(60), {"history.expire.max-snapshot-age-ms": "long"}),
            KEY,
            SnapshotLimits(20, NO_HOURS),
            NOW,
        )


# ----------------------------------------------------------------------------------- a table


class Clock:
    """The time of new snapshots, which advances by a minute with each."""

    def __init__(self) -> None:
        self.at = NOW

    def time(self) -> float:
        self.at += MINUTE
        return self.at / 1000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyiceberg.table.snapshots.time", Clock())
    monkeypatch.setattr(maintenance, "BATCH", 3)


def maintained(root: Path, count: int = 4) -> Lake:
    """A table that keeps some snapshots, and all of the last ten minutes."""
    lake = iceberg_lake(root)
    settings = IcebergTableSettings({}, limits=SnapshotLimits(count, NO_HOURS))
    connect: Callable[[], Any] = lake.connect
    return replace(lake, connect=lambda: replace(connect(), settings=settings))


def grow(lake: Lake, commits: int) -> None:
    for _ in range(commits):
        lake.landed.land(CLICKS, rows=1).settle()
        lake.publish()


def load(lake: Lake) -> Any:
    tables: Any = lake.connect()
    return tables._load(TABLE)


def ids(lake: Lake) -> list[int]:
    return [each.snapshot_id for each in load(lake).metadata.snapshots]


def avro_files(lake: Lake) -> set[str]:
    return {f"file://{path}" for path in lake.landed.root.glob("warehouse/**/*.avro")}


def named_files(lake: Lake) -> set[str]:
    """The manifest lists and manifests of all snapshots."""
    table = load(lake)
    manifests = (m for each in table.metadata.snapshots for m in each.manifests(table.io))
    lists = {each.manifest_list for each in table.metadata.snapshots}
    return lists | {each.manifest_path for each in manifests}


def pending(lake: Lake) -> frozenset[str]:
    return unpack(load(lake).properties.get("landfall.shop.0.through.expired-files")) or frozenset()


def test_a_table_keeps_the_newest_snapshots_and_each_is_whole(tmp_path: Path) -> None:
    lake = maintained(tmp_path)

    grow(lake, 30)

    table = load(lake)
    snapshots = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number)
    assert 11 <= len(snapshots) <= 14
    rows = [len(table.scan(snapshot_id=each.snapshot_id).to_arrow()) for each in snapshots]
    assert rows == [*range(31 - len(snapshots), 31)]
    assert lake.is_whole()


def test_files_that_only_expired_snapshots_name_are_deleted_a_batch_later(tmp_path: Path) -> None:
    lake = maintained(tmp_path)

    grow(lake, 30)

    folder = f"{load(lake).location()}/metadata"
    garbage = avro_files(lake) - named_files(lake)
    assert garbage == {f"{folder}/{name}" for name in pending(lake)}
    assert 3 <= len(garbage) <= 12
    assert {*lake.landed.keys("clicks")} == {
        path.removeprefix(lake.landed.url(""))
        for path in load(lake).inspect.files()["file_path"].to_pylist()
    }


@pytest.mark.parametrize(
    ("of_table", "of_publisher", "wanted"),
    [
        ("true", None, True),
        (None, None, False),  # created by an earlier version, or by a user
        (None, True, True),
        ("false", True, False),
        ("true", False, False),
    ],
)
def test_a_table_is_maintained_if_neither_side_refuses(
    of_table: str | None, of_publisher: bool | None, wanted: bool
) -> None:
    properties = {"landfall.maintenance": of_table} if of_table else {}

    assert IcebergTableSettings({}, maintains=of_publisher).maintained(properties) is wanted


def test_options_say_what_is_kept(tmp_path: Path) -> None:
    lake = iceberg_lake(tmp_path)
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}

    def settings(**options: Any) -> IcebergTableSettings:
        context = lake.landed.context("Iceberg", {"catalog": catalog, **options})
        built: Any = publisher(context.group, context.entry, context.store)
        found: IcebergTableSettings = built.tables.settings
        return found

    assert (settings().limits, settings().maintains) == (
        SnapshotLimits(100, timedelta(days=5)),
        None,
    )
    kept = settings(maintenance={"keepSnapshots": 7, "expireAfter": "36h"})
    assert (kept.limits, kept.maintains) == (SnapshotLimits(7, timedelta(hours=36)), True)
    assert settings(maintenance={"enabled": False}).maintains is False
    with pytest.raises(Exception, match=r"maintenance.expireAfter: not a duration .* 'soon'"):
        settings(maintenance={"expireAfter": "soon"})


def test_a_rollback_to_any_kept_snapshot_gets_what_it_lacks(tmp_path: Path) -> None:
    lake = maintained(tmp_path)
    grow(lake, 5)
    table = load(lake)
    table.append(pa.table({"_offset": [1000]}, schema=pa.schema([("_offset", pa.int64())])))
    others = load(lake).metadata.current_snapshot_id
    grow(lake, 25)
    assert others in ids(lake)
    assert len(ids(lake)) < 20

    load(lake).manage_snapshots().set_current_snapshot(snapshot_id=others).commit()
    lake.publish()

    assert sorted(lake.offsets(TABLE)) == [*range(30), 1000]


@pytest.mark.parametrize("kind", ["rollback", "tag"])
def test_another_client_that_changes_a_branch_or_tag_meanwhile_is_not_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Catalogs remove branches and tags together with the snapshot that they name."""
    lake = maintained(tmp_path)
    grow(lake, 13)
    oldest = ids(lake)[0]
    commit = SqlCatalog.commit_table
    seen = list[bool]()

    def late(catalog: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        if any(each.action == "remove-snapshots" for each in updates) and not seen:
            seen.append(True)
            change = load(lake).manage_snapshots()
            if kind == "tag":
                change.create_tag(oldest, "audited").commit()
            else:
                change.set_current_snapshot(snapshot_id=oldest).commit()
        return commit(catalog, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    grow(lake, 1)

    assert seen
    assert oldest in ids(lake)
    found = load(lake).metadata
    if kind == "tag":
        assert found.refs["audited"].snapshot_id == oldest
    else:
        assert found.current_snapshot_id == oldest
        lake.publish()
    grow(lake, 4)
    assert lake.is_whole()
    assert named_files(lake) <= avro_files(lake)


@pytest.mark.parametrize("number", range(5))
def test_a_publisher_that_is_killed_at_a_commit_leaves_no_file_behind(
    tmp_path: Path, number: int
) -> None:
    """Commits 0 and 1 append and expire; even numbers kill before a commit, odd ones after it."""
    lake = maintained(tmp_path)
    grow(lake, 13)
    committed = named_files(lake)
    lake.landed.land(CLICKS, rows=1).settle()

    with killed_at(SqlCatalog, ("commit_table",), number) as made, suppress(Killed):
        lake.publish()
    grow(lake, 4)

    assert made[0] == [2, 2, 4, 4, 4][number]
    assert lake.is_whole()
    folder = f"{load(lake).location()}/metadata"
    garbage = (committed - named_files(lake)) & avro_files(lake)
    assert {path.removeprefix(f"{folder}/") for path in garbage} <= pending(lake)
    assert committed - named_files(lake)
    assert named_files(lake) <= avro_files(lake)


def test_a_merge_that_is_undone_after_its_snapshots_expired_brings_the_rows_back(
    tmp_path: Path,
) -> None:
    lake = maintained(tmp_path)
    grow(lake, 2)
    before = ids(lake)
    made = merge(lake, 0, 1)
    lake.publish()
    grow(lake, 24)
    assert not {*before} & {*ids(lake)}

    undo(made)
    lake.publish()

    assert lake.is_whole()


def test_names_that_another_client_wrote_delete_nothing_else(tmp_path: Path) -> None:
    lake = maintained(tmp_path)
    grow(lake, 13)
    named = named_files(lake)
    secret = tmp_path / "secret.avro"
    secret.write_text("x")
    wanted = {path.rpartition("/")[2] for path in named} | {"../../../../secret.avro", str(secret)}
    with load(lake).transaction() as transaction:
        transaction.set_properties({"landfall.shop.0.through.expired-files": pack(wanted)})

    grow(lake, 1)

    assert secret.exists()
    assert named_files(lake) <= avro_files(lake)


@pytest.mark.parametrize(
    "location",
    [
        *("s3://lake/out", "s3a://lake/out", "s3n://lake/out/x", "s3://lake/out/"),
        *("file:///lake/out", "file:/lake/out", "file:///x/../lake/out", "/lake/out/x"),
    ],
)
def test_a_table_in_the_output_root_loses_no_file(location: str) -> None:
    deleted = list[str]()
    loaded = SimpleNamespace(
        location=lambda: location,
        properties={f"{KEY}.expired-files": pack({f"{UUID}-m0.avro"})},
        io=SimpleNamespace(delete=deleted.append),
    )
    scheme = "file" if "file" in location or location.startswith("/") else "s3"
    for landed in ("s3://lake/another/", f"{scheme}:///lake/out/".replace("s3:///", "s3://")):
        made = Maintenance(KEY, SnapshotLimits(), landed)
        assert made._delete(loaded, ()) == set()

    assert deleted == [f"{location}/metadata/{UUID}-m0.avro"]


def test_a_table_whose_maintenance_fails_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = maintained(tmp_path)
    grow(lake, 13)

    def failing(*_: Any) -> int:
        raise OSError("disk on fire")

    monkeypatch.setattr(Maintenance, "maintain", failing)
    grow(lake, 1)

    assert lake.is_whole()
    (record,) = (each for each in caplog.records if each.message == "maintenance failed")
    assert "disk on fire" in vars(record)["error"]


def test_the_position_has_the_name_that_these_tests_use() -> None:
    tables = IcebergTables(None, (GROUP, LANE), str, IcebergTableSettings({}))  # type: ignore[arg-type]  # no catalog is asked
    assert tables.key == "landfall.shop.0.through"
