"""The auditor knows the common values: it agrees with what is landed, and sees other values."""

from pathlib import Path

import pytest

from tests.support.audit.audited_payloads import AuditedPayloads
from tests.support.audit.auditor_fakes import Message
from tests.support.payloads.logical_values import SAMPLES, Sample

DECODED = [
    sample
    for sample in SAMPLES
    if sample.format in {"Avro", "Protobuf", "MessagePack"} and "duration of" not in sample.logical
]


def landed(sample: Sample, values: str, folder: Path) -> AuditedPayloads:
    return AuditedPayloads(
        folder / "root",
        [Message(0, sample.payload, None, 0, [])],
        decode={"format": sample.format, "options": sample.options, "values": values},
        route={"pattern": "all"},
        output={"format": "Json"},
    )


@pytest.mark.parametrize("sample", DECODED, ids=lambda sample: sample.name)
def test_json_with_common_values_is_compared(sample: Sample, tmp_path: Path) -> None:
    findings = landed(sample, "Common", tmp_path).audit()

    assert findings.faults == []
    assert findings.is_whole, findings.results
