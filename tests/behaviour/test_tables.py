"""Tables of every destination: each object is published once, whoever does it and however it ends.

Tables in memory run the same tests.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from examples.plugins.object_index import ObjectIndex

from landfall.errors import Reason, Retry, Stalled
from landfall.publish import Stretch
from landfall.publish.bigquery.tables import LoadedTables
from landfall.publish.delta.copied_log import StoreLogs
from landfall.publish.tables import Next, Tables
from landfall.store.file import FileStore
from tests.support.publishers.bigquery import MemoryWarehouse, bigquery_lake
from tests.support.publishers.keyed_delta import keyed_delta_lake
from tests.support.publishers.keyed_iceberg import keyed_iceberg_lake
from tests.support.publishers.lake import (
    CLICKS,
    ORDERS,
    DeltaFolders,
    Killed,
    Lake,
    LogStore,
    MemoryTables,
    copied_delta_lake,
    delta_lake,
    iceberg_lake,
    index_lake,
    killed_at,
    memory_lake,
    table_of,
)

KINDS: dict[str, Callable[[Path], Lake]] = {
    "memory": memory_lake,
    "plug-in": index_lake,
    "iceberg": iceberg_lake,
    "delta": delta_lake,
    "delta, copied logs": copied_delta_lake,
    "delta, keyed": keyed_delta_lake,
    "iceberg, keyed": keyed_iceberg_lake,
    "bigquery": bigquery_lake,
}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return KINDS[request.param](tmp_path)


def test_what_is_visible_is_published_once_and_nothing_else(lake: Lake) -> None:
    lake.landed.land(CLICKS, ORDERS).settle().land(CLICKS)

    lake.publish()

    assert (lake.offsets("lake.clicks"), lake.offsets("lake.orders")) == ([*range(10)],) * 2
    lake.publish()
    lake.landed.settle()
    lake.publish()
    assert lake.is_whole()


def test_a_publisher_that_goes_on_reads_no_object_again(lake: Lake) -> None:
    publisher, follower = lake.landed.publisher(lake.connect()), lake.landed.follower()
    lake.landed.land(CLICKS).settle()
    first = publisher.publish(follower)
    lake.landed.land(CLICKS, ORDERS).settle()

    second = publisher.publish(follower)

    assert (first.objects, second.objects) == (1, 2)
    assert second.through == lake.landed.sample.state.seq
    assert publisher.publish(follower).slots == 0
    assert lake.is_whole()


def test_a_lost_cursor_costs_no_row(lake: Lake) -> None:
    lake.landed.land(CLICKS).land(ORDERS).settle()
    lake.publish()
    cursor = "_landfall/shop/0-published/lake.json"
    assert lake.landed.store.read(cursor)
    lake.landed.store.overwrite(cursor, b"{}")
    lake.landed.land(CLICKS).settle()

    lake.publish()

    assert lake.is_whole()


@pytest.mark.parametrize("more", [True, False])
def test_a_table_that_was_dropped_is_filled_again(lake: Lake, more: bool) -> None:
    for _ in range(5):
        lake.landed.land(CLICKS).land(ORDERS).settle()
    lake.publish()
    lake.drop("lake.clicks")
    if more:
        lake.landed.land(CLICKS).settle()

    lake.publish()

    assert lake.is_whole()


def test_a_table_that_is_dropped_while_a_publisher_runs_is_filled_again(lake: Lake) -> None:
    publisher, follower = lake.landed.publisher(lake.connect()), lake.landed.follower()
    lake.landed.land(CLICKS).land(CLICKS).settle()
    publisher.publish(follower)
    lake.drop("lake.clicks")
    lake.landed.land(CLICKS).settle()

    publisher.publish(follower)

    assert lake.is_whole()


@pytest.mark.parametrize("more", [True, False])
def test_a_table_that_lacks_objects_no_longer_published_to_it_holds_up_nothing(
    lake: Lake, more: bool
) -> None:
    lake.landed.land(CLICKS, ORDERS).settle()
    lake.publish()
    lake.drop("lake.clicks")
    if more:
        lake.landed.land(CLICKS, ORDERS).settle()
    publisher = replace(
        lake.landed.publisher(lake.connect()),
        table_of=lambda landed: None if "clicks" in landed.upload.key else table_of(landed),
    )

    done = publisher.publish(lake.landed.follower())

    assert (done.refilled, done.objects) == ([], int(more))
    assert lake.offsets("lake.clicks") == []
    assert sorted(lake.offsets("lake.orders")) == [*range(20 if more else 10)]
    lake.publish()
    assert lake.is_whole(), "filled as soon as they are published to it again"


@pytest.mark.parametrize("lake", [kind for kind in KINDS if kind != "plug-in"], indirect=True)
def test_a_table_that_another_publisher_creates_meanwhile_is_looked_at_again(lake: Lake) -> None:
    lake.landed.land(CLICKS).settle()
    stretch, asked = next(lake.landed.follower().stretches(-1)), list[int]()

    def after(position: int) -> Stretch:
        asked.append(position)
        if len(asked) == 1:
            lake.publish()
        objects = tuple(each for each in stretch.objects if each.slot > position)
        return Stretch(position, stretch.through, objects)

    assert lake.connect().append("lake.clicks", after) == stretch.through
    assert asked == [-1, stretch.through]
    assert lake.is_whole()


def test_publishers_at_once_publish_each_object_once(lake: Lake) -> None:
    def run(_: int) -> None:
        lake.publish()

    for _ in range(6):
        lake.landed.land(CLICKS, ORDERS).settle()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(run, range(4)))
        assert lake.is_whole()


def test_tables_that_have_more_than_an_old_copy_of_the_ledger_are_left_alone(lake: Lake) -> None:
    if isinstance(lake.connect(), LoadedTables):
        pytest.skip("BigQuery's positions are beside the ledger, and old with it")
    lake.landed.land(CLICKS, ORDERS).settle()
    lake.publish()
    ledger = lake.landed.root / "landed/_landfall"
    copytree(ledger, lake.landed.root / "copy")
    lake.landed.land(CLICKS).settle()
    lake.publish()
    rmtree(ledger)
    copytree(lake.landed.root / "copy", ledger)  # with the cursor of then

    for _ in range(2):
        with pytest.raises(Stalled, match=r"slot \d+ is published, and the ledger ends at") as e:
            lake.landed.publisher(lake.connect()).publish(lake.landed.follower())
        assert e.value.reason is Reason.LEDGER_BEHIND
    assert lake.is_whole()


def calls_of(lake: Lake) -> tuple[type, tuple[str, ...]]:
    tables = lake.connect()
    if isinstance(tables, MemoryTables):
        return MemoryTables, ("append", "through", "refill")
    if isinstance(tables, DeltaFolders) and isinstance(tables.logs, StoreLogs):
        return LogStore, ("list_after", "create", "overwrite")
    if isinstance(tables, DeltaFolders):
        return DeltaTable, ("__init__", "create_write_transaction", "create")
    if isinstance(tables, LoadedTables):
        return MemoryWarehouse, ("submit", "find", "exists")
    if isinstance(tables, ObjectIndex):
        return ObjectIndex, ("append", "through", "refill")
    return type(tables.connection.catalog()), ("load_table", "create_table", "commit_table")  # type: ignore[attr-defined]  # of Iceberg


@pytest.mark.parametrize("of_cursor", [True, False])
def test_a_publisher_that_is_killed_at_any_call_leaves_nothing_out_and_nothing_twice(
    lake: Lake, of_cursor: bool
) -> None:
    target, calls = (FileStore, ("overwrite",)) if of_cursor else calls_of(lake)
    number = 0
    while True:
        lake.landed.land(CLICKS).land(CLICKS, ORDERS).settle()
        with killed_at(target, calls, number) as made, suppress(Killed):
            lake.publish()
        if made[0] <= number:
            break
        number += 1
        lake.publish()
        assert lake.is_whole(), f"killed at call {number}"
    assert number >= 2


def test_a_preview_changes_nothing_and_a_reset_fills_every_table_again(lake: Lake) -> None:
    lake.landed.land(CLICKS, ORDERS).settle()
    publisher, follower = lake.landed.publisher(lake.connect()), lake.landed.follower()
    assert [*publisher.preview(follower)] == [
        "table lake.clicks: append 1 objects, 10 rows, slots 3-3",
        "table lake.orders: append 1 objects, 10 rows, slots 3-3",
    ]
    publisher.publish(follower)
    assert [*publisher.preview(lake.landed.follower())] == []

    publisher.reset(lake.landed.follower())

    if lake.is_refilled_by_reset:
        assert lake.is_whole()
    publisher.publish(lake.landed.follower())
    assert lake.is_whole()


def test_a_rebuild_that_is_killed_at_any_call_leaves_the_old_rows_or_has_the_new_ones(
    lake: Lake,
) -> None:
    if not lake.is_refilled_by_reset:
        pytest.skip("BigQuery keeps the old rows until the next load")
    number, (target, calls) = 0, calls_of(lake)
    while True:
        lake.landed.land(CLICKS, ORDERS).settle()
        lake.publish()
        before = dict(lake.landed.rows)
        lake.landed.land(CLICKS, ORDERS).settle()
        publisher = lake.landed.publisher(lake.connect())
        with killed_at(target, calls, number) as made, suppress(Killed):
            publisher.reset(lake.landed.follower())
        for table, rows in lake.landed.rows.items():
            assert sorted(lake.offsets(table)) in ([*range(before[table])], [*range(rows)]), number
        lake.publish()
        assert lake.is_whole(), f"killed at call {number}"
        if made[0] <= number:
            break
        number += 1
    assert number >= 2


@pytest.mark.parametrize("error", [Stalled(Reason.DESTINATION_CONFLICT, "no"), Retry("no")])
def test_one_table_that_fails_keeps_no_other_from_it_and_is_filled_later(
    lake: Lake, error: Exception
) -> None:
    class Fails:
        """Tables of which one cannot be written."""

        def __init__(self) -> None:
            self.tables = lake.connect()

        def append(self, table: str, after: Next) -> int:
            if table == "lake.clicks":
                raise error
            return self.tables.append(table, after)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.tables, name)

    lake.landed.land(CLICKS, ORDERS).settle().land(CLICKS).settle()
    for _ in range(2):
        with pytest.raises(type(error), match="no"):
            lake.landed.publisher(cast("Tables", Fails())).publish(lake.landed.follower())

    assert lake.offsets("lake.clicks") == []
    assert sorted(lake.offsets("lake.orders")) == [*range(10)]
    lake.publish()
    assert lake.is_whole()
