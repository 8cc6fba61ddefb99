"""Webhooks on a server that misbehaves: nothing is left out, and nothing it took is repeated."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from landfall.errors import DestinationAway, DestinationDenied, Reason, Stalled
from landfall.lane import Lane
from landfall.publish.events.sending import EventPublisher
from landfall.publish.events.webhook import Webhook, signature
from landfall.publish.following import Follower
from landfall.store.memory import MemoryStore
from tests.support.ledger.event_ledger import CLICKS, ORDERS, EventLedger
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.stores.web_server import LOST, WebServer, web_server

KEY = b"0123456789abcdef01234567"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as made:
        yield made


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "hook").mkdir()
    return tmp_path / "hook"


def event_ledger(server: WebServer, **options: Any) -> EventLedger:
    """Three events: clicks and orders in slot 4, clicks in slot 6."""
    made = EventLedger("Webhook", {"url": f"{server.url}/in", "timeout": "1s", **options})
    return made.land(CLICKS, ORDERS).land(CLICKS).settle().land(CLICKS).settle()


def with_secret(made: EventLedger) -> EventLedger:
    made.entry = {"secretRef": {"name": "hook"}}
    return made


def ids(server: WebServer) -> list[str]:
    found = [asked.json for asked in server.asked]
    return [e["id"] for each in found for e in (each if isinstance(each, list) else [each])]


THREE = ["shop/0/4/landed/clicks", "shop/0/4/landed/orders", "shop/0/6/landed/clicks"]


def test_each_event_is_a_request_in_order(server: WebServer) -> None:
    scene = event_ledger(server)

    scene.publish()
    scene.publish()

    assert ids(server) == THREE
    assert {asked.path for asked in server.asked} == {"/in"}
    types = {asked.headers["content-type"] for asked in server.asked}
    assert types == {"application/cloudevents+json; charset=UTF-8"}


@pytest.mark.parametrize("status", [LOST, 408, 425, 429, 500, 503])
def test_what_the_server_did_not_take_is_sent_again_and_nothing_else(
    server: WebServer, status: int
) -> None:
    scene = event_ledger(server)
    publisher = scene.publisher()
    server.next(200)
    server.next(status)

    with pytest.raises(DestinationAway, match="webhook http://"):
        publisher.publish(scene.follower())
    publisher.publish(scene.follower())

    assert ids(server) == [THREE[0], THREE[1], THREE[1], THREE[2]]
    assert publisher.position() == scene.sample.state.seq


def test_one_that_is_killed_send_again_from_the_last_position(server: WebServer) -> None:
    scene = event_ledger(server)
    server.next(200)
    server.next(LOST)
    with pytest.raises(DestinationAway):
        scene.publish()

    scene.publish()

    assert ids(server) == [THREE[0], THREE[1], *THREE]
    by_id = {(asked.json["id"], asked.body) for asked in server.asked}
    assert len(by_id) == 3, "the same event has the same bytes"


def test_a_long_stretch_is_kept_in_between(server: WebServer) -> None:
    scene = event_ledger(server)
    publisher = scene.publisher()
    assert isinstance(publisher, EventPublisher)
    publisher.monotonic = iter(range(0, 10**6, 10)).__next__
    server.next(200)
    server.next(200)
    server.next(200)
    scene.land(ORDERS).settle()
    server.next(LOST)

    with pytest.raises(DestinationAway):
        publisher.publish(scene.follower(100))
    scene.publish()

    assert ids(server)[4:] == ["shop/0/6/landed/clicks", "shop/0/8/landed/orders"]


def test_after_a_reset_everything_is_sent_anew(server: WebServer) -> None:
    scene = event_ledger(server)
    publisher = scene.publisher()
    publisher.publish(scene.follower())

    publisher.reset(scene.follower())
    publisher.publish(scene.follower())

    assert ids(server) == THREE * 2


def test_the_time_that_the_server_asks_for_is_waited(server: WebServer) -> None:
    scene = event_ledger(server)
    publisher = scene.publisher()
    server.next(429, Retry_After="1000")

    for expected in ("answered with status 429", "asked to wait, 1000 s are left"):
        with pytest.raises(DestinationAway, match=expected):
            publisher.publish(scene.follower())

    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 400, 404, 410, 413, 422])
def test_an_answer_that_would_come_again_is_for_somebody(server: WebServer, status: int) -> None:
    server.next(status, "no\n such  thing")

    with pytest.raises(Stalled, match=f"with status {status}: no such thing") as caught:
        event_ledger(server).publish()

    assert caught.value.reason is Reason.DESTINATION_CONFLICT


def test_secrets_are_in_no_message(server: WebServer, secrets: Path) -> None:
    (secrets / "token").write_text("t0psecret\n")
    server.next(403, "t0psecret is not a token")

    with pytest.raises(DestinationDenied, match=r"403: \*\*\* is not a token"):
        with_secret(event_ledger(server)).publish()

    assert server.asked[0].headers["authorization"] == "Bearer t0psecret"


def test_requests_are_signed_with_both_keys(server: WebServer, secrets: Path) -> None:
    old = bytes(range(32))
    (secrets / "secret").write_text(SECRET)
    (secrets / "secret-old").write_text(base64.b64encode(old).decode())

    with_secret(event_ledger(server)).publish()

    for asked in server.asked:
        ident, at = asked.headers["webhook-id"], asked.headers["webhook-timestamp"]
        expected = [signature(key, ident, at, asked.body) for key in (KEY, old)]
        assert asked.headers["webhook-signature"].split(" ") == expected
    assert len({asked.headers["webhook-id"] for asked in server.asked}) == 3


def test_a_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's reference libraries.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'

    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)

    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["", "whsec_", "short", "whsec_c2hvcnQ=", "x whsec_" + SECRET[6:]])
def test_a_secret_that_is_no_key_is_for_somebody(
    server: WebServer, secrets: Path, text: str
) -> None:
    (secrets / "secret").write_text(text)

    with pytest.raises(Stalled, match="secret of the secret: must be whsec_ and 24 to 64"):
        with_secret(event_ledger(server)).publish()

    assert server.asked == []


def test_events_are_sent_in_batches(server: WebServer) -> None:
    scene = event_ledger(server, batch=2)

    scene.publish()

    assert [[e["id"] for e in asked.json] for asked in server.asked] == [THREE[:2], THREE[2:]]
    types = {asked.headers["content-type"] for asked in server.asked}
    assert types == {"application/cloudevents-batch+json; charset=UTF-8"}


def test_a_server_that_is_not_there_is_away() -> None:
    scene = event_ledger(WebServer(url="http://127.0.0.1:9"))

    with pytest.raises(DestinationAway, match=r"webhook http://127.0.0.1:9: NewConnectionError"):
        scene.publish()


def test_a_preview_asks_nobody(server: WebServer) -> None:
    scene = event_ledger(server)

    lines = list(scene.publisher().preview(scene.follower()))

    assert lines[0] == "event shop/0/4/landed/clicks: Landed clicks, 20 rows"
    assert (len(lines), server.asked) == (3, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "options: Object missing required field `url`"),
        ({"url": "hooks.example.com"}, "option url: must be a URL such as https://"),
        ({"url": "https://user:pass@host"}, "option url: must be a URL without user"),
        ({"url": "https://host", "batch": 0}, "option batch: must be from 1 to 1000, got 0"),
        ({"url": "https://host", "timeout": "1h"}, "option timeout: must be from 1s to 5m"),
        (
            {"url": "https://host", "events": ["Land"]},
            "option events: must be of Landed, Finished, Reopened, Replaced, got 'Land'",
        ),
        (
            {"url": "https://host", "start": "now"},
            "option start: must be Beginning or Now, got 'now'",
        ),
        ({"url": "https://host", "retries": 3}, "options: unknown option retries"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        Webhook.of(options, EventLedger("Webhook", {}).context)

    assert str(caught.value).startswith(message)


def test_one_that_is_new_may_leave_out_what_landed_before(server: WebServer) -> None:
    scene = event_ledger(server, start="Now")
    scene.publish()
    scene.publish()
    assert server.asked == []

    scene.land(ORDERS).settle().publish()

    assert ids(server) == ["shop/0/8/landed/orders"]
    scene.publisher().reset(scene.follower())
    scene.publish()
    assert ids(server)[1:] == [*THREE, "shop/0/8/landed/orders"]


def test_one_that_is_new_before_the_ledger_sends_all_that_lands(server: WebServer) -> None:
    scene = event_ledger(server, start="Now")
    nothing = Follower(Lane(MemoryStore(), GROUP, LANE))
    scene.publisher().publish(nothing)

    scene.publish()

    assert ids(server) == THREE
