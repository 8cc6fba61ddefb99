"""Objects beside and in the ledger that are a million brackets: no record, and no way to crash."""

import pytest

from landfall.errors import Reason, Stalled
from landfall.ledger import decode
from landfall.ledger.names.expired_letters import decode_expired
from landfall.ledger.names.schema_ids import schema_of_id

DEEP = b'{"x":' + b"[" * 1_000_000


def test_a_slot_that_is_too_deep_is_no_record() -> None:
    with pytest.raises(Stalled, match="ledger slot 7: not a ledger record") as stalled:
        decode(7, DEEP)
    assert stalled.value.reason is Reason.LEDGER_BROKEN


def test_an_id_whose_object_is_too_deep_names_no_schema() -> None:
    assert schema_of_id(DEEP) is None


def test_what_has_expired_is_not_read_from_what_is_too_deep() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_expired(DEEP)
