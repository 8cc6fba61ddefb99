"""Events: a function of the ledger, wherever a publisher begins."""

import json
from dataclasses import replace

import pytest

from landfall.publish import events as event_module
from landfall.publish.events import EventKind, Events, encode_batch
from tests.support.ledger.event_ledger import CLICKS, ORDERS, EventLedger

ALL = frozenset(EventKind)


@pytest.fixture
def scene() -> EventLedger:
    """Two topics, of which one is complete up to 6 o'clock, and has late objects afterwards."""
    spec = {"output__url": "s3://logs/parsed", "route__pattern": "dt={date}"}
    made = EventLedger("Webhook", {"url": "http://unused"}, spec)
    made.land(CLICKS, ORDERS).land(CLICKS).settle()
    made.finish("clicks", "2026-11-22T06:00:00+00:00").settle()
    return made.land(CLICKS).settle()


def sent(scene: EventLedger, kinds: frozenset[EventKind] = ALL, after: int = -1) -> list[str]:
    stretches = scene.follower(1).stretches(after)
    return [e.id for s in stretches for e in Events(scene.context, kinds).of(s)]


def test_what_is_sent_in_the_order_of_the_slots(scene: EventLedger) -> None:
    assert sent(scene) == [
        "shop/0/4/landed/clicks",
        "shop/0/4/landed/orders",
        "shop/0/5/finished/clicks/dt=2026-11-21",
        "shop/0/8/landed/clicks",
        "shop/0/8/reopened/clicks/dt=2026-11-21",
    ]


def test_events_are_the_same_bytes_wherever_a_publisher_begins(scene: EventLedger) -> None:
    events = Events(scene.context, ALL)
    whole = [e for s in scene.follower(100).stretches(-1) for e in events.of(s)]

    for after in range(-1, scene.sample.state.seq):
        for size in (1, 2, 100):
            found = [e for s in scene.follower(size).stretches(after) for e in events.of(s)]
            assert [e.encode() for e in found] == [e.encode() for e in whole if e.slot > after]
    assert len({e.id for e in whole}) == len(whole)


def test_an_event_is_a_cloud_event(scene: EventLedger) -> None:
    (stretch, *_) = scene.follower(100).stretches(-1)
    event = next(Events(scene.context, ALL).of(stretch))

    assert json.loads(event.encode()) == {
        "specversion": "1.0",
        "id": "shop/0/4/landed/clicks",
        "source": "s3://logs/parsed#default/shop",
        "type": "dev.landfall.landed.v1",
        "subject": "clicks",
        "time": "2026-11-21T05:00:00+00:00",
        "datacontenttype": "application/json",
        "data": {
            "namespace": "default",
            "group": "shop",
            "lane": "0",
            "slot": 4,
            "topic": "clicks",
            "part": 0,
            "parts": 1,
            "rows": 20,
            "bytes": sum(len(b'{"o":%d}\n' % o) for o in range(20)),
            "offsets": [{"partition": 0, "first": 0, "last": 19}],
            "objects": [
                {
                    "url": f"s3://logs/parsed/clicks/dt=2026-11-21/1_0_{start:020d}.json",
                    "outputPartition": "dt=2026-11-21",
                    "partition": 0,
                    "firstOffset": start,
                    "lastOffset": start + 9,
                    "rows": 10,
                    "bytes": sum(len(b'{"o":%d}\n' % o) for o in range(start, start + 10)),
                }
                for start in (0, 10)
            ],
        },
    }


def test_a_period_says_what_it_is_and_what_is_late_of_it(scene: EventLedger) -> None:
    events = [
        json.loads(e.encode())
        for s in scene.follower().stretches(-1)
        for e in Events(scene.context, ALL - {EventKind.LANDED}).of(s)
    ]
    period = {
        "namespace": "default",
        "group": "shop",
        "lane": "0",
        "topic": "clicks",
        "outputPartition": "dt=2026-11-21",
        "unit": "day",
        "start": "2026-11-21T00:00:00",
        "timezone": "UTC",
        "end": "2026-11-22T00:00:00+00:00",
    }

    assert [e["data"] for e in events] == [
        {**period, "slot": 5},
        {**period, "slot": 8, "objects": 1, "rows": 10, "bytes": 90},
    ]
    assert [e["subject"] for e in events] == ["clicks/dt=2026-11-21"] * 2


def test_only_topics_that_are_published_are_sent(scene: EventLedger) -> None:
    orders = replace(scene, entry={"topics": ["ord.*"]})

    assert sent(orders) == ["shop/0/4/landed/orders"]


def test_only_kinds_that_are_asked_for_are_sent(scene: EventLedger) -> None:
    assert sent(scene, frozenset({EventKind.FINISHED})) == [
        "shop/0/5/finished/clicks/dt=2026-11-21"
    ]


def test_many_objects_are_sent_in_several_events(
    scene: EventLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_module, "MAX_OBJECTS", 1)
    (stretch, *_) = scene.follower(100).stretches(-1)
    first, second, *_ = Events(scene.context, ALL).of(stretch)

    assert (first.id, second.id) == ("shop/0/4/landed/clicks", "shop/0/4/landed/clicks/1")
    parts = [json.loads(e.encode())["data"] for e in (first, second)]
    assert [(p["part"], p["parts"], p["rows"]) for p in parts] == [(0, 2, 10), (1, 2, 10)]


def test_a_batch_is_an_array_of_the_same_events(scene: EventLedger) -> None:
    (stretch, *_) = scene.follower(100).stretches(-1)
    events = list(Events(scene.context, ALL).of(stretch))

    assert json.loads(encode_batch(events)) == [json.loads(e.encode()) for e in events]
