import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

import pytest

from landfall.api.contract import Failure
from landfall.driver.core import store_monitor
from landfall.driver.core.store_monitor import PATIENCE, Outage, StoreMonitor, fail_fast
from landfall.errors import Reason, Stalled, StoreAway
from landfall.store.memory import MemoryStore
from landfall.store.s3.store import S3Store
from tests.support.driver.driver_status import status_of
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group
from tests.support.waiting import wait_for


@dataclass
class Scene:
    """A store that is checked at times that the test sets."""

    now: datetime = NOW
    error: Exception | None = None
    answered: int = 0
    monitor: StoreMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.monitor = StoreMonitor(lambda: self.now)

    def check(self) -> None:
        if self.error:
            raise self.error
        self.answered += 1

    def after(self, time: timedelta) -> Outage | None:
        """The outage that is known after this time and another check."""
        self.now += time
        self.monitor.run_check(self.check)
        return self.monitor.outage()


def away(missed: int, why: str = "time-out", reason: str = "StoreUnavailable") -> Outage:
    return Outage(missed, Failure(NOW.isoformat(), reason, f"no answer: {why}"))


def test_one_missing_answer_is_no_outage() -> None:
    scene = Scene(error=StoreAway("time-out"))

    assert scene.after(timedelta(0)) is None
    assert scene.after(PATIENCE) is None


def test_an_outage_begins_with_the_first_check_that_was_not_answered() -> None:
    scene = Scene(error=StoreAway("time-out"))
    scene.after(timedelta(0))

    assert scene.after(2 * PATIENCE) == away(2)
    assert scene.after(8 * PATIENCE) == away(10)


def test_an_outage_ends_when_the_store_answers() -> None:
    scene = Scene(error=StoreAway("time-out"))
    scene.after(timedelta(0))
    scene.after(2 * PATIENCE)
    scene.error = None

    assert scene.after(timedelta(0)) is None


def test_a_store_that_refuses_is_an_outage_with_its_reason() -> None:
    scene = Scene(error=Stalled(Reason.STORE_DENIED, "the credentials expired"))
    scene.after(timedelta(0))

    assert scene.after(2 * PATIENCE) == away(2, "the credentials expired", "StoreDenied")


def test_an_outage_is_added_to_the_failures_in_the_status() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))
    one.counters.failed("RoundFailed", "the broker is away", NOW)
    before = status_of(one)

    commits = away(3).overlay(before).commits

    assert (commits.failures, commits.consecutive_failures) == (1, 3)
    assert commits.last_failure == away(3).failure


def test_a_failure_of_the_driver_itself_during_an_outage_stays_in_the_status() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))
    for second in range(4):
        one.counters.failed(
            "StoreUnavailable", "create slot 7: throttled", NOW + timedelta(seconds=second)
        )
    status = status_of(one)

    assert away(3).overlay(status) == status


@pytest.fixture
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks follow each other at once."""
    monkeypatch.setattr(store_monitor, "INTERVAL", 0.001)
    monkeypatch.setattr(store_monitor, "RETRY_INTERVAL", 0.001)


@pytest.mark.usefixtures("_without_pauses")
def test_checks_go_on_whatever_a_store_raises_until_the_monitor_is_stopped() -> None:
    scene = Scene(error=KeyError("a bug in a user's own store"))
    scene.monitor.start(scene.check)
    wait_for(lambda: scene.monitor._missing, "the first check")
    scene.now += 2 * PATIENCE
    wait_for(scene.monitor.outage, "the outage is known")

    scene.error = None

    wait_for(lambda: scene.answered > 3, "the checks go on")
    assert scene.monitor.outage() is None
    scene.monitor.stop()


@pytest.mark.usefixtures("_without_pauses")
def test_a_check_that_hangs_is_a_missing_answer() -> None:
    begun, answer, now = Event(), Event(), [NOW]

    def check() -> None:
        begun.set()
        answer.wait()

    monitor = StoreMonitor(lambda: now[0])
    monitor.start(check)
    begun.wait()
    now[0] += 2 * PATIENCE

    outage = monitor.outage()
    answer.set()

    assert outage == Outage(2, Failure(NOW.isoformat(), "StoreUnavailable", "no answer"))
    wait_for(lambda: monitor.outage() is None, "the outage is over")
    monitor.stop()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_the_monitors_client_tries_once_and_waits_for_seconds_only(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    s3 = {"endpoint": silent, "readTimeout": "50ms", "maxAttempts": 5}
    spec = group(output={"url": "s3://bucket/root", "s3": s3}).spec
    store = S3Store("bucket", "root", fail_fast(spec).output.s3)

    with pytest.raises(StoreAway, match="no answer in time"):
        store.read("key")

    assert store.requests == {"GetObject": 1}
    elsewhere = group(ledger={"url": "gs://ledgers/a"}).spec
    assert fail_fast(elsewhere).output.s3.read_timeout == PATIENCE
    assert fail_fast(elsewhere).ledger_root.access.read_timeout == PATIENCE
