"""Every example of the pages on decoders is landed, and the audit finds nothing wrong with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from landfall.pipeline.records import Records
from tests.support.audit.audited_payloads import AuditedPayloads
from tests.support.audit.auditor_fakes import Message
from tests.support.pages.markdown import DOCS
from tests.support.pages.page_examples import Example, examples, given

PAGES = [*sorted((DOCS / "decoders").glob("*.md")), DOCS / "guides/typed-files.md"]
EXAMPLES = [example for page in PAGES for example in examples(page)]


def messages(records: Records) -> Iterator[Message]:
    rows = zip(
        records.values.to_pylist(),
        records.keys.to_pylist(),
        records.timestamps.tolist(),
        records.headers.to_pylist(),
        strict=True,
    )
    for offset, (value, key, timestamp, headers) in enumerate(rows):
        pairs = [(h["key"], h["value"]) if isinstance(h, dict) else h for h in headers or ()]
        yield Message(offset, value, key, timestamp, pairs)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_what_is_documented_is_right(example: Example, tmp_path: Path) -> None:
    with given(example, tmp_path) as (spec, records):
        made = AuditedPayloads(tmp_path / "root", [*messages(records)], **in_a_folder(spec))

        findings = made.audit()

    assert findings.faults == []
    assert findings.is_whole, findings.results
    if "envelope" in spec["decode"]:  # of which every row is compared
        assert findings.reasons == {}


def in_a_folder(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without where records come from and go."""
    output = {name: value for name, value in spec["output"].items() if name != "url"}
    return {**{name: value for name, value in spec.items() if name != "source"}, "output": output}
