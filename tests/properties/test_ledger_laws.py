"""Every chain that a driver could write folds; one that no driver could have written does not."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.ledger import Header, LaneOwnership, Record, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

TPS = tuple(TopicPartition(topic, partition) for topic in "ab" for partition in range(2))


def landed(slice_: Slice, token: str) -> LandedSlice:
    rows, start = len(slice_.offsets), slice_.offsets.start
    tp = slice_.topic_partition
    key = object_names.ObjectName(tp.topic, "d", 1, tp.partition, start, "").key
    upload = Upload(key, "u", (Part("e", rows),), token)
    objects = (
        (LandedObject(upload, ObjectKind.DATA, rows, start, slice_.offsets.end - 1, 0),)
        if rows
        else ()
    )
    return LandedSlice(slice_, objects, rows, 0, 0, 0, rows)


@dataclass
class Chain:
    """A ledger being written: its state and the bytes of its slots."""

    state: State = field(default_factory=State)
    bodies: list[bytes] = field(default_factory=list)

    def append(self, make: Callable[[Header], Record]) -> None:
        header = ledger.next_header(self.state, self.state.writer, "2026-11-21T00:00:00+00:00", -1)
        self.write(make(header))

    def write(self, record: Record) -> None:
        body = ledger.encode(record)
        self.state = ledger.fold(self.state, body)
        self.bodies.append(body)

    def open(self, writer: str) -> None:
        state = self.state
        header = Header(
            state.seq + 1, state.tip, state.epoch + 1, writer, "", state.applied_through
        )
        self.write(ledger.Open(header=header, group="g", lane="0", generation=1, software="test"))


class Drivers(RuleBasedStateMachine):
    """Drivers open, land and yield in any order; the model only counts the offsets they land."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = Chain()
        self.model: dict[TopicPartition, int] = {}
        self.writers = 0
        self.due: dict[str, tuple[int, LandedObject]] = {}
        """Decided objects that are neither applied nor lost, with the slot they are due under."""
        self.missing: set[str] = set()
        self.blocked: set[TopicPartition] = set()
        self.landed = self.lost = 0

    def held(self) -> bool:
        return self.chain.state.holding is LaneOwnership.HELD

    @rule()
    def open(self) -> None:
        self.writers += 1
        self.chain.open(f"w{self.writers}")

    @precondition(held)
    @rule(tp=st.sampled_from(TPS), start=st.integers(0, 100))
    def add(self, tp: TopicPartition, start: int) -> None:
        if tp not in self.model:
            self.chain.append(
                lambda h: ledger.Add(header=h, entries=(ledger.Entry(tp, "id", start),))
            )
            self.model[tp] = start

    @precondition(held)
    @rule(
        lengths=st.lists(st.tuples(st.sampled_from(TPS), st.integers(0, 20)), max_size=6),
        data=st.data(),
    )
    def commit(self, lengths: list[tuple[TopicPartition, int]], data: st.DataObject) -> None:
        token, slices = f"t{self.chain.state.seq}", []
        for tp, length in lengths:
            if tp in self.model and length and tp not in self.blocked:
                slices.append(
                    landed(Slice(tp, OffsetRange(self.model[tp], self.model[tp] + length)), token)
                )
                self.model[tp] += length
        shuffled = tuple(data.draw(st.permutations(slices)))
        self.chain.append(lambda h: ledger.Commit(header=h, token=token, slices=shuffled))
        seq = self.chain.state.seq
        self.due |= {o.upload.key: (seq, o) for s in slices for o in s.objects}
        self.landed += sum(s.landed for s in slices)

    @precondition(held)
    @rule(tp=st.sampled_from(TPS), length=st.integers(1, 20))
    def hole(self, tp: TopicPartition, length: int) -> None:
        if tp in self.model:
            lost = Slice(tp, OffsetRange(self.model[tp], self.model[tp] + length))
            self.chain.append(lambda h: ledger.Hole(header=h, piece=lost, reason="expired"))
            self.model[tp] += length

    @precondition(lambda self: self.held() and self.due.keys() - self.missing)
    @rule(data=st.data())
    def block(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.due.keys() - self.missing)))
        slot, tp = self.due[key][0], topic_partition(key)
        entry = ledger.Blocked(tp, Reason.OBJECT_LOST, "gone", OffsetRange(0, 1))
        gone = ledger.Missing(slot, (key,))
        self.chain.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(gone,)))
        self.missing.add(key)
        self.blocked.add(tp)

    @precondition(lambda self: self.held() and self.blocked)
    @rule(data=st.data())
    def unblock(self, data: st.DataObject) -> None:
        tp = data.draw(st.sampled_from(sorted(self.blocked)))
        decision = ledger.Decision("unblock", "w", "", "t")
        self.chain.append(
            lambda h: ledger.Unblock(header=h, entries=(ledger.Permission(tp),), decision=decision)
        )
        self.blocked.remove(tp)

    @precondition(lambda self: self.held() and self.due)
    @rule(data=st.data(), again=st.booleans())
    def resolve(self, data: st.DataObject, again: bool) -> None:
        """Make a decided object again, or give it up."""
        key = data.draw(st.sampled_from(sorted(self.due)))
        slot, landed_object = self.due.pop(key)
        if again:
            upload = replace(landed_object.upload, upload_id=f"u{self.chain.state.seq}")
            made = replace(landed_object, upload=upload)
            self.chain.append(lambda h: ledger.Repair(header=h, commit=slot, objects=(made,)))
            self.due[key] = (self.chain.state.seq if key in self.missing else slot, made)
        else:
            self.chain.append(
                lambda h: ledger.Lost(header=h, commit=slot, objects=(landed_object,))
            )
            self.lost += landed_object.rows
        self.missing.discard(key)
        tp = topic_partition(key)
        if tp not in {topic_partition(other) for other in self.missing}:
            self.blocked.discard(tp)

    @precondition(held)
    @rule()
    def apply(self) -> None:
        """Everything is visible but what is missing."""
        seq = self.chain.state.seq
        self.chain.append(lambda h: ledger.Add(header=replace(h, applied_through=seq), entries=()))
        self.due = {key: self.due[key] for key in self.missing}

    @precondition(held)
    @rule()
    def hand_over(self) -> None:
        self.chain.append(lambda h: ledger.Yield(header=h, reason="stop"))

    @invariant()
    def the_checkpoint_equals_the_offsets_landed(self) -> None:
        assert dict(self.chain.state.checkpoint.next_offsets) == self.model

    @invariant()
    def what_is_due_is_unapplied_or_missing(self) -> None:
        state = self.chain.state
        found = {
            o.upload.key: (slot, o)
            for by_slot in (state.unapplied, state.missing)
            for slot, objects in by_slot.items()
            for o in objects
        }
        assert found == self.due
        assert {o.upload.key for gone in state.missing.values() for o in gone} == self.missing
        assert state.blocked.keys() == self.blocked

    @invariant()
    def landed_and_lost_records_are_counted(self) -> None:
        totals = self.chain.state.totals
        assert (totals.landed, totals.lost) == (self.landed, self.lost)

    @invariant()
    def folding_the_slots_again_gives_the_same_state(self) -> None:
        state = State()
        for body in self.chain.bodies:
            state = ledger.fold(state, body)
        assert state == self.chain.state

    @invariant()
    def a_stored_state_reads_back_the_same(self) -> None:
        assert decode_state(encode_state(self.chain.state)) == self.chain.state


TestDrivers = Drivers.TestCase


def some_chain() -> Chain:
    chain = Chain()
    chain.open("w1")
    chain.append(
        lambda h: ledger.Add(header=h, entries=tuple(ledger.Entry(tp, "id", 0) for tp in TPS))
    )
    for i in range(3):
        slices = tuple(landed(Slice(tp, OffsetRange(10 * i, 10 * i + 10)), f"t{i}") for tp in TPS)
        chain.append(
            lambda h, i=i, slices=slices: ledger.Commit(header=h, token=f"t{i}", slices=slices)
        )
    chain.open("w2")
    chain.append(lambda h: ledger.Yield(header=h, reason="stop"))
    return chain


CHAIN = some_chain().bodies


def fold_all(bodies: list[bytes]) -> State:
    state = State()
    for body in bodies:
        state = ledger.fold(state, body)
    return state


def refused(bodies: list[bytes]) -> bool:
    with pytest.raises(Stalled) as error:
        fold_all(bodies)
    return error.value.reason is Reason.LEDGER_BROKEN


@given(st.integers(0, len(CHAIN) - 2), st.data())
def test_one_changed_byte_in_any_slot_but_the_last_is_found(slot: int, data: st.DataObject) -> None:
    body = bytearray(CHAIN[slot])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))

    assert refused([*CHAIN[:slot], bytes(body), *CHAIN[slot + 1 :]])


@given(st.permutations(range(len(CHAIN))).filter(lambda order: list(order) != sorted(order)))
def test_any_other_order_is_found(order: list[int]) -> None:
    assert refused([CHAIN[i] for i in order])


@given(st.integers(0, len(CHAIN) - 2))
def test_a_missing_slot_is_found(slot: int) -> None:
    assert refused([*CHAIN[:slot], *CHAIN[slot + 1 :]])


@given(st.integers(0, len(CHAIN) - 1))
def test_a_repeated_slot_is_found(slot: int) -> None:
    assert refused([*CHAIN[: slot + 1], CHAIN[slot], *CHAIN[slot + 1 :]])


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_crash_the_fold(body: bytes) -> None:
    with pytest.raises(Stalled):
        ledger.fold(State(), body)
