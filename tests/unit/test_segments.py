"""A ledger whose old slots are rolled up says the same as before."""

import zlib
from dataclasses import replace
from itertools import accumulate

import pytest
from msgspec.structs import replace as replace_struct

from landfall import ledger
from landfall.checks.locate import find_offset
from landfall.errors import Reason, Stalled
from landfall.lane import (
    Lane,
    StoredSegment,
    delete_old_snapshots,
    records_in_segments,
    sealed_through,
    store_segment,
)
from landfall.ledger import (
    Add,
    Commit,
    Drop,
    Header,
    Open,
    Replace,
    Rolled,
    State,
    decode,
    encode,
    fold,
    next_header,
    segments,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.store.memory import MemoryStore
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, bodies, slot_keys

TP, OTHER = TopicPartition("clicks", 0), TopicPartition("views", 3)
LATE = TopicPartition("late", 0)


def landed(commits: int, start: int = 0, sample: SampleLedger | None = None) -> SampleLedger:
    """A ledger with some COMMITs of ten offsets each, all applied, and a new epoch after them."""
    sample = sample or SampleLedger().open().add(TP, OTHER)
    for at in range(start, start + 10 * commits, 10):
        sample.commit(sample.land(TP, at, at + 10))
    return sample.applied().open()


def lane(sample: SampleLedger) -> Lane:
    return Lane(sample.store, GROUP, LANE)


def keys(sample: SampleLedger, prefix: str) -> list[str]:
    return [stat.key for stat in sample.store.list_after(prefix)]


def test_a_rolled_ledger_reads_as_before() -> None:
    sample = landed(5)
    sample.add(TopicPartition("late", 0))
    before = sample.state
    slots = bodies(sample.store)

    sample.roll()

    assert lane(sample).read() == sample.state
    assert lane(sample).follow(before) == sample.state
    assert [body for _, body in lane(sample).bodies()][: len(slots)] == slots
    assert [seq for seq, _ in lane(sample).bodies()] == list(range(sample.state.seq + 1))


def test_a_reader_in_the_middle_of_what_is_rolled_goes_on() -> None:
    sample = landed(5)
    states = [State()]
    for body in bodies(sample.store):
        states.append(fold(states[-1], body))
    sample.add(TopicPartition("late", 0)).roll()

    assert {lane(sample).follow(state).tip for state in states} == {sample.state.tip}


def test_the_first_slot_and_the_seal_of_each_epoch_stay() -> None:
    sample = landed(5).add(TopicPartition("late", 0))
    sample.roll()

    prefix = object_names.ledger_prefix(GROUP, LANE)

    places = [object_names.parse_slot_key(GROUP, LANE, key) for key in keys(sample, prefix)]
    assert places == [(0, 0), (1, 0), (1, 7), (2, 0), (2, 1)]


def test_a_slot_is_found_wherever_it_is() -> None:
    sample = landed(3).add(TopicPartition("late", 0))
    slots = bodies(sample.store)
    sample.roll()

    found = [lane(sample).read_slot(sample.state, seq) for seq in range(len(slots))]

    assert found == slots


def test_segments_adjoin() -> None:
    sample = landed(3).add(TopicPartition("late", 0)).roll()
    landed(2, 30, sample).add(TopicPartition("later", 0)).roll()

    first, second = sample.state.segments

    assert (first.first, first.last + 1, first.after) == (0, second.first, second.before)
    assert lane(sample).read() == sample.state
    assert decode_state(encode_state(sample.state)) == sample.state


def test_a_segment_is_readable_with_zcat() -> None:
    sample = landed(3).add(TopicPartition("late", 0))
    slots = bodies(sample.store)
    sample.roll()
    body = sample.store.read(sample.state.segments[0].key) or b""

    text = zlib.decompressobj(31).decompress(body)

    assert text.splitlines() == slots[: sample.state.segments[0].last + 1]


def test_many_blocks_and_segments_are_found_by_their_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "BLOCK_BYTES", 300)
    sample = landed(20).add(TopicPartition("late", 0)).roll()
    landed(20, 200, sample).add(TopicPartition("later", 0)).roll()
    first, last = (StoredSegment(sample.store, rolled.key) for rolled in sample.state.segments)

    assert len(last.directory.blocks) > 10
    assert [(e.start, e.end) for e in last.index(TP)] == [(n, n + 10) for n in range(200, 400, 10)]
    catalog = [(e.at, e.start, e.end) for e in last.catalog(TP)]
    assert catalog == [(0, 0, 200), (last.directory.first, 200, 400)]
    assert [(e.start, e.end, e.begins) for e in first.catalog(OTHER)] == [(0, 0, True)]
    assert next(last.bodies(last.directory.last - 3))[0] == last.directory.last - 3
    assert lane(sample).read() == sample.state


def test_a_segment_nobody_recorded_does_no_harm() -> None:
    sample = landed(3).add(TopicPartition("late", 0))
    zombie, early = lane(sample), sample.state
    landed(2, 30, sample).add(TopicPartition("later", 0)).roll()

    # The zombie was frozen while it read the slots.
    short = [body for _, body in lane(sample).bodies()][: early.epochs[-1]]
    store_segment(sample.store, GROUP, LANE, early, short)

    assert len(keys(sample, object_names.segments_prefix(GROUP, LANE))) == 2
    assert zombie.read() == sample.state


def test_a_damaged_segment_breaks_the_ledger() -> None:
    sample = landed(3).add(TopicPartition("late", 0)).roll()
    key = sample.state.segments[0].key
    body = sample.store.read(key) or b""
    sample.store.overwrite(key, body[:20] + b"damaged" + body[27:])

    with pytest.raises(Stalled, match="damaged") as error:
        lane(sample).read()
    assert error.value.reason is Reason.LEDGER_BROKEN


def test_slots_that_do_not_follow_are_not_rolled() -> None:
    sample = landed(3).add(TopicPartition("late", 0))
    key = object_names.slot_key(GROUP, LANE, 1, 2)
    sample.store.overwrite(key, (sample.store.read(key) or b"").replace(b"token-", b"taken-"))

    with pytest.raises(Stalled, match="slot 4: does not follow from the slot before"):
        sample.roll()


def test_nothing_is_rolled_that_is_not_applied() -> None:
    sample = SampleLedger().open().add(TP)
    sample.commit(sample.land(TP, 0, 10), complete=False).open()

    assert sealed_through(sample.state, 100) == 0
    assert sealed_through(landed(3).state, 100) == 6
    assert sealed_through(State(), 100) == -1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"first": 1}, "begins with slot 1"),
        ({"before": "x"}, "begins with slot 0 after 'x'"),
        ({"last": 5}, "does not seal epoch 1"),
        ({"epoch": 2}, "does not seal epoch 2"),
        ({"epoch": 9}, "does not seal epoch 9"),
    ],
)
def test_a_segment_of_other_slots_is_refused(changes: dict[str, object], problem: str) -> None:
    state = landed(3).state
    rolled = Rolled(0, 6, 1, "key", "sha", "", "after")
    wrong = ledger.Segment(
        header=replace_header(state), rolled=Rolled(**{**asdict(rolled), **changes})
    )

    with pytest.raises(Stalled, match=problem):
        fold(state, encode(wrong))
    right = ledger.Segment(header=replace_header(state), rolled=rolled)
    assert fold(state, encode(right)).segments == (rolled,)


def replace_header(state: State) -> ledger.Header:
    return ledger.next_header(state, state.writer, "t", state.applied_through)


def asdict(rolled: Rolled) -> dict[str, object]:
    return {name: getattr(rolled, name) for name in rolled.__struct_fields__}


def test_the_last_stored_states_stay() -> None:
    store = MemoryStore()
    for seq in range(5):
        store.create(object_names.snapshot_key(GROUP, LANE, seq), b"state")

    assert delete_old_snapshots(store, GROUP, LANE, replace(State(), snapshot_seq=3)) == 1

    prefix = object_names.snapshots_prefix(GROUP, LANE)
    assert [stat.key[-6:-5] for stat in store.list_after(prefix)] == list("1234")


snapshot = SampleLedger.snapshot


def located(sample: SampleLedger, tp: TopicPartition, offset: int) -> object:
    """What the segments say about an offset; the whole ledger must say the same."""
    records = records_in_segments(lane(sample), tp, offset)
    whole = (decode(seq, body) for seq, body in lane(sample).bodies())
    if records is not None:
        assert find_offset(records, tp, offset) == find_offset(whole, tp, offset)
    return records and [record.header.seq for record in records]


def test_every_offset_in_segments_is_found_there() -> None:
    sample = snapshot(landed(3)).roll()
    snapshot(landed(3, 30, sample))
    snapshot(sample.roll())

    assert [located(sample, TP, at) for at in (0, 29, 30, 59)] == [[2], [4], [9], [11]]
    assert [located(sample, TP, 60), located(sample, OTHER, 0)] == [None, None]


def test_a_recreated_topic_is_found_in_its_last_life() -> None:
    sample = landed(3)
    sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    sample.open(generation=2).add(TP)
    landed(2, 0, sample.open(generation=2))
    snapshot(snapshot(sample).roll())

    (found,) = located(sample, TP, 5) or ()

    assert found > 9
    assert located(sample, TP, 25) is None


def test_a_change_since_the_last_segment_is_not_missed() -> None:
    sample = snapshot(landed(3)).roll()
    before = located(snapshot(sample), TP, 5)
    snapshot(sample.add(TopicPartition("late", 0)))

    assert before == [2]
    assert located(sample, TP, 5) is None


def test_an_offset_among_many_segments_takes_few_requests() -> None:
    sample = landed(2)
    for start in range(20, 20 * (segments.GROUP_SIZE + 5), 20):
        landed(2, start, snapshot(sample).roll())
    snapshot(sample)
    store = sample.store
    assert isinstance(store, MemoryStore)
    assert len(sample.state.segments) > segments.GROUP_SIZE

    for offset in (5, 25, 2000, 20 * segments.GROUP_SIZE + 15):
        store.requests.clear()
        assert records_in_segments(lane(sample), TP, offset)
        # Two more in a ledger of more than ``GROUP_SIZE`` segments, 1.3 million slots.
        assert store.requests.total() <= 8 + 2


def test_a_ledger_is_read_backwards_from_slots_and_segments() -> None:
    sample = landed(5).add(LATE).roll()
    landed(3, 50, sample).add(TopicPartition("later", 0)).roll().snapshot()
    forwards = [decode(seq, body) for seq, body in lane(sample).bodies()]

    assert [*lane(sample).records_back(sample.state)] == forwards[::-1]


def test_slots_that_were_rolled_up_meanwhile_are_read_backwards() -> None:
    sample = landed(5).add(LATE)
    before = sample.state
    forwards = [decode(seq, body) for seq, body in lane(sample).bodies()]
    slots = keys(sample, object_names.ledger_prefix(GROUP, LANE))
    sample.roll()

    assert [*lane(sample).records_back(before)] == forwards[::-1]

    deleted = [key for key in slots if sample.store.read(key) is None]
    sample.store.create(deleted[-1], b"of a driver that was frozen")
    assert [*lane(sample).records_back(before)] == forwards[::-1]


def opens(state: State) -> Open:
    """What a driver that was frozen after this state appends."""
    now = next_header(state, "frozen", "t", -1)
    header = Header(now.seq, now.prev, state.epoch + 1, now.writer, now.time, now.applied_through)
    return Open(header=header, group=GROUP, lane=LANE, generation=9, software="test")


def test_an_open_in_a_deleted_slot_is_not_taken_for_what_was_there() -> None:
    sample = landed(3).add(LATE).roll().add(TopicPartition("middle", 0))
    before = landed(3, 30, sample).add(TopicPartition("later", 0)).state
    forwards = [*lane(sample).bodies()]
    wanted = {slot for slot in forwards if isinstance(decode(*slot), Add)}
    states = [*accumulate((body for _, body in forwards), fold, initial=State())]
    places = slot_keys(body for _, body in forwards)
    sample.roll()
    gone = (seq for seq, place in enumerate(places) if sample.store.read(place) is None)
    deleted = [seq for seq in gone if seq >= before.epochs[0]]

    for seq in deleted:
        sample.store.create(places[seq], encode(opens(states[seq])))
        assert lane(sample).read_slot(before, seq) is None
        assert lane(sample).find_slot(before, seq) == forwards[seq][1]
        found = [*lane(sample).bodies_of(before, (Add,))]
        assert wanted <= {*found} <= {*forwards}
        assert found == sorted({*found})
        sample.store.delete_slots([places[seq]])

    assert len(deleted) == 6


def test_an_open_from_which_nothing_follows_breaks_a_ledger_that_is_not_rolled_up() -> None:
    sample = landed(3).add(LATE).snapshot()
    states = [*accumulate((body for _, body in lane(sample).bodies()), fold, initial=State())]
    place = object_names.slot_key(GROUP, LANE, states[3].epoch, states[3].next_index)
    sample.store.overwrite(place, encode(opens(states[3])))

    with pytest.raises(Stalled, match="slot 3"):
        [*lane(sample).bodies_of(sample.state, (Commit,))]


def test_large_segments_are_read_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_BYTES", 700)
    monkeypatch.setattr("landfall.lane.segments.READ_BYTES", 900)
    sample = landed(20).add(LATE)
    forwards = [decode(seq, body) for seq, body in lane(sample).bodies()]

    sample.roll()

    assert [*lane(sample).records_back(sample.state)][1:] == forwards[::-1]


def test_a_missing_slot_is_seen_backwards() -> None:
    sample = landed(5)
    sample.store.delete_slots([object_names.slot_key(GROUP, LANE, 1, 3)])

    with pytest.raises(Stalled, match="slot 4: missing"):
        [*lane(sample).records_back(sample.state)]


def long_ledger(commits: int) -> SampleLedger:
    """Segments of ``commits`` COMMITs each of one topic partition, and some that are live."""
    sample = SampleLedger().open().add(TP, OTHER)
    for at in range(4):
        landed(commits, 10 * at * commits, sample).add(TopicPartition(f"new-{at}", 0)).roll()
    return landed(1, 40 * commits, sample)


def is_about(record: ledger.Record, offsets: OffsetRange) -> bool:
    """Whether it is a COMMIT of these offsets, or one of the few that are always read."""
    if not isinstance(record, Commit):
        return True
    return any(slice_.piece.offsets.start in offsets for slice_ in record.slices)


def test_of_some_ranges_few_slots_of_a_long_ledger_are_read() -> None:
    sample, offsets = long_ledger(50), OffsetRange(700, 720)

    found = [decode(*each) for each in lane(sample).bodies_about(sample.state, {TP: offsets})]

    every = [decode(*each) for each in lane(sample).bodies()]
    live = [record for record in every if record.header.seq >= sample.state.epochs[0]]
    commits = [record for record in found if isinstance(record, Commit)]
    assert [r for r in every if isinstance(r, Open | Add) or r in live or r in commits] == found
    assert commits[:2] == [r for r in every if isinstance(r, Commit) and is_about(r, offsets)]
    assert len(found) < 20 < len(every) // 10


def test_records_of_few_kinds_are_found_in_a_long_ledger() -> None:
    sample = long_ledger(50)

    found = [decode(*each) for each in lane(sample).bodies_of(sample.state, (Add, Drop, Replace))]

    every = [decode(*each) for each in lane(sample).bodies()]
    rolled = [r for r in found if r.header.seq < sample.state.epochs[0]]
    assert rolled == [r for r in every[: sample.state.epochs[0]] if isinstance(r, Add)]
    assert found[len(rolled) :] == every[sample.state.epochs[0] :]


def test_a_segment_of_software_that_did_not_list_kinds_is_read_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample = long_ledger(2)
    read = StoredSegment._read_directory  # what is stored by former software

    def former(self: StoredSegment) -> segments.Directory:
        return replace_struct(read(self), kinds=None)

    monkeypatch.setattr(StoredSegment, "_read_directory", former)

    found = [*lane(sample).bodies_about(sample.state, {OTHER: OffsetRange(0, 1)})]

    assert found == [*lane(sample).bodies()]
    assert found == [*lane(sample).bodies_of(sample.state, (Drop,))]
