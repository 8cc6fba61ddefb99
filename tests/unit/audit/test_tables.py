"""Audits of tables: what is right is found right, and each thing that is wrong is found."""

import json
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from landfall.lane import Lane
from landfall.ledger.offsets import TopicPartition
from landfall.publish.following import Follower
from landfall_audit import FaultKind
from landfall_audit.buckets import open_buckets
from landfall_audit.cli import main
from landfall_audit.cli.command import AuditExitCode
from landfall_audit.ledger.inventory import Inventory
from landfall_audit.spec import AuditedGroup
from landfall_audit.tables import TableResult
from landfall_audit.tables.iceberg import position
from landfall_audit.tables.table_check import TableChecks
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge
from tests.support.publishers.keyed import (
    Change,
    Changes,
    KeyedLake,
    NewRows,
    random_changes,
)
from tests.support.publishers.keyed_delta import KeyedDeltaLake
from tests.support.publishers.keyed_iceberg import KeyedIcebergLake
from tests.unit.publish.iceberg.test_iceberg_code import OWN_FILES, answering, configurations
from tests.unit.publish.keyed.test_keyed_tables import take_step

KINDS: dict[str, type[KeyedLake]] = {"Delta": KeyedDeltaLake, "Iceberg": KeyedIcebergLake}
ALL_ROWS = {"mode": "Append", "key": None}
COUNTS = ("missing", "duplicate", "corrupted", "outdated", "foreign", "added")


def document(lake: KeyedLake, **options: Any) -> dict[str, Any]:
    """A group that publishes to the table of a lake."""
    kind = "Delta" if isinstance(lake, KeyedDeltaLake) else "Iceberg"
    own: dict[str, Any] = {"table": f"file://{lake.root}/tables/lake.{{topic}}"}
    if isinstance(lake, KeyedIcebergLake):
        catalog = {**lake.connection.properties()[0], "name": "lake"}
        own = {"catalog": catalog, "table": "lake.{topic}"}
    own |= {"mode": "Keyed", "key": ["id"]} | options
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": GROUP, "namespace": "data"},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "kafka:9092"}},
            "output": {"url": f"file://{lake.root}/landed", "format": "Parquet"},
            "publish": [{"name": "tables", "type": kind, "options": own}],
        },
    }


@contextmanager
def checks(lake: KeyedLake, **options: Any) -> Iterator[TableChecks]:
    """The checks of a group whose ledger is read now."""
    group = AuditedGroup.model_validate(document(lake, **options))
    bucket = open_buckets(group.spec)
    with closing(Inventory(bucket, GROUP)) as inventory:
        assert {fault.kind for fault in inventory.faults} <= {FaultKind.SPEC}  # of the sample
        with closing(TableChecks(group, bucket, inventory)) as found:
            yield found


def audited(lake: KeyedLake, **options: Any) -> TableResult:
    """Return the findings in the table of a lake."""
    with checks(lake, **options) as found:
        (result,) = found.results(["clicks"])
    return result


def publish_all_rows(lake: KeyedLake) -> None:
    tables, lane = lake.tables_of_all_rows(), Lane(lake.landed.store, GROUP, LANE)
    lake.publisher(tables).publish(Follower(lane))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def lake(kind: str, tmp_path: Path) -> KeyedLake:
    return KINDS[kind](tmp_path, Changes(random_changes(1)))


@pytest.mark.parametrize("seed", range(2))
def test_every_version_of_a_keyed_table_is_right(kind: str, tmp_path: Path, seed: int) -> None:
    chosen, merges = random.Random(seed), list[Merge]()
    lake = KINDS[kind](tmp_path, Changes(random_changes(seed)))
    for step in range(14):
        take_step(lake, chosen, step, merges)
        expected = None
        if chosen.random() < 0.7:  # otherwise rows wait for it
            lake.publish(at_once=chosen.random() < 0.5)
            expected = len(lake.expected())
        found = audited(lake)
        assert found.is_whole, f"step {step}: {found}"
        assert expected in {None, found.expected}


def test_every_version_of_a_table_of_all_rows_is_right(lake: KeyedLake) -> None:
    lake.landed.sample.add(TopicPartition("clicks", 1))
    for _ in range(3):
        lake.land(10)
        lake.land(4, partition=1)
        publish_all_rows(lake)
        found = audited(lake, **ALL_ROWS)
        assert (found.is_whole, found.found) == (True, found.expected)
    lake.merge(0, 2)
    publish_all_rows(lake)
    lake.delete_retired()
    found = audited(lake, **ALL_ROWS)
    assert (found.is_whole, found.found, found.expected) == (True, 42, 42)


WRONG: dict[str, tuple[NewRows, dict[str, int]]] = {
    "the same": (list, {}),
    "another order": (lambda rows: [*rows[::-1]], {}),
    "a row less": (lambda rows: [*rows[1:]], {"missing": 1}),
    "a row twice": (lambda rows: [*rows, rows[0]], {"duplicate": 1}),
    "all rows thrice": (lambda rows: [*rows] * 3, {"duplicate": 20}),
    "another value": (lambda rows: [rows[0] | {"name": "wrong"}, *rows[1:]], {"corrupted": 1}),
    "no value": (lambda rows: [rows[0] | {"at": None}, *rows[1:]], {"corrupted": 1}),
    "another offset": (
        lambda rows: [rows[0] | {"_offset": 999}, *rows[1:]],
        {"missing": 1, "foreign": 1},
    ),
    "a row without an offset": (lambda rows: [*rows, rows[0] | {"_offset": None}], {"added": 1}),
    "nothing": (lambda _: [], {"missing": 10}),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mode", ["Append", "Keyed"])
def test_what_another_program_has_made_of_a_table_is_found(
    kind: str, tmp_path: Path, mode: str, name: str
) -> None:
    lake = KINDS[kind](tmp_path, Changes(lambda _, offset: Change(offset)))
    lake.land(10)
    if mode == "Keyed":
        lake.publish(at_once=True)
    else:
        publish_all_rows(lake)
    change, expected = WRONG[name]

    lake.rewrite_as_others(change)
    found = audited(lake, **({} if mode == "Keyed" else ALL_ROWS))

    counts = {count: getattr(found, count) for count in COUNTS if getattr(found, count)}
    assert counts == expected
    assert found.is_whole == (not {*expected} - {"added"})
    assert found.found == 10 - counts.get("missing", 0) - counts.get("corrupted", 0)
    assert {*found.rows} == {*expected} - {"added"}


def test_an_older_row_and_a_deleted_one_are_outdated(lake: KeyedLake) -> None:
    lake.changes.at = lambda _, offset: Change(offset % 6, deleted=offset == 11)
    lake.land(12)
    lake.publish(at_once=True)
    assert audited(lake).expected == 5

    lake.rewrite_as_others(lambda rows: [*rows, row_of(lake, 0), row_of(lake, 5)])
    found = audited(lake)

    assert (found.outdated, found.rows, found.found) == (2, {"outdated": ["0@0", "0@5"]}, 5)


def row_of(lake: KeyedLake, number: int) -> dict[str, Any]:
    """A row of the first object, with the columns of a table of any kind."""
    row = lake.rows_of(lake.live()[0].key)[number]
    return {**row, "_kafka_partition": row["_partition"], "_deleted_": row["_deleted"]}


def test_a_lost_object_is_named(lake: KeyedLake) -> None:
    lake.land(10)
    lake.publish()
    (object_,) = lake.live()
    Path(lake.landed.url(object_.key).removeprefix("file://")).unlink()
    # So the table cannot be read, either.
    found = audited(lake)

    assert [(fault.kind, fault.what) for fault in found.faults] == [(FaultKind.LOST, object_.key)]
    assert not found.is_whole


def test_a_table_that_is_ahead_of_the_ledger_is_read_as_it_was(lake: KeyedLake) -> None:
    lake.land(10)
    lake.publish()
    lake.land(10)
    with checks(lake) as found:
        for _ in range(2):
            lake.publish()
            lake.land(10)
        lake.publish()
        (result,) = found.results([])

    assert result.is_whole
    assert result.through < audited(lake).through


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startAt": 3}, "startAt or skip"),
        ({"skip": ["clicks/x"]}, "startAt or skip"),
        ({"table": "file:///nothing/there.{topic}"}, "does not exist yet"),
    ],
)
def test_what_cannot_be_compared_says_why(
    lake: KeyedLake, options: dict[str, Any], why: str
) -> None:
    lake.land(10)
    lake.publish()
    if "table" in options and isinstance(lake, KeyedIcebergLake):
        options = {"table": "nothing.{topic}"}

    found = audited(lake, **options)

    assert why in found.unchecked
    assert not found.is_compared


def test_a_table_of_two_groups_is_not_compared(kind: str, tmp_path: Path) -> None:
    lakes = [KINDS[kind](tmp_path / str(n), Changes(random_changes(n))) for n in range(2)]
    for each in lakes:
        each.land(10)
    publish_all_rows(lakes[0])
    lakes[1].in_tables_of(lakes[0], keyed=False).publish(lakes[1].landed.follower())

    found = audited(lakes[0], **ALL_ROWS)

    assert found.unchecked.replace(".", "/") == "landfall/other/0 publish to it, too"


def run(lake: KeyedLake, *arguments: str, **options: Any) -> int:
    file = lake.root / "group.yaml"
    file.write_text(json.dumps(document(lake, **options)))
    return main([str(file), *arguments, "--tables"])


def test_the_command_ends_as_its_findings_are(
    lake: KeyedLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.land(10)
    assert run(lake) == AuditExitCode.NOTHING  # there is no table yet
    lake.publish(at_once=True)
    capsys.readouterr()
    assert run(lake) == AuditExitCode.OK
    assert "no fault found in 1 table of " in capsys.readouterr().out

    assert run(lake, startAt=5) == AuditExitCode.NOTHING
    assert run(lake, "orders") == AuditExitCode.NOTHING
    assert run(lake, "--generation", "1") == AuditExitCode.USAGE

    lake.rewrite_as_others(lambda rows: [*rows[1:]])
    capsys.readouterr()
    assert run(lake, "--json") == AuditExitCode.FAULT
    found = json.loads(capsys.readouterr().out)
    assert (found["whole"], found["tables"][0]["missing"]) == (False, 1)
    assert run(lake) == AuditExitCode.FAULT
    assert "missing in " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["auth", "py-io-impl"])
def test_the_configuration_of_a_catalog_runs_nothing(tmp_path: Path, name: str) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(random_changes(1)))
    lake.land(10)
    with answering(configurations(tmp_path / "ran")[name]) as uri:
        found = audited(lake, catalog={"type": "rest", "uri": uri})

    assert found.error.endswith(f"names Python code, which is not imported: {name}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("value", "error"),
    [(OWN_FILES, "names Python code"), ("pyiceberg.io.pyarrow.PyArrowFileIO", "")],
)
def test_a_table_names_no_code_but_the_classes_of_pyiceberg(
    tmp_path: Path, value: str, error: str
) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(random_changes(1)))
    lake.land(10)
    lake.publish()
    plain = load_catalog("lake", **lake.connection.properties()[0])
    with plain.load_table("lake.clicks").transaction() as changing:
        changing.set_properties({"py-io-impl": value})

    found = audited(lake)

    assert error in found.error
    assert found.is_compared == (not error)


def test_a_snapshot_that_is_its_own_ancestor_ends_the_search() -> None:
    snapshots = [
        SimpleNamespace(snapshot_id=n, parent_snapshot_id=3 - n, summary=None) for n in (1, 2)
    ]
    metadata = SimpleNamespace(snapshots=snapshots, current_snapshot_id=2, properties={})

    assert position(metadata, "landfall.g.0.through", 9) == (2, -1)
