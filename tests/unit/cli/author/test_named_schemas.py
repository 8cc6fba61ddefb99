"""Schemas that COMMITs name: fsck, the auditor and locate follow them to the store."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.group_file import load
from landfall.cli import main
from landfall.ledger.names import object_names
from landfall.ledger.names.schema_ids import latest_key
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import RegisteredSchema, encode_schema
from landfall.schemas.stored import StoredSchemas, registry_name
from landfall_audit import Fault, FaultKind
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import TP, Landed

HERE = registry_name("http://registry")
LONG = UsedSchema(encode_schema(RegisteredSchema("AVRO", '"long"')), HERE, "7")
NAME = hashlib.sha256(LONG.body).hexdigest()
OTHER = UsedSchema(encode_schema(RegisteredSchema("AVRO", '"int"')), HERE, "8")
OTHER_NAME = hashlib.sha256(OTHER.body).hexdigest()


@pytest.fixture
def names() -> tuple[str, ...]:
    """The schemas of the second COMMIT."""
    return (NAME,)


@pytest.fixture
def landed(landed: Callable[[str], Landed], names: tuple[str, ...]) -> Landed:
    """A ledger whose second COMMIT names a schema, in slot 3."""
    made = landed("Json")
    for schema in (LONG, OTHER)[: len(names)]:
        StoredSchemas(made.sample.store, GROUP, LANE).keep(schema)
    made.sample.commit(made.sample.land(TP, 10, 20, schemas=names)).applied()
    return made


def other_id() -> str:
    return object_names.schema_id_key(GROUP, LANE, HERE, "8")


def latest() -> str:
    return latest_key(GROUP, LANE, HERE, "pin", "clicks-value")


@pytest.fixture
def schema(landed: Landed) -> Path:
    """The file of the schema."""
    return landed.root / object_names.schema_key(GROUP, LANE, NAME)


def fsck(landed: Landed, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["fsck", landed.file])
    return code, " ".join(capsys.readouterr().out.split())


def faults(landed: Landed) -> list[Fault]:
    inventory = Inventory(open_bucket(for_auditor(load(Path(landed.file), {}).spec.output)), GROUP)
    inventory.close()
    return inventory.faults


def test_a_stored_schema_is_counted(landed: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = fsck(landed, capsys)

    assert code == ExitCode.OK
    assert "I9 ok schemas that a COMMIT names are stored, unchanged: 1 schema" in text
    assert faults(landed) == []


def test_a_missing_schema_is_found(
    landed: Landed, schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema.unlink()

    code, text = fsck(landed, capsys)

    assert code == ExitCode.FAULT
    assert "I9 BROKEN" in text
    assert "slot 3" in text
    assert "schema missing" in text
    assert faults(landed) == [
        Fault(
            FaultKind.SCHEMA, str(schema.relative_to(landed.root)), "slot 3 names it, found nothing"
        )
    ]


def test_a_changed_schema_is_found(
    landed: Landed, schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema.write_bytes(LONG.body + b" ")

    code, text = fsck(landed, capsys)

    assert code == ExitCode.FAULT
    assert "schema differs from its hash" in text
    (fault,) = faults(landed)
    assert fault.kind is FaultKind.SCHEMA


@pytest.mark.parametrize("key", [other_id(), latest()], ids=["id", "latest"])
def test_an_id_or_a_subject_of_a_missing_schema_is_found(
    landed: Landed, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = landed.root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": NAME}))
    assert fsck(landed, capsys)[0] == ExitCode.OK
    path.write_text(json.dumps({"schema": "f" * 64}))

    code, text = fsck(landed, capsys)

    assert code == ExitCode.FAULT
    assert f"{key}: expected an id or a subject that names a stored schema" in text


def test_a_schema_that_no_commit_names_is_harmless(
    landed: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task that dies before its COMMIT leaves one."""
    StoredSchemas(landed.sample.store, GROUP, LANE).keep(OTHER)

    assert fsck(landed, capsys)[0] == ExitCode.OK
    assert faults(landed) == []


def test_locate_names_the_schema_and_cat_prints_it(
    landed: Landed, schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["locate", landed.file, "clicks", "0", "12"]) == ExitCode.OK
    url = capsys.readouterr().out.rpartition("decoded with ")[2].strip()
    assert url == f"file://{schema}"

    assert main(["cat", landed.file, url]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {
        "kind": "AVRO",
        "schema": '"long"',
        "references": [],
    }

    assert main(["locate", landed.file, "clicks", "0", "2", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["schemas"] == []


@pytest.mark.parametrize("names", [(NAME, OTHER_NAME)])
def test_locate_does_not_say_which_of_several_schemas_it_was(
    landed: Landed, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["locate", landed.file, "clicks", "0", "12"]) == ExitCode.OK

    lines = capsys.readouterr().out.splitlines()[-2:]
    assert [line.rpartition("/")[2] for line in lines] == sorted(f"{name}.json" for name in names)
    assert all(line.startswith("decoded with one of file:///") for line in lines)
