"""Blocks, decisions, lost objects and replays: what each allows, and what is refused."""

from dataclasses import replace

import pytest
from msgspec import structs

from landfall.errors import Reason, Stalled
from landfall.ledger import (
    Add,
    Block,
    Blocked,
    Commit,
    Decision,
    Drop,
    Entry,
    Hole,
    Lost,
    Missing,
    Permission,
    Record,
    Repair,
    Replay,
    State,
    Unblock,
    encode,
    fold,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.state import KEPT_DECISIONS
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice
from landfall.objects import Part, Upload
from tests.unit.ledger.test_ledger import CLICKS, committed, entered, header, opened, refused

ASKED = Decision(verb="skip", who="kim", why="gone", requested="2026-11-22T01:00:00Z", id="r1")
LETTERS = object_names.dead_letter_key("g", "clicks", 1, 0, 0)


def blocked(state: State, reason: Reason = Reason.DATA_LOSS) -> State:
    entry = Blocked(CLICKS, reason, "truncated", OffsetRange(0, 5))
    return fold(state, encode(Block(header=header(state), entries=(entry,))))


def unblocked(state: State, bad_records_until: int = -1) -> State:
    entries = (Permission(CLICKS, bad_records_until),)
    return fold(state, encode(Unblock(header=header(state), entries=entries, decision=ASKED)))


def hole(state: State, end: int, decision: Decision | None = None) -> Hole:
    piece = Slice(CLICKS, OffsetRange(state.checkpoint[CLICKS], end))
    return Hole(header=header(state), piece=piece, reason="lost", decision=decision)


def drop(state: State, decision: Decision | None = None) -> State:
    record = Drop(
        header=header(state), topic_partitions=(CLICKS,), reason="gone", decision=decision
    )
    return fold(state, encode(record))


def obj(key: str, rows: int, first: int, kind: ObjectKind = ObjectKind.DATA) -> LandedObject:
    upload = Upload(key, "u", (Part("etag", 10),), "token")
    return LandedObject(upload, kind, rows, first, first + rows - 1, 7)


def data_key(generation: int, start: int) -> str:
    return object_names.ObjectName("clicks", "dt=1", generation, 0, start, ".json").key


def landed(start: int, end: int, letters: int = 0) -> LandedSlice:
    """A slice whose first records are dead letters."""
    objects = [obj(data_key(1, start), end - start - letters, start + letters)]
    if letters:
        key = object_names.dead_letter_key("g", "clicks", 1, 0, start)
        objects.append(obj(key, letters, start, ObjectKind.DEAD_LETTERS))
    counts = (end - start - letters, 0, letters, 0)
    return LandedSlice(Slice(CLICKS, OffsetRange(start, end)), tuple(objects), *counts, 100)


def replayed(rows: int = 2, generation: int = 2, key: str = LETTERS) -> ReplayedSlice:
    objects = (obj(data_key(generation, 0), rows, 0),)
    return ReplayedSlice(key, Slice(CLICKS, OffsetRange(0, 5)), rows, objects, rows, 0, 0)


def replay(state: State, *slices: ReplayedSlice) -> Replay:
    return Replay(header=header(state), token="token", slices=slices, decision=ASKED)


def with_letters() -> State:
    """Two dead letters are landed by generation 1, and generation 2 owns the lane."""
    return opened(committed(entered(), landed(0, 5, letters=2)), generation=2)


def test_a_blocked_topic_partition_cannot_be_committed() -> None:
    state = blocked(entered())

    assert state.blocked[CLICKS].message == "truncated"
    assert "clicks/0: blocked (DataLoss: truncated); only a decision" in refused(
        state, Commit(header=header(state), token="token", slices=(landed(0, 5),))
    )


@pytest.mark.parametrize("make", [Block, Unblock])
def test_only_members_are_blocked_and_unblocked(make: type[Record]) -> None:
    state, other = entered(), TopicPartition("other", 0)
    entry = Blocked(other, Reason.DATA_LOSS, "", OffsetRange(0, 1))
    record = (
        Block(header=header(state), entries=(entry,))
        if make is Block
        else Unblock(header=header(state), entries=(Permission(other),), decision=ASKED)
    )

    assert "other/0: not in the lane" in refused(state, record)


def test_an_unblock_a_decided_hole_and_a_drop_clear_a_block() -> None:
    state = blocked(entered())

    after = [
        unblocked(state),
        fold(state, encode(hole(state, 5, ASKED))),
        drop(state),
        fold(state, encode(hole(state, 5))),
    ]

    assert [CLICKS in s.blocked for s in after] == [False, False, False, True]


def test_an_unblocked_truncation_is_accepted_until_the_next_commit() -> None:
    state = unblocked(blocked(committed(entered(), landed(0, 5))))

    assert state.accepted_truncation == {CLICKS: 5}
    assert unblocked(blocked(entered(), Reason.TOPIC_MISSING)).accepted_truncation == {}
    assert committed(state, landed(5, 8)).accepted_truncation == {}


def test_bad_records_are_permitted_until_the_checkpoint_passes_them() -> None:
    state = unblocked(entered(), bad_records_until=6)

    assert state.permitted == {CLICKS: 6}
    assert unblocked(state, bad_records_until=3).permitted == {CLICKS: 6}
    assert committed(state, landed(0, 5)).permitted == {CLICKS: 6}
    assert fold(state, encode(hole(state, 6))).permitted == {}


def test_what_a_decision_dropped_enters_again_only_by_a_decision() -> None:
    state = opened(drop(entered(), ASKED), generation=2)
    undecided = Add(header=header(state), entries=(Entry(CLICKS, "id", 0),))

    assert state.excluded == {CLICKS}
    assert "clicks/0: a decision dropped it" in refused(state, undecided)
    decided = Add(header=header(state), entries=(Entry(CLICKS, "id", 0),), decision=ASKED)
    assert fold(state, encode(decided)).excluded == frozenset()


def test_a_drop_without_a_decision_excludes_nothing() -> None:
    assert drop(entered()).excluded == frozenset()


def test_lost_objects_leave_the_unapplied_ones_and_free_their_topic_partition() -> None:
    state = committed(entered(), landed(0, 5, letters=2))
    state = blocked(state, Reason.OBJECT_LOST)
    gone = state.unapplied[2][0]

    after = fold(state, encode(Lost(header=header(state), commit=2, objects=(gone,))))

    assert [o.kind for o in after.unapplied[2]] == [ObjectKind.DEAD_LETTERS]
    assert (after.totals.lost, after.totals.lost_objects, after.totals.landed) == (3, 1, 3)
    assert after.blocked == {}
    assert "no unapplied object of slot 2" in refused(
        after, Lost(header=header(after), commit=2, objects=(gone,))
    )


def test_an_object_is_given_up_only_as_its_repair_names_it() -> None:
    state = committed(entered(), landed(0, 5))
    before = state.unapplied[2][0]
    again = structs.replace(before, upload=structs.replace(before.upload, upload_id="v"))
    state = fold(state, encode(Repair(header=header(state), commit=2, objects=(again,))))

    assert "as that slot or its REPAIR names it" in refused(
        state, Lost(header=header(state), commit=2, objects=(before,))
    )
    assert fold(
        state, encode(Lost(header=header(state), commit=2, objects=(again,)))
    ).unapplied == {2: ()}


def test_a_block_for_another_reason_stays_when_objects_are_given_up() -> None:
    state = blocked(committed(entered(), landed(0, 5)))

    lost = Lost(header=header(state), commit=2, objects=state.unapplied[2])

    assert CLICKS in fold(state, encode(lost)).blocked


def blocked_for_lost(state: State, slot: int, keys: tuple[str, ...]) -> State:
    entry = Blocked(CLICKS, Reason.OBJECT_LOST, "lost uploads", OffsetRange(0, 5))
    gone = (Missing(slot, keys),)
    return fold(state, encode(Block(header=header(state), entries=(entry,), missing=gone)))


@pytest.mark.parametrize("reason", [Reason.DATA_LOSS, Reason.TOPIC_MISSING])
@pytest.mark.parametrize("is_repaired", [False, True])
def test_lost_objects_do_not_hide_what_the_log_lacks(reason: Reason, is_repaired: bool) -> None:
    state = blocked(committed(entered(), landed(0, 5)), reason)
    objects = state.unapplied[2]

    both = blocked_for_lost(state, 2, tuple(o.upload.key for o in objects))

    assert (both.blocked, both.missing) == (state.blocked, {2: objects})
    resolve = Repair if is_repaired else Lost
    after = fold(both, encode(resolve(header=header(both), commit=2, objects=objects)))
    assert (after.blocked, after.missing) == (state.blocked, {})


def test_what_the_log_lacks_is_said_instead_of_lost_objects_which_stay_missing() -> None:
    state = committed(entered(), landed(0, 5))
    objects = state.unapplied[2]
    state = blocked(blocked_for_lost(state, 2, tuple(o.upload.key for o in objects)))

    assert state.blocked[CLICKS].reason is Reason.DATA_LOSS
    assert (unblocked(state).blocked, unblocked(state).missing) == ({}, {2: objects})


def test_a_replay_decides_objects_and_moves_no_checkpoint() -> None:
    state = with_letters()

    after = fold(state, encode(replay(state, replayed())))

    assert [o.upload.key for o in after.unapplied[after.seq]] == [data_key(2, 0)]
    assert (after.checkpoint, after.replayed) == (state.checkpoint, {LETTERS})
    assert after.members[CLICKS].generation == 2
    totals = after.totals
    assert (totals.landed, totals.dead_lettered, totals.replayed, totals.objects) == (5, 2, 2, 2)


def test_dead_letters_are_replayed_once() -> None:
    state = with_letters()
    after = fold(state, encode(replay(state, replayed())))

    assert "was replayed before" in refused(opened(after, generation=3), replay_of(after))
    assert "named twice" in refused(state, replay(state, replayed(), replayed()))


def replay_of(state: State) -> Replay:
    return replay(opened(state, generation=3), replayed(generation=3))


def test_only_a_higher_generation_replays() -> None:
    state = committed(entered(), landed(0, 5, letters=2))

    assert "under generation 1: only a higher one may" in refused(
        state, replay(state, replayed(generation=1))
    )


def test_a_replay_names_its_objects_after_its_generation_and_the_dead_letters() -> None:
    state = with_letters()

    assert "not a name of generation 2" in refused(state, replay(state, replayed(generation=3)))
    other = object_names.dead_letter_key("g", "clicks", 1, 0, 3)
    assert "not the name of dead letters of clicks/0[0, 5)" in refused(
        state, replay(state, replayed(key=other))
    )
    assert "not the name of dead letters" in refused(
        state, replay(state, replayed(key=data_key(1, 0)))
    )


def test_what_is_not_landed_is_not_replayed() -> None:
    state = opened(entered(), generation=2)

    assert "the checkpoint is 0: not landed yet" in refused(state, replay(state, replayed()))


def test_dead_letters_from_before_a_reset_are_not_replayed() -> None:
    state = opened(drop(committed(entered(), landed(0, 5, letters=2)), ASKED), generation=2)
    again = Add(header=header(state), entries=(Entry(CLICKS, "id", 0),), decision=ASKED)
    state = fold(state, encode(again))
    at_two = LandedSlice(
        Slice(CLICKS, OffsetRange(0, 5)), (obj(data_key(2, 0), 5, 0),), 5, 0, 0, 0, 1
    )
    state = opened(committed(state, at_two), generation=3)

    assert "or to before a reset" in refused(state, replay(state, replayed(generation=3)))


def test_counters_of_a_replay_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="3 dead letters, but landed 2"):
        replace(replayed(), rows=3)
    state = with_letters()
    body = encode(replay(state, replayed())).replace(b'"filtered":0', b'"filtered":1')
    with pytest.raises(Stalled, match="not a ledger record"):
        fold(state, body)


def test_a_drop_forgets_what_was_allowed_and_replayed() -> None:
    state = with_letters()
    state = unblocked(fold(state, encode(replay(state, replayed()))), bad_records_until=9)

    after = drop(blocked(state))

    assert (after.blocked, after.permitted, after.accepted_truncation) == ({}, {}, {})
    assert after.replayed == frozenset()


def test_the_last_ids_of_decisions_are_remembered() -> None:
    state = unblocked(unblocked(entered()))

    assert state.decision_ids == ("r1",)
    many = replace(state, decision_ids=tuple(str(i) for i in range(KEPT_DECISIONS)))
    assert unblocked(many).decision_ids[-2:] == (str(KEPT_DECISIONS - 1), "r1")
    assert len(unblocked(many).decision_ids) == KEPT_DECISIONS


def test_a_record_without_a_decision_is_written_as_before() -> None:
    state = entered()

    assert b"decision" not in encode(hole(state, 5))
    assert b"decision" not in encode(Add(header=header(state), entries=()))


def test_a_state_with_blocks_and_decisions_reads_back_the_same() -> None:
    state = with_letters()
    state = fold(state, encode(replay(state, replayed())))
    state = unblocked(blocked(state), bad_records_until=9)
    state = blocked(replace(state, excluded=frozenset({TopicPartition("other", 1)})))

    assert state.blocked
    assert state.permitted
    assert state.accepted_truncation
    assert decode_state(encode_state(state)) == state


def test_a_decision_does_not_count_as_a_look_at_the_log() -> None:
    state = replace(entered(), looked_at="then")

    assert fold(state, encode(hole(state, 5, ASKED))).looked_at == "then"
    assert fold(state, encode(hole(state, 5))).looked_at != "then"
