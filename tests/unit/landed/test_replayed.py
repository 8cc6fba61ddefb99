"""Records that a REPLAY has landed are read from its objects once their dead letters expired."""

import pytest

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.ledger.names.expired_letters import ExpiredLetters, encode_expired, expired_key
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedObject, ObjectKind, ReplayedSlice
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import PARQUET, SEQUENCE_FILES, Backup, within
from tests.support.ledger.sample_ledger import GROUP, LANE

BAD = 105
LOG = {TP: [(o, b"no JSON") if o == BAD else click(o) for o in range(100, 120)]}
LENIENT = {"decode": {"format": "Raw"}, "generation": 2}
_DECISION = ledger.Decision("replay", "me", "", "t")


class Replayed:
    """A group with a dead letter, which a later generation has landed."""

    def __init__(self, output: dict[str, object], **spec: object) -> None:
        self.landed = landed = Backup(dict(LOG), {"options": {}, **output})
        landed.land(0, 120).settle()
        (self.letters,) = (
            each
            for record in self.commits()
            for slice_ in record.slices
            for each in slice_.objects
            if each.kind is ObjectKind.DEAD_LETTERS
        )
        landed.open(**{**LENIENT, **spec})
        token = f"token-{landed.sample.state.seq + 1}"
        again = landed.landed(BAD, BAD + 1)
        key, piece = self.letters.upload.key, Slice(TP, OffsetRange(0, BAD + 1))
        slice_ = ReplayedSlice(
            key, piece, 1, again.objects, again.landed, again.filtered, again.dead_lettered
        )
        landed.sample.append(
            lambda header: ledger.Replay(
                header=header, token=token, slices=(slice_,), decision=_DECISION
            )
        )
        landed.complete().settle()

    def commits(self) -> list[ledger.Commit]:
        records = (ledger.decode(*each) for each in self.landed.history.lane.bodies())
        return [record for record in records if isinstance(record, ledger.Commit)]

    def expire(self) -> LandedObject:
        """Let the dead letters be deleted, as `badRecords.retain` asks."""
        (commit,) = self.commits()
        through = commit.header.seq
        body = encode_expired(ExpiredLetters(through, -1, "2026-11-21T05:00:00+00:00"))
        self.landed.store.create(expired_key(GROUP, LANE, through), body)
        self.landed.store.delete(self.letters.upload.key)
        return self.letters


@pytest.mark.parametrize("output", [SEQUENCE_FILES, PARQUET])
def test_what_was_replayed_is_read_also_after_its_dead_letters_expired(
    output: dict[str, object],
) -> None:
    scene = Replayed(output)
    before = scene.landed.read(0, 120)

    scene.expire()

    assert before == within(LOG[TP], 0, 120)
    assert scene.landed.read(0, 120) == before
    assert scene.landed.read(BAD, BAD + 1) == [(BAD, b"no JSON")]


def test_dead_letters_that_expired_and_were_not_replayed_are_named() -> None:
    scene = Replayed(SEQUENCE_FILES)
    landed = Backup(dict(LOG), SEQUENCE_FILES)
    landed.land(0, 120).settle()
    scene.landed = landed
    scene.expire()

    with pytest.raises(Stalled, match="the dead letters have expired") as stalled:
        landed.read(BAD, 120)
    assert stalled.value.reason is Reason.OBJECT_LOST
    assert landed.read(100, BAD) == within(LOG[TP], 100, BAD)
