"""What later records change about a committed slice."""

from msgspec.structs import replace

from landfall import ledger
from landfall.checks.corrections import Corrected, Corrections, corrected, corrections
from landfall.ledger import Decision, Header, Record
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice
from landfall.objects import Upload

TP = TopicPartition("clicks", 0)
PIECE = Slice(TP, OffsetRange(0, 20))
ASKED = Decision("replay-dead-letters", "kim", "mended", "2026-11-22T01:00:00Z")
LETTERS = "_landfall/shop/dead-letters/clicks/{}_0_00000000000000000000.parquet"


def made(key: str, rows: int, kind: ObjectKind = ObjectKind.DATA) -> LandedObject:
    return LandedObject(Upload(key, key, (), "t"), kind, rows, 0, 19, 0)


DATA = made("clicks/a/1_0_00000000000000000000.json", 12)
BAD = made(LETTERS.format(1), 8, ObjectKind.DEAD_LETTERS)
LANDED = LandedSlice(PIECE, (DATA, BAD), 12, 0, 8, 0, 100)
MENDED = made("clicks/a/2_0_00000000000000000000.json", 5)
BAD_AGAIN = made(LETTERS.format(2), 2, ObjectKind.DEAD_LETTERS)
REPLAYED = ReplayedSlice(BAD.upload.key, PIECE, 8, (MENDED, BAD_AGAIN), 5, 1, 2)
LAST = made("clicks/a/3_0_00000000000000000000.json", 2)
LAST_REPLAYED = ReplayedSlice(BAD_AGAIN.upload.key, PIECE, 2, (LAST,), 2, 0, 0)


def replay(seq: int, *slices: ReplayedSlice) -> Record:
    header = Header(seq, "", 1, "w", "t")
    return ledger.Replay(header=header, token="t", slices=slices, decision=ASKED)


def test_records_of_replayed_dead_letters_are_in_the_objects_of_the_replay() -> None:
    by = corrections([replay(7, REPLAYED), replay(8, LAST_REPLAYED)], 8)

    found = corrected(LANDED, by)

    assert found == Corrected(
        replace(LANDED, objects=(DATA, MENDED, LAST), landed=19, filtered=1, dead_lettered=0)
    )


def test_a_replay_that_is_not_applied_yet_changes_nothing() -> None:
    by = corrections([replay(7, REPLAYED), replay(8, LAST_REPLAYED)], 7)

    assert corrected(LANDED, by).landed.objects == (BAD_AGAIN, DATA, MENDED)


def test_a_lost_object_of_a_replay_is_not_expected() -> None:
    lost = ledger.Lost(
        header=Header(8, "", 1, "w", "t"), commit=7, objects=(MENDED,), decision=ASKED
    )

    found = corrected(LANDED, corrections([replay(7, REPLAYED), lost], 8))

    assert found.lost == (MENDED,)
    assert (found.landed.landed, found.landed.invisible) == (12, 5)


def test_a_slice_that_nothing_corrects_is_as_it_was() -> None:
    found = corrected(LANDED, Corrections())

    assert found == Corrected(replace(LANDED, objects=(BAD, DATA)))
