"""What becomes of offsets that Kafka has lost, by what another group has of them."""

from datetime import UTC, datetime, timedelta

import pytest

from landfall.driver.decide.lost_ranges import PATIENCE, BackupAnswer, Settled, settle
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import CoveredPrefix

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TP = TopicPartition("clicks", 3)
LOST = {TP: OffsetRange(10, 50)}
ABSENT = Stalled(Reason.DATA_LOSS, "never landed")
UNREADABLE = Stalled(Reason.SPEC_INVALID, "Json does not hold offsets")


def settled(
    answer: CoveredPrefix | LandfallError, *, skips: bool, waited: timedelta = timedelta(0)
) -> Settled:
    found = {TP: BackupAnswer(answer, NOW, NOW - waited)}
    return settle("backup", LOST, found, NOW, skips=skips)


@pytest.mark.parametrize("skips", [False, True])
def test_what_the_other_group_has_is_read_as_far_as_kafka_has_lost_it(skips: bool) -> None:
    whole = settled(CoveredPrefix(OffsetRange(0, 90)), skips=skips)
    part = settled(CoveredPrefix(OffsetRange(10, 20)), skips=skips)

    assert whole == Settled({TP: OffsetRange(10, 50)}, (), {})
    assert part == Settled({TP: OffsetRange(10, 20)}, (), {})


def test_without_an_answer_nothing_is_decided() -> None:
    old = BackupAnswer(CoveredPrefix(OffsetRange(0, 10)), NOW, NOW)

    assert settle("backup", LOST, {}, NOW, skips=True) == Settled({}, (), {})
    assert settle("backup", LOST, {TP: old}, NOW, skips=True) == Settled({}, (), {})


def test_what_nobody_has_stalls_or_is_skipped_up_to_where_somebody_has_it() -> None:
    lacking = CoveredPrefix(OffsetRange(10, 25), ABSENT, is_final=True)

    stalled = settled(lacking, skips=False).blocked[TP]

    assert stalled.reason is Reason.DATA_LOSS
    assert str(stalled) == (
        "clicks/3: offsets [10, 25) expired before they were landed, and cannot be read elsewhere: "
        "never landed"
    )
    assert settled(lacking, skips=True) == Settled({}, (Slice(TP, OffsetRange(10, 25)),), {})


def test_what_may_still_be_landed_there_is_skipped_only_after_a_while() -> None:
    pending = CoveredPrefix(OffsetRange(10, 50), ABSENT)
    moment = timedelta(seconds=1)

    assert TP in settled(pending, skips=True, waited=PATIENCE - moment).blocked
    assert settled(pending, skips=True, waited=PATIENCE).holes == (Slice(TP, LOST[TP]),)
    assert TP in settled(pending, skips=False, waited=2 * PATIENCE).blocked


@pytest.mark.parametrize("reason", [Reason.DATA_LOSS, Reason.SOURCE_UNAVAILABLE])
def test_what_is_committed_there_is_never_skipped_however_long_it_takes(reason: Reason) -> None:
    unconfirmed = CoveredPrefix(
        OffsetRange(10, 25), Stalled(reason, "not visible yet"), is_committed=True
    )

    found = settled(unconfirmed, skips=True, waited=1000 * PATIENCE)

    assert not found.holes
    assert str(found.blocked[TP]) == (
        "clicks/3: offsets [10, 25) expired before they were landed, and cannot be read elsewhere "
        "yet: not visible yet"
    )


def test_what_is_there_in_another_form_is_never_skipped() -> None:
    unreadable = CoveredPrefix(OffsetRange(10, 50), UNREADABLE, is_final=True)

    found = settled(unreadable, skips=True, waited=2 * PATIENCE)

    assert not found.holes
    assert found.blocked[TP].reason is Reason.SPEC_INVALID


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Retry("no answer"), Reason.SOURCE_UNAVAILABLE),
        (Stalled(Reason.LEDGER_BROKEN, "slot 3 is gone"), Reason.LEDGER_BROKEN),
    ],
)
def test_a_group_that_cannot_be_asked_skips_nothing(error: LandfallError, reason: Reason) -> None:
    found = settled(error, skips=True, waited=2 * PATIENCE)

    assert not found.holes
    assert found.blocked[TP].reason is reason
    assert "what backup has landed of them is not known" in str(found.blocked[TP])
