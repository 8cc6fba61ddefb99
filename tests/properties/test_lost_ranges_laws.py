"""Nothing is given up that a backup has committed, whatever keeps it from being confirmed.

A real ledger of the backup, its real objects, and the real decision about what Kafka has lost:
``onDataLoss.readFrom`` with ``otherwise: SkipAndRecord``, against a backup that idles, that has a
REPLACE under way, whose store is slow, whose driver was killed, or which has lost an upload.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.driver.decide.lost_ranges import PATIENCE, BackupAnswer, Settled, settle
from landfall.landed.backup import LandedBackup
from landfall.landed.history import History, Life
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import CoveredPrefix
from tests.support.driver.slice_landing import TP, click
from tests.support.examples import share
from tests.support.ledger.landed_group import Backup, merge_of
from tests.support.ledger.sample_ledger import GROUP

NOW = datetime(2026, 11, 26, tzinfo=UTC)
ROWS = [click(o) for o in range(60)]


@dataclass(frozen=True)
class Played:
    """What the backup does.

    Attributes:
        settled: where COMMITs end that a later record confirms.
        later: where COMMITs end that none does, with whether their objects are visible.
        merges: whether a REPLACE of what is confirmed is under way.
        loses: whether the upload of the last COMMIT is gone that is not visible.
        closes: whether a driver of the backup completes everything at last.
    """

    settled: tuple[int, ...]
    later: tuple[tuple[int, bool], ...]
    merges: bool
    loses: bool
    closes: bool

    @property
    def committed(self) -> int:
        return max([0, *self.settled, *(end for end, _ in self.later)])

    def play(self) -> Backup:
        landed = Backup({TP: ROWS})
        landed.land(0, *self.settled).settle()
        if self.merges and self.settled:
            merged = Slice(TP, OffsetRange(0, self.settled[-1]))
            merge_of(landed).record(slices=(merged,))
        at = max([0, *self.settled])
        for (start, _), (end, is_visible) in pairwise([(at, True), *self.later]):
            landed.land(start, end, complete=is_visible)
        invisible = [seq for seq, (_, done) in zip(self._slots(landed), self.later, strict=True)
                     if not done]  # fmt: skip
        if self.loses and invisible:
            for each in landed.sample.state.unapplied[invisible[-1]]:
                landed.store.abort(each.upload.key, each.upload.upload_id)
        elif self.closes:
            landed.complete()
        return landed

    def _slots(self, landed: Backup) -> list[int]:
        return sorted(landed.sample.state.unapplied)


@st.composite
def played(draw: st.DrawFn) -> Played:
    ends = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=5)))
    at = draw(st.integers(0, len(ends)))
    later = tuple((end, draw(st.booleans())) for end in ends[at:])
    return Played(tuple(ends[:at]), later, *(draw(st.booleans()) for _ in range(3)))


def decide(landed: Backup, start: int) -> tuple[CoveredPrefix, Settled]:
    """What follows for offsets from ``start`` on that Kafka lost more than ten minutes ago."""
    asked = LandedBackup(GROUP, "spec", lambda: landed.history)
    lost = OffsetRange(start, 70)
    answer = asked.first_stretch(TP, "id", lost)
    found = {TP: BackupAnswer(answer, NOW + 2 * PATIENCE, NOW)}
    return answer, settle(GROUP, {TP: lost}, found, NOW + 2 * PATIENCE, skips=True)


def check(played: Played, start: int) -> None:
    landed = played.play()
    answer, settled = decide(landed, start)
    if start >= played.committed:
        assert settled.holes == (Slice(TP, OffsetRange(start, 70)),)
        return
    assert not settled.holes, f"given up though it is committed: {settled.holes}"
    if readable := settled.readable.get(TP):
        expected = [row for row in ROWS if readable.start <= row[0] < readable.end]
        assert landed.read(readable.start, readable.end) == expected
    else:
        assert settled.blocked
        assert answer.is_committed
        assert "skip" not in str(settled.blocked[TP])


@settings(max_examples=share(150), deadline=None)
@given(played(), st.integers(0, 65))
def test_what_a_backup_has_committed_is_read_or_waited_for(played: Played, start: int) -> None:
    check(played, start)


def _idle_and_slow() -> list[Played]:
    return [
        Played((10,), ((20, True),), merges=False, loses=False, closes=False),
        Played((10,), ((20, True),), merges=True, loses=False, closes=False),
        Played((10,), ((20, False),), merges=False, loses=False, closes=False),
        Played((10,), ((20, False), (30, True)), merges=False, loses=True, closes=False),
    ]


@pytest.mark.parametrize("played", _idle_and_slow())
def test_a_rule_that_takes_unconfirmed_for_absent_gives_records_up(
    monkeypatch: pytest.MonkeyPatch, played: Played
) -> None:
    def by_ledger_alone(history: History, tp: TopicPartition, life: Life) -> Life:
        ends = [start for start, _ in history._unconfirmed(tp)]
        end = min([history.state.checkpoint[tp], *ends])
        return replace(life, end=end, committed=end)

    monkeypatch.setattr(History, "_present", by_ledger_alone)

    with pytest.raises(AssertionError, match="given up though it is committed"):
        check(played, 15)
