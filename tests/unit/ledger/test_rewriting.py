"""Ranges that were landed again: which REPLACEs and REPLAYs a lane refuses because of them."""

import pytest

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger import Decision, Entry, Header, Purpose, Record, Replacement, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace import rewriting
from landfall.ledger.replace.rewriting import FORGOTTEN, MAX_RANGES, Rewritten
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice
from landfall.objects import Part, Upload

TP, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
LIST = Replacement("list", "0" * 64, retired=1, retired_rows=10, objects=1, rows=9)
DECISION = Decision("replay", "kim", "", "t")


class Ledger:
    """A lane with 100 offsets of two topic partitions, in slices of 10; all is applied."""

    def __init__(self) -> None:
        self.state = State()
        self.open(1)
        self.add(TP, OTHER)
        for tp in (TP, OTHER):
            for start in range(0, 100, 10):
                self.commit(tp, start)
        self.applied()

    def header(self) -> Header:
        epoch, state = self.state.epoch, self.state
        return Header(state.seq + 1, state.tip, epoch, "w", "t", state.applied_through)

    def append(self, record: Record) -> int:
        self.state = ledger.fold(self.state, ledger.encode(record))
        assert decode_state(encode_state(self.state)) == self.state
        return self.state.seq

    def open(self, generation: int) -> None:
        state = self.state
        header = Header(state.seq + 1, state.tip, state.epoch + 1, "w", "t", state.applied_through)
        self.append(
            ledger.Open(header=header, group="g", lane="0", generation=generation, software="0")
        )

    def add(self, *tps: TopicPartition) -> None:
        entries = tuple(Entry(tp, "id", 0) for tp in tps)
        self.append(ledger.Add(header=self.header(), entries=entries))

    def commit(self, tp: TopicPartition, start: int) -> None:
        piece = Slice(tp, OffsetRange(start, start + 10))
        landed = LandedSlice(piece, (), 0, 10, 0, 0, 0)
        self.append(ledger.Commit(header=self.header(), token="t", slices=(landed,)))

    def applied(self) -> int:
        """Say that everything is applied; returns through which slot."""
        through = self.state.seq
        header = Header(through + 1, self.state.tip, self.state.epoch, "w", "t", through)
        self.append(ledger.Applied(header=header))
        return through

    def backfill(
        self, tp: TopicPartition, start: int, end: int, plan: int, **fields: object
    ) -> int:
        """Land a range again, in a folder of its own."""
        known = {
            "token": "t",
            "purpose": Purpose.BACKFILL,
            "listed": LIST,
            "read_through": plan,
            "folders": (f"clicks/dt={self.state.seq}",),
            "slices": (Slice(tp, OffsetRange(start, end)),),
        }
        fields = {**known, **fields}
        return self.append(ledger.Replace(header=self.header(), **fields))  # type: ignore[arg-type]

    def undo(self, slot: int, start: int, end: int, plan: int, **fields: object) -> int:
        fields = {"purpose": Purpose.UNDO, "undoes": slot, **fields}
        return self.backfill(TP, start, end, plan, **fields)

    def replay(self, start: int, plan: int = -1, generation: int = 1) -> int:
        name = f"{generation}_0_{start:020d}{f'.r{plan}' if plan >= 0 else ''}.parquet"
        key, piece = (
            f"_landfall/g/dead-letters/clicks/{name}",
            Slice(TP, OffsetRange(start, start + 1)),
        )
        new = f"clicks/dt=1/{self.state.generation}_0_{start:020d}.json"
        upload = Upload(new, "u", (Part("e", 9),), "t")
        made = LandedObject(upload, ObjectKind.DATA, 1, start, start, 0)
        slice_ = ReplayedSlice(key, piece, 1, (made,), 1, 0, 0)
        record = ledger.Replay(header=self.header(), token="t", slices=(slice_,), decision=DECISION)
        return self.append(record)


@pytest.fixture
def lane() -> Ledger:
    return Ledger()


def test_two_backfills_of_a_range_need_not_share_a_folder_to_be_in_each_others_way(
    lane: Ledger,
) -> None:
    plan = lane.state.applied_through
    first = lane.backfill(TP, 0, 20, plan)

    with pytest.raises(Stalled, match=rf"\[0, 20\) was landed again in slot {first}"):
        lane.backfill(TP, 10, 30, plan)
    lane.backfill(TP, 20, 30, plan)
    lane.backfill(OTHER, 0, 20, plan)

    later = lane.backfill(TP, 10, 30, lane.applied())
    assert [(r.offsets.start, r.offsets.end, r.slot) for r in lane.state.rewritten[TP]] == [
        (0, 10, first),
        (10, 30, later),
    ]


def test_a_backfill_is_undone_and_that_again(lane: Ledger) -> None:
    first = lane.backfill(TP, 0, 20, lane.applied())
    undone = lane.undo(first, 0, 20, lane.applied())
    again = lane.undo(undone, 0, 20, lane.applied())

    assert [each.slot for each in lane.state.rewritten[TP]] == [again]
    lane.undo(first, 0, 20, lane.applied())


def test_what_was_landed_again_since_the_plan_is_not_undone(lane: Ledger) -> None:
    first = lane.backfill(TP, 0, 20, lane.applied())
    plan = lane.applied()
    second = lane.backfill(TP, 10, 20, plan)

    with pytest.raises(Stalled, match=rf"\[10, 20\) was landed again in slot {second}"):
        lane.undo(first, 0, 20, plan)


def test_an_undoing_names_an_earlier_slot_and_only_one(lane: Ledger) -> None:
    first = lane.backfill(TP, 0, 20, lane.applied())
    for fields in ({"undoes": 99}, {"undoes": first, "unmerges": first}):
        with pytest.raises(Stalled, match="undoes slot"):
            lane.undo(first, 0, 20, lane.applied(), **fields)


def test_only_what_is_landed_and_in_the_lane_is_landed_again(lane: Ledger) -> None:
    with pytest.raises(Stalled, match="is not landed"):
        lane.backfill(TP, 90, 110, lane.state.applied_through)
    with pytest.raises(Stalled, match="has left the lane"):
        lane.backfill(TopicPartition("clicks", 9), 0, 1, lane.state.applied_through)


def test_a_topic_partition_that_entered_again_since_the_plan_is_refused(lane: Ledger) -> None:
    lane.backfill(TP, 0, 10, lane.applied())
    plan = lane.applied()
    lane.append(ledger.Drop(header=lane.header(), topic_partitions=(TP,), reason="test"))
    assert lane.state.rewritten == {}
    lane.open(2)
    lane.add(TP)
    lane.commit(TP, 0)

    with pytest.raises(Stalled, match="a topic partition entered or left"):
        lane.backfill(TP, 0, 10, plan)
    lane.backfill(OTHER, 0, 10, plan)
    lane.backfill(TP, 0, 10, lane.applied())


def test_a_replay_since_the_plan_is_in_the_way(lane: Ledger) -> None:
    plan = lane.applied()
    lane.open(2)
    lane.replay(13)

    with pytest.raises(Stalled, match="dead letters were replayed"):
        lane.backfill(TP, 10, 20, plan)
    lane.backfill(TP, 20, 30, plan)
    lane.backfill(TP, 10, 20, lane.applied())


def test_a_replay_is_in_the_way_of_an_undoing(lane: Ledger) -> None:
    slot = lane.backfill(TP, 10, 20, lane.applied())
    plan, made = lane.applied(), lane.state.rewritten[TP][0].plan
    lane.open(2)
    lane.replay(13, made)

    with pytest.raises(Stalled, match="dead letters were replayed"):
        lane.undo(slot, 10, 20, plan)


def test_dead_letters_that_retired_are_not_replayed_and_new_ones_are(lane: Ledger) -> None:
    plan = lane.applied()
    slot = lane.backfill(TP, 10, 20, plan)
    lane.open(2)

    with pytest.raises(Stalled, match=rf"it has retired: .* was landed again in slot {slot}"):
        lane.replay(13)
    with pytest.raises(Stalled, match=f"the REPLACE in slot {slot} is not applied yet"):
        lane.replay(13, plan)
    with pytest.raises(Stalled, match="it has retired"):
        lane.replay(33, plan)
    lane.replay(23)

    lane.applied()
    lane.replay(13, plan)


def test_what_came_back_is_replayed_and_what_was_undone_is_not(lane: Ledger) -> None:
    first = lane.applied()
    slot = lane.backfill(TP, 10, 20, first)
    second = lane.applied()
    lane.undo(slot, 10, 20, second)
    lane.applied()
    lane.open(2)

    for plan in (-1, first):
        with pytest.raises(Stalled, match="it has retired"):
            lane.replay(13, plan)
    lane.replay(13, second)


def test_what_a_given_up_backfill_was_to_retire_has_names_by_who_gave_it_up(lane: Ledger) -> None:
    plan = lane.applied()
    slot = lane.backfill(TP, 10, 20, plan)
    lane.backfill(TP, 10, 20, slot, purpose=Purpose.UNDO, instead=slot, folders=("clicks/dt=1",))
    lane.applied()
    lane.open(2)

    for old in (-1, plan):
        with pytest.raises(Stalled, match="it has retired"):
            lane.replay(13, old)
    lane.replay(13, slot)


def test_a_backfill_that_is_given_up_leaves_its_ranges_as_they_were(lane: Ledger) -> None:
    first = lane.backfill(TP, 0, 20, lane.applied())
    plan = lane.applied()
    before = lane.state.rewritten
    second = lane.backfill(TP, 10, 40, plan, retires_later=True)

    give_up(lane, second)

    assert lane.state.rewritten == before
    assert [each.slot for each in lane.state.rewritten[TP]] == [first]
    lane.applied()
    lane.open(2)
    lane.replay(30)  # its dead letters have their names still
    with pytest.raises(Stalled, match="it has retired"):
        lane.replay(10)


def test_what_is_decided_again_is_given_up_as_well(lane: Ledger) -> None:
    plan = lane.applied()
    same: dict[str, object] = {"retires_later": True, "folders": ("clicks/dt=1",)}
    slot = lane.backfill(TP, 0, 20, plan, **same)
    again = lane.backfill(TP, 0, 20, plan, **same, instead=slot, again=True)
    assert [each.slot for each in lane.state.rewritten[TP]] == [again]

    give_up(lane, again)

    assert lane.state.rewritten == {}


def give_up(lane: Ledger, slot: int) -> None:
    nothing = Replacement("none", "0" * 64, 0, 0, 0, 0)
    fields = {"purpose": Purpose.UNDO, "listed": nothing, "instead": slot, "retires_later": True}
    lane.backfill(TP, 0, 20, slot, **fields)


def test_no_generation_replays_the_same_offsets_twice(lane: Ledger) -> None:
    lane.open(2)
    lane.replay(13)
    plan = lane.applied()
    lane.backfill(TP, 10, 20, plan)
    lane.applied()

    with pytest.raises(Stalled, match="generation 2, which may have named objects"):
        lane.replay(13, plan)
    lane.open(3)
    lane.replay(13, plan)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"undoes": 3}, "undoes slot 3, and is for Backfill"),
        ({"instead": 3}, "no REPLACE to be applied"),
    ],
)
def test_a_backfill_is_no_undoing(lane: Ledger, fields: dict[str, int], why: str) -> None:
    with pytest.raises(Stalled, match=why):
        lane.backfill(TP, 0, 10, lane.state.applied_through, **fields)


def test_ranges_of_long_ago_are_joined() -> None:
    known = [Rewritten(OffsetRange(20 * n, 20 * n + 10), n, n, 1) for n in range(MAX_RANGES + 1)]

    ranges = rewriting.rewrite({TP: tuple(known[:-1])}, {TP: known[-1]})

    first, second, *_, last = ranges[TP]

    assert len(ranges[TP]) == MAX_RANGES // 2 + 1
    assert (first.offsets.start, first.slot, first.plan) == (0, MAX_RANGES // 2, FORGOTTEN)
    assert (second.slot, second.plan) == (MAX_RANGES // 2 + 1, MAX_RANGES // 2 + 1)
    assert last.slot == MAX_RANGES


def test_ranges_that_were_joined_stay_when_one_of_them_is_given_up() -> None:
    joined = {TP: (Rewritten(OffsetRange(0, 50), 9, FORGOTTEN, 1),)}

    assert rewriting.restored(joined, 9, {}) == joined
