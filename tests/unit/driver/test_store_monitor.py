import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

import pytest

from landfall.api.contract import Failure
from landfall.api.spec import Output
from landfall.driver import store_monitor
from landfall.driver.status import driver_status
from landfall.driver.store_monitor import PATIENCE, Outage, StoreMonitor, fail_fast
from landfall.errors import Reason, Stalled, StoreAway
from landfall.store.memory import MemoryStore
from landfall.store.s3 import S3Store
from tests.support.fakes import NOW, FakeLog, FakeRunner, driver, group
from tests.support.landing import wait_for


@dataclass
class Scene:
    """A store that is asked at times that the test sets."""

    now: datetime = NOW
    error: Exception | None = None
    answered: int = 0
    store_monitor: StoreMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.monitor = StoreMonitor(self._look, lambda: self.now)

    def _look(self) -> None:
        if self.error:
            raise self.error
        self.answered += 1

    def after(self, time: timedelta) -> Outage | None:
        """What is known when time has gone by and the store was looked at again."""
        self.now += time
        self.monitor.look()
        return self.monitor.outage()


def away(missed: int, why: str = "time-out", reason: str = "StoreUnavailable") -> Outage:
    return Outage(missed, Failure(NOW.isoformat(), reason, f"no answer: {why}"))


def test_one_answer_that_does_not_come_is_nothing_to_tell() -> None:
    scene = Scene(error=StoreAway("time-out"))

    assert scene.after(timedelta(0)) is None
    assert scene.after(PATIENCE) is None


def test_a_store_that_keeps_silent_is_away_since_the_first_look_that_it_did_not_answer() -> None:
    scene = Scene(error=StoreAway("time-out"))
    scene.after(timedelta(0))

    assert scene.after(2 * PATIENCE) == away(2)
    assert scene.after(8 * PATIENCE) == away(10)


def test_a_store_that_answers_again_is_back() -> None:
    scene = Scene(error=StoreAway("time-out"))
    scene.after(timedelta(0))
    scene.after(2 * PATIENCE)
    scene.error = None

    assert scene.after(timedelta(0)) is None


def test_a_store_that_refuses_is_told_with_its_reason() -> None:
    scene = Scene(error=Stalled(Reason.STORE_DENIED, "the credentials expired"))
    scene.after(timedelta(0))

    assert scene.after(2 * PATIENCE) == away(2, "the credentials expired", "StoreDenied")


def test_an_outage_is_told_in_the_picture_beside_what_failed_before() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))
    one.counters.failed("RoundFailed", "the broker is away", NOW)
    before = driver_status(one, NOW)

    commits = away(3).overlay(before).commits

    assert (commits.failures, commits.consecutive_failures) == (1, 3)
    assert commits.last_failure == away(3).failure


def test_what_a_call_was_told_during_an_outage_says_more_than_a_look() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))
    for second in range(4):
        one.counters.failed(
            "StoreUnavailable", "create slot 7: throttled", NOW + timedelta(seconds=second)
        )
    picture_of_it = driver_status(one, NOW)

    assert away(3).overlay(picture_of_it) == picture_of_it


@pytest.fixture
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks one after the other."""
    monkeypatch.setattr(store_monitor, "INTERVAL", 0.001)
    monkeypatch.setattr(store_monitor, "RETRY_INTERVAL", 0.001)


@pytest.mark.usefixtures("_restless")
def test_looks_go_on_whatever_a_store_raises_until_it_is_stopped() -> None:
    scene = Scene(error=KeyError("a bug in a store of one's own"))
    scene.monitor.start()
    wait_for(lambda: scene.monitor._missing, "the first look")
    scene.now += 2 * PATIENCE
    wait_for(scene.monitor.outage, "it is told")

    scene.error = None

    wait_for(lambda: scene.answered > 3, "it is looked at again and again")
    assert scene.monitor.outage() is None
    scene.monitor.stop()


@pytest.mark.usefixtures("_restless")
def test_a_look_that_hangs_is_no_answer() -> None:
    begun, answer, now = Event(), Event(), [NOW]

    def look() -> None:
        begun.set()
        answer.wait()

    watching = StoreMonitor(look, lambda: now[0])
    watching.start()
    begun.wait()
    now[0] += 2 * PATIENCE

    outage = watching.outage()
    answer.set()

    assert outage == Outage(2, Failure(NOW.isoformat(), "StoreUnavailable", "no answer"))
    wait_for(lambda: watching.outage() is None, "it is back")
    watching.stop()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_looks_have_a_client_that_asks_once_and_not_for_long(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    s3 = {"endpoint": silent, "readTimeout": "50ms", "maxAttempts": 5}
    output = fail_fast(Output.model_validate({"url": "s3://bucket/root", "s3": s3}))
    store = S3Store("bucket", "root", output.s3)

    with pytest.raises(StoreAway, match="ReadTimeoutError"):
        store.read("key")

    assert store.requests == {"GetObject": 1}
    assert fail_fast(group().spec.output).s3.read_timeout == PATIENCE
