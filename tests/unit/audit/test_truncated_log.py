"""What the audit makes of records that Kafka gave up after they were landed, and wrote anew."""

from dataclasses import replace
from pathlib import Path

from landfall import ledger
from landfall.errors import Reason
from landfall.ledger import Blocked
from landfall.ledger.offsets import OffsetRange
from landfall_audit import Unchecked
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.auditor_fakes import GeneratedLog, Message


def rewritten(offset: int) -> Message:
    """The records from offset 6 on are others than those that were landed."""
    found = message(offset)
    return found if offset < 6 else replace(found, payload=b'{"another":%d}' % offset)


def test_what_kafka_gave_up_and_wrote_anew_is_unchecked(tmp_path: Path) -> None:
    landed, log = Landed(tmp_path), GeneratedLog(30, rewritten)
    landed.land(0, 4)
    landed.land(4, 10)
    assert landed.found(log)["corrupted"] == 4

    truncated = Blocked(TP, Reason.DATA_LOSS, "truncated", OffsetRange(6, 10))
    landed.sample.append(lambda h: ledger.Block(header=h, entries=(truncated,)))

    found = landed.found(log)
    assert found == {"expected": 4, "found": 4, "unchecked": {Unchecked.TRUNCATED: 6}}
