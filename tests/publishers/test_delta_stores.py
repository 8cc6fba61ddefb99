"""Delta tables in Azure, Google Cloud Storage and HDFS, read by delta-rs's own clients of these.

Landfall writes their logs through its own stores; delta-rs's clients of Azure and Google Cloud are
what other programs have.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from landfall.api import spec
from landfall.store import Created
from landfall.store.below import SlotsBelow
from landfall.store.urls import open_store
from tests.support.places import Place, save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.publishers.delta_stores import STORAGE, tables_of
from tests.support.publishers.engines import Engines
from tests.support.publishers.lake import CLICKS, DAY, ORDERS, TIMESTAMP, Landed
from tests.unit.publish.delta.test_delta import publish


@pytest.fixture(
    params=["azure", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("gcs", "hdfs"))]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    save_secrets(tmp_path / "secrets", SECRETS)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    return KINDS[kind](request.getfixturevalue(kind))


@pytest.fixture
def tables(place: Place) -> str:
    return tables_of(place)


def offsets(table: str, storage: dict[str, str]) -> list[int]:
    found = QueryBuilder().register("t", DeltaTable(table, storage_options=storage))
    rows = found.execute("select _offset from t order by 1").read_all()
    result: list[int] = pa.table(rows)[0].to_pylist()
    return result


def test_a_table_has_each_row_once_as_other_programs_read_it(
    kind: str, place: Place, tables: str, tmp_path: Path
) -> None:
    landed = Landed(tmp_path, output=place.output).land(CLICKS, ORDERS).settle()
    context = landed.context("Delta", {"table": f"{tables}/{{topic}}"})
    publish(context)
    landed.land(CLICKS).land(CLICKS).settle()

    publish(context)

    storage = STORAGE[kind](place)
    assert offsets(f"{tables}/clicks", storage) == [*range(30)]
    assert offsets(f"{tables}/orders", storage) == [*range(10)]


def foreign_append(kind: str, place: Place, table: str, offset: int) -> None:
    """Append a row by delta-rs itself; where it cannot write, a version without rows."""
    if kind == "gcs":  # the server has no XML API, by which delta-rs writes
        log = open_store(spec.Output.model_validate({**place.output, "url": f"{table}/_delta_log"}))
        versions = [stat.key for stat in log.list_after("") if stat.key.endswith(".json")]
        body = {"commitInfo": {"timestamp": 1795953600000, "operation": "WRITE"}}
        assert log.create(f"{len(versions):020}.json", json.dumps(body).encode()) is Created.WON
        return
    row = {
        "_offset": pa.array([offset], pa.int64()),
        "name": ["foreign"],
        "_timestamp": pa.array([DAY], TIMESTAMP),
        "dt": ["2026-11-21"],
    }
    write_deltalake(table, pa.table(row), mode="append", storage_options=STORAGE[kind](place))


def test_a_second_writer_in_between_loses_and_doubles_nothing(
    kind: str,
    place: Place,
    tables: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    landed = Landed(tmp_path, output=place.output).land(CLICKS).settle()
    context = landed.context("Delta", {"table": f"{tables}/{{topic}}"})
    publish(context)
    foreign_append(kind, place, f"{tables}/clicks", 1000)
    landed.land(CLICKS).settle()
    created, found = SlotsBelow.create, list[Created]()

    def create(slots: SlotsBelow, key: str, body: bytes) -> Created:
        if not found:
            foreign_append(kind, place, f"{tables}/clicks", 1001)
        found.append(created(slots, key, body))
        return found[-1]

    monkeypatch.setattr(SlotsBelow, "create", create)
    publish(context)

    assert found == [Created.TAKEN, Created.WON]
    foreign = [] if kind == "gcs" else [1000, 1001]
    assert offsets(f"{tables}/clicks", STORAGE[kind](place)) == [*range(20), *foreign]


@pytest.mark.full
def test_a_table_around_its_objects_is_read_by_other_engines(place: Place, tmp_path: Path) -> None:
    landed = Landed(tmp_path, output=place.output)
    landed.sample.directory = "_landed/dt=2026-11-21"
    options = {"table": landed.url("{topic}")}
    context = landed.context("Delta", options, route={"pattern": "_landed/dt={date}"})
    for _ in range(2):
        landed.land(CLICKS).land(CLICKS).settle()
        publish(context)
    for key in place.keys("clicks/"):
        file = tmp_path / "copied" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(place.read(key))

    location = str(tmp_path / "copied/clicks")
    engines = Engines.start()
    try:
        query = "select _offset from {t} order by _offset"
        duckdb = engines.ask("duckdb", query.format(t=f"delta_scan('{location}')"))
        found = {"duckdb": [row["_offset"] for row in duckdb]}
        for engine in ("polars", "kernel"):
            rows = engines.ask(engine, query.format(t="t"), table=location, format="delta")
            found[engine] = [row["_offset"] for row in rows]
    finally:
        engines.stop()

    rows_once = [str(offset) for offset in range(40)]
    assert {engine: [str(o) for o in rows] for engine, rows in found.items()} == dict.fromkeys(
        ("duckdb", "polars", "kernel"), rows_once
    )
