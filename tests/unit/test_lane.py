"""Exactly one record wins each slot, and a writer learns whether it was its own."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest
import stamina

from landfall import ledger
from landfall.errors import Fenced, Reason, Retry, Stalled
from landfall.lane import Lane, LaneWriter, OpenRequest, claim_output_root
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.snapshot import encode_state
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TP = TopicPartition("a", 0)
ADD = partial(ledger.Add, entries=(ledger.Entry(TP, "id", 0),))


@pytest.fixture(autouse=True)
def _retries_without_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=20):
        yield


def opened(store: MemoryStore, writer: str = "w1") -> LaneWriter:
    return LaneWriter.open(Lane(store, "g", "0"), OpenRequest(writer, 1, "test"), lambda: NOON)


def add(writer: LaneWriter) -> ledger.State:
    return writer.append(lambda header: ADD(header=header))


def add_again(writer: LaneWriter) -> ledger.State:
    other = ledger.Entry(TopicPartition("b", 0), "id", 0)
    return writer.append(lambda header: ledger.Add(header=header, entries=(other,)))


def test_the_lane_reads_back_what_was_appended() -> None:
    store = MemoryStore()
    state = add(opened(store))

    assert Lane(store, "g", "0").read() == state


def test_a_writer_is_fenced_once_another_driver_opened_the_lane() -> None:
    store = MemoryStore()
    old = opened(store)
    opened(store, "w2")

    with pytest.raises(Fenced, match="slot 1 was taken by epoch 2, writer w2"):
        add(old)


def test_the_newer_owner_of_a_lane_is_found() -> None:
    store = MemoryStore()
    old = opened(store)
    before = old.newer_owner(store.read)
    new = opened(store, "w2")
    add(new)

    assert before == ""
    assert old.newer_owner(store.read) == "ledger slot 1 was taken by epoch 2, writer w2"
    assert new.newer_owner(store.read) == ""


def test_our_own_record_whose_answer_was_lost_is_not_a_newer_owner() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [None, *[CallFault.ANSWER_LOST] * 20]}))
    writer = opened(store)
    with pytest.raises(Retry):
        add(writer)

    assert store.read(writer.lane.next_key(writer.state))
    assert writer.newer_owner(store.read) == ""


def test_a_slot_of_no_record_is_left_for_the_next_append() -> None:
    store = MemoryStore()
    writer = opened(store)
    store.overwrite(object_names.slot_key("g", "0", 1, 0), b"{}")

    assert writer.newer_owner(store.read) == ""
    with pytest.raises(Fenced, match="not a ledger record"):
        add(writer)


def test_a_writer_that_yielded_has_no_newer_owner() -> None:
    store = MemoryStore()
    old = opened(store)
    old.append(lambda header: ledger.Yield(header=header, reason="asked to"))
    opened(store, "w2")

    assert old.newer_owner(store.read) == ""


@pytest.mark.parametrize(
    "fault", [CallFault.ANSWER_LOST, CallFault.REPEATED, CallFault.REQUEST_LOST, CallFault.CONFLICT]
)
def test_an_append_knows_its_own_record_whatever_the_answer(fault: CallFault) -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [None, fault]}))
    writer = opened(store)

    assert add(writer).seq == 1
    assert Lane(store, "g", "0").read() == writer.state


def test_a_late_record_of_a_dead_writer_loses_its_slot() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [None, *[CallFault.LATE] * 20]}))
    with pytest.raises(Retry):
        add(opened(store))
    successor = opened(store, "w2")

    store.deliver()

    assert Lane(store, "g", "0").read() == successor.state


def test_each_retry_is_reported() -> None:
    store, retries = (
        MemoryStore(Scripted({Operation.CREATE: [CallFault.THROTTLED, CallFault.THROTTLED]})),
        list[Retry](),
    )

    LaneWriter.open(
        Lane(store, "g", "0"), OpenRequest("w", 1, "test"), lambda: NOON, retries.append
    )

    assert len(retries) == 2


def test_each_open_gets_an_epoch_of_its_own() -> None:
    store = MemoryStore()

    assert [opened(store, "w1").state.epoch, opened(store, "w2").state.epoch] == [1, 2]


def test_a_missing_slot_breaks_the_ledger() -> None:
    store = MemoryStore()
    add(opened(store))
    store.overwrite(object_names.slot_key("g", "0", 1, 2), b"{}")

    with pytest.raises(Stalled, match="slot 2: missing") as error:
        Lane(store, "g", "0").read()
    assert error.value.reason is Reason.LEDGER_BROKEN


def test_a_driver_seals_its_own_epoch_and_goes_on_in_the_next() -> None:
    store = MemoryStore()
    writer = opened(store)
    before = writer.state
    add(writer)

    sealed = writer.seal()

    assert (sealed.epoch, sealed.writer, sealed.epochs) == (2, "w1", (0, 1, 3))
    assert store.read(object_names.slot_key("g", "0", 1, 1))
    assert writer.append(lambda h: ledger.Yield(header=h, reason="asked to")).next_index == 1
    assert Lane(store, "g", "0").read() == writer.state
    assert Lane(store, "g", "0").follow(before) == writer.state
    assert [writer.lane.read_slot(writer.state, seq) is not None for seq in range(4)] == [True] * 4


def test_a_sealed_epoch_of_its_own_does_not_fence_a_driver() -> None:
    store = MemoryStore()
    writer = opened(store)
    writer.seal()
    stale = LaneWriter.open(
        Lane(store, "g", "0"), OpenRequest("w1", 1, "test"), lambda: NOON, state=writer.state
    )

    assert not writer.is_fenced()
    assert stale.newer_owner(store.read) == ""


def test_an_open_in_a_deleted_slot_does_not_give_the_lane() -> None:
    store = MemoryStore()
    frozen, owner = Lane(store, "g", "0"), opened(store)
    before = owner.state
    add(owner)
    owner.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="gone"))
    owner.seal()
    current = add_again(owner)
    store.delete_slots([object_names.slot_key("g", "0", 1, 1)])
    before = ledger.fold(before, store.read(object_names.slot_key("g", "0", 1, 0)) or b"")

    late = LaneWriter.open_after(frozen, before, OpenRequest("w2", 1, "t"), lambda: NOON, print)

    assert late is None
    assert store.read(object_names.slot_key("g", "0", 1, 1))
    assert not owner.is_fenced()
    owner.snapshot(-1)
    assert frozen.follow(before) == owner.state == frozen.follow(current)
    assert Suspended(store, [before]).read() == owner.state


class Suspended(Lane):
    """A lane whose reader has found snapshots before all that is in the ledger now."""

    def __init__(self, store: MemoryStore, found: list[ledger.State]) -> None:
        super().__init__(store, "g", "0")
        self._found = found

    def last_snapshot(self) -> ledger.State | None:
        return self._found.pop() if self._found else super().last_snapshot()


def test_a_ledger_of_version_1_is_refused() -> None:
    store = MemoryStore()
    store.create(f"_landfall/g/0/{0:020d}.json", b"{}")

    with pytest.raises(Stalled, match="not a slot of a ledger of version 2"):
        opened(store)


def test_a_snapshot_equals_the_state_folded_from_the_start() -> None:
    store = MemoryStore()
    writer = opened(store)
    add(writer)
    from_start = Lane(store, "g", "0").read()
    writer.snapshot(-1)

    state = Lane(store, "g", "0").read()

    assert (state.checkpoint, state.members) == (from_start.checkpoint, from_start.members)
    assert state == writer.state


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"{",
        b"[]",
        b'{"seq": "x"}',
        b'{"seq": 0}',
        b'{"seq": 1}',
        b'{"seq": 99}',
        b'{"seq": 9, "epoch": -1}',
    ],
)
def test_a_wrong_hint_decides_nothing(hint: bytes) -> None:
    store = MemoryStore()
    state = add(opened(store))
    store.overwrite(object_names.head_key("g", "0"), hint)

    assert Lane(store, "g", "0").read() == state


def test_a_changed_snapshot_is_ignored() -> None:
    store = MemoryStore()
    writer = opened(store)
    add(writer)
    writer.snapshot(-1)
    store.overwrite(object_names.snapshot_key("g", "0", 2), encode_state(ledger.State()))

    assert Lane(store, "g", "0").read() == writer.state


def test_an_output_root_belongs_to_one_group() -> None:
    store = MemoryStore()
    claim_output_root(store, "logs/clicks")
    claim_output_root(store, "logs/clicks")

    with pytest.raises(Stalled, match="belongs to") as error:
        claim_output_root(store, "logs/views")
    assert error.value.reason is Reason.OUTPUT_OCCUPIED
    assert json.loads(store.read(object_names.owner_key()) or b"") == {"owner": "logs/clicks"}
