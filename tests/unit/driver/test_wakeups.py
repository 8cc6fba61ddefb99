"""Notifications wake the driver, and nothing else depends on them."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from landfall.api import spec
from landfall.driver.feeds import wakeups
from landfall.driver.feeds.wakeups import Wakeups
from landfall.errors import Reason, SourceAway, Stalled
from tests.support.waiting import eventually

FEED = spec.Feed.model_validate(
    {
        "topic": "hits",
        "url": "s3://logs/in",
        "exclude": r".*\.tmp",
        "events": {"sqs": {"queueUrl": "https://sqs.example.com/1/files"}},
    }
)


def event(*keys: str, bucket: str = "logs") -> bytes:
    where = [{"bucket": {"name": bucket}, "object": {"key": key}} for key in keys]
    return json.dumps(
        {"Records": [{"eventName": "ObjectCreated:Put", "s3": w} for w in where]}
    ).encode()


class Source:
    """Gives what it was given, once; errors are raised."""

    def __init__(self, *given: Sequence[bytes] | Exception) -> None:
        self.given = list(given)
        self.forgotten = self.opened = self.closed = 0
        self.is_idle = threading.Event()

    def receive(self) -> Sequence[bytes]:
        if not self.given:
            self.is_idle.wait(0.01)
            return ()
        found = self.given.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def forget(self) -> None:
        self.forgotten += 1

    def close(self) -> None:
        self.closed += 1

    def open(self, _: spec.Feed) -> "Source":
        self.opened += 1
        return self


def made(source: Any = None) -> Wakeups:
    return Wakeups(FEED, (source or Source()).open, lambda: None)


def test_names_of_the_feed_are_taken_once() -> None:
    listening = made()

    listening.take_in([event("in/a", "in/x.tmp", "out/b", "in/"), event("in/c", bucket="other")])
    listening.take_in([event("in/a"), event("in/d+e")])

    assert listening.has_hints
    assert listening.take() == ("a", "d e", "d+e")
    assert (listening.has_hints, listening.take()) == (False, ())


def test_hostile_events_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    listening = made()

    listening.take_in([b"garbage", b"{}", b"x" * 2**20, event("in/a")])

    assert listening.take() == ("a",)
    assert caplog.messages == ["event left out"] * 3


def test_of_a_flood_of_names_a_limited_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "MAX_LATE", 10)
    listening = made()

    listening.take_in(event(f"in/{n}") for n in range(100))

    assert listening.has_hints
    assert len(listening.take()) == 10


def test_the_driver_is_woken_once_for_what_comes_together() -> None:
    woken = list[int]()
    listening = Wakeups(FEED, Source().open, lambda: woken.append(1))

    listening.take_in([event("in/a", "in/b"), event("in/c")])
    listening.take_in([event("out/a"), b"garbage"])

    assert len(woken) == 1


def test_what_was_taken_in_is_forgotten_by_the_source() -> None:
    source = Source([event("in/a")], [b"garbage"], [event("in/b")])
    listening = made(source)

    listening.start()
    eventually(lambda: source.forgotten, lambda count: count >= 3)
    listening.stop()

    assert listening.take() == ("a", "b")
    eventually(lambda: source.closed, lambda count: count == 1)


def test_a_source_that_is_away_is_a_warning_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "landfall")
    monkeypatch.setattr(wakeups, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(wakeups, "LONGEST_PAUSE", 0.001)
    gone = Stalled(Reason.TOPIC_MISSING, "no topic")
    source = Source(SourceAway("away"), SourceAway("away"), gone, [event("in/a")])
    listening = made(source)

    listening.start()
    eventually(lambda: listening.has_hints, bool)
    eventually(lambda: listening.problem, lambda problem: not problem)
    eventually(lambda: len(caplog.messages), lambda count: count == 3)  # a moment later
    listening.stop()

    assert listening.take() == ("a",)
    assert (source.opened, source.closed) == (4, 3)
    assert caplog.messages == [
        "events not received",
        "events not received",
        "events received again",
    ]
