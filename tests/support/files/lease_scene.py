"""An external feed in memory, drivers that run on it, and those who take its files."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from landfall.api.contract import LANE, Status
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import (
    Answer,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseAnswer,
    LeaseRequest,
    Request,
    TakeFilesRequest,
)
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.http.status import StatusReport
from landfall.driver.process.handover import ContenderOptions, LaneContender, StatusReporter
from landfall.driver.process.loop import Driver
from landfall.driver.requests.lane_session import LaneSession
from landfall.lane import Lane
from landfall.ledger import FeedState, Leasing, Record, State, decode
from landfall.ledger.offsets import TopicPartition
from landfall.source.files_log import FilesLog
from landfall.store.memory import MemoryFiles, MemoryStore
from tests.support.driver import fakes
from tests.support.driver.fakes import FakeRunner
from tests.support.waiting import wait_for

TOPIC = "hits"
TP = TopicPartition(TOPIC, 0)
_names = count()


class Clock:
    """A clock that a test moves; each look at it takes a millisecond."""

    def __init__(self) -> None:
        self.now, self._lock = datetime(2126, 11, 21, tzinfo=UTC), threading.Lock()

    def __call__(self) -> datetime:
        with self._lock:
            self.now += timedelta(milliseconds=1)
            return self.now

    def pass_(self, **time: float) -> None:
        with self._lock:
            self.now += timedelta(**time)


@dataclass
class LeaseScene:
    """Files, and the ledger of a group that leases them."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: Clock = field(default_factory=Clock)

    def group(self, **feed: object) -> ConsumerGroup:
        own = {"topic": TOPIC, "url": "s3://bucket/in/", "process": "External", "settle": "1ms"}
        times = {"discoveryInterval": "1ms", "relist": "1ms", "maxAttempts": 2}
        return fakes.group(source={"files": [{**own, **times, **feed}]})

    @contextmanager
    def driver(self, **feed: object) -> "Any":
        """A driver that runs."""
        driver = LeaseDriver(self, self.group(**feed))
        try:
            yield driver.start()
        finally:
            driver.stop()

    def session(self, **feed: object) -> LaneSession:
        group = self.group(**feed)
        lane = Lane(self.store, "fake", LANE)
        log, runner = FilesLog(group), FakeRunner(self.store)
        return LaneSession(group, self.store, lane, log, runner, self.clock, new_name)

    def ask(self, request: LeaseRequest, *, take_over: bool = False) -> Answer:
        """Carry a request out without a driver."""
        return self.session().carry_out(request, take_over=take_over)

    def discovered(self, *names: str) -> None:
        """Write files, and let a driver number them."""
        for name in names:
            self.files.write(name, name.encode())
        with self.driver() as driver:
            driver.until_found(len(names))

    @property
    def state(self) -> State:
        return Lane(self.store, "fake", LANE).read()

    @property
    def feed(self) -> FeedState:
        return self.state.feeds[TP]

    @property
    def leasing(self) -> Leasing:
        assert self.feed.leasing
        return self.feed.leasing

    def records(self) -> list[Record]:
        return [decode(seq, body) for seq, body in Lane(self.store, "fake", LANE).bodies()]


class LeaseDriver:
    """A driver in a thread."""

    def __init__(self, scene: LeaseScene, group: ConsumerGroup) -> None:
        self.scene, self.statuses = scene, list[Status]()
        deps = DriverDeps(
            scene.store,
            Observer(FilesLog(group), timedelta(0)),
            FakeRunner(scene.store),
            scene.clock,
            new_name,
            DriverCounters(scene.clock()),
            open_files=lambda _: scene.files,
        )
        self.contender = LaneContender(
            group,
            deps,
            lambda writer, report: Driver(group, writer, deps, report),
            StatusReporter(self._post, lambda _: None),
            ContenderOptions(),
        )
        self._thread = threading.Thread(target=self.contender.run, daemon=True)

    def _post(self, report: StatusReport) -> None:
        self.statuses.append(report.status)

    def start(self) -> "LeaseDriver":
        self._thread.start()
        self.until(lambda: bool(self.statuses), "the driver runs")
        return self

    def stop(self) -> None:
        self.contender.stop("the test is over")
        self._thread.join(60)

    def ask(self, request: Request) -> Answer:
        return self.contender.decide(request)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        wait_for(condition, what)

    def until_found(self, files: int) -> None:
        def found() -> bool:
            state = self.scene.state
            return TP in state.feeds and state.feeds[TP].end >= files

        self.until(found, f"{files} files are found")


def new_name() -> str:
    return f"n{next(_names)}"


def take(who: str = "kim", limit: int = 100, **fields: Any) -> TakeFilesRequest:
    return TakeFilesRequest(who=who, topic=TOPIC, limit=limit, **{"id": new_name(), **fields})


def done(lease: int, *names: str, **fields: Any) -> FilesDoneRequest:
    return FilesDoneRequest(who="kim", lease=lease, names=names, **{"id": new_name(), **fields})


def failed(lease: int, *names: str, **fields: Any) -> FilesFailedRequest:
    own = {"id": new_name(), "why": "not JSON", **fields}
    return FilesFailedRequest(who="kim", lease=lease, names=names, **own)


def lease_of(answer: Answer) -> int:
    """The lease that somebody got."""
    assert isinstance(answer, LeaseAnswer), answer
    assert answer.lease is not None, answer
    return answer.lease


def names_of(answer: Answer) -> list[str]:
    """The files that somebody got."""
    assert isinstance(answer, LeaseAnswer), answer
    return [file.name for file in answer.files]
