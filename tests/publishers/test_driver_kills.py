"""A driver lands and publishes to Iceberg, is killed, and another one ends it: each row once."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog import load_catalog

from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene
from tests.support.landing.processes import LANDFALL, Processes

pytestmark = pytest.mark.full

RECORDS = 3_000


def columns() -> list[dict[str, str]]:
    return [{"name": name, "type": "Int64"} for name in ("id", "p", "ts")]


def document(scene: Scene, folder: Path) -> dict[str, Any]:
    """The scene's group as typed Parquet, with tables in a catalog in a file."""
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
    options = {
        "table": "lake.events",
        "catalog": catalog | {"warehouse": f"file://{folder}/tables"},
    }
    made = scene.document(
        decode={
            "format": "Json",
            "timestamp": {"field": "ts", "unit": "Milliseconds"},
            "columns": columns(),
        },
        publish=[{"name": "lake", "type": "Iceberg", "minInterval": "200ms", "options": options}],
    )
    made["spec"]["output"] |= {"format": "Parquet", "codec": "Zstd"}
    return made


def rows(scene: Scene, folder: Path) -> list[tuple[int, int]]:
    """Kafka partition and id of each row of the table."""
    server = scene.bucket.server
    catalog = load_catalog(
        "landfall",
        **{
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/tables",
            "s3.endpoint": server.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": server.env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": server.env["AWS_SECRET_ACCESS_KEY"],
        },
    )
    table = catalog.load_table("lake.events")
    landed = table.scan().to_arrow()  # noqa: F841  # DuckDB finds it by its name
    found: list[tuple[int, int]] = (
        duckdb.connect().sql("select p, id from landed order by p, id").fetchall()
    )
    return found


def test_a_table_has_each_row_once_though_the_driver_is_killed(
    scene: Scene, processes: Processes, tmp_path: Path
) -> None:
    topic = scene.topic(partitions=2)
    group = document(scene, tmp_path)
    scene.kafka.produce(topic, events(range(RECORDS)))
    driver = processes.pod(group, "r1")
    first = driver.until(
        lambda status: status["publishers"] and status["publishers"][0]["published_objects"],
        "something is published",
    )
    scene.kafka.produce(topic, events(range(RECORDS), partition=1))
    driver.send(signal.SIGKILL)
    driver.end()
    driver.clear()

    again = processes.run(group, "--until-caught-up", "--http-port", "0")

    assert again.end() == ExitCode.OK, again.said
    assert first["publishers"][0]["message"] == ""
    assert rows(scene, tmp_path) == [(partition, n) for partition in (0, 1) for n in range(RECORDS)]
    file = tmp_path / "group.yaml"
    file.write_text(json.dumps(group))
    done = subprocess.run(
        [LANDFALL, "publish", str(file), "--json"], capture_output=True, text=True, check=True
    )
    outcome = json.loads(done.stdout)
    assert (outcome["objects"], outcome["error"]) == (0, "")
    assert rows(scene, tmp_path) == [(partition, n) for partition in (0, 1) for n in range(RECORDS)]
