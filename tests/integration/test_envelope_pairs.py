"""Changes of a database meet the rest: tail, dead letters, replay, backfill and undo.

The newest rows of all keys are the table of the database after each step, and keyed tables, of
Delta and of Iceberg, show just these.
"""

import importlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyiceberg.catalog import load_catalog

import landfall
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.driver.backfill.side_lane import read_plan, side_group, side_spec
from landfall.lane.stores import open_stores
from tests.support.kafka.broker import Message
from tests.support.landing.group import Landing, Scene, land
from tests.support.publishers.lake import delta_rows

example: Any = importlib.import_module("examples.cdc.changes")
COLUMNS = [
    {"name": "id", "type": "Int64", "nullable": False},
    {"name": "quantity", "type": "Int32"},
    {"name": "note", "type": "String"},
    {"name": "_op", "type": "String"},
    {"name": "_deleted", "type": "Boolean"},
    {"name": "_source_ts", "type": "Timestamp"},
]
UNAVAILABLE = {"name": "_unavailable", "type": "List", "items": {"type": "String"}}
LSN = {"name": "lsn", "type": "Int64", "field": "_source.lsn"}
TRUNCATED = {"before": None, "after": None, "source": {"ts_ms": example.FIRST}, "op": "t"}
BY = ["--why", "INC-12", "--who", "kim"]


def spec(generation: int, *more: dict[str, Any]) -> dict[str, Any]:
    """The group of a generation, with more columns than the first one has."""
    return {
        "generation": generation,
        "decode": {
            "format": "Json",
            "envelope": "Debezium",
            "key": {"format": "Json"},
            "columns": [*COLUMNS, *more],
        },
        "output": {"format": "Parquet"},
        "badRecords": {"maxRatio": "1"},
        "uploadPolicy": {"maxBytes": "4k", "maxAge": "1s"},
        "route": {"pattern": "_landed/dt={date}"},
    }


def messages(records: list[Any]) -> list[Message]:
    return [
        Message(value=None if value is None else as_json(value), key=key and as_json(key))
        for key, value in records
    ]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def not_logged(key: dict[str, Any], number: int) -> tuple[Any, Any]:
    """An update that leaves a large note alone, so that it is not logged."""
    after = {**key, "quantity": 1000 + number, "note": "__debezium_unavailable_value"}
    source = {"ts_ms": example.FIRST + number, "lsn": 10**6 + number}
    return key, {"before": None, "after": after, "source": source, "op": "u"}


def table_of(rows: Any) -> dict[int, tuple[Any, ...]]:
    """The newest row of each key, if it is no deletion."""
    found = dict[int, tuple[Any, ...]]()
    order = pc.sort_indices(rows["_offset"])
    assert len(set(rows["_offset"].to_pylist())) == rows.num_rows, "a row is there twice"
    for row in rows.take(order).to_pylist():
        found.pop(row["id"], None)
        if not row["_deleted"]:
            found[row["id"]] = row["quantity"], row["note"]
    return found


def expected() -> dict[int, tuple[Any, ...]]:
    table = example.table_after(example.changes())
    return {key: (row["quantity"], row["note"]) for key, row in table.items()}


@dataclass
class Played:
    """A group of changes that a test plays with.

    Attributes:
        scene: where.
        folder: has its file.
        capsys: captures what commands print.
        own: its spec, of the generation that it is at.
    """

    scene: Scene
    folder: Path
    capsys: pytest.CaptureFixture[str]
    own: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = self.scene.topic()

    def upgrade(self, *more: dict[str, Any]) -> None:
        """Go on with the next generation, which has more columns than the first one."""
        keyed = {"mode": "Keyed", "key": ["id"]}
        delta = {"table": f"{self.root}/{{topic}}", **keyed}
        publish = [
            {"name": "delta", "type": "Delta", "options": delta},
            {"name": "iceberg", "type": "Iceberg", "options": {"catalog": self.catalog, **keyed}},
        ]
        generation = self.own.get("generation", 0) + 1
        self.own = {**spec(generation, *more), "publish": publish}

    @property
    def catalog(self) -> dict[str, str]:
        uri = f"sqlite:///{self.folder}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/warehouse"}

    @property
    def root(self) -> str:
        return str(self.scene.bucket.output["url"])

    @property
    def file(self) -> str:
        return str(self.scene.file(self.folder, **self.own))

    def land(self) -> None:
        """Land everything that there is."""
        assert land(self.scene.group(**self.own), None).code is ExitCode.OK

    def rows(self, **choice: Any) -> Any:
        """Everything that has landed."""
        return landfall.open(self.file).scan(self.topic, **choice).to_arrow()

    def command(self, *arguments: str) -> list[str]:
        """Return the lines that a command prints."""
        self.capsys.readouterr()
        name, *options = arguments
        assert main([name, self.file, *options]) == ExitCode.OK
        return self.capsys.readouterr().out.splitlines()

    def check(self) -> None:
        """Return if all that looks at the ledger is content, and the keyed table is right."""
        self.command("fsck", "--deep")
        self.command("verify")
        self.command("audit")
        for name, rows in (("delta", self.of_delta), ("iceberg", self.of_iceberg)):
            self.command("publish", name)
            found = rows()
            by_id = {row["id"]: (row["quantity"], row["note"]) for row in found}
            assert len(found) == len(by_id), f"{name}: a key has two rows"
            assert by_id == table_of(self.rows()), f"{name}: the keyed table"

    def of_delta(self) -> list[Any]:
        """The rows of the keyed Delta table, by delta-kernel."""
        server = self.scene.bucket.server
        access = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ALLOW_HTTP": "true"}
        columns = "named_struct('id', id, 'quantity', quantity, 'note', note) s"
        return delta_rows(f"{self.root}/{self.topic}", columns, **server.env, **access)

    def of_iceberg(self) -> list[Any]:
        """The rows of the keyed Iceberg table, by pyiceberg."""
        server = self.scene.bucket.server
        access = {
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": server.env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": server.env["AWS_SECRET_ACCESS_KEY"],
        }
        catalog = load_catalog("landfall", **self.catalog, **access)
        found = catalog.load_table(f"lake.{self.topic.replace('.', '_')}").scan().to_arrow()
        rows: list[Any] = found.to_pylist()
        return rows


@pytest.mark.xdist_group("drivers")
def test_the_newest_rows_are_the_table_whatever_happens_to_the_objects(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played, records = Played(scene, tmp_path, capsys), [*example.records("postgres")]
    topic, keys = played.topic, list(expected())[:2]
    late = [not_logged({"id": key}, number) for number, key in enumerate(keys)]

    played.upgrade()
    scene.kafka.produce(topic, messages(records[: len(records) // 2]))
    played.land()
    played.command("publish", "delta")
    scene.kafka.produce(topic, messages([*records[len(records) // 2 :], *late, (None, TRUNCATED)]))
    with_tail = table_of(played.rows(tail=True))
    played.land()
    played.check()
    assert with_tail == table_of(played.rows()) == expected()
    counted = played.command("sql", "SELECT count(*), min(stage) FROM dead_letters", "--csv")
    assert counted[1:] == ["3,decode"]

    played.upgrade(UNAVAILABLE)
    played.command("replay-dead-letters", topic, *BY)
    played.land()
    played.check()
    updated = {key: (1000 + number, None) for number, key in enumerate(keys)}
    assert table_of(played.rows()) == {**expected(), **updated}
    query = "SELECT count(*) FROM dead_letters WHERE replayed = false"
    assert played.command("sql", query, "--csv")[1:] == ["1"]

    played.upgrade(UNAVAILABLE, LSN)
    before = played.rows()
    assert main(["backfill", "plan", played.file, "fix"]) == ExitCode.OK
    group = scene.group(**played.own)
    plan = read_plan(open_stores(side_spec(group, "fix")), "fix")
    again = Landing(side_group(group, plan), None, goal=plan.goal).start()
    assert again.end() is ExitCode.OK
    done = "\n".join(played.command("promote-backfill", "fix", *BY))
    played.land()
    played.check()
    found = played.rows()
    assert table_of(found) == table_of(before)
    assert "lsn" not in before.column_names
    assert found["lsn"].null_count == 0

    slot = done.partition("slot ")[2].partition(";")[0]
    played.command("undo", slot, *BY)
    played.land()
    played.check()
    assert played.rows().sort_by("_offset").equals(before.sort_by("_offset"))
