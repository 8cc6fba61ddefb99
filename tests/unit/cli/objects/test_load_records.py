"""Records of loads that a publisher keeps beside the ledger: fsck checks them, audits pass them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.group_file import load
from landfall.checks import load_records
from landfall.cli import main
from landfall.publish.bigquery.loads import KEPT_LOADS
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.ledger.sample_ledger import GROUP
from tests.support.publishers.bigquery import Warehoused
from tests.support.publishers.lake import CLICKS, ORDERS
from tests.unit.cli.conftest import SPEC

Damage = Callable[[Path], object]


@pytest.fixture
def loaded(tmp_path: Path) -> Warehoused:
    """Two loads of clicks and one of orders."""
    made = Warehoused.at(tmp_path)
    made.landed.land(CLICKS, ORDERS).sample.shown()
    made.publish()
    made.landed.land(CLICKS).sample.shown()
    made.publish()
    return made


def chain(made: Warehoused, table: str) -> list[Path]:
    """The records of a table, in their order."""
    records = sorted((root(made) / f"_landfall/{GROUP}/0-published/lake").glob("*/*.json"))
    firsts = {path.parent for path in records if f'"{table}"' in path.read_text()}
    return [path for path in records if path.parent in firsts]


def root(made: Warehoused) -> Path:
    return made.landed.root / "landed"


def group_file(made: Warehoused) -> str:
    file = made.landed.root / "group.yaml"
    file.write_text(SPEC.format(group=GROUP, root=root(made), format="Parquet"))
    return str(file)


def fsck(
    made: Warehoused, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, list[str], str]:
    code = main(["fsck", group_file(made), *options])
    text = capsys.readouterr().out
    return code, re.findall(r"^(I\d+) +BROKEN", text, re.MULTILINE), " ".join(text.split())


def test_whole_records_are_counted_and_are_no_objects(
    loaded: Warehoused, capsys: pytest.CaptureFixture[str]
) -> None:
    code, broken, text = fsck(loaded, capsys)
    deep = fsck(loaded, capsys, "--deep")[2]

    assert (code, broken) == (ExitCode.OK, [])
    assert "I11 ok records of publishers' loads are whole: 5 records" in text
    assert "loads are whole: 7 records" in deep
    assert "0 objects do not belong to Landfall" in text
    inventory = Inventory(
        open_bucket(for_auditor(load(Path(group_file(loaded)), {}).spec.output)), GROUP
    )
    assert (inventory.faults, [*inventory.unnamed()]) == ([], [])
    inventory.close()


def test_an_open_load_is_no_fault(loaded: Warehoused, capsys: pytest.CaptureFixture[str]) -> None:
    chain(loaded, "lake.clicks")[-1].unlink()

    assert fsck(loaded, capsys)[:2] == (ExitCode.OK, [])


DAMAGES: dict[str, tuple[int, Damage, str]] = {
    "an intent that is gone": (0, Path.unlink, "0000000001-intent.json: expected a record"),
    "an outcome that is gone": (1, Path.unlink, "0000000001-outcome.json: expected a record"),
    "a last intent that is gone": (2, Path.unlink, "0000000002-intent.json: expected a record"),
    "a record that is cut off": (3, lambda p: p.write_bytes(p.read_bytes()[:-9]), "truncated"),
    "an empty record": (3, lambda p: p.write_bytes(b""), "truncated"),
    "another load's record": (
        3,
        lambda p: p.write_bytes(p.read_bytes().replace(b'"number":2', b'"number":1')),
        "expected load 2, got load 1",
    ),
    "another table's record": (
        2,
        lambda p: p.write_bytes(p.read_bytes().replace(b'"lake.clicks"', b'"lake.x"')),
        "got lake.x",
    ),
    "a beginning that is gone": (
        0,
        lambda p: (p.parent.parent / "begin.json").unlink(),
        "begin.json: expected a record of loads, got nothing",
    ),
    "a beginning that is damaged": (
        0,
        lambda p: (p.parent.parent / "begin.json").write_bytes(b"{}"),
        "missing required field",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(loaded: Warehoused, capsys: pytest.CaptureFixture[str], name: str) -> None:
    number, damage, message = DAMAGES[name]
    record = chain(loaded, "lake.clicks")[number]
    record.chmod(0o644)
    (record.parent.parent / "begin.json").chmod(0o644)
    damage(record)

    code, broken, text = fsck(loaded, capsys)

    assert (code, broken) == (ExitCode.FAULT, ["I11"])
    assert message in text


def test_old_records_are_read_if_asked_for(
    loaded: Warehoused, capsys: pytest.CaptureFixture[str]
) -> None:
    first = chain(loaded, "lake.clicks")[0]
    first.chmod(0o644)
    first.write_bytes(b"[]")

    assert fsck(loaded, capsys)[1] == []
    assert fsck(loaded, capsys, "--deep")[1] == ["I11"]


def test_records_that_are_old_may_be_gone(
    loaded: Warehoused, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("landfall.checks.load_records.KEPT_LOADS", 1)
    for record in chain(loaded, "lake.clicks")[:2]:
        record.unlink()

    assert fsck(loaded, capsys)[:2] == (ExitCode.OK, [])


def test_fsck_expects_no_record_that_publishers_delete() -> None:
    assert load_records.KEPT_LOADS == KEPT_LOADS
