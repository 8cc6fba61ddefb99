"""Real publishers of tables, killed and frozen at every call, and two at once: each row once.

On a SQL catalog, a REST catalog on S3, and Delta on S3, Azure, Google Cloud and HDFS.
"""

import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.places import save_secrets
from tests.support.places.kinds import KINDS as PLACES
from tests.support.places.kinds import SECRETS
from tests.support.publishers.delta_stores import STORAGE, STORE_CLASSES, tables_of
from tests.support.publishers.lake import CLICKS, ORDERS, Landed, delta_rows
from tests.support.publishers.publishing_processes import Blow, server, start
from tests.support.stores.s3 import S3Server

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

ROUNDS = int(os.environ.get("LANDFALL_ROUNDS", "200"))
STORES = [("landfall.store.file.FileStore", "overwrite")]
S3_STORES = [("landfall.store.s3.store.S3Store", "overwrite")]
ICEBERG = ["load_table", "create_namespace_if_not_exists", "create_table", "commit_table"]
SQL = [("pyiceberg.catalog.sql.SqlCatalog", name) for name in ICEBERG]
REST = [("pyiceberg.catalog.rest.RestCatalog", name) for name in ICEBERG]
DELTA = [
    ("deltalake.DeltaTable", name) for name in ("__init__", "create", "create_write_transaction")
]


@dataclass
class Destination:
    """Tables of a kind, and how they are read.

    Attributes:
        landed: what is published to them.
        group: the resource.
        env: of publishers.
        calls: at which they are struck.
        offsets: the rows of a table.
    """

    landed: Landed
    group: Mapping[str, Any]
    env: Mapping[str, str]
    calls: list[tuple[str, str]]
    offsets: Callable[[str], list[int]]

    def more(self) -> None:
        self.landed.land(CLICKS).land(CLICKS, ORDERS).settle()

    def publish(self) -> None:
        process = start(self.group, self.env)
        process.join(120)
        assert process.exitcode == 0

    def check(self) -> None:
        for table, rows in self.landed.rows.items():
            found = Counter(self.offsets(table))
            assert found == Counter(range(rows)), (
                table,
                {o: n for o, n in found.items() if n > 1},
                sorted(set(range(rows)) - set(found))[:5],
            )


def sql(tmp_path: Path, _: S3Server, __: str) -> Destination:
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=60"
    catalog = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}
    landed = Landed(tmp_path)
    group = document_of(landed, "Iceberg", {"catalog": catalog})

    def offsets(table: str) -> list[int]:
        found = load_catalog("landfall", **catalog)
        return column(found.load_table(table)) if found.table_exists(table) else []

    return Destination(landed, group, {}, SQL + STORES, offsets)


def rest(tmp_path: Path, s3: S3Server, address: str) -> Destination:
    from pyiceberg.catalog import load_catalog

    landed, access = on_s3(tmp_path, s3)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    catalog = {"type": "rest", "uri": address}
    options = {"catalog": catalog, "table": f"{namespace}.{{topic}}"}
    group = document_of(landed, "Iceberg", options)
    reading = {
        **catalog,
        "header.X-Iceberg-Access-Delegation": "",
        "s3.endpoint": s3.endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": access["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": access["AWS_SECRET_ACCESS_KEY"],
    }

    def offsets(table: str) -> list[int]:
        found, name = load_catalog("landfall", **reading), table.replace("lake", namespace)
        return column(found.load_table(name)) if found.table_exists(name) else []

    return Destination(landed, group, access, REST + S3_STORES, offsets)


def delta(tmp_path: Path, s3: S3Server, _: str) -> Destination:
    landed, access = on_s3(tmp_path, s3)
    tables = landed.output["url"].replace("/landed", "/tables")
    group = document_of(landed, "Delta", {"table": f"{tables}/{{topic}}"})
    storage = {
        "aws_endpoint_url": s3.endpoint,
        "aws_region": "us-east-1",
        "aws_access_key_id": access["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": access["AWS_SECRET_ACCESS_KEY"],
        "aws_allow_http": "true",
    }

    def offsets(table: str) -> list[int]:
        return delta_rows(f"{tables}/{table.removeprefix('lake.')}", "_offset", **storage)

    return Destination(landed, group, access, DELTA + S3_STORES, offsets)


def delta_in(kind: str, tmp_path: Path, address: str) -> Destination:
    """Delta tables in a store that delta-rs reads itself, and Landfall writes."""
    place = PLACES[kind](address)
    save_secrets(tmp_path / "secrets", SECRETS)
    env = {"LANDFALL_SECRETS": str(tmp_path / "secrets")}
    landed, tables = Landed(tmp_path, output=place.output), tables_of(place)
    group = document_of(landed, "Delta", {"table": f"{tables}/{{topic}}"})

    def offsets(table: str) -> list[int]:
        folder = f"{tables}/{table.removeprefix('lake.')}"
        return delta_rows(folder, "_offset", **STORAGE[kind](place))

    calls = [(STORE_CLASSES[kind], name) for name in ("create", "overwrite")]
    return Destination(landed, group, env, calls, offsets)


def on_s3(tmp_path: Path, s3: S3Server) -> tuple[Landed, dict[str, str]]:
    bucket = s3.create_bucket()
    output = {"url": f"{bucket.url}/landed", "s3": {"endpoint": s3.endpoint, "pathStyle": True}}
    return Landed(tmp_path, output=output), {
        name: value for name, value in s3.env.items() if name.startswith("AWS_")
    }


def document_of(landed: Landed, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    group = landed.context(kind, options).group
    return group.model_dump(mode="json", by_alias=True, exclude_unset=True)


def column(table: Any) -> list[int]:
    found: list[int] = table.scan(selected_fields=("_offset",)).to_arrow()["_offset"].to_pylist()
    return found


KINDS = {"iceberg-sql": sql, "iceberg-rest": rest, "delta-s3": delta}


@pytest.fixture(params=[*KINDS, *PLACES])
def destination(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Destination:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    if request.param in PLACES:
        monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
        return delta_in(request.param, tmp_path, request.getfixturevalue(request.param))
    address = ""
    if request.param == "iceberg-rest":
        address = request.getfixturevalue("iceberg_catalog")
    return KINDS[request.param](tmp_path, s3, address)


def test_publishers_killed_at_every_call(destination: Destination) -> None:
    killed = number = 0
    while True:
        destination.more()
        struck = start(
            destination.group, destination.env, Blow(number, signal.SIGKILL, destination.calls)
        )
        struck.join(120)
        if struck.exitcode == 0:
            break
        assert struck.exitcode == -signal.SIGKILL
        killed += 1
        number += 1
        destination.publish()
        destination.check()
    print(f"killed {killed} publishers")
    assert killed >= 6


def test_frozen_publishers_that_wake_harm_nothing(destination: Destination) -> None:
    frozen = number = 0
    while True:
        destination.more()
        struck = start(
            destination.group, destination.env, Blow(number, signal.SIGSTOP, destination.calls)
        )
        if not stopped(struck):
            assert struck.exitcode == 0
            break
        frozen += 1
        number += 1
        destination.publish()
        destination.more()
        destination.publish()
        os.kill(struck.pid, signal.SIGCONT)
        struck.join(120)
        assert struck.exitcode == 0
        destination.check()
    print(f"froze {frozen} publishers")
    assert frozen >= 6


def stopped(process: Any) -> bool:
    """Whether it stands still; False once it has ended."""
    while process.is_alive():
        if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
            return True
        process.join(0.02)
    return False


def test_two_publishers_at_once_publish_each_row_once(destination: Destination) -> None:
    servers = [server(destination.group, destination.env) for _ in range(2)]
    for number in range(ROUNDS):
        destination.landed.land(CLICKS, ORDERS, rows=2).settle()
        for _, pipe in servers:
            pipe.send(number + 1)
        for process, pipe in servers:
            assert pipe.poll(120), process.exitcode
            pipe.recv()
        if number % 20 == 0:
            destination.check()
    for process, pipe in servers:
        pipe.send(0)
        process.join(60)
    destination.check()
    print(f"{ROUNDS} rounds, {sum(destination.landed.rows.values())} rows")
