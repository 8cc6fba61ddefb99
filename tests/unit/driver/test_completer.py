"""Uploads that only seem lost, because another driver's completion hides them for a while."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.core.background import QueueNotifier
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.landing.completer import Completer
from landfall.errors import StoreDenied
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload, UploadLost
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)
from tests.support.stores.every_store import content, uploaded
from tests.support.stores.lost_uploads import commit_and_lose, tags

PAUSES = (1.0, 20.0)


class AtOnce(Executor):
    """Runs what is submitted before ``submit`` returns."""

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments, **options))
        except UploadLost as lost:
            future.set_exception(lost)
        return future


class Inline:
    """A ``Background`` without threads."""

    def pool(self, threads: int, name: str) -> Executor:  # noqa: ARG002  # Background's parameters
        return AtOnce()

    def notifier(self) -> QueueNotifier:
        return QueueNotifier()


class HidingStore(MemoryStore):
    """Finds neither upload nor object while ``hides`` is set; ``looks`` counts completions."""

    def __init__(self, pauses: Sequence[float] = PAUSES) -> None:
        super().__init__(pauses=pauses)
        self.hides, self.looks = True, 0

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        self.looks += 1
        if self.hides:
            raise UploadLost(f"{upload.key} is hidden")
        super().complete(upload, is_fresh=is_fresh)


class Time:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def time() -> Time:
    return Time()


def started(store: MemoryStore, time: Time) -> tuple[Completer, LandedObject]:
    """A completer that has been given one object, and that object."""
    landed = LandedObject(uploaded(store, "clicks/1_0_0.seq"), ObjectKind.DATA, 1, 0, 0, 0)
    nothing: Any = None
    deps = DriverDeps(store, nothing, nothing, time, str, DriverCounters(time()), Inline())
    completer = Completer(deps, lambda: None)
    completer.apply(3, [landed])
    return completer, landed


def test_an_upload_is_lost_only_after_all_pauses_and_holds_nobody_up(time: Time) -> None:
    store = HidingStore()
    completer, landed = started(store, time)

    for seconds, looks in ((0, 1), (0.9, 1), (0.2, 2), (19, 2)):
        time.advance(seconds)
        assert completer.lost() == {}
        completer.lost()
        assert (store.looks, completer.completing, completer.unapplied) == (looks, 0, 1)
    time.advance(2)
    completer.lost()

    assert store.looks == 3
    assert completer.lost() == {3: [landed]}
    assert completer.lost() == {3: [landed]}
    assert completer.applied_through == 2


def test_an_object_that_appears_meanwhile_is_not_lost(time: Time) -> None:
    store = HidingStore()
    completer, landed = started(store, time)
    completer.lost()

    store.hides = False
    time.advance(1)
    completer.lost()

    assert completer.lost() == {}
    assert (completer.unapplied, completer.applied_through) == (0, 3)
    assert content(store, landed.upload.key) == b"body"


def test_where_completions_are_atomic_an_upload_is_lost_at_once(time: Time) -> None:
    completer, landed = started(HidingStore(pauses=()), time)

    assert completer.lost() == {3: [landed]}


def test_what_a_repair_made_again_is_doubted_anew(time: Time) -> None:
    store = HidingStore()
    completer, landed = started(store, time)
    for seconds in (0, 1, 0, 20, 0):
        time.advance(seconds)
        completer.lost()
    assert completer.lost() == {3: [landed]}

    again = LandedObject(uploaded(store, landed.upload.key), ObjectKind.DATA, 1, 0, 0, 0)
    completer.apply(3, [again])

    assert completer.lost() == {}
    assert completer.protected_uploads == {again.upload.upload_id}


class Later(Executor):
    """Runs what is submitted once ``run`` is called."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.waiting.append((Future[Any](), partial(call, *arguments, **options)))
        return self.waiting[-1][0]

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future, call in waiting:
            try:
                future.set_result(call())
            except StoreDenied as denied:
                future.set_exception(denied)


class RefusingStore(MemoryStore):
    """Refuses completions while ``refuses`` is set."""

    refuses = True

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        if self.refuses:
            raise StoreDenied(f"{upload.key}: AccessDenied")
        super().complete(upload, is_fresh=is_fresh)


def test_an_object_is_called_refused_while_it_is_tried_again(time: Time) -> None:
    store, pool = RefusingStore(), Later()
    landed = LandedObject(uploaded(store, "clicks/1_0_0.seq"), ObjectKind.DATA, 1, 0, 0, 0)
    nothing: Any = None
    background: Any = SimpleNamespace(pool=lambda *_: pool, notifier=QueueNotifier)
    deps = DriverDeps(store, nothing, nothing, time, str, DriverCounters(time()), background)
    completer = Completer(deps, lambda: None)
    completer.hold(3)
    completer.apply(3, [landed])
    assert completer.refused(3) is None

    for _ in range(3):
        pool.run()
        completer.lost()
        assert "AccessDenied" in str(completer.refused(3))
        time.advance(3600)
        completer.lost()
        assert pool.waiting
        assert "AccessDenied" in str(completer.refused(3))
    store.refuses = False
    pool.run()
    completer.lost()

    assert completer.refused(3) is None
    assert completer.is_complete(3)


def test_a_start_lands_while_it_is_not_known_yet_whether_uploads_are_lost() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    store.pauses_before_lost = (1000.0,)  # on the fakes' clock, which ticks at every call
    log.write("b", 5)
    runner = FakeRunner(store)

    assert driver(group(), store, log, runner, writer="next").run() is ExitCode.OK

    tail = tags(store)[-3:]
    assert tail.index("Commit") < tail.index("Repair")
    assert landed_offsets(store) == written_offsets(log)
