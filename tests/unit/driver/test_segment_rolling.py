"""What rolls old slots of the ledger up: when, in what order, and what stays if the store fails."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from landfall import ledger
from landfall.driver.core.background import Notifier, QueueNotifier
from landfall.driver.landing.segment_rolling import (
    MAX_SEGMENTS_AT_ONCE,
    RETRY_INTERVAL,
    SegmentRolling,
)
from landfall.errors import Fenced, LandfallError, Retry
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import Entry
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from tests.support.ledger.sample_ledger import GROUP, LANE

TP = TopicPartition("clicks", 0)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
EVERY = 5


class RunsLater(Executor):
    """A pool whose work is done when ``go`` is called."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done = Future[Any]()

        def run() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except LandfallError as error:
                done.set_exception(error)

        self.work.append(run)
        return done

    def go(self) -> int:
        """Do everything that waits; returns how much it was."""
        work, self.work = self.work, []
        for do in work:
            do()
        return len(work)


class FailingStore(MemoryStore):
    """A store in which creating segments or snapshots, or deleting slots or snapshots, fails."""

    fails: str = ""

    def create(self, key: str, body: bytes) -> Any:
        parts = {"create": ".seg", "snapshot": object_names.snapshots_prefix(GROUP, LANE)}
        if self.fails in parts and parts[self.fails] in key:
            raise Retry(f"{key}: the store is away")
        return super().create(key, body)

    def delete_slots(self, keys: Any) -> None:
        old = list(keys)
        is_snapshots = any(object_names.snapshots_prefix(GROUP, LANE) in key for key in old)
        if self.fails == ("delete snapshots" if is_snapshots else "delete"):
            raise Retry("the store is away")
        super().delete_slots(old)


@dataclass
class Rolling:
    """A driver's rolling, with a pool that the test drives."""

    store: FailingStore = field(default_factory=FailingStore)
    now: datetime = NOW

    def __post_init__(self) -> None:
        self.start("w1")
        self.writer.append(lambda h: ledger.Add(header=h, entries=(Entry(TP, "id", 0),)))

    def start(self, name: str) -> None:
        """Begin as a driver that opens the lane."""
        self.executor = RunsLater()
        lane = Lane(self.store, GROUP, LANE)
        self.writer = LaneWriter.open(lane, OpenRequest(name, 1, "test"), lambda: self.now)
        self.rolling = SegmentRolling(self.writer, self, EVERY, self.notifier().notify)

    def pool(self, threads: int, name: str) -> Executor:  # noqa: ARG002  # as ``Background``
        return self.executor

    def notifier(self) -> Notifier:
        return QueueNotifier()

    def commit(self, commits: int) -> "Rolling":
        for _ in range(commits):
            start = self.writer.state.checkpoint[TP]
            piece = Slice(TP, OffsetRange(start, start + 10))
            landed = LandedSlice(piece, (), 0, 0, 0, 10, 0)
            self.writer.append(
                lambda h, s=landed: ledger.Commit(header=h, token=f"t-{h.seq}", slices=(s,)),
                self.writer.state.seq,
            )
        return self

    def advance(self, after: timedelta = timedelta(0)) -> None:
        self.now += after
        self.rolling.advance(self.now, self.writer.state.seq)

    def until_rolled(self) -> "Rolling":
        """Go on until nothing is left to do; slots are deleted then."""
        self.advance()
        while self.executor.go():
            self.advance()
            self.commit(1)
            self.advance(RETRY_INTERVAL)
        return self

    @property
    def places(self) -> list[tuple[int, int]]:
        """Epoch and index of the slots in the store."""
        prefix = object_names.ledger_prefix(GROUP, LANE)
        keys = (stat.key for stat in self.store.list_after(prefix))
        return [object_names.parse_slot_key(GROUP, LANE, key) for key in keys]

    @property
    def tags(self) -> list[str]:
        return [type(ledger.decode(seq, body)).__name__ for seq, body in self.writer.lane.bodies()]


def test_a_long_epoch_is_sealed_with_a_snapshot_in_its_successors_first_slot() -> None:
    one = Rolling().commit(EVERY)

    one.advance()

    state = one.writer.state
    assert (state.epoch, state.place(state.snapshot_seq)) == (2, (2, 0))
    assert one.tags[-2:] == ["Open", "Snapshot"]


def test_a_short_epoch_is_left_alone() -> None:
    one = Rolling().commit(EVERY - 3)

    one.advance()

    assert (one.writer.state.epoch, one.executor.work) == (1, [])


def test_a_segment_is_recorded_before_any_of_its_slots_is_deleted() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.executor.go()
    before = one.places

    one.advance()

    (rolled,) = one.writer.state.segments
    assert one.tags[-1] == "Segment"
    assert one.places[: len(before)] == before
    assert (rolled.first, rolled.last) == (0, one.writer.state.epochs[0] - 1)


def test_slots_are_deleted_only_after_a_later_snapshot() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.executor.go()
    one.advance()
    (rolled,) = one.writer.state.segments

    assert one.writer.state.snapshot_seq > rolled.last
    one.advance()
    one.executor.go()

    left = [place for place in one.places if place[0] < 2]
    assert left == [(0, 0), (1, 0), (1, EVERY + 1)]


def recorded_without_a_snapshot() -> Rolling:
    """A SEGMENT is recorded, and no snapshot came after the segment's slots."""
    one = Rolling().commit(EVERY)
    one.writer.seal()  # as by a driver before, whose snapshot failed
    one.commit(1)
    one.advance()
    one.executor.go()
    one.advance()
    assert (len(one.writer.state.segments), one.writer.state.snapshot_seq) == (1, -1)
    return one


def test_a_snapshot_comes_before_the_slots_are_deleted() -> None:
    one = recorded_without_a_snapshot()
    before = one.places

    one.advance()

    assert one.tags[-1] == "Snapshot"
    assert len(one.places) == len(before) + 1
    assert one.executor.go() == 1
    assert len(one.places) < len(before)
    assert one.writer.lane.read() == one.writer.state


def test_without_a_snapshot_after_the_segment_its_slots_stay() -> None:
    one = recorded_without_a_snapshot()
    before = one.places
    one.store.fails = "snapshot"

    with pytest.raises(Retry):
        one.advance()
    one.advance()

    assert (one.executor.work, one.places, one.rolling.is_due(one.now)) == ([], before, False)
    one.store.fails = ""
    one.advance(RETRY_INTERVAL)
    assert one.executor.go() == 1
    assert len(one.places) < len(before)


def test_where_the_snapshots_key_is_taken_the_slots_stay() -> None:
    one = recorded_without_a_snapshot()
    key = object_names.snapshot_key(GROUP, LANE, one.writer.state.seq + 1)
    one.store.create(key, b"a driver that died here stored another state")
    before = one.places

    one.advance()

    assert (one.executor.work, one.places) == ([], before)


@pytest.mark.parametrize("fails", ["create", "delete"])
def test_what_the_store_refuses_is_tried_again_a_minute_later(fails: str) -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    if fails == "delete":
        one.executor.go()
        one.advance()
        one.advance()
    one.store.fails = fails
    before, state = one.places, one.writer.state

    one.executor.go()
    one.advance()
    one.advance()

    assert (one.places, one.writer.state, one.executor.work) == (before, state, [])
    one.store.fails = ""
    one.advance(RETRY_INTERVAL - timedelta(seconds=1))
    assert one.executor.work == []
    one.advance(timedelta(seconds=1))
    assert one.executor.go() == 1
    one.until_rolled()
    assert len(one.writer.state.segments) >= 1
    assert one.writer.lane.read() == one.writer.state


def test_landing_goes_on_while_a_segment_is_stored() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.commit(3)

    one.executor.go()
    one.advance()

    assert one.tags[-4:] == ["Commit", "Commit", "Commit", "Segment"]
    assert one.writer.lane.read() == one.writer.state


def test_nothing_is_sealed_or_started_while_something_runs() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.commit(2 * EVERY)

    one.advance()

    assert (one.writer.state.epoch, len(one.executor.work)) == (2, 1)


def test_a_successor_deletes_what_its_predecessor_recorded_before_it_stores_more() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.executor.go()
    one.advance()  # the SEGMENT is recorded, and the driver dies

    one.start("w2")
    one.commit(EVERY)
    one.advance()

    assert one.executor.go() == 1
    assert [place for place in one.places if place[0] < 2] == [(0, 0), (1, 0), (1, EVERY + 1)]
    one.advance()
    one.until_rolled()
    assert len(one.writer.state.segments) > 1
    assert one.writer.lane.read() == one.writer.state


def test_a_start_alone_deletes_nothing_again() -> None:
    one = Rolling().commit(EVERY).until_rolled()

    one.start("w2")
    one.advance()

    assert (one.executor.work, one.rolling.is_due(one.now)) == ([], False)


def test_what_goes_on_or_can_start_is_due_and_what_failed_is_not() -> None:
    one = Rolling().commit(EVERY)
    one.advance()

    assert one.rolling.is_due(one.now)
    one.store.fails = "create"
    one.executor.go()
    one.advance()
    assert not one.rolling.is_due(one.now)
    assert one.rolling.is_due(one.now + RETRY_INTERVAL)


def test_snapshots_that_are_not_deleted_hold_up_no_segment() -> None:
    one = Rolling()
    one.store.fails = "delete snapshots"

    for _ in range(4):
        one.commit(EVERY).until_rolled()

    assert len(one.writer.state.segments) >= 4
    rolled = one.writer.state.segments[-1].epoch
    epochs = [epoch for epoch, _ in one.places if epoch <= rolled]
    assert max(map(epochs.count, epochs)) <= 2
    prefix = object_names.snapshots_prefix(GROUP, LANE)
    assert len(list(one.store.list_after(prefix))) >= 4


def test_a_fenced_driver_records_no_segment() -> None:
    one = Rolling().commit(EVERY)
    one.advance()
    one.executor.go()
    lane = Lane(one.store, GROUP, LANE)
    LaneWriter.open(lane, OpenRequest("w2", 1, "test"), lambda: NOW)

    with pytest.raises(Fenced):
        one.advance()

    assert lane.read().segments == ()


def test_slots_of_commits_that_are_not_applied_are_not_rolled() -> None:
    one = Rolling()
    one.commit(1)
    pending = one.writer.state
    assert pending.unapplied  # the last COMMIT is not known to be applied
    for _ in range(EVERY):
        one.writer.append(lambda h: ledger.Add(header=h, entries=()), -1)

    one.rolling.advance(one.now, pending.applied_through)

    assert one.writer.state.epoch == 2
    assert one.executor.work == []


def test_many_epochs_become_segments_of_a_bounded_size() -> None:
    one = Rolling()
    for _ in range(10):
        one.commit(EVERY).writer.seal()
    one.writer.snapshot(one.writer.state.seq)

    one.until_rolled()

    sizes = [rolled.last + 1 - rolled.first for rolled in one.writer.state.segments]
    assert len(sizes) > 1
    assert all(EVERY <= size <= (MAX_SEGMENTS_AT_ONCE + 1) * EVERY + 2 for size in sizes)
    assert one.writer.lane.read() == one.writer.state
    assert [seq for seq, _ in one.writer.lane.bodies()] == [*range(one.writer.state.seq + 1)]


def test_of_snapshots_only_the_last_few_stay() -> None:
    one = Rolling()
    for _ in range(8):
        one.commit(EVERY).until_rolled()

    kept = [s.key for s in one.store.list_after(object_names.snapshots_prefix(GROUP, LANE))]

    last = object_names.snapshot_key(GROUP, LANE, one.writer.state.snapshot_seq)
    assert last in kept
    assert len(kept) <= 5
