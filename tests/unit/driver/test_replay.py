"""Dead letters that are landed again: once each, in a new generation, by the present decoder."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pyarrow.parquet as pq
import pytest

from landfall.api.contract import LANE, ExitCode, Workers
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Answer, Outcome, ReplayRequest, SkipRequest
from landfall.checks.locate import Committed, find_offset
from landfall.driver.core.runner import Bin
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.requests.lane_session import LaneSession
from landfall.driver.requests.replay import Replayer
from landfall.errors import Reason, Retry
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import Decision, Replay, State, Yield, decode
from landfall.ledger.names import object_names
from landfall.ledger.names.expired_letters import ExpiredLetters, encode_expired, expired_key
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.task_results import FailedSlice, SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.dead_letter_reader import DeadLetterReader
from landfall.task.landing import land
from tests.support.driver import slice_landing
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import NOW, FakeLog, ticking
from tests.support.driver.slice_landing import MIDNIGHT, FakeReader

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
GOOD, LATE, POISON = range(0, 30, 3), range(1, 30, 3), range(2, 30, 3)
"""Offsets of records with a timestamp, without one, and without even JSON."""


def value(offset: int) -> bytes:
    if offset in GOOD:
        return b'{"ts":%d,"n":%d}' % (MIDNIGHT + offset, offset)
    return b'{"n":%d}' % offset if offset in LATE else b"n=%d" % offset


ROWS = [(offset, value(offset)) for offset in range(60)]


class MemoryRunner:
    """Runs the real tasks on a log and a store in memory."""

    slots = 2

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.failures = 0
        self.replays: list[tuple[str, ...]] = []
        """The dead-letter objects of each batch that read any."""

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        slices = [slice_ for bin_ in bins for slice_ in bin_]
        if batch.dead_letters and self.failures:
            self.failures -= 1
            return [FailedSlice(slice_, Retry("executor lost")) for slice_ in slices]
        keys = dict(batch.dead_letters)
        self.replays += [tuple(keys.values())] * bool(keys)
        reader = DeadLetterReader(self.store, keys) if keys else FakeReader({A0: ROWS, B0: ROWS}, 7)
        return list(land(batch, slices, reader, self.store))

    def warm_up(self) -> None:
        """Nothing to do."""

    def want(self, executors: int) -> None:
        """Ignored."""

    def settle(self) -> Workers:
        return Workers(1, 1, self.slots)


def group(generation: int, **spec: Any) -> ConsumerGroup:
    """The first takes records with a timestamp, the second all JSON, the third everything."""
    missing = "DeadLetter" if generation == 1 else "KafkaTimestamp"
    decoders: dict[str, Any] = {"format": "Json", "timestamp": {"field": "ts", "missing": missing}}
    return slice_landing.group(
        generation=generation,
        decode=decoders if generation < 3 else {"format": "Raw"},
        output={"url": "s3://bucket/root", "format": "Text", "codec": "None"},
        badRecords={"maxRatio": "1", "retain": "30d"},
        uploadPolicy={"maxBytes": "1M", "maxAge": "1ms"},
        tuning={"pollInterval": "5ms"},
        upgrade={"drainTimeout": "1000d"},
        **spec,
    )


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def landing(
    store: MemoryStore, generation: int, end: int = 30, start_time: datetime = NOW
) -> DriverThread:
    log = FakeLog().write("a", end)
    thread = DriverThread(
        store,
        log,
        f"r{generation}",
        group=group(generation),
        runner=MemoryRunner(store),
        start_time=start_time,
    ).start()
    thread.until_landed()
    return thread


@pytest.fixture
def landed(store: MemoryStore) -> None:
    """Generation 1 has landed the first 30 records; 20 of them are dead letters."""
    assert landing(store, 1).stop() is ExitCode.OK


def replay(store: MemoryStore, generation: int, **fields: Any) -> Answer:
    """Replay without a driver."""
    names = count()
    session = LaneSession(
        group(generation),
        store,
        Lane(store, "events", LANE),
        FakeLog().write("a", 30),
        MemoryRunner(store),
        ticking(),
        lambda: f"replay-{generation}-{next(names)}",
    )
    return session.carry_out(asked(**fields), take_over=False)


def asked(**fields: Any) -> ReplayRequest:
    return ReplayRequest(**{"who": "kim", "why": "mended", "topic": "a"} | fields)


def state(store: MemoryStore) -> State:
    return Lane(store, "events", LANE).read()


def data(store: MemoryStore) -> Counter[bytes]:
    """How often each payload is in a visible data object."""
    found: Counter[bytes] = Counter()
    for stat in store.list_after("a/"):
        with store.open(stat.key) as stream:
            found.update(stream.read().splitlines())
    return found


def letters(store: MemoryStore) -> dict[int, list[int]]:
    """The offsets in visible dead letters that were not replayed, by generation."""
    found: dict[int, list[int]] = {}
    replayed = state(store).replayed
    for stat in store.list_after(object_names.dead_letters_prefix("events", "a")):
        if stat.key not in replayed:
            with store.open(stat.key) as stream:
                offsets = pq.read_table(stream).column("offset").to_pylist()
            generation = object_names.origin("events", stat.key).generation
            found.setdefault(generation, []).extend(offsets)
    return found


def once(*offsets: range) -> Counter[bytes]:
    return Counter(value(o) for of in offsets for o in of)


@pytest.mark.usefixtures("landed")
def test_dead_letters_are_landed_once_and_what_is_bad_again_is_a_new_dead_letter(
    store: MemoryStore,
) -> None:
    assert (data(store), letters(store)) == (once(GOOD), {1: sorted([*LATE, *POISON])})

    answer = replay(store, 2)

    assert answer == Answer(
        Outcome.DONE,
        ("REPLAY: 20 dead letters of 1 object: 10 landed, 0 filtered, 10 bad again",),
    )
    assert (data(store), letters(store)) == (once(GOOD, LATE), {2: [*POISON]})
    assert replay(store, 3).outcome is Outcome.DONE
    assert (data(store), letters(store)) == (once(GOOD, LATE, POISON), {})
    totals = state(store).totals
    assert (totals.landed, totals.dead_lettered, totals.replayed) == (30, 30, 30)


@pytest.mark.usefixtures("landed")
def test_a_dead_letter_object_is_replayed_once(store: MemoryStore) -> None:
    replay(store, 3)

    again = replay(store, 3)

    assert (again.outcome, again.message) == (
        Outcome.REFUSED,
        "replayed before: 1 dead-letter object",
    )
    assert data(store) == once(GOOD, LATE, POISON)


@pytest.mark.usefixtures("landed")
def test_a_replay_needs_a_generation_above_the_one_of_the_dead_letters(
    store: MemoryStore,
) -> None:
    answer = replay(store, 1)

    assert answer.outcome is Outcome.REFUSED
    assert "set spec.generation to 2 to replay them" in answer.message
    assert state(store).epoch == 1  # nobody opened the lane for it


@pytest.mark.usefixtures("landed")
def test_a_dry_run_says_what_would_be_replayed(store: MemoryStore) -> None:
    answer = replay(store, 2, dry_run=True)

    assert answer == Answer(Outcome.DRY_RUN, ("REPLAY: 20 dead letters in 1 object",))
    assert state(store).epoch == 1


@pytest.mark.usefixtures("landed")
@pytest.mark.parametrize("fields", [{"topic": "b"}, {"partition": 1}, {"first": 30}, {"until": 0}])
def test_what_the_request_does_not_name_is_left_alone(
    store: MemoryStore, fields: dict[str, Any]
) -> None:
    answer = replay(store, 2, **fields)

    assert (answer.outcome, answer.message) == (
        Outcome.REFUSED,
        "there are no such dead letters",
    )


@pytest.mark.usefixtures("landed")
def test_a_running_driver_replays_beside_landing(store: MemoryStore) -> None:
    driver = landing(store, 2, end=60)

    answer = driver.contender.decide(asked(id="one"))

    assert answer.outcome is Outcome.DONE
    assert driver.contender.decide(asked(id="one")) == answer
    driver.until_landed()
    assert driver.stop() is ExitCode.OK
    assert data(store) == once(GOOD, LATE) + Counter(
        value(o) for o in range(30, 60) if value(o).startswith(b"{")
    )
    assert not state(store).unapplied or state(store).seq > max(state(store).unapplied)


@pytest.mark.usefixtures("landed")
def test_a_replay_that_fails_is_asked_again(store: MemoryStore) -> None:
    driver = landing(store, 2)
    runner = driver.contender.deps.runner
    assert isinstance(runner, MemoryRunner)
    runner.failures = 1

    failed = driver.contender.decide(asked(id="one"))
    again = driver.contender.decide(asked(id="one"))

    assert (failed.outcome, failed.message) == (Outcome.FAILED, "executor lost")
    assert again.outcome is Outcome.DONE
    driver.stop()
    assert data(store) == once(GOOD, LATE)


@pytest.mark.usefixtures("landed")
def test_a_replayed_record_is_located_in_its_new_object(store: MemoryStore) -> None:
    replay(store, 2)
    replay(store, 3)
    records = [decode(seq, body) for seq, body in Lane(store, "events", LANE).bodies()]

    for offset, generation in ((LATE[0], 2), (POISON[0], 3)):
        found = find_offset(records, A0, offset)
        assert isinstance(found, Committed)
        keys = [o.upload.key for o in found.candidates(offset)]
        assert any(f"/{generation}_0_" in key for key in keys), json.dumps(keys)


# ------------------------------------------------------ uploads that vanish before their completion


@pytest.fixture
def lost(store: MemoryStore, landed: None) -> None:
    """Generation 2 has replayed the dead letters, and the store has lost the uploads."""
    runner, of = MemoryRunner(store), group(2)
    replayer = Replayer(of, store, runner, lambda: "token")
    spec = store_spec(store, of, LANE)
    writer = LaneWriter.open(
        Lane(store, "events", LANE), OpenRequest("kim", 2, "test", spec=spec), ticking()
    )
    token, slices, _ = replayer.land(replayer.find(writer.state, asked()).objects)
    decision = Decision("replay-dead-letters", "kim", "mended", "2026-11-22T01:00:00Z")
    writer.append(
        lambda header: Replay(header=header, token=token, slices=tuple(slices), decision=decision)
    )
    writer.append(lambda header: Yield(header=header, reason="done"))
    for s in slices:
        for o in s.objects:
            store.abort(o.upload.key, o.upload.upload_id)


def tags(store: MemoryStore) -> list[str]:
    bodies = Lane(store, "events", LANE).bodies()
    return [type(decode(seq, body)).__name__ for seq, body in bodies]


def gone(store: MemoryStore) -> None:
    """Somebody has deleted the dead letters that were replayed."""
    for key in state(store).replayed:
        store.delete(key)


SKIPS = {
    "bootstrapServers": "kafka:1",
    "topicPattern": ".*",
    "onDataLoss": "SkipAndRecord",
}


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize("generation", [2, 3])
def test_lost_objects_of_a_replay_are_made_again_of_its_dead_letters(
    store: MemoryStore, generation: int
) -> None:
    driver = landing(store, generation)

    assert driver.stop() is ExitCode.OK

    assert tags(store).count("Repair") == 1
    assert (data(store), letters(store)) == (once(GOOD, LATE), {2: [*POISON]})
    assert state(store).unapplied == {}
    assert list(store.open_uploads("")) == []
    runner = driver.contender.deps.runner
    assert isinstance(runner, MemoryRunner)
    assert runner.replays == [tuple(sorted(state(store).replayed))]


@pytest.mark.usefixtures("lost")
def test_a_replay_whose_dead_letters_are_gone_too_stops_only_its_topic_partition(
    store: MemoryStore,
) -> None:
    gone(store)
    driver = DriverThread(
        store,
        FakeLog().write("a", 30).write("b", 30),
        group=group(2),
        runner=MemoryRunner(store),
    ).start()

    driver.until(lambda _: A0 in state(store).blocked, "a/0 is blocked")
    driver.until(lambda _: state(store).checkpoint.next_offsets.get(B0) == 30, "b/0 is landed")

    assert driver.stop() is ExitCode.OK
    blocked = state(store).blocked[A0]
    assert (blocked.reason, blocked.offsets) == (Reason.OBJECT_LOST, OffsetRange(0, 30))
    assert "there is no such object" in blocked.message
    rows = sum(o.rows for objects in state(store).missing.values() for o in objects)
    assert rows == len([*LATE, *POISON])


@pytest.mark.usefixtures("lost")
def test_what_a_replay_lost_for_good_is_given_up_by_the_verb(store: MemoryStore) -> None:
    gone(store)
    driver = DriverThread(
        store, FakeLog().write("a", 30), group=group(2), runner=MemoryRunner(store)
    ).start()
    driver.until(lambda _: A0 in state(store).blocked, "a/0 is blocked")
    request = SkipRequest(who="kim", why="gone", topic="a", partition=0)

    answer = driver.contender.decide(request)

    assert driver.stop() is ExitCode.OK
    assert (answer.outcome, tags(store).count("Lost")) == (Outcome.DONE, 1)
    assert (state(store).blocked, state(store).missing) == ({}, {})
    assert state(store).totals.lost == len([*LATE, *POISON])


@pytest.mark.usefixtures("lost")
def test_what_a_replay_lost_for_good_is_given_up_if_the_spec_allows_it(store: MemoryStore) -> None:
    gone(store)
    driver = DriverThread(
        store,
        FakeLog().write("a", 30),
        group=group(2, source={"kafka": SKIPS}),
        runner=MemoryRunner(store),
    ).start()

    driver.until(lambda _: state(store).totals.lost, "the objects are given up")

    assert driver.stop() is ExitCode.OK
    assert (state(store).totals.lost, state(store).blocked) == (20, {})


@pytest.mark.usefixtures("lost")
def test_a_replay_is_made_again_though_its_topic_was_recreated(store: MemoryStore) -> None:
    log = FakeLog().write("a", 0)
    log.ids["a"] = "another"
    driver = DriverThread(store, log, group=group(2), runner=MemoryRunner(store)).start()

    driver.until(lambda _: "Repair" in tags(store), "the objects are made again")

    driver.stop()
    assert data(store) == once(GOOD, LATE)


@pytest.mark.usefixtures("landed")
def test_a_driver_deletes_dead_letters_that_are_older_than_they_are_kept(
    store: MemoryStore,
) -> None:
    month = timedelta(days=30)
    early = landing(store, 2, end=33, start_time=NOW + month - timedelta(hours=1))
    assert early.stop() is ExitCode.OK
    assert set(letters(store)) == {1, 2}

    late = landing(store, 2, end=36, start_time=NOW + month + timedelta(hours=1))
    assert late.stop() is ExitCode.OK

    assert set(letters(store)) == {2}
    answer = replay(store, 3, dry_run=True)
    assert "6 dead letters in 2 objects" in answer.records[0]
    assert "have expired (spec.badRecords.retain) and cannot be replayed" in answer.message


@pytest.mark.usefixtures("landed")
def test_a_replay_of_expired_dead_letters_says_that_they_are_gone(store: MemoryStore) -> None:
    landing(store, 2, end=31, start_time=NOW + timedelta(days=31)).stop()

    answer = replay(store, 3, until=30)

    assert answer.outcome is Outcome.REFUSED
    assert answer.message.startswith("there are no such dead letters; those landed before 212")


@pytest.mark.usefixtures("landed")
def test_a_replay_reads_nothing_that_a_former_driver_may_still_delete(store: MemoryStore) -> None:
    """That driver said so, and is stuck. A dry run fences nobody, and deletes nothing."""
    through = Lane(store, "events", LANE).read().applied_through
    said = encode_expired(ExpiredLetters(through, -1, "2126-11-20T00:00:00+00:00"))
    store.create(expired_key("events", LANE, through), said)

    planned = replay(store, 3, dry_run=True)
    assert (planned.outcome, set(letters(store))) == (Outcome.DRY_RUN, {1})
    answer = replay(store, 3)

    assert letters(store) == {}
    assert answer.message.endswith("have expired (spec.badRecords.retain) and cannot be replayed")
    assert "Replay" not in tags(store)


@pytest.mark.usefixtures("landed")
def test_what_is_said_to_have_expired_while_a_replay_works_stays(store: MemoryStore) -> None:
    """A fenced driver says so late, after a replay has read them, before another begins."""
    state = Lane(store, "events", LANE).read()
    replayer = Replayer(group(3), store, MemoryRunner(store), lambda: "token")
    replayer.finish_expiry(state)
    said = encode_expired(ExpiredLetters(state.applied_through, -1, "2126-11-20T00:00:00+00:00"))
    store.create(expired_key("events", LANE, state.applied_through), said)

    replayer.finish_expiry(state)

    assert set(letters(store)) == {1}
