"""A driver refuses a ledger that is shorter than the group's was, or has another history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.contract import LANE, ExitCode, LedgerAnchor, LedgerPosition
from landfall.driver.process.known_ledger import check_anchor, check_known
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog, group, landed_offsets, written_offsets

POSITIONS = st.builds(LedgerPosition, st.integers(0, 10**9), st.integers(0, 10**12))


@pytest.fixture
def log() -> FakeLog:
    return FakeLog().write("a", 25, 7)


@given(POSITIONS)
def test_a_position_is_read_back_from_its_text(position: LedgerPosition) -> None:
    assert LedgerPosition.parse(str(position)) == position


@pytest.mark.parametrize("text", ["", "3", "3/", "/1", "-1/2", "3/1/2", "a/b"])
def test_other_texts_are_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position of a ledger"):
        LedgerPosition.parse(text)


@pytest.mark.parametrize(
    ("state", "is_refused"),
    [
        (State(), True),
        (State(seq=120, epoch=2), True),
        (State(seq=119, epoch=3), True),
        (State(seq=119, epoch=4), True),  # an old copy that somebody landed to
        (State(seq=120, epoch=3), False),
        (State(seq=500, epoch=4), False),
    ],
)
def test_a_ledger_that_is_behind_is_refused(state: State, *, is_refused: bool) -> None:
    output, known = group().spec.output, LedgerPosition(3, 120)
    check_known(state, None, output)

    if not is_refused:
        check_known(state, known, output)
        return
    with pytest.raises(Stalled, match="this group's had reached epoch 3, slot 120") as refused:
        check_known(state, known, output)
    assert refused.value.reason is Reason.LEDGER_BEHIND


def test_an_empty_store_is_refused_and_stays_empty(log: FakeLog) -> None:
    other = MemoryStore()
    driver = DriverThread(other, log, "old", known_ledger=LedgerPosition(1, 4)).start()

    with pytest.raises(Stalled, match="the ledger in s3://bucket/root is empty"):
        driver.end()

    assert list(other.list_after("")) == []


def test_what_a_driver_reports_is_what_the_next_one_may_ask_for(log: FakeLog) -> None:
    store = MemoryStore()
    first = DriverThread(store, log, "old").start()
    status = first.until_landed()
    known = LedgerPosition(status.epoch, status.slot)
    assert first.stop() is ExitCode.OK
    assert (known.epoch, known.slot > 0) == (1, True)
    log.write("a", 40, 9)

    second = DriverThread(store, log, "old", known_ledger=known).start()

    second.until_landed()
    assert second.stop() is ExitCode.OK
    assert Lane(store, "fake", LANE).read().seq > known.slot
    assert landed_offsets(store) == written_offsets(log)


HASH = "ab" * 32
ANCHORS = st.builds(LedgerAnchor, POSITIONS, st.text("0123456789abcdef", min_size=64, max_size=64))


@given(ANCHORS)
def test_an_anchor_is_read_back_from_its_text(anchor: LedgerAnchor) -> None:
    assert LedgerAnchor.parse(str(anchor)) == anchor


@pytest.mark.parametrize("text", ["", "3/4", "3/4:", f"3:{HASH}", "3/4:ab", f"3/4:{HASH.upper()}"])
def test_other_texts_are_no_anchor(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (slot|position) of a ledger"):
        LedgerAnchor.parse(text)


def test_what_a_driver_reports_is_the_anchor_of_the_next_one(log: FakeLog) -> None:
    store = MemoryStore()
    first = DriverThread(store, log, "old").start()
    status = first.until_landed()
    anchor = LedgerAnchor(LedgerPosition(status.epoch, status.slot), status.tip)
    assert first.stop() is ExitCode.OK
    log.write("a", 40, 9)

    second = DriverThread(store, log, "old", anchor=anchor).start()

    second.until_landed()
    assert second.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_ledger_with_another_history_is_refused_and_stays_as_it_is(log: FakeLog) -> None:
    store = MemoryStore()
    first = DriverThread(store, log, "old").start()
    status = first.until_landed()
    assert first.stop() is ExitCode.OK
    anchor = LedgerAnchor(LedgerPosition(status.epoch, status.slot), HASH)
    before = sorted(stat.key for stat in store.list_after(""))

    second = DriverThread(store, log, "old", anchor=anchor).start()

    with pytest.raises(Stalled, match=f"slot {status.slot} has the hash") as refused:
        second.end()
    assert refused.value.reason is Reason.LEDGER_REWRITTEN
    assert sorted(stat.key for stat in store.list_after("")) == before


def test_a_slot_that_was_rolled_up_since_is_looked_for_again() -> None:
    lane = Lane(MemoryStore(), "fake", LANE)
    state = State(seq=5, epoch=1, epochs=(0,))

    with pytest.raises(Retry, match="slot 3 of the ledger is elsewhere"):
        check_anchor(lane, state, LedgerAnchor(LedgerPosition(1, 3), HASH), group().spec.output)
