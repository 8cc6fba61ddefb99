"""Dead letters older than ``badRecords.retain``: which are deleted, and who knows of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

from landfall import ledger
from landfall.api.spec import parse_group
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import FsckReport, examine
from landfall.cli.objects.verify import examine as verify
from landfall.driver.core.background import Threads
from landfall.driver.landing.dead_letter_expiry import DeadLetterExpiry, ExpirySweep
from landfall.errors import Reason, Retry
from landfall.lane import Lane
from landfall.lane.expired_letters import expired_keys, read_expired
from landfall.ledger import Blocked, Decision, Missing
from landfall.ledger.names import object_names
from landfall.ledger.names.expired_letters import ExpiredLetters, encode_expired, expired_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, ObjectKind, ReplayedSlice
from landfall.objects import Upload
from landfall.store import Store
from landfall.store.memory import MemoryStore
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger
from tests.support.ledger.sample_replacing import Merge

TP = TopicPartition("clicks", 0)
LANDED = datetime(2026, 11, 21, 5, tzinfo=UTC)
"""When ``SampleLedger`` says that it lands."""
LATER = LANDED + timedelta(seconds=1)
ASKED = Decision("replay-dead-letters", "kim", "mended", "2026-11-22T01:00:00Z")


@pytest.fixture
def sample() -> SampleLedger:
    return SampleLedger().open().add(TP)


def with_letters(sample: SampleLedger, start: int) -> LandedSlice:
    """Ten offsets from ``start`` on, of which the first two are dead letters."""
    good = sample.land(TP, start, start + 10)
    name = good.objects[0].upload.key
    data = sample.upload(name, range(start + 2, start + 10))
    letters = sample.upload(letters_key(start), [start, start + 1], ObjectKind.DEAD_LETTERS)
    return replace(good, objects=(data, letters), landed=8, dead_lettered=2)


def letters_key(start: int) -> str:
    return object_names.dead_letter_key(GROUP, "clicks", 1, 0, start)


def letters(store: Store) -> list[str]:
    prefix = object_names.dead_letters_prefix(GROUP, "clicks")
    return [stat.key for stat in store.list_after(prefix)]


def sweep(sample: SampleLedger, before: datetime = LATER, store: Store | None = None) -> int:
    """What a driver that has just started deletes."""
    at = store or sample.store
    return ExpirySweep(at, Lane(at, GROUP, LANE)).run(sample.state, before)


def group_store(store: Store) -> GroupStore:
    url = {"output__url": "file:///unused", "output__format": "Json", "output__codec": "None"}
    return GroupStore(parse_group(document(GROUP, **url)), store)


def fsck(store: Store) -> FsckReport:
    return examine(group_store(store), deep=True)


def test_old_dead_letters_are_deleted_and_nothing_else(sample: SampleLedger) -> None:
    sample.commit(with_letters(sample, 0))
    sample.commit(with_letters(sample, 10)).applied()
    data = [stat.key for stat in sample.store.list_after("clicks/")]

    assert sweep(sample) == 2

    assert letters(sample.store) == []
    assert [stat.key for stat in sample.store.list_after("clicks/")] == data


def test_young_dead_letters_stay(sample: SampleLedger) -> None:
    sample.commit(with_letters(sample, 0)).applied()

    assert sweep(sample, LANDED) == 0

    assert letters(sample.store) == [letters_key(0)]
    assert expired_keys(sample.store, GROUP, LANE) == []


def test_fsck_counts_what_has_expired_and_finds_what_is_lost(sample: SampleLedger) -> None:
    sample.commit(with_letters(sample, 0)).applied().open()
    sweep(sample)
    sample.commit(with_letters(sample, 10)).applied()

    sound = fsck(sample.store)
    sample.store.retire(sample.landed[letters_key(10)].upload)
    broken = fsck(sample.store)

    assert (sound.findings, sound.expired) == ([], 1)
    assert [finding.key for finding in broken.findings] == [letters_key(10)]


def test_missing_data_is_not_taken_for_expired(sample: SampleLedger) -> None:
    landed = with_letters(sample, 0)
    sample.commit(landed).applied()
    sweep(sample)

    sample.store.retire(landed.objects[0].upload)

    assert [f.key for f in fsck(sample.store).findings] == [landed.objects[0].upload.key]


def test_what_is_not_applied_stays(sample: SampleLedger) -> None:
    """A driver that dies now is followed by one that completes the objects again."""
    sample.commit(with_letters(sample, 0))

    assert sweep(sample) == 0

    assert letters(sample.store) == [letters_key(0)]


def test_dead_letters_that_are_called_missing_are_waited_for(sample: SampleLedger) -> None:
    landed = with_letters(sample, 0)
    sample.commit(landed, complete=False)
    sample.store.complete(landed.objects[0].upload)
    slot = sample.state.seq
    entry = Blocked(TP, Reason.OBJECT_LOST, "gone", landed.piece.offsets)
    missing = Missing(slot, (letters_key(0),))
    sample.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(missing,)))
    sample.applied()

    assert sweep(sample) == 0

    assert read_expired(sample.store, GROUP, LANE).through == -1


@pytest.mark.parametrize("is_applied", [False, True])
def test_dead_letters_of_a_replacement_expire_by_its_last_decision(
    sample: SampleLedger, *, is_applied: bool
) -> None:
    """Before that, whoever completes its objects would take them for lost."""
    sample.commit(with_letters(sample, 0))
    slot, old = sample.state.seq, sample.landed[letters_key(0)]
    sample.shown()
    merge = Merge.of(sample, [(slot, old)]).record(retires_later=True)
    new, first = merge.new.landed.upload, merge.slot
    sample.store.complete(new)
    sample.append(
        lambda h: merge.replace(
            replace(h, time=LATER.isoformat()),
            merge.stored(),
            retires_later=True,
            instead=first,
            again=True,
        )
    )
    through = sample.state.seq if is_applied else first
    sample.append(lambda h: ledger.Applied(header=replace(h, applied_through=through)))

    sweep(sample)

    assert new.key in letters(sample.store)


def replayed(sample: SampleLedger) -> None:
    """Replay the dead letters of offsets 0 and 1; the new object is not visible."""
    sample.open(generation=2)
    name = object_names.ObjectName("clicks", "dt=2026-11-21", 2, 0, 0, ".json").key
    again = sample.upload(name, [0, 1])
    piece = Slice(TP, OffsetRange(0, 2))
    slice_ = ReplayedSlice(letters_key(0), piece, 2, (again,), 2, 0, 0)
    token = again.upload.token
    sample.append(lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=ASKED))


def test_what_an_unfinished_replay_has_read_stays(sample: SampleLedger) -> None:
    """If its upload is lost, only the dead letters can make the object again."""
    sample.commit(with_letters(sample, 0)).applied()
    replayed(sample)

    assert sweep(sample) == 0

    assert letters(sample.store) == [letters_key(0)]


def test_repaired_dead_letters_are_deleted_by_the_upload_that_made_them(
    sample: SampleLedger,
) -> None:
    landed = with_letters(sample, 0)
    sample.commit(landed, complete=False)
    commit = sample.state.seq
    sample.store.complete(landed.objects[0].upload)
    again = sample.upload(letters_key(0), [0, 1], ObjectKind.DEAD_LETTERS)
    sample.append(lambda h: ledger.Repair(header=h, commit=commit, objects=(again,)))
    sample.store.complete(again.upload)
    sample.applied()

    assert sweep(sample) == 1

    assert letters(sample.store) == []


def test_an_object_of_somebody_else_stays(sample: SampleLedger) -> None:
    landed = with_letters(sample, 0)
    sample.commit(landed).applied()
    sample.store.retire(landed.objects[1].upload)
    sample.store.create(letters_key(0), b"not yours")

    assert sweep(sample) == 0

    assert sample.store.read(letters_key(0)) == b"not yours"


def test_slots_in_segments_are_followed_too(sample: SampleLedger) -> None:
    sample.commit(with_letters(sample, 0)).applied().open().shown().roll()
    sample.commit(with_letters(sample, 10)).applied()

    assert sweep(sample) == 2

    assert letters(sample.store) == []


def test_a_later_sweep_goes_on_where_the_one_before_ended(sample: SampleLedger) -> None:
    expiry = ExpirySweep(sample.store, Lane(sample.store, GROUP, LANE))
    sample.commit(with_letters(sample, 0)).applied().open()
    assert expiry.run(sample.state, LATER) == 1
    sample.commit(with_letters(sample, 10)).applied()

    assert expiry.run(sample.state, LATER) == 1

    assert letters(sample.store) == []
    assert len(expired_keys(sample.store, GROUP, LANE)) == 1


class Killed(BaseException):
    """The process is gone."""


class DyingStore:
    """Passes calls on, and dies before or after the n-th that changes something."""

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        self._store, self._left, self._after = store, dies_at, after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return self._counted(call) if name in {"create", "retire", "delete_slots"} else call

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            done = call(*arguments)
            if self._left == 0:
                raise Killed
            return done

        return counted


def killings() -> Iterator[tuple[int, bool]]:
    for dies_at in range(1, 8):
        yield dies_at, False
        yield dies_at, True


@pytest.mark.parametrize(("dies_at", "after"), [*killings()])
def test_whenever_a_driver_dies_nothing_seems_lost_and_the_next_one_ends_it(
    sample: SampleLedger, dies_at: int, after: bool
) -> None:
    sample.commit(with_letters(sample, 0)).applied().open()
    sweep(sample)
    for start in (10, 20, 30):
        sample.commit(with_letters(sample, start))
    sample.applied()
    dying: Any = DyingStore(sample.store, dies_at, after=after)
    has_died = False

    try:
        sweep(sample, store=dying)
    except Killed:
        has_died = True

    assert has_died is (dies_at <= 5)  # it says so, deletes three, and what was said before
    assert fsck(sample.store).findings == []
    sweep(sample)
    assert letters(sample.store) == []
    assert (fsck(sample.store).findings, fsck(sample.store).expired) == ([], 4)


def test_a_fenced_driver_takes_nothing_back(sample: SampleLedger) -> None:
    """It does not know what its successor has landed, said and deleted."""
    sample.commit(with_letters(sample, 0)).applied().open()
    old, before = ExpirySweep(sample.store, Lane(sample.store, GROUP, LANE)), sample.state
    sample.commit(with_letters(sample, 10)).applied()
    sweep(sample)

    old.run(before, LATER)

    assert (fsck(sample.store).findings, fsck(sample.store).expired) == ([], 2)


def test_a_store_that_does_not_answer_is_asked_again(sample: SampleLedger) -> None:
    class Away(MemoryStore):
        def retire(self, upload: Upload) -> None:
            raise Retry(f"{upload.key}: no answer")

    sample.commit(with_letters(sample, 0)).applied()
    expiry = ExpirySweep(sample.store, Lane(sample.store, GROUP, LANE))
    working, sample.store.retire = sample.store.retire, Away().retire  # type: ignore[method-assign]
    with pytest.raises(Retry):
        expiry.run(sample.state, LATER)
    sample.store.retire = working  # type: ignore[method-assign]

    assert expiry.run(sample.state, LATER) == 1

    assert letters(sample.store) == []


def test_verify_expects_no_records_of_expired_dead_letters(sample: SampleLedger) -> None:
    sample.commit(with_letters(sample, 0)).applied()
    sweep(sample)

    result = verify(group_store(sample.store))

    assert (result.faults, result.is_whole) == ([], True)
    assert (result.total.expected, result.total.found) == (8, 8)


# ----------------------------------------------------------------------------- beside replays

DAY = timedelta(days=1)


@pytest.fixture
def replaying() -> Iterator[ThreadPoolExecutor]:
    """The thread in which replays run."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def expiry(sample: SampleLedger, replaying: ThreadPoolExecutor) -> DeadLetterExpiry:
    sample.commit(with_letters(sample, 0)).applied()
    lane = Lane(sample.store, GROUP, LANE)
    return DeadLetterExpiry(sample.store, lane, DAY, replaying, Threads().notifier())


def test_none_is_deleted_while_a_replay_runs(
    sample: SampleLedger, expiry: DeadLetterExpiry, replaying: ThreadPoolExecutor
) -> None:
    expiry.start_if_due(sample.state, LATER + DAY, is_replaying=True)
    assert replaying.submit(letters, sample.store).result() == [letters_key(0)]

    expiry.start_if_due(sample.state, LATER + DAY, is_replaying=False)
    assert replaying.submit(letters, sample.store).result() == []


def test_a_pass_that_was_called_off_is_not_waited_for(
    sample: SampleLedger, expiry: DeadLetterExpiry, replaying: ThreadPoolExecutor
) -> None:
    is_over = Event()
    replaying.submit(is_over.wait)
    expiry.start_if_due(sample.state, LATER + DAY, is_replaying=False)
    replaying.shutdown(wait=False, cancel_futures=True)

    expiry.stop()

    assert letters(sample.store) == [letters_key(0)]
    is_over.set()


# -------------------------------------------------------------------- of a driver that was fenced


class Pausing:
    """Passes calls on, and calls ``pause`` once before the first, or after it, of some name."""

    def __init__(
        self, store: Store, call: str, pause: Callable[[], object], *, after: bool
    ) -> None:
        self._store, self._call, self._after = store, call, after
        self._pause: Callable[[], object] | None = pause

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._paused, call) if name == self._call else call

    def _paused(self, call: Callable[..., Any], *arguments: Any) -> Any:
        pause, self._pause = self._pause, None
        if pause and not self._after:
            pause()
        done = call(*arguments)
        if pause and self._after:
            pause()
        return done


def taken_over(sample: SampleLedger) -> None:
    """Another driver opens the lane, which replays the dead letters of offsets 0 and 1."""
    sample.writer = "w2"
    replayed(sample)


def sweep_paused(
    sample: SampleLedger, call: str, pause: Callable[[], object], *, after: bool
) -> None:
    store: Any = Pausing(sample.store, call, pause, after=after)
    ExpirySweep(store, Lane(store, GROUP, LANE)).run(sample.state, LATER)


@pytest.mark.parametrize("after", [False, True])
def test_a_fenced_driver_deletes_nothing_that_its_successor_replays(
    sample: SampleLedger, after: bool
) -> None:
    """It is fenced just before or after it says what has expired."""
    sample.commit(with_letters(sample, 0)).applied()

    sweep_paused(sample, "create", partial(taken_over, sample), after=after)

    assert letters(sample.store) == [letters_key(0)]


def test_a_fenced_driver_that_is_stuck_has_nothing_left_to_delete_once_a_replay_begins(
    sample: SampleLedger,
) -> None:
    """It is fenced between its look for another driver and its first deletion."""
    sample.commit(with_letters(sample, 0)).applied()
    found: list[str] = []

    def replay_begins() -> None:
        sample.writer = "w2"
        sample.open(generation=2)
        ExpirySweep(sample.store, Lane(sample.store, GROUP, LANE)).finish(sample.state)
        found.extend(letters(sample.store))

    sweep_paused(sample, "retire", replay_begins, after=False)

    assert found == []


def test_what_was_said_late_to_have_expired_stays_while_a_replay_needs_it(
    sample: SampleLedger,
) -> None:
    """The request that says so comes late, from a driver that was fenced before."""
    sample.commit(with_letters(sample, 0)).applied()
    through = sample.state.seq
    replayed(sample)
    said = encode_expired(ExpiredLetters(through, -1, LATER.isoformat()))
    sample.store.create(expired_key(GROUP, LANE, through), said)

    ExpirySweep(sample.store, Lane(sample.store, GROUP, LANE)).finish(sample.state)

    assert letters(sample.store) == [letters_key(0)]
