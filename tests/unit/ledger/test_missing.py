"""Decided objects that a BLOCK names as missing: what they hold up, and what becomes of them."""

from dataclasses import replace

from msgspec import structs

from landfall.errors import Reason
from landfall.ledger import (
    Block,
    Blocked,
    Header,
    Lost,
    Missing,
    Open,
    Repair,
    State,
    Yield,
    encode,
    fold,
)
from landfall.ledger.offsets import OffsetRange
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedObject
from tests.unit.ledger.test_decisions import ASKED, data_key, drop, landed, unblocked
from tests.unit.ledger.test_ledger import CLICKS, committed, entered, header, refused

LETTERS, DATA = 1, 0


def block_of(state: State, *keys: str, commit: int = 2) -> Block:
    entry = Blocked(CLICKS, Reason.OBJECT_LOST, "gone", OffsetRange(0, 5))
    return Block(header=header(state), entries=(entry,), missing=(Missing(commit, keys),))


def missing(*objects: int) -> State:
    """COMMIT 2 of a data and a dead-letter object, of which these are missing."""
    state = committed(entered(), landed(0, 5, letters=2))
    keys = [state.unapplied[2][i].upload.key for i in objects]
    return fold(state, encode(block_of(state, *keys)))


def applied(state: State, through: int) -> State:
    return fold(state, encode(Yield(header=header(state, through), reason="")))


def again(before: LandedObject) -> LandedObject:
    return structs.replace(before, upload=structs.replace(before.upload, upload_id="v"))


def test_the_applied_commits_may_pass_a_missing_object_which_stays_due() -> None:
    state = missing(DATA)

    after = applied(state, 2)

    assert [o.upload.key for o in state.unapplied[2]] == [landed(0, 5, 2).objects[1].upload.key]
    assert (after.unapplied, [o.upload.key for o in after.missing[2]]) == ({}, [data_key(1, 0)])


def test_only_unapplied_objects_of_blocked_topic_partitions_are_missing() -> None:
    state = committed(entered(), landed(0, 5))

    assert "no unapplied object of slot 2" in refused(state, block_of(state, data_key(1, 7)))
    unrelated = Block(header=header(state), entries=(), missing=(Missing(2, (data_key(1, 0),)),))
    assert "is missing, but clicks/0 is not blocked" in refused(state, unrelated)


def test_a_repair_of_a_missing_object_is_unapplied_in_its_own_slot() -> None:
    state = missing(DATA)
    made = again(state.missing[2][0])

    after = fold(state, encode(Repair(header=header(state, 2), commit=2, objects=(made,))))

    assert (after.missing, after.unapplied, after.blocked) == ({}, {4: (made,)}, {})


def test_a_repaired_object_may_be_lost_and_repaired_once_more() -> None:
    state = missing(DATA)
    made = again(state.missing[2][0])
    state = fold(state, encode(Repair(header=header(state, 2), commit=2, objects=(made,))))

    after = fold(state, encode(Repair(header=header(state), commit=4, objects=(again(made),))))

    assert after.unapplied == {4: (again(made),)}


def test_a_topic_partition_stays_blocked_while_something_of_it_is_missing() -> None:
    state = missing(DATA, LETTERS)
    data, letters = state.missing[2]

    one = fold(state, encode(Lost(header=header(state), commit=2, objects=(data,))))
    both = fold(one, encode(Lost(header=header(one), commit=2, objects=(letters,))))

    assert (CLICKS in one.blocked, CLICKS in both.blocked) == (True, False)
    assert (both.missing, both.totals.lost_objects, both.totals.lost) == ({}, 2, 5)


def test_an_unblock_leaves_missing_objects_due() -> None:
    assert unblocked(missing(DATA)).missing == missing(DATA).missing


def test_what_is_missing_of_a_topic_partition_that_leaves_is_lost() -> None:
    state = missing(DATA)

    after = drop(state, ASKED)

    assert (after.missing, after.totals.lost_objects, after.totals.lost) == ({}, 1, 3)


def test_the_spec_of_a_commit_is_known_while_its_objects_are_due() -> None:
    state = entered()
    epoch = Header(state.seq + 1, state.tip, state.epoch + 1, "w2", "t", -1)
    reopened = Open(header=epoch, group="g", lane="0", generation=1, software="s", spec="d1")
    state = committed(fold(state, encode(reopened)), landed(0, 5))
    assert (state.spec, state.specs) == ("d1", {3: "d1"})

    made = again(state.unapplied[3][0])
    state = fold(state, encode(block_of(state, made.upload.key, commit=3)))
    state = fold(state, encode(Repair(header=header(state, 3), commit=3, objects=(made,))))

    assert state.specs == {5: "d1"}
    assert applied(state, 5).specs == {}


def test_a_state_with_missing_objects_reads_back_the_same() -> None:
    state = replace(missing(DATA), spec="d1", specs={2: "d1"})

    assert decode_state(encode_state(state)) == state
