"""Records of the ledger with times and numbers that are none: broken slots, with a message."""

from datetime import UTC, datetime

import pytest

from landfall.errors import Reason, Stalled
from landfall.ledger import decode, time_of


@pytest.mark.parametrize("text", ["", "t", "2026-13-01", "0001-01-01T00:00:00+23:59", "\x1b]0;x"])
def test_a_time_that_is_none(text: str) -> None:
    with pytest.raises(Stalled, match=r"ledger slot 7: .* is no time") as stalled:
        time_of(7, text)

    assert stalled.value.reason is Reason.LEDGER_BROKEN
    assert str(stalled.value).isprintable()


def test_times_are_in_utc() -> None:
    expected = datetime(2026, 11, 21, 5, tzinfo=UTC)

    for text in ("2026-11-21T05:00:00Z", "2026-11-21T05:00:00", "2026-11-21T06:00:00+01:00"):
        assert time_of(7, text) == expected


def test_an_offset_of_more_than_64_bits() -> None:
    body = (
        b'{"type":"COMMIT","token":"t","slices":[{"piece":{"topic_partition":{"topic":"a",'
        b'"partition":0},"offsets":{"start":0,"end":%d}},"objects":[],"landed":%d,"filtered":0,'
        b'"dead_lettered":0,"invisible":0,"input_bytes":0}],"header":{"seq":7,"prev":"","epoch":1,'
        b'"writer":"w","time":"t"}}'
    )

    assert len(decode(7, body % (0, 0)).slices) == 1  # type: ignore[union-attr]  # of a COMMIT
    with pytest.raises(Stalled, match=r"ledger slot 7: .* a number that is too large") as stalled:
        decode(7, body % (2**63, 2**63))

    assert stalled.value.reason is Reason.LEDGER_BROKEN
