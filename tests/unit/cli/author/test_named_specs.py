"""Specs that OPENs name: fsck and the auditor follow them to the store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.group_file import load
from landfall.cli import main
from landfall.driver.core.stored_specs import store_spec
from landfall.ledger.names import object_names
from landfall_audit import Fault, FaultKind
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import Landed


@pytest.fixture
def spec(landed: Callable[[str], Landed]) -> tuple[Landed, Path]:
    """A ledger whose second OPEN, in slot 3, names a spec; and the file of that."""
    made = landed("Json")
    name = store_spec(made.sample.store, load(Path(made.file), {}), LANE)
    made.sample.open(spec=name).open(spec=name)
    return made, made.root / object_names.spec_key(GROUP, LANE, name)


def fsck(landed: Landed, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["fsck", landed.file])
    return code, " ".join(capsys.readouterr().out.split())


def faults(landed: Landed) -> list[Fault]:
    inventory = Inventory(open_bucket(for_auditor(load(Path(landed.file), {}).spec.output)), GROUP)
    inventory.close()
    return inventory.faults


def test_a_stored_spec_is_counted(
    spec: tuple[Landed, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    landed, _ = spec

    code, text = fsck(landed, capsys)

    assert code == ExitCode.OK
    assert "I10 ok specs that an OPEN names are stored, unchanged: 1 spec" in text
    assert faults(landed) == []


def test_an_open_of_older_software_names_no_spec(
    landed: Callable[[str], Landed], capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fsck(landed("Json"), capsys)

    assert code == ExitCode.OK
    assert "stored, unchanged: 0 specs" in text


@pytest.mark.parametrize(
    ("bytes_there", "finding"),
    [
        (None, "expected a stored spec, got spec missing"),
        (b"", "got spec differs from its hash: e3b0c44298fc"),
        (b"{}", "got spec differs from its hash: 44136fa355b3"),
    ],
)
def test_a_missing_or_changed_spec_is_found(
    spec: tuple[Landed, Path],
    bytes_there: bytes | None,
    finding: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    landed, file = spec
    key = str(file.relative_to(landed.root))
    if bytes_there is None:
        file.unlink()
    else:
        file.write_bytes(bytes_there)

    code, text = fsck(landed, capsys)
    (fault,) = faults(landed)

    assert code == ExitCode.FAULT
    assert "I10 BROKEN" in text
    assert f"slot 3, {key}: " in text
    assert finding in text
    assert (fault.kind, fault.what) == (FaultKind.SPEC, key)
    assert fault.message.startswith("slot 3 names it, found ")
