"""``landfall table`` and ``landfall audit --tables`` of tables in a bucket on S3."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from landfall.cli.group_store import GroupStore
from landfall.cli.look.table import read_tables
from landfall_audit.buckets import open_buckets
from landfall_audit.ledger.inventory import Inventory
from landfall_audit.tables.table_check import TableChecks
from tests.support.audit.audited_spec import for_auditor
from tests.support.publishers.published import COLUMNS, PublishedOrders
from tests.support.publishers.table_places import TablePlaces
from tests.support.stores.s3 import Bucket


@pytest.fixture(params=[("Iceberg", False), ("Delta", False), ("Delta", True)])
def orders(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> PublishedOrders:
    """A table by its kind, and whether its folder has its objects in it."""
    for name, value in bucket.server.env.items():
        monkeypatch.setenv(name, value)
    kind, is_around = request.param
    no_engine: Any = None
    return PublishedOrders(TablePlaces(tmp_path, bucket, is_around=is_around), kind, no_engine)


def test_the_state_of_a_table_in_a_bucket_is_read_by_the_access_of_the_output(
    orders: PublishedOrders,
) -> None:
    orders.land(0, 40, 100).publish()
    opened = GroupStore(orders.landed.group, orders.landed.store)

    (report,) = read_tables(opened, (), datetime.now(UTC)).publishers

    assert not report.error
    (table,) = report.tables or ()
    sizes = [stat.size for stat in opened.store.list_after("orders/") if "/dt=" in stat.key]
    found = table.health.details
    assert found
    assert (found.files.count, found.files.bytes) == (len(sizes), sum(sizes))
    assert found.versions.count == (2 if orders.kind == "Delta" else 1)
    assert found.metadata.bytes
    assert found.metadata.bytes >= found.metadata.current_bytes > 0
    assert not table.health.lacks_any


def test_a_table_in_a_bucket_is_audited_by_the_access_of_the_output(
    orders: PublishedOrders,
) -> None:
    orders.land(0, 40).publish()
    more = {"name": "day", "type": "Date"}
    orders.evolve([*COLUMNS, more]).land(40, 100).publish()

    group = for_auditor(orders.landed.group)
    root = open_buckets(group.spec)
    with closing(Inventory(root, group.metadata.name)) as inventory:
        assert not inventory.faults
        with closing(TableChecks(group, root, inventory)) as checks:
            (found,) = checks.results(["orders"])

    assert (found.error, found.unchecked, found.is_whole) == ("", "", True)
    assert (found.expected, found.found) == (100, 100)
