"""Changes of a database meet the rest: tail, dead letters, replay, backfill and undo.

The newest rows of all keys are the table of the database after each step.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import landfall
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.driver.backfill.side_lane import read_plan, side_group, side_spec
from landfall.lane.stores import open_stores
from tests.support.kafka.broker import Message
from tests.support.landing.group import Landing, Scene, land

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
        "route": {"pattern": "dt={date}"},
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


@pytest.mark.xdist_group("drivers")
def test_the_newest_rows_are_the_table_whatever_happens_to_the_objects(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, records = scene.topic(), [*example.records("postgres")]
    keys = list(expected())[:2]
    late = [not_logged({"id": key}, number) for number, key in enumerate(keys)]
    own = spec(1)

    def rows(**choice: Any) -> Any:
        return landfall.open(str(scene.file(tmp_path, **own))).scan(topic, **choice).to_arrow()

    def command(*arguments: str) -> list[str]:
        capsys.readouterr()
        name, *options = arguments
        assert main([name, str(scene.file(tmp_path, **own)), *options]) == ExitCode.OK
        return capsys.readouterr().out.splitlines()

    def check() -> None:
        command("fsck", "--deep")
        command("verify")
        command("audit")

    scene.kafka.produce(topic, messages(records[: len(records) // 2]))
    assert land(scene.group(**own), None).code is ExitCode.OK
    scene.kafka.produce(topic, messages([*records[len(records) // 2 :], *late, (None, TRUNCATED)]))
    with_tail = table_of(rows(tail=True))
    assert land(scene.group(**own), None).code is ExitCode.OK
    check()
    assert with_tail == table_of(rows()) == expected()
    counted = command("sql", "SELECT count(*), min(stage) FROM dead_letters", "--csv")
    assert counted[1:] == ["3,decode"]

    own = spec(2, UNAVAILABLE)
    command("replay-dead-letters", topic, *BY)
    assert land(scene.group(**own), None).code is ExitCode.OK
    check()
    updated = {key: (1000 + number, None) for number, key in enumerate(keys)}
    assert table_of(rows()) == {**expected(), **updated}
    left = command("sql", "SELECT count(*) FROM dead_letters WHERE replayed = false", "--csv")
    assert left[1:] == ["1"]

    own = spec(3, UNAVAILABLE, LSN)
    before = rows()
    arguments = [str(scene.file(tmp_path, **own)), "fix"]
    assert main(["backfill", "plan", *arguments]) == ExitCode.OK
    group = scene.group(**own)
    plan = read_plan(open_stores(side_spec(group, "fix")), "fix")
    again = Landing(side_group(group, plan), None, goal=plan.goal).start()
    assert again.end() is ExitCode.OK
    done = "\n".join(command("promote-backfill", "fix", *BY))
    assert land(scene.group(**own), None).code is ExitCode.OK
    check()
    found = rows()
    assert table_of(found) == table_of(before)
    assert "lsn" not in before.column_names
    assert found["lsn"].null_count == 0

    slot = done.partition("slot ")[2].partition(";")[0]
    command("undo", slot, *BY)
    assert land(scene.group(**own), None).code is ExitCode.OK
    check()
    assert rows().sort_by("_offset").equals(before.sort_by("_offset"))
