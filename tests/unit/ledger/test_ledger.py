"""Records fold into the state they describe; a record that violates a rule is refused and named."""

import pytest

from landfall.errors import Reason, Stalled
from landfall.ledger import (
    Add,
    Applied,
    Commit,
    Drop,
    Entry,
    Header,
    Hole,
    LaneOwnership,
    Open,
    Record,
    Repair,
    State,
    Yield,
    decode,
    encode,
    fold,
    next_header,
)
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

CLICKS = TopicPartition("clicks", 0)


def opened(state: State, writer: str = "w1", generation: int = 1) -> State:
    header = Header(
        state.seq + 1,
        state.tip,
        state.epoch + 1,
        writer,
        "2026-11-21T00:00:00+00:00",
        state.applied_through,
    )
    return fold(
        state,
        encode(Open(header=header, group="g", lane="0", generation=generation, software="test")),
    )


def header(state: State, applied_through: int = -1) -> Header:
    return next_header(state, state.writer, "2026-11-21T00:00:00+00:00", applied_through)


def entered(start: int = 0) -> State:
    state = opened(State())
    return fold(state, encode(Add(header=header(state), entries=(Entry(CLICKS, "id", start),))))


def landed_object(key: str, rows: int, first: int, upload_id: str = "u") -> LandedObject:
    upload = Upload(key, upload_id, (Part("etag", 10),), "token")
    return LandedObject(upload, ObjectKind.DATA, rows, first, first + rows - 1, 7)


def landed(start: int, end: int, key: str = "k") -> LandedSlice:
    slice_ = Slice(CLICKS, OffsetRange(start, end))
    return LandedSlice(slice_, (landed_object(key, end - start, start),), end - start, 0, 0, 0, 100)


def committed(state: State, *slices: LandedSlice, applied_through: int = -1) -> State:
    return fold(
        state, encode(Commit(header=header(state, applied_through), token="token", slices=slices))
    )


def refused(state: State, record: Record) -> str:
    with pytest.raises(Stalled) as error:
        fold(state, encode(record))
    assert error.value.reason is Reason.LEDGER_BROKEN
    return str(error.value)


def test_a_commit_advances_the_checkpoint_and_decides_its_objects() -> None:
    state = committed(entered(), landed(0, 5, "a"), landed(5, 8, "b"))

    assert state.checkpoint[CLICKS] == 8
    assert {o.upload.key for o in state.unapplied[2]} == {"a", "b"}
    assert (state.totals.commits, state.totals.landed) == (1, 8)


def test_a_gap_is_refused() -> None:
    message = refused(
        entered(), Commit(header=header(entered()), token="token", slices=(landed(1, 5),))
    )

    assert message == "ledger slot 2: clicks/0: expected offset 0, got 1"


def test_an_overlap_is_refused() -> None:
    state = committed(entered(), landed(0, 5, "a"))

    assert "expected offset 5, got 4" in refused(
        state, Commit(header=header(state), token="token", slices=(landed(4, 8, "b"),))
    )


def test_a_key_named_twice_is_refused() -> None:
    state = entered()

    assert "named twice" in refused(
        state,
        Commit(header=header(state), token="token", slices=(landed(0, 5, "a"), landed(5, 8, "a"))),
    )


def test_an_object_of_another_batch_is_refused() -> None:
    state = entered()

    assert "batch token" in refused(
        state, Commit(header=header(state), token="other", slices=(landed(0, 5),))
    )


def test_a_fenced_writer_is_refused() -> None:
    held = entered()
    stale = Commit(header=header(held), token="token", slices=(landed(0, 5),))
    taken = opened(held, "w2")

    message = refused(
        taken,
        Commit(
            header=header(held).__class__(taken.seq + 1, taken.tip, 1, "w1", ""),
            token="t",
            slices=(),
        ),
    )

    assert "but the lane is held in epoch 2 by w2" in message
    assert "claims to be slot 2" in refused(taken, stale)


def test_an_open_takes_the_next_epoch() -> None:
    state = opened(opened(State()), "w2")

    assert (state.epoch, state.writer, state.holding) == (2, "w2", LaneOwnership.HELD)


def test_an_open_of_a_wrong_epoch_is_refused() -> None:
    wrong = Open(
        header=Header(0, "", 2, "w", ""), group="g", lane="0", generation=1, software="test"
    )

    assert "opens epoch 2 after 0" in refused(State(), wrong)


def test_only_open_starts_a_lane() -> None:
    assert "cannot follow" in refused(State(), Add(header=Header(0, "", 0, "", ""), entries=()))


def test_only_open_follows_a_yield() -> None:
    state = entered()
    yielded = fold(state, encode(Yield(header=header(state), reason="stop")))

    assert "yielded" in refused(yielded, Yield(header=header(yielded), reason="again"))
    assert opened(yielded, "w2").holding is LaneOwnership.HELD


def test_a_changed_slot_breaks_the_chain() -> None:
    state = entered()
    other = Commit(header=header(state), token="token", slices=(landed(0, 6),))
    after = committed(state, landed(0, 5))
    follows_other = fold(state, encode(other))

    message = refused(after, Yield(header=header(follows_other), reason="stop"))

    assert "but the slot before is" in message


def test_a_slot_out_of_place_is_refused() -> None:
    state = entered()

    assert "claims to be slot 7" in refused(
        state, Yield(header=Header(7, state.tip, 1, "w1", ""), reason="")
    )


def test_applied_commits_are_no_longer_unapplied() -> None:
    state = committed(entered(), landed(0, 5, "a"))
    state = committed(state, landed(5, 8, "b"), applied_through=2)

    assert list(state.unapplied) == [3]


def test_a_change_without_objects_is_settled_once_all_before_it_is_applied() -> None:
    state = committed(entered(), landed(0, 5, "a"))
    entry = Entry(TopicPartition("orders", 0), "id", 0)
    state = fold(state, encode(Add(header=header(state), entries=(entry,))))
    applied = fold(state, encode(Applied(header=header(state, applied_through=2))))

    assert (state.settled_through, header(state).applied_through) == (1, 1)
    assert (applied.settled_through, header(applied).applied_through) == (3, 3)


def test_applied_through_is_never_ahead_of_the_slot() -> None:
    state = entered()

    assert "not before this slot" in refused(
        state, Yield(header=header(state, applied_through=2), reason="")
    )


def test_a_repair_replaces_the_upload_of_a_decided_object() -> None:
    state = committed(entered(), landed(0, 5, "a"))
    again = landed_object("a", 5, 0, upload_id="v")

    state = fold(state, encode(Repair(header=header(state), commit=2, objects=(again,))))

    assert state.unapplied[2] == (again,)


def test_a_repair_with_other_rows_is_refused() -> None:
    state = committed(entered(), landed(0, 5, "a"))

    assert "other rows" in refused(
        state, Repair(header=header(state), commit=2, objects=(landed_object("a", 4, 0),))
    )


def test_a_repair_of_an_unknown_object_is_refused() -> None:
    state = committed(entered(), landed(0, 5, "a"))

    assert "no unapplied object of COMMIT 2" in refused(
        state, Repair(header=header(state), commit=2, objects=(landed_object("b", 5, 0),))
    )


def test_a_hole_skips_exactly_its_range() -> None:
    state = entered()
    skipped = Slice(CLICKS, OffsetRange(0, 9))

    state = fold(state, encode(Hole(header=header(state), piece=skipped, reason="expired")))

    assert (state.checkpoint[CLICKS], state.totals.skipped) == (9, 9)


def dropped(state: State) -> State:
    return fold(
        state, encode(Drop(header=header(state), topic_partitions=(CLICKS,), reason="recreated"))
    )


def test_a_dropped_topic_partition_cannot_enter_again_under_the_same_generation() -> None:
    state = dropped(committed(opened(entered(), generation=2), landed(0, 5)))
    again = Add(header=header(state), entries=(Entry(CLICKS, "id2", 0),))

    assert state.retired == {CLICKS: 2}
    assert "generation 2 already named objects of this topic partition" in refused(state, again)


def test_a_rollback_cannot_land_over_objects_of_a_dropped_topic_partition() -> None:
    state = opened(dropped(committed(entered(), landed(0, 5))), generation=2)
    state = fold(state, encode(Add(header=header(state), entries=(Entry(CLICKS, "id2", 0),))))
    rolled_back = opened(state, generation=1)

    assert "already named objects of this topic partition" in refused(
        rolled_back, Commit(header=header(rolled_back), token="token", slices=(landed(0, 5),))
    )


def test_a_dropped_topic_partition_may_enter_again_under_a_higher_generation() -> None:
    state = opened(dropped(committed(entered(), landed(0, 5))), generation=2)

    state = fold(state, encode(Add(header=header(state), entries=(Entry(CLICKS, "id2", 0),))))

    assert (state.checkpoint[CLICKS], state.members[CLICKS].topic_id) == (0, "id2")


def test_counters_that_do_not_add_up_are_refused_when_read() -> None:
    state = entered()
    body = encode(Commit(header=header(state), token="token", slices=(landed(0, 5),)))

    with pytest.raises(Stalled, match="not a ledger record"):
        fold(state, body.replace(b'"landed":5', b'"landed":4'))


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"type":"FOO"}', b"\xff", b'{"type":"YIELD","reason":"x"}']
)
def test_bytes_of_no_record_are_refused(body: bytes) -> None:
    with pytest.raises(Stalled, match="ledger slot 3: not a ledger record"):
        decode(3, body)


def test_a_record_of_a_later_version_is_refused() -> None:
    state = entered()
    body = encode(Yield(header=header(state), reason="stop")).replace(
        b'"version":2', b'"version":3'
    )

    with pytest.raises(Stalled, match="version 3 is not supported, this software reads version 2"):
        fold(state, body)


def test_a_stored_state_reads_back_the_same() -> None:
    state = committed(entered(3), landed(3, 9))

    assert decode_state(encode_state(state)) == state


def test_an_empty_revision_is_not_written() -> None:
    plain = Open(header=Header(0, "", 1, "w", "t"), group="g", lane="0", generation=1, software="s")
    named = Open(
        header=Header(0, "", 1, "w", "t"),
        group="g",
        lane="0",
        generation=1,
        software="s",
        revision="g1-a",
    )

    assert b"revision" not in encode(plain)
    assert fold(State(), encode(plain)).revision == ""
    assert fold(State(), encode(named)).revision == "g1-a"
    assert b"revision" not in encode_state(fold(State(), encode(plain)))
    assert decode_state(encode_state(fold(State(), encode(named)))).revision == "g1-a"


def test_a_lane_can_be_opened_unasked_if_nobody_or_the_same_revision_owns_it() -> None:
    named = Open(
        header=Header(0, "", 1, "w", "t"),
        group="g",
        lane="0",
        generation=1,
        software="s",
        revision="a",
    )
    held = fold(State(), encode(named))
    yielded = fold(held, encode(Yield(header=header(held), reason="test")))

    can_open = [
        [state.can_open(revision) for revision in ("a", "b")] for state in (State(), held, yielded)
    ]
    assert can_open == [[True, True], [True, False], [True, True]]
