"""Documents of a million brackets, which whoever may write to a bucket can put there."""

import hashlib
from pathlib import Path

import pytest

from landfall import untrusted_json
from landfall_audit import FaultKind
from landfall_audit.buckets.folder import LocalFolder
from landfall_audit.ledger.stored_schemas import LedgerSchemas
from landfall_audit.payloads import Undecided
from landfall_audit.payloads.avro import AvroPayloads
from tests.support.audit.audited_payloads import AuditedPayloads, declared, payloads

DEEP = b'{"decode":' + b"[" * 1_000_000


def test_a_document_that_is_too_deep_is_none() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        untrusted_json.decode(DEEP)


def test_a_schema_that_is_too_deep_is_as_one_that_is_not_stored(tmp_path: Path) -> None:
    name = hashlib.sha256(b"http://registry").hexdigest()[:16]
    path = tmp_path / f"_landfall/shop/0-schemas/{name}/7.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(DEEP)

    with pytest.raises(Undecided, match="schema 7 of the registry is not stored"):
        LedgerSchemas(LocalFolder(tmp_path), "shop").find("http://registry", 7)
    with pytest.raises(Undecided, match="no JSON: maximum recursion depth"):
        AvroPayloads.of_text(DEEP.decode())


def test_a_generation_whose_stored_spec_is_too_deep_is_compared_by_todays(tmp_path: Path) -> None:
    column = {"name": "at", "type": "Int64"}
    made = AuditedPayloads(tmp_path / "root", payloads(b'{"at": 1}'), **declared("Json", column))
    name = hashlib.sha256(DEEP).hexdigest()
    specs = made.landed.root / f"_landfall/{made.landed.group.metadata.name}/0-specs"
    specs.mkdir(parents=True, exist_ok=True)
    (specs / f"{name}.json").write_bytes(DEEP)
    made.landed.sample.open(spec=name)

    assert made.audit().is_whole


def test_a_slot_that_is_too_deep_breaks_the_ledger_there(tmp_path: Path) -> None:
    column = {"name": "at", "type": "Int64"}
    made = AuditedPayloads(tmp_path / "root", payloads(b'{"at": 1}'), **declared("Json", column))
    slots = sorted((made.landed.root / "_landfall").rglob("000000*/*.json"))
    slots[-1].with_name("0000000009.json").write_bytes(DEEP)

    (fault,) = made.audit().faults

    assert fault.kind is FaultKind.LEDGER
    assert "nested too deeply" in fault.message
