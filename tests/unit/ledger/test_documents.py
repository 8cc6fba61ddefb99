"""What lies beside the ledger is read as a document of whoever may write there."""

import pytest

from landfall.driver.process.ledger_root import marked
from landfall.lane import Lane
from landfall.ledger.names.object_names import head_key
from landfall.ledger.names.roots import marked_ledger
from landfall.untrusted_json import parse_document
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

DEEP = b"[" * 1_000_000


@pytest.mark.parametrize("body", [None, b"", b"{", b"[]", b"7", DEEP, b'{"a":' + DEEP, b"\xff"])
def test_what_is_no_object_is_a_value_error(body: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_document(body)


def test_a_mark_of_a_million_brackets_is_refused() -> None:
    with pytest.raises(ValueError, match="it names no ledger"):
        marked_ledger("s3://logs/x", DEEP)
    assert "cannot be read" in marked(DEEP)


@pytest.mark.parametrize("hint", [DEEP, b"[]", b'{"seq": []}'])
def test_a_damaged_hint_makes_reading_slower_only(hint: bytes) -> None:
    sample = SampleLedger()
    sample.open(1)
    sample.store.create(head_key(GROUP, LANE), hint)

    assert Lane(sample.store, GROUP, LANE).read().seq == sample.state.seq
