"""Positions in any ledger: however it is cut, each visible object is between two of them, once."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.lane import Lane, sealed_through
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.snapshot import encode_state
from landfall.publish.cursor import Position, PublisherCursor, cursor_key
from landfall.publish.following import Follower
from landfall.store.memory import MemoryStore
from tests.support.examples import share
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, replace_header

CLICKS = TopicPartition("clicks", 0)


@dataclass
class Book:
    """A ledger, and for each object the slot that is the first to call it visible."""

    sample: SampleLedger = field(default_factory=lambda: SampleLedger().open().add(CLICKS))
    decided: list[tuple[int, str]] = field(default_factory=list)
    visible: dict[str, int] = field(default_factory=dict)

    def commit(self) -> None:
        at = self.sample.state.checkpoint[CLICKS]
        landed = self.sample.land(CLICKS, at, at + 3)
        self.sample.commit(landed)
        self.decided.append((self.sample.state.seq, landed.objects[0].upload.key))

    def apply(self, how_far_back: int = 0) -> None:
        """Say that slots are applied, by a record of no other meaning."""
        applied = max(self.sample.state.seq - how_far_back, self.sample.state.applied_through)
        entry = ledger.Entry(TopicPartition(f"t{self.sample.state.seq}", 0), "id", 0)
        self.sample.append(
            lambda h: ledger.Add(header=replace_header(h, applied), entries=(entry,))
        )
        self._see(applied)

    def apply_some(self) -> None:
        self.apply(1)

    def take_over(self) -> None:
        """A driver that is fenced at once leaves its OPEN as the only record of an epoch."""
        self.sample.open(generation=self.sample.state.generation)
        self.sample.open(generation=self.sample.state.generation)

    def snapshot(self) -> None:
        """Store the state, as a driver does, so that readers begin there."""
        sample, state = self.sample, self.sample.state
        stored, key = encode_state(state), object_names.snapshot_key(GROUP, LANE, state.seq + 1)
        sample.store.overwrite(key, stored)
        place = state.epoch, state.next_index
        digest = ledger.digest(stored)
        sample.append(lambda h: ledger.Snapshot(header=h, key=key, sha256=digest))
        head = {"seq": sample.state.seq, "epoch": place[0], "index": place[1]}
        sample.store.overwrite(object_names.head_key(GROUP, LANE), json.dumps(head).encode())

    def roll(self) -> None:
        """Put what is sealed into a segment; its slots are gone."""
        self.take_over()
        self.apply(self.sample.state.seq + 1)
        if sealed_through(self.sample.state, 10**6) >= 0:
            self.sample.roll()

    def _see(self, applied: int) -> None:
        for slot, key in self.decided:
            if slot <= applied:
                self.visible.setdefault(key, self.sample.state.seq)

    def follower(self, max_objects: int = 2) -> Follower:
        return Follower(Lane(self.sample.store, GROUP, LANE), max_objects)


STEPS = [Book.commit, Book.commit, Book.apply, Book.apply_some, Book.take_over, Book.snapshot]


@given(st.data())
@settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_cut_has_every_visible_object_once_and_in_its_slot(data: st.DataObject) -> None:
    book, kept = Book(), Follower(Lane(MemoryStore(), GROUP, LANE))
    found: dict[str, int] = {}
    at = -1
    for number, step in enumerate(
        data.draw(st.lists(st.sampled_from([*STEPS, Book.roll]), max_size=14))
    ):
        step(book)
        if number == 0 or data.draw(st.booleans()):
            kept = book.follower(data.draw(st.integers(1, 4)))  # another process goes on
        for stretch in kept.stretches(at):
            assert stretch.after == at < stretch.through
            for each in stretch.objects:
                assert stretch.after < each.slot <= stretch.through
                assert found.setdefault(each.landed.upload.key, each.slot) == each.slot
            at = stretch.through
            if data.draw(st.booleans()):
                break  # it was killed here
    for stretch in book.follower().stretches(at):
        for each in stretch.objects:
            assert each.landed.upload.key not in found
            found[each.landed.upload.key] = each.slot

    assert found == book.visible


def stretches(follower: Follower, after: int) -> list[tuple[int, int, list[int]]]:
    return [
        (s.after, s.through, [each.slot for each in s.objects]) for s in follower.stretches(after)
    ]


def test_a_follower_goes_on_where_slots_were_rolled_up_meanwhile() -> None:
    book = Book()
    book.commit()
    book.apply()
    kept = book.follower()
    assert stretches(kept, -1) == [(-1, 3, [3])]
    book.commit()
    book.apply()
    book.roll()

    assert stretches(kept, 3) == [(3, book.sample.state.seq, [5])]
    assert stretches(book.follower(), 3) == [(3, book.sample.state.seq, [5])]


def test_a_follower_reads_again_from_an_earlier_position() -> None:
    book = Book()
    for _ in range(3):
        book.commit()
        book.apply()
    kept, last = book.follower(), book.sample.state.seq
    everything = stretches(kept, -1)

    assert stretches(kept, -1) == everything
    assert stretches(kept, last) == []
    assert stretches(kept, 5) == [(5, last, [7])]


@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_follower_begins_at_the_last_snapshot_before_its_position(later: int) -> None:
    book = Book()
    for _ in range(3):
        book.commit()
        book.apply()
    book.snapshot()
    snapshot = book.sample.state.seq
    book.commit()
    book.apply()
    for _ in range(later):
        book.snapshot()
    read: list[str] = []
    store: Any = book.sample.store
    plain = store.read
    store.read = lambda key: read.append(key) or plain(key)

    assert [s[2] for s in stretches(book.follower(), snapshot)] == [[snapshot + 2]]
    slots = [key for key in read if key.startswith(object_names.ledger_prefix(GROUP, LANE))]
    assert object_names.slot_key(GROUP, LANE, 1, 0) not in slots  # the first after OPEN


def test_a_slot_that_is_missing_is_said() -> None:
    book = Book()
    book.commit()
    book.apply()
    book.sample.store.delete(object_names.slot_key(GROUP, LANE, 1, 1))

    with pytest.raises(Stalled) as caught:
        stretches(book.follower(), -1)

    assert caught.value.reason is Reason.LEDGER_BROKEN


def cursor(store: MemoryStore, name: str = "lake", destination: str = "here") -> PublisherCursor:
    return PublisherCursor.of(store, (GROUP, LANE), name, destination)


def test_a_cursor_is_kept_by_name_and_belongs_to_a_destination() -> None:
    store, position = MemoryStore(), Position(7, {"lake.clicks": 5})

    cursor(store).write(position)

    assert cursor(store).read() == position
    assert cursor(store, name="other").read() == Position()
    assert cursor(store, destination="elsewhere").read() == Position()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"through": 7}', b'{"through": "7", "tables": {}}', b"\xff"],
)
def test_a_damaged_cursor_is_the_start(body: bytes) -> None:
    store = MemoryStore()
    cursor(store).write(Position(7))

    store.overwrite(cursor_key(GROUP, LANE, "lake"), body)

    assert cursor(store).read() == Position()
