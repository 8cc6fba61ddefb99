"""FINALIZE: what proves a horizon, and from when on it counts."""

import pytest
from msgspec.structs import replace

from landfall.errors import Reason
from landfall.ledger import (
    Add,
    Block,
    Blocked,
    Drop,
    Entry,
    Finalize,
    Horizon,
    Lost,
    Missing,
    Repair,
    State,
    encode,
    fold,
)
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.records import Record
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice
from tests.unit.ledger.test_decisions import data_key, obj
from tests.unit.ledger.test_ledger import CLICKS, committed, entered, header, landed, refused

OTHER = TopicPartition("clicks", 1)
LATER = 10_000


def slice_until(latest_ms: int, start: int = 0, end: int = 5) -> LandedSlice:
    made = (obj(data_key(1, start), end - start, start),)
    return replace(landed(start, end), objects=made, latest_ms=latest_ms)


def finalize(
    state: State,
    until: int,
    drained: tuple[tuple[int, int], ...] = (),
    applied_through: int = -1,
    delay: int = 10,
) -> Finalize:
    entries = (Horizon("clicks", until, drained),)
    at = header(state, applied_through)
    return Finalize(header=at, delay=delay, looked=LATER, entries=entries)


def folded(state: State, record: Record) -> State:
    return fold(state, encode(record))


def with_two_members() -> State:
    state = committed(entered(), slice_until(100))
    return folded(state, Add(header=header(state), entries=(Entry(OTHER, "id", 7),)))


def blocked_for(state: State, *missing: Missing, applied_through: int = -1) -> State:
    entry = Blocked(CLICKS, Reason.OBJECT_LOST, "gone", OffsetRange(0, 5))
    at = header(state, applied_through)
    return folded(state, Block(header=at, entries=(entry,), missing=missing))


def data_object(state: State) -> LandedObject:
    return state.unapplied[2][0]


def test_a_horizon_counts_once_all_before_it_is_visible() -> None:
    state = committed(entered(), slice_until(100))

    decided = folded(state, finalize(state, 90))
    landed_on = committed(decided, slice_until(200, 5, 8))
    applied = committed(landed_on, slice_until(200, 8, 9), applied_through=decided.seq)
    at_once = folded(state, finalize(state, 90, applied_through=state.seq))

    assert [s.horizons for s in (decided, landed_on)] == [{}, {}]
    assert decided.horizon("clicks") == 90
    assert (applied.horizons, applied.pending_horizons) == ({"clicks": 90}, ())
    assert at_once.horizons == {"clicks": 90}
    assert decode_state(encode_state(decided)) == decided
    assert decode_state(encode_state(applied)) == applied


@pytest.mark.parametrize(
    ("until", "drained", "message"),
    [
        (91, (), "clicks/0 has landed only up to 100, with a delay of 10"),
        (90, (), "clicks/1 has landed only up to -1"),
        (90, ((1, 8),), "its checkpoint is 7"),
        (90, ((1, 7), (2, 0)), "not in the lane"),
        (9_991, ((0, 5), (1, 7)), "less than the delay ago"),
    ],
)
def test_a_horizon_needs_every_member(
    until: int, drained: tuple[tuple[int, int], ...], message: str
) -> None:
    state = with_two_members()

    assert message in refused(state, finalize(state, until, drained))


def test_a_drained_member_counts_as_the_look() -> None:
    state = with_two_members()

    assert folded(state, finalize(state, 90, ((1, 7),))).horizon("clicks") == 90
    assert folded(state, finalize(state, 9_990, ((0, 5), (1, 7)))).horizon("clicks") == 9_990


def test_a_blocked_member_is_not_drained() -> None:
    state = with_two_members()
    entry = Blocked(OTHER, Reason.DATA_LOSS, "truncated", OffsetRange(0, 7))
    state = folded(state, Block(header=header(state), entries=(entry,)))

    assert "it is blocked" in refused(state, finalize(state, 90, ((1, 7),)))


def test_horizons_never_move_back() -> None:
    state = committed(entered(), slice_until(100))
    state = folded(state, finalize(state, 80))
    dropped = folded(
        state, Drop(header=header(state), topic_partitions=(CLICKS,), reason="recreated")
    )

    assert "not after 80" in refused(state, finalize(state, 80))
    assert "not after 80" in refused(state, finalize(state, 70))
    assert dropped.horizon("clicks") == 80
    assert "not in the lane" in refused(dropped, finalize(dropped, 90))


def test_an_older_slice_moves_nothing_back() -> None:
    state = committed(committed(entered(), slice_until(100)), slice_until(-1, 5, 8))

    assert state.members[CLICKS].latest_ms == 100


def test_a_horizon_waits_for_missing_objects_and_for_their_repair() -> None:
    state = committed(entered(), slice_until(100))
    lost = data_object(state)
    decided = folded(state, finalize(state, 90))
    gone = Missing(state.seq, (lost.upload.key,))
    missing = blocked_for(decided, gone, applied_through=decided.seq)
    repair = Repair(header=header(missing), commit=state.seq, objects=(lost,))

    repaired = folded(missing, repair)
    visible = committed(repaired, slice_until(200, 5, 8), applied_through=repaired.seq)
    given_up = folded(missing, Lost(header=header(missing), commit=state.seq, objects=(lost,)))

    assert (missing.horizons, repaired.horizons) == ({}, {})
    assert visible.horizons == {"clicks": 90}
    assert given_up.horizons == {"clicks": 90}
    assert "whose objects are missing" in refused(missing, finalize(missing, 91))
