"""The leader epoch of the last record landed, by which a truncated log is recognized later."""

from dataclasses import replace

from landfall import ledger
from landfall.errors import Reason
from landfall.ledger import Blocked, Decision, Permission
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from tests.support.ledger.sample_ledger import SampleLedger

TP = TopicPartition("clicks", 0)


def landed(sample: SampleLedger, start: int, end: int, epoch: int, offset: int) -> None:
    sample.commit(sample.land(TP, start, end, leader_epoch=epoch, epoch_offset=offset))


def test_a_commit_keeps_the_epoch_of_the_last_record_read() -> None:
    sample = SampleLedger().open().add(TP)
    landed(sample, 0, 10, 3, 7)

    assert sample.state.members[TP].leader_epoch == 3
    assert sample.state.members[TP].epoch_offset == 7
    assert decode_state(encode_state(sample.state)) == sample.state


def test_a_range_without_a_record_keeps_the_epoch_of_the_record_before() -> None:
    sample = SampleLedger().open().add(TP)
    landed(sample, 0, 10, 3, 7)
    sample.commit(sample.land(TP, 10, 12))

    assert sample.state.members[TP].leader_epoch == 3
    assert sample.state.members[TP].epoch_offset == 7


def test_a_truncated_log_that_is_accepted_has_no_epoch_to_compare() -> None:
    sample = SampleLedger().open().add(TP)
    landed(sample, 0, 10, 3, 9)
    entry = Blocked(TP, Reason.DATA_LOSS, "truncated", OffsetRange(4, 10))
    sample.append(lambda h: ledger.Block(header=h, entries=(entry,)))
    decision = Decision("unblock", "ann", "the records are not needed", "2026-11-21T05:00:00Z")
    sample.append(lambda h: ledger.Unblock(header=h, entries=(Permission(TP),), decision=decision))

    assert replace(sample.state.members[TP], leader_epoch=-1) == sample.state.members[TP]
    assert sample.state.accepted_truncation == {TP: 10}
