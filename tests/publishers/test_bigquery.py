"""BigQuery by real servers behind a proxy that breaks every request: each row once.

The server's loads are synchronous, so the proxy plays jobs that run. ``make publisher-suite`` runs
what takes longer.
"""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from dev.servers.bigquery import BIGQUERY
from dev.servers.gcs import GCS
from dev.servers.server import Server
from landfall.errors import DestinationDenied, LandfallError, Stalled
from landfall.publish.building import publisher
from tests.support.publishers.bigquery import Warehoused
from tests.support.publishers.bigquery_faults import FAULTS, FaultProxy, fault_proxy
from tests.support.publishers.lake import CLICKS, ORDERS, Landed, publish_at_once, until_published

pytestmark = pytest.mark.full

PROJECT = "shop-prod"


@dataclass
class Published:
    """A ledger, the servers, and publishers of the one to the other."""

    landed: Landed
    query: Any
    gcs: str
    bigquery: FaultProxy
    storage: FaultProxy
    dataset: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "project": PROJECT,
            "dataset": self.dataset,
            "staging": f"gs://stage/{self.dataset}",
            "createDatasetIn": "US",
            "endpoint": self.bigquery.url,
            "storageEndpoint": self.storage.url,
            "timeoutSeconds": 30,
        }

    def publish(self, **options: Any) -> Any:
        """Publish as a process does that has just started."""
        context = self.landed.context(
            "BigQuery", self.options | options, output={"options": {"envelope": False}}
        )
        built = publisher(context.group, context.entry, context.store)
        return built.publish(context.follower())

    def publish_all(self) -> None:
        """Publish until nobody says that it is to be tried again."""
        until_published(self.publish)

    def rows(self, topic: str) -> list[int]:
        table = f"`{PROJECT}.{self.dataset}.{topic}`"
        return sorted(row[0] for row in self.query.query_and_wait(f"select _offset from {table}"))

    def check(self) -> None:
        """Each table has each row once."""
        for name, count in self.landed.rows.items():
            found = Counter(self.rows(name.removeprefix("lake.")))
            assert found == Counter(range(count)), name

    @property
    def staged(self) -> list[str]:
        """Names of the copies of this test."""
        prefix = {"prefix": f"{self.dataset}/"}
        found = requests.get(f"{self.gcs}/storage/v1/b/stage/o", prefix, timeout=60).json()
        return [each["name"] for each in found.get("items", ())]


@pytest.fixture(scope="module")
def servers() -> tuple[str, str]:
    state = Path(os.environ["LANDFALL_TEST_STATE"])
    gcs, bq = Server(GCS, state).up().address, Server(BIGQUERY, state).up().address
    assert gcs
    assert bq
    requests.post(f"{gcs}/storage/v1/b?project=x", json={"name": "stage"}, timeout=60)
    return gcs, bq


@pytest.fixture
def published(tmp_path: Path, servers: tuple[str, str]) -> Iterator[Published]:
    gcs, bq = servers
    query = bigquery.Client(
        PROJECT,
        AnonymousCredentials(),
        client_options={"api_endpoint": bq},  # type: ignore[no-untyped-call]  # no types
    )
    with fault_proxy(bq) as first, fault_proxy(gcs) as second:
        yield Published(Landed(tmp_path), query, gcs, first, second, f"d{uuid.uuid4().hex[:12]}")


def test_landed_files_become_rows_and_their_copies_are_deleted(published: Published) -> None:
    published.landed.land(CLICKS, ORDERS).settle()
    published.publish()
    published.landed.land(CLICKS).settle()
    published.publish()

    published.check()
    assert published.staged == []
    config = json.dumps([*published.bigquery.requests])
    assert config.count("POST /bigquery/v2/projects/shop-prod/jobs") == 3


@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_may_fail(published: Published, fault: str) -> None:
    """One request after the other of a pass fails; the next passes load what is left."""
    number = 0
    while True:
        published.landed.land(CLICKS).settle()
        left = [number]

        def choose(method: str, path: str, left: list[int] = left) -> str:
            left[0] -= 1
            return fault if left[0] == -1 else ""

        published.bigquery.choose = published.storage.choose = choose
        with suppress(LandfallError):
            published.publish()
        published.bigquery.choose = published.storage.choose = lambda *_: ""
        published.publish_all()
        published.bigquery.settle()
        published.storage.settle()
        if left[0] >= 0:
            break
        number += 1
    published.check()
    print(f"{fault}: {number} requests")
    assert number >= 6


def test_publishers_that_are_killed_load_each_row_once(
    published: Published, tmp_path: Path
) -> None:
    rng = random.Random(12)
    argv = [sys.executable, "-m", "tests.support.publishers.bigquery_process", str(tmp_path)]

    def choose(method: str, path: str) -> str:
        time.sleep(rng.random() * 0.02)
        return rng.choice(["", "", "", "", "", "lost", "late", "503"])

    kills = 0
    published.bigquery.choose = published.storage.choose = choose
    for _ in range(12):
        processes = [
            subprocess.Popen(
                [*argv, json.dumps(published.options)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for _ in range(3):
            published.landed.land(CLICKS, ORDERS).settle()
            time.sleep(rng.random())
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    published.bigquery.choose = published.storage.choose = lambda *_: ""
    published.bigquery.settle()
    published.storage.settle()
    published.publish_all()
    published.check()
    print(f"{kills} processes killed, {sum(published.landed.rows.values())} rows")


def test_publishers_at_once_load_each_row_once(published: Published) -> None:
    for _ in range(20):
        published.landed.land(CLICKS, ORDERS).settle()
        publish_at_once(published.publish, 3)
    published.publish_all()
    published.check()


def test_two_hundred_rounds_of_publishers_at_once_on_jobs_in_memory(tmp_path: Path) -> None:
    made = Warehoused.at(tmp_path)

    for number in range(200):
        made.landed.land(CLICKS).settle()
        publish_at_once(made.publish, 3)
        if number % 20 == 19:
            made.publish()
            assert made.is_whole, number
    assert made.is_whole


def test_a_bad_file_is_named_and_holds_up_no_other(published: Published) -> None:
    good, published.landed.sample.body = published.landed.sample.body, lambda _: b"no Parquet file"
    published.landed.land(CLICKS)
    published.landed.sample.body = good
    published.landed.land(CLICKS).land(ORDERS).settle()
    bad = published.landed.keys("clicks")[0]

    for _ in range(2):
        with pytest.raises(Stalled, match=rf"object {bad}: invalid: Error while reading data"):
            published.publish()

    assert published.rows("orders") == [*range(10)]
    assert published.rows("clicks") == [*range(10, 20)]
    published.publish(skip=[bad])


def test_a_file_that_is_not_what_landed_is_not_loaded(published: Published) -> None:
    published.landed.land(CLICKS).land(CLICKS).settle()
    path = published.landed.root / "landed" / published.landed.keys("clicks")[0]
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)

    with pytest.raises(Stalled, match=rf"{path.name}: \d+ bytes with CRC-32 .* the ledger records"):
        published.publish()

    assert published.rows("clicks") == [*range(10, 20)]


def test_a_column_that_comes_later_is_added(published: Published) -> None:
    published.landed.land(CLICKS).settle()
    published.publish()

    def with_price(offsets: Any) -> bytes:
        body = io.BytesIO()
        rows = {"_offset": pa.array(offsets, pa.int64()), "price": [float(o) for o in offsets]}
        pq.write_table(pa.table(rows), body)
        return body.getvalue()

    published.landed.sample.body = with_price
    published.landed.land(CLICKS).settle()
    published.publish()

    published.check()
    table = f"`{PROJECT}.{published.dataset}.clicks`"
    found = published.query.query_and_wait(f"select count(name), count(price) from {table}")
    assert [tuple(row.values()) for row in found] == [(10, 10)]


def test_values_are_those_of_the_files(published: Published) -> None:
    at = datetime(2026, 11, 21, 4, 0, 0, 123456, UTC)
    row = {
        "price": Decimal("1234567890.12"),
        "exact": Decimal("12345678901234567890.123456789012345678"),
        "day": at.date(),
        "at": at,
        "text": "é",
    }
    decimals = {"price": pa.decimal128(12, 2), "exact": pa.decimal128(38, 18)}
    others = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "text": pa.string()}

    def of_values(offsets: Any) -> bytes:
        columns = {"_offset": pa.array(offsets, pa.int64())}
        for name, kind in {**decimals, **others}.items():
            columns[name] = pa.array([row[name]] * len(offsets), kind)
        body = io.BytesIO()
        pq.write_table(pa.table(columns), body)
        return body.getvalue()

    published.landed.sample.body = of_values
    published.landed.land(CLICKS).settle()
    published.publish()

    table = f"{PROJECT}.{published.dataset}.clicks"
    columns = ", ".join(row)
    found = published.query.query_and_wait(f"select {columns} from `{table}` limit 1")
    assert [dict(each.items()) for each in found] == [row]
    query = f"select sum(price) from `{table}` where day = '2026-11-21'"
    assert [each[0] for each in published.query.query_and_wait(query)] == [10 * row["price"]]
    published.check()


def test_without_rights_nothing_is_done_and_it_is_said(published: Published) -> None:
    published.landed.land(CLICKS).settle()
    published.bigquery.choose = lambda method, _: "denied" if method == "POST" else ""

    with pytest.raises(DestinationDenied, match=r"403 .*accessDenied, says the test"):
        published.publish()

    published.bigquery.choose = lambda *_: ""
    published.publish()
    published.check()


def test_a_table_is_partitioned_loaded_anew_and_made_again(published: Published) -> None:
    published.landed.land(CLICKS).settle()
    published.publish(partitioning={"type": "Day"}, clustering=["name"])
    made = published.query.get_table(f"{PROJECT}.{published.dataset}.clicks")
    assert (made.time_partitioning.type_, made.clustering_fields) == ("DAY", ["name"])

    context = published.landed.context(
        "BigQuery", published.options, output={"options": {"envelope": False}}
    )
    built = publisher(context.group, context.entry, context.store)
    built.reset(context.follower())
    assert published.rows("clicks") == [*range(10)]
    published.publish_all()
    published.check()
    published.query.delete_table(f"{PROJECT}.{published.dataset}.clicks")
    published.landed.land(CLICKS).settle()
    published.publish_all()
    published.check()
