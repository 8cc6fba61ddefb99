"""Publishers to a real Hive metastore that are killed, frozen and run at once.

Spark SQL with that metastore says which rows there are. ``make publisher-suite`` runs them.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dev.servers.hive_metastore import HIVE_METASTORE
from dev.servers.server import Server, ServerKind
from landfall.errors import DestinationAway, Retry, Stalled
from landfall.publish.catalog import TableName
from landfall.publish.catalog.hive import Metastore
from tests.support.publishers.catalogs import Warehouse, hive_warehouse, parquet_of
from tests.support.publishers.hive import HiveServer
from tests.support.publishers.hive_reader import SparkSql
from tests.support.publishers.lake import CLICKS, ORDERS, Killed, Landed, killed_at

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800), pytest.mark.xdist_group("hive")]

CALLS = ("load", "create", "change", "partitions", "add", "widen")
ROUNDS = 200


@pytest.fixture
def warehouse(hive: HiveServer, tmp_path: Path) -> Warehouse:
    landed = Landed(tmp_path)
    landed.sample.body = parquet_of(name=pa.string())
    return hive_warehouse(landed, hive)


def day(number: int) -> str:
    return f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}"


def drop(warehouse: Warehouse, table: str) -> None:
    client = warehouse.catalog()._client  # type: ignore[attr-defined]  # of the metastore
    with suppress(Exception):
        client.ask(TableName("x", "x"), lambda c: c.drop_table(warehouse.database, table, False))


def rows_of(spark: SparkSql, warehouse: Warehouse, topic: str) -> list[list[Any]]:
    table = f"{warehouse.database}.{topic}"
    spark.rows(f"refresh table {table}")
    return spark.rows(f"select count(*), count(distinct _offset), count(distinct dt) from {table}")


def is_whole(spark: SparkSql, warehouse: Warehouse, days: int) -> bool:
    landed = warehouse.landed.rows
    wanted = {topic: [[landed[f"lake.{topic}"]] * 2 + [days]] for topic in ("clicks", "orders")}
    return {topic: rows_of(spark, warehouse, topic) for topic in wanted} == wanted


def test_publishers_that_are_killed_at_every_call_leave_out_nothing(
    warehouse: Warehouse, spark: SparkSql
) -> None:
    landed = warehouse.landed
    number = days = 0
    columns = {"name": pa.string()}
    while True:
        landed.sample.directory = f"dt={day(days)}"
        landed.land(CLICKS, ORDERS).settle()
        days += 1
        if number % 3 == 0:
            drop(warehouse, "clicks")
        columns[f"c{number}"] = pa.int64()
        landed.sample.open(generation=number + 2)
        landed.sample.body = parquet_of(**columns)
        landed.land(CLICKS, ORDERS).settle()
        with killed_at(Metastore, CALLS, number) as made, suppress(Killed):
            warehouse.publish()
        if made[0] <= number:
            break
        number += 1
        warehouse.publish()
        for topic in ("clicks", "orders"):
            assert [*warehouse.table(topic).columns] == ["_offset", *columns], number
            assert all(warehouse.has(topic, day(each)) for each in range(days)), number
            last = warehouse.partition(topic, day(days - 1))
            assert {*last.columns} == {"_offset", *columns}, f"killed at call {number}"

    assert number > 20
    assert is_whole(spark, warehouse, days)


def test_a_frozen_publisher_that_wakes_takes_nothing_away(
    warehouse: Warehouse, spark: SparkSql
) -> None:
    landed = warehouse.landed
    columns = {"name": pa.string()}
    number = days = 0
    is_frozen = True
    while is_frozen:
        landed.sample.directory = f"dt={day(days)}"
        columns[f"a{number}"] = pa.int64()
        landed.sample.open(generation=2 * number + 2)
        landed.sample.body = parquet_of(**columns)
        if number % 2:
            drop(warehouse, "clicks")
        landed.land(CLICKS, ORDERS).settle()
        with frozen_at(number) as frozen:
            other = threading.Thread(target=lambda: suppressed(warehouse.publish))
            other.start()
            is_frozen = frozen.reached(other)
            columns[f"b{number}"] = pa.int64()
            landed.sample.open(generation=2 * number + 3)
            landed.sample.body = parquet_of(**columns)
            landed.land(CLICKS, ORDERS).settle()
            warehouse.publish()
            frozen.wake()
            other.join()
        days += 1
        number += 1
        warehouse.publish()
        for topic in ("clicks", "orders"):
            assert {*warehouse.table(topic).columns} == {"_offset", *columns}, number
            last = warehouse.partition(topic, day(days - 1))
            assert {*last.columns} == {"_offset", *columns}, f"frozen at call {number}"

    assert number > 8
    assert is_whole(spark, warehouse, days)


def test_two_hundred_rounds_of_two_at_once(warehouse: Warehouse, spark: SparkSql) -> None:
    landed = warehouse.landed
    both = [(warehouse.publisher(), landed.follower()) for _ in range(2)]
    for number in range(ROUNDS):
        landed.sample.directory = f"dt={day(number)}"
        landed.land(CLICKS, ORDERS, rows=1).settle()
        if number % 20 == 19:
            drop(warehouse, "orders")
            both = [(warehouse.publisher(), landed.follower()) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: suppressed(lambda: each[0].publish(each[1])), both))

    for publisher, follower in both:
        publisher.publish(follower)
    assert is_whole(spark, warehouse, ROUNDS)
    found = spark.rows(
        f"select count(*) from {warehouse.database}.clicks where dt = '{day(ROUNDS - 1)}'"
    )
    assert found == [[1]]


def test_a_metastore_that_is_away_is_asked_again(
    own_server: Callable[[ServerKind], Server], tmp_path: Path
) -> None:
    server = own_server(HIVE_METASTORE)
    address = server.up().address
    assert address
    warehouse = hive_warehouse(Landed(tmp_path), HiveServer(address))
    landed = warehouse.landed.land(CLICKS).settle()
    publisher, follower = warehouse.publisher(), landed.follower()
    publisher.publish(follower)
    server.down(at_once=True)
    landed.sample.directory = f"dt={day(7)}"
    landed.land(CLICKS).settle()
    for _ in range(2):
        with pytest.raises(DestinationAway, match="Hive metastore"):
            publisher.publish(follower)

    server.up()
    publisher.publish(follower)

    assert warehouse.has("clicks", "2026-11-21")
    assert warehouse.has("clicks", day(7))


def test_a_table_that_a_user_made_is_filled_and_one_elsewhere_is_refused(
    warehouse: Warehouse, spark: SparkSql
) -> None:
    landed = warehouse.landed
    landed.sample.directory = f"dt={day(1)}"
    landed.land(CLICKS, ORDERS).settle()
    warehouse.publish()
    for topic, kind in (("clicks", "external"), ("orders", "")):
        drop(warehouse, topic)
        where = f"location '{landed.url(topic)}'" if kind else ""
        spark.rows(
            f"create {kind} table {warehouse.database}.{topic} (_offset bigint, mine int) "
            f"partitioned by (dt string) stored as parquet {where}"
        )
    landed.sample.directory = f"dt={day(2)}"
    landed.land(CLICKS, ORDERS).settle()

    with pytest.raises(Stalled, match=r"orders: is at .*, and the topic at"):
        warehouse.publish()

    assert rows_of(spark, warehouse, "clicks") == [[20, 20, 2]]
    assert [*warehouse.table("clicks").columns] == ["_offset", "mine", "name"]


def suppressed(publish: Callable[[], object]) -> None:
    """Publish; what is tried again is tried by the next pass."""
    with suppress(Retry):
        publish()


class Frozen:
    """Holds the thread that makes a call."""

    def __init__(self) -> None:
        self.is_held, self._go_on = threading.Event(), threading.Event()

    def hold(self) -> None:
        self.is_held.set()
        self._go_on.wait()

    def reached(self, thread: threading.Thread) -> bool:
        """Wait until the thread is held, or has ended; whether it is held."""
        while not self.is_held.wait(0.01):
            if not thread.is_alive():
                return self.is_held.is_set()
        return True

    def wake(self) -> None:
        self._go_on.set()


class frozen_at:  # noqa: N801  # reads as a function
    """Holds the other thread at its ``number``-th call of a metastore."""

    def __init__(self, number: int) -> None:
        self._number, self._frozen = number, Frozen()

    def __enter__(self) -> Frozen:
        self._before = {name: getattr(Metastore, name) for name in CALLS}
        made = [0]

        def wrapped(name: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if threading.current_thread() is not threading.main_thread():
                    made[0] += 1
                    if made[0] - 1 == self._number:
                        self._frozen.hold()
                return self._before[name](*args, **kwargs)

            return call

        for name in CALLS:
            setattr(Metastore, name, wrapped(name))
        return self._frozen

    def __exit__(self, *_: object) -> None:
        self._frozen.wake()
        for name, call in self._before.items():
            setattr(Metastore, name, call)
