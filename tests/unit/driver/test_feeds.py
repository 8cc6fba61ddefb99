"""Feeds are looked at each by itself: what goes wrong with one is in no other's way."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest

from landfall import ledger
from landfall.api import spec
from landfall.api.contract import LANE
from landfall.driver.core.background import Threads
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.feeds.feeds import Feeds
from landfall.errors import PartUnreadable, Reason, Stalled, StoreAway, StoreDenied
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import Entry, State
from landfall.ledger.offsets import TopicPartition
from landfall.objects import ListedFile
from landfall.source.files_log import FilesLog
from landfall.store.memory import MemoryFiles, MemoryStore
from tests.support.driver.fakes import FakeRunner, group
from tests.support.waiting import eventually

START = datetime(2026, 11, 25, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class AtOnce(Executor):
    """Runs at once what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as executors do
            future.set_exception(error)
        return future


class Inline(Threads):
    def pool(self, threads: int, name: str) -> Executor:
        del threads, name
        return AtOnce()


class Failing(MemoryFiles):
    """A bucket that fails as it is told."""

    error: Exception | None = None

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        for file in super().files(prefix, after):
            if self.error:
                raise self.error
            yield file
        if self.error:
            raise self.error


class Notifications:
    """A source of notifications that a test fills."""

    def __init__(self) -> None:
        self.given: SimpleQueue[bytes | Exception] = SimpleQueue()
        self.taken = 0

    def tell(self, key: str) -> None:
        where = {"bucket": {"name": "a"}, "object": {"key": key}}
        self.given.put(json.dumps({"Records": [{"s3": where}]}).encode())

    def receive(self) -> list[bytes]:
        found = self.given.get()
        if isinstance(found, Exception):
            raise found
        return [found]

    def forget(self) -> None:
        self.taken += 1

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Group:
    """Feeds ``a`` and ``b``, each in a bucket of its own, and what finds their files."""

    options: dict[str, Any] = field(default_factory=dict)
    now: datetime = START
    opened: int = 0
    cannot_open: Exception | None = None

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.buckets = {topic: Failing(lambda: self.now) for topic in "ab"}
        feeds = [
            {"topic": topic, "url": f"s3://{topic}/in", "settle": "1ms", **self.options}
            for topic in "ab"
        ]
        self.group = group(source={"files": feeds})
        lane = Lane(self.store, self.group.metadata.name, LANE)
        self.writer = LaneWriter.open(lane, OpenRequest("w", 1, "r"), lambda: self.now)
        entries = tuple(Entry(tp, "id", 0, feed=True) for tp in self.tps)
        self.append(lambda header: ledger.Add(header=header, entries=entries))
        self.log = FilesLog(self.group)
        self.counters = DriverCounters(START)
        self.events = {topic: Notifications() for topic in "ab"}
        self.deps = DriverDeps(
            self.store,
            Observer(self.log, timedelta(0)),
            FakeRunner(self.store),
            lambda: self.now,
            lambda: "name",
            self.counters,
            Inline(),
            self.open_files,
            lambda feed: self.events[feed.topic],
        )
        self.feeds = Feeds(self.group, self.deps, self.append, lambda: None)

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(topic, 0) for topic in "ab")

    @property
    def state(self) -> State:
        return self.writer.state

    def append(self, record: Callable[..., ledger.Record]) -> State:
        return self.writer.append(lambda header: record(header=header), -1)

    def open_files(self, feed: spec.Feed) -> MemoryFiles:
        self.opened += 1
        if self.cannot_open and feed.topic == "a":
            raise self.cannot_open
        return self.buckets[feed.topic]

    def looks(self, *, minutes: float = 1) -> None:
        """Begin looks, and take in what they found."""
        self.now += minutes * MINUTE
        for _ in range(2):
            self.feeds.look(self.state, self.now)

    def ends(self) -> dict[str, int]:
        return {tp.topic: feed.end for tp, feed in self.state.feeds.items()}

    def problems(self) -> list[tuple[Reason, str]]:
        return [(error.reason, str(error)) for error in self.feeds.problems(self.state)]


FAILURES: list[tuple[Exception, Reason]] = [
    (StoreDenied("list s3://a/in/: AccessDenied (403)"), Reason.SOURCE_DENIED),
    (StoreDenied("list s3://a/in/: NoSuchBucket (404)"), Reason.SOURCE_DENIED),
    (StoreAway("list s3://a/in/: SlowDown (503)"), Reason.SOURCE_UNAVAILABLE),
    (Stalled(Reason.LEDGER_BROKEN, "a list is gone"), Reason.LEDGER_BROKEN),
]


@pytest.mark.parametrize(("error", "reason"), FAILURES)
def test_a_feed_that_fails_for_an_hour_stops_no_other(error: Exception, reason: Reason) -> None:
    made = Group()
    made.buckets["a"].error = error

    for n in range(60):
        made.buckets["a"].write(f"{n}", b"1\n")
        made.buckets["b"].write(f"{n:02}", b"1\n")
        made.looks()

    assert made.ends() == {"a": 0, "b": 60}
    assert made.problems() == [(reason, f"a/0: new files are not found: {error}")]
    assert made.feeds.are_found
    made.buckets["a"].error = None
    made.looks()
    assert made.ends() == {"a": 60, "b": 60}
    assert made.problems() == []


def test_a_short_failure_is_no_problem_of_the_group() -> None:
    made = Group()
    made.buckets["a"].error = StoreAway("503")

    made.looks()

    assert made.problems() == []
    assert made.counters.failures_by_reason == {"StoreUnavailable": 1}
    assert not made.feeds.are_found


def test_a_feed_that_cannot_be_opened_is_tried_now_and_then_and_stops_no_other() -> None:
    made = Group(cannot_open=StoreDenied("no secret 'keys'"))
    made.buckets["b"].write("1", b"1\n")

    for _ in range(100):
        made.looks(minutes=0.1)

    assert made.ends() == {"a": 0, "b": 1}
    assert made.opened <= 1 + 20  # of b once; of a twice a minute
    assert made.problems() == [
        (Reason.SOURCE_DENIED, "a/0: new files are not found: no secret 'keys'")
    ]


def test_a_reader_that_is_wrong_stops_only_its_feed() -> None:
    made = Group({"reader": "Lines", "readerOptions": {"nonsense": 1}})

    made.looks()

    assert made.ends() == {"a": 0, "b": 0}
    assert made.counters.failures == 2


def test_a_merge_that_fails_is_not_tried_at_once() -> None:
    made = Group()
    for n in range(20):
        made.buckets["a"].write(f"{n:03}", b"1\n")
        made.looks()
    gone = made.state.feeds[made.tps[0]].lists[0].key
    made.store.delete_slots([gone])

    for _ in range(100):
        made.looks(minutes=0.01)

    assert made.ends() == {"a": 20, "b": 0}
    assert made.counters.failures <= 4


def test_names_of_all_kinds_are_landed_or_named(caplog: pytest.LogCaptureFixture) -> None:
    made = Group()
    good = ["n" * 1024, "line\nbreak", "tab\t", "empty", "é/😀", " "]
    bad = ["n" * 1025, "half \ud800"]
    for name in good + bad:
        made.buckets["a"].write(name, b"" if name == "empty" else b"1\n")

    made.looks()
    made.looks(minutes=60)

    assert made.ends() == {"a": len(good), "b": 0}
    left_out = [record for record in caplog.records if record.message == "file left out"]
    assert sorted(record.file for record in left_out) == sorted(bad)  # each once
    assert made.problems() == []


def test_a_store_whose_clock_is_an_hour_ahead_delays_a_file_by_settle_alone() -> None:
    made = Group({"settle": "1m"})
    made.buckets["a"] = Failing(lambda: made.now + 60 * MINUTE)
    made.buckets["a"].write("1", b"1\n")

    made.looks(minutes=0)
    assert made.ends() == {"a": 0, "b": 0}
    made.looks()

    assert made.ends() == {"a": 1, "b": 0}


def test_a_file_that_is_gone_when_it_is_read_is_parked(caplog: pytest.LogCaptureFixture) -> None:
    made = Group()
    made.buckets["a"].write("1", b"1\n")
    made.looks()
    made.buckets["a"].delete("1")

    made.feeds.park(made.state, {made.tps[0]: PartUnreadable(0, "a/0: part 0: 1: gone")})
    made.looks()

    assert made.ends() == {"a": 1, "b": 0}
    assert made.problems() == [
        (
            Reason.FILE_UNREADABLE,
            "a/0: 1 part of files not landed, the first tried 1 time: a/0: part 0: 1: gone",
        )
    ]
    assert "file parked" in caplog.messages


RARELY = {
    "discoveryInterval": "24h",
    "relist": "24h",
    "settle": "1m",
    "events": {"sqs": {"queueUrl": "https://sqs/files"}},
}


def test_a_file_that_is_written_again_before_it_is_landed_does_not_stop_its_feed() -> None:
    made = Group()
    made.buckets["a"].write("1", b"1\n")
    made.looks()
    made.buckets["a"].write("1", b"again\n")

    made.looks(minutes=10)
    assert (made.problems(), made.log.stopped) == ([], {})

    made.feeds.park(made.state, {made.tps[0]: PartUnreadable(0, "has another version")})
    made.looks(minutes=10)
    assert made.ends() == {"a": 2, "b": 0}
    assert (made.problems(), made.log.stopped) == ([], {})


def test_a_notification_lets_the_driver_look_at_once_and_again_when_the_file_has_settled() -> None:
    made = Group(RARELY)
    made.buckets["a"].write("m", b"1\n")
    made.looks(minutes=0)
    made.looks(minutes=2)
    assert made.ends() == {"a": 1, "b": 0}
    made.buckets["a"].write("late", b"2\n")
    made.looks(minutes=0.2)
    before = made.buckets["a"].requests.copy()

    made.events["a"].tell("in/late")
    eventually(lambda: made.events["a"].taken, bool)
    made.looks(minutes=0)
    made.looks(minutes=0.9)
    assert made.ends() == {"a": 1, "b": 0}
    assert made.buckets["a"].requests - before == {"files": 1, "find": 1}
    made.looks(minutes=0.2)

    assert made.ends() == {"a": 2, "b": 0}
    assert made.buckets["a"].requests - before == {"files": 2, "find": 2}
    requests = made.buckets["a"].requests.copy()
    made.looks(minutes=60)
    assert made.buckets["a"].requests == requests


def test_notifications_that_are_away_are_a_note_and_stop_nothing() -> None:
    made = Group(RARELY)
    made.events["a"].given.put(StoreDenied("receive https://sqs/files: AccessDenied (403)"))
    made.buckets["a"].write("m", b"1\n")

    made.looks(minutes=0)
    eventually(lambda: made.feeds.notes, bool)
    made.looks(minutes=2)

    assert made.ends() == {"a": 1, "b": 0}
    assert made.problems() == []
    assert made.feeds.notes == (
        "a/0: events are not received: receive https://sqs/files: AccessDenied (403)",
    )
    made.feeds.stop()


def test_copies_are_counted_in_the_status() -> None:
    made = Group({"dedupe": {"by": "ETag"}})
    for name, body in (("1", b"x\n"), ("2", b"x\n"), ("3", b"y\n"), ("4", b"x\n")):
        made.buckets["a"].write(name, body)

    made.looks()

    assert made.ends() == {"a": 2, "b": 0}
    assert made.feeds.notes == ("a/0: 2 files left out by dedupe, as copies of another file",)
    made.buckets["a"].delete("4")
    made.looks(minutes=60)
    assert made.feeds.notes == ("a/0: 1 file left out by dedupe, as copies of another file",)


def test_a_file_that_cannot_be_numbered_is_named_in_the_status_and_holds_up_no_other() -> None:
    made, name = Group({}), "n" * 1025
    for each in ("1", name, "z"):
        made.buckets["a"].write(each, b"x\n")

    made.looks()

    assert made.ends() == {"a": 2, "b": 0}
    why = f"a name of 1025 bytes, not 1 to 1024: {name!r}"
    way_out = "give it another name, or write it in smaller files"
    assert made.feeds.notes == (f"a/0: 1 file left out: {why}; {way_out}",)
    made.buckets["a"].delete(name)
    made.looks(minutes=60)
    assert made.feeds.notes == ()


def test_many_copies_are_counted_over_all_looks_of_a_listing() -> None:
    made = Group({"dedupe": {}, "include": "[0-9]+"})
    for n in range(50):
        made.buckets["a"].write(f"{n:02}", b"%d\n" % (n % 5))

    made.looks()

    assert made.ends() == {"a": 5, "b": 0}
    assert made.feeds.notes == ("a/0: 45 files left out by dedupe, as copies of another file",)
