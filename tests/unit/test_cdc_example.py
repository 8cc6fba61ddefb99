"""``examples/cdc``: changes of each source land as rows whose newest are the source's table."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from landfall import registry
from landfall.api.spec import TopicSpecs, parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import of_columns
from tests.support.audit.audited_payloads import AuditedPayloads
from tests.support.audit.auditor_fakes import Message
from tests.support.pages.markdown import DOCS, ROOT

GROUP = ROOT / "examples/cdc/orders.yaml"
PAGE = DOCS / "start/cdc.md"
example: Any = importlib.import_module("examples.cdc.changes")
NO_ROWS = {"postgres", "mysql", "sqlserver", "oracle", "mongodb"}
"""Sources that send tombstones or heartbeats."""


def spec_of(source: str) -> Any:
    text = GROUP.read_text().replace("${LANDFALL_KAFKA:-127.0.0.1:9092}", "127.0.0.1:9092")
    return TopicSpecs.of(parse_group(yaml.safe_load(text)).spec).for_topic(f"{source}.orders")


def records(source: str, seed: int) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (key and json.dumps(key).encode(), value and json.dumps(value).encode())
        for key, value in example.records(source, seed)
    ]


def decoded(source: str, seed: int) -> Decoded:
    keys, values = zip(*records(source, seed), strict=True)
    return registry.pipeline(spec_of(source)).decoder.decode(
        of_columns(
            TopicPartition(f"{source}.orders", 0),
            np.arange(len(values)),
            pa.array(values, pa.binary()),
            keys=pa.array(keys, pa.binary()),
        )
    )


@pytest.mark.parametrize("source", example.SOURCES)
def test_the_newest_row_of_each_key_is_the_table(source: str) -> None:
    for seed in range(3):
        found = decoded(source, seed)
        newest: dict[int, dict[str, Any]] = {}
        assert found.columns is not None
        for row in found.columns.to_pylist():
            newest[row["id"]] = row
        table = {
            order: {name: row[name] for name in ("id", "quantity", "note")}
            for order, row in newest.items()
            if not row["_deleted"]
        }

        assert table == example.table_after(example.changes(seed))
        assert len(found.records) == len([*example.changes(seed)])
        assert (len(found.bad), found.filtered > 0) == (0, source in NO_ROWS)
        assert all(row["_source_ts"] is not None for row in newest.values())


@pytest.mark.parametrize("source", example.SOURCES)
def test_an_audit_compares_every_row(source: str, tmp_path: Path) -> None:
    messages = [
        Message(offset, value, key, example.FIRST + offset)
        for offset, (key, value) in enumerate(records(source, 1))
    ]
    decode = spec_of(source).decode.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = AuditedPayloads(tmp_path / "root", messages, decode=decode, output={"format": "Parquet"})

    findings = made.audit()

    assert (findings.faults, findings.reasons) == ([], {})
    assert findings.is_whole, findings.results
