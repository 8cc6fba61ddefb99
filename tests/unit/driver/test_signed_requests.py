"""The control port takes what the operator has signed for this driver, now, and once."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import EXECUTORS_PATH, OPEN_PATH, YIELD_PATH
from landfall.api.signatures import SignatureRefusal, parse_challenge
from landfall.api.verbs import Answer, Outcome, Request
from landfall.driver.http import signed_requests
from landfall.driver.http.control import BODY_BYTES, Control, ControlHandler, serve_control
from landfall.driver.http.signed_requests import SignatureCheck
from tests.support.driver.signing import DRIVER, NOW, Asked, Clock, check_of, new_key, write_keys

SECOND = 1000


@pytest.fixture
def received() -> list[Any]:
    return []


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    write_keys(file, new_key())
    return file


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW - 1000 * SECOND)


@pytest.fixture
def check(keys: Path, clock: Clock) -> SignatureCheck:
    """Of a driver that started long ago."""
    check = check_of(keys, clock)
    clock.now = NOW
    return check


@pytest.fixture
def server(
    check: SignatureCheck, tmp_path: Path, received: list[Any]
) -> Iterator[ThreadingHTTPServer]:
    def decide(request: Request) -> Answer:
        received.append(request)
        return Answer(Outcome.DONE)

    handler = ControlHandler(
        received.append, received.append, lambda: received.append("open"), decide
    )
    local = tmp_path / "local"
    local.write_text("l0cal")
    control = Control(tmp_path / "absent", "127.0.0.1", 0, local, check)
    server = serve_control(control, handler)
    yield server
    server.shutdown()


def send(
    server: ThreadingHTTPServer, asked: Asked, header: str | None = None, **headers: str
) -> tuple[int, SignatureRefusal | None]:
    """The status code, and why the request was refused."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    known = {"Authorization": asked.header if header is None else header, **headers}
    connection.request(asked.method, asked.path, asked.body, known)
    answer = connection.getresponse()
    answer.read()
    wanted = answer.getheader("WWW-Authenticate") or ""
    connection.close()
    challenge = parse_challenge(wanted)
    if challenge:
        assert challenge[0] == server.RequestHandlerClass.control.signatures.clock()  # type: ignore[attr-defined]
    return answer.status, challenge[1] if challenge else None


def test_a_signed_command_is_carried_out(server: ThreadingHTTPServer, received: list[Any]) -> None:
    assert send(server, Asked.of(EXECUTORS_PATH, {"wanted": 3})) == (202, None)
    assert send(server, Asked.of(YIELD_PATH, {"to": "g2"})) == (202, None)
    assert send(server, Asked.of("/control/retry", {"who": "o", "why": "w"})) == (200, None)
    assert received[:2] == [3, "g2"]
    assert received[2].why == "w"


CHANGED = [
    ("path", OPEN_PATH),
    ("path", f"{EXECUTORS_PATH}?x=1"),
    ("method", "PUT"),
    ("addressee", replace(DRIVER, namespace="others")),
    ("addressee", replace(DRIVER, group="views")),
    ("addressee", replace(DRIVER, uid="of the group before")),
    ("addressee", replace(DRIVER, revision="g2-5e6f7a8b")),
    ("addressee", replace(DRIVER, pod="of the pod before")),
    ("time", NOW + 1),
    ("nonce", "f" * 32),
    ("body", b'{"wanted": 9}'),
    ("key", new_key(2)),
]


@pytest.mark.parametrize(("field", "value"), CHANGED)
def test_a_signature_of_another_request_is_refused(
    server: ThreadingHTTPServer, received: list[Any], field: str, value: Any
) -> None:
    asked = Asked.of(EXECUTORS_PATH, {"wanted": 3})
    other = replace(asked, **{field: value})
    own, stolen = asked.header, other.header
    signature = stolen.rpartition("=")[2]
    header = own.replace(own.rpartition("=")[2], signature)

    assert send(server, asked, header) == (401, SignatureRefusal.SIGNATURE)
    assert send(server, asked) == (202, None)
    assert received == [3]


def test_a_key_that_is_not_mounted_is_refused(
    server: ThreadingHTTPServer, received: list[Any], keys: Path
) -> None:
    asked = Asked.of(OPEN_PATH, {}, key=new_key(2))

    assert send(server, asked) == (401, SignatureRefusal.UNKNOWN_KEY)
    for content in ("", "{}", "[]", "null", '{"group": "group-uid", "keys": "x"}', "[" * 5000):
        keys.write_text(content)
        assert send(server, Asked.of(OPEN_PATH, {})) == (401, SignatureRefusal.UNKNOWN_KEY)
    keys.unlink()
    assert send(server, Asked.of(OPEN_PATH, {})) == (401, SignatureRefusal.UNKNOWN_KEY)
    assert received == []


def test_a_rotated_key_is_in_force_at_once_and_the_former_one_until_it_goes(
    server: ThreadingHTTPServer, keys: Path
) -> None:
    write_keys(keys, new_key(2), new_key())
    assert send(server, Asked.of(OPEN_PATH, {}, key=new_key(2))) == (202, None)
    assert send(server, Asked.of(OPEN_PATH, {})) == (202, None)

    write_keys(keys, new_key(2))

    assert send(server, Asked.of(OPEN_PATH, {})) == (401, SignatureRefusal.UNKNOWN_KEY)


def test_keys_of_another_group_of_the_name_are_not_taken(
    server: ThreadingHTTPServer, keys: Path
) -> None:
    write_keys(keys, new_key(), uid="of the group before")

    assert send(server, Asked.of(OPEN_PATH, {})) == (401, SignatureRefusal.SIGNATURE)


@pytest.mark.parametrize("skew", [-61, 61, -100_000, 100_000])
def test_a_time_that_is_too_far_away_is_refused(
    server: ThreadingHTTPServer, received: list[Any], skew: int
) -> None:
    asked = Asked.of(OPEN_PATH, {}, time=NOW + skew * SECOND)

    assert send(server, asked) == (401, SignatureRefusal.CLOCK)
    assert send(server, Asked.of(OPEN_PATH, {}, time=NOW + 60 * SECOND)) == (202, None)
    assert send(server, Asked.of(OPEN_PATH, {}, time=NOW - 60 * SECOND)) == (202, None)
    assert received == ["open", "open"]


def test_what_was_signed_before_the_start_is_refused(keys: Path) -> None:
    check = check_of(keys, Clock())  # its nonces went with the process before it
    asked = Asked.of(OPEN_PATH, {}, time=NOW - 1)

    assert check.check("POST", OPEN_PATH, asked.header) is SignatureRefusal.CLOCK


def test_a_request_is_taken_once(
    server: ThreadingHTTPServer, received: list[Any], clock: Clock
) -> None:
    asked = Asked.of(OPEN_PATH, {}, time=NOW + 60 * SECOND)

    assert send(server, asked) == (202, None)
    assert send(server, asked) == (401, SignatureRefusal.REPLAYED)
    clock.now = NOW + 120 * SECOND  # the last moment at which its time is accepted
    assert send(server, asked) == (401, SignatureRefusal.REPLAYED)
    clock.now += 1
    assert send(server, asked) == (401, SignatureRefusal.CLOCK)
    assert received == ["open"]


def test_nonces_are_forgotten_when_their_time_is_over_and_never_before(
    check: SignatureCheck, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_requests, "MAX_NONCES", 2)

    def taken() -> bool:
        asked = Asked.of(OPEN_PATH, {}, time=clock.now)
        return not isinstance(check.check("POST", OPEN_PATH, asked.header), SignatureRefusal)

    assert [taken(), taken(), taken()] == [True, True, False]
    clock.now += 61 * SECOND
    assert [taken(), taken(), taken()] == [True, True, False]


def test_a_request_that_is_refused_uses_up_no_nonce(check: SignatureCheck) -> None:
    asked = Asked.of(OPEN_PATH, {})
    forged = replace(asked, key=new_key(2)).header.replace("key=", "key=")

    assert check.check("POST", EXECUTORS_PATH, asked.header) is SignatureRefusal.SIGNATURE
    assert check.check("POST", OPEN_PATH, forged) is SignatureRefusal.UNKNOWN_KEY
    assert not isinstance(check.check("POST", OPEN_PATH, asked.header), SignatureRefusal)


def test_a_body_that_was_not_signed_is_refused(
    server: ThreadingHTTPServer, received: list[Any]
) -> None:
    asked = Asked.of(EXECUTORS_PATH, {"wanted": 3})
    other = replace(asked, body=b'{"wanted": 9}')

    assert send(server, other, asked.header) == (401, SignatureRefusal.BODY)
    assert received == []


def test_nothing_of_a_body_is_read_before_the_signature_holds(
    server: ThreadingHTTPServer, received: list[Any]
) -> None:
    asked = Asked.of(OPEN_PATH, {}, key=new_key(2))
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest("POST", OPEN_PATH)
    connection.putheader("Authorization", asked.header)
    connection.putheader("Content-Length", "2")  # it never comes
    connection.endheaders()

    assert connection.getresponse().status == 401
    connection.close()
    assert (
        send(server, Asked.of(OPEN_PATH, {}), **{"Content-Length": str(BODY_BYTES + 1)})[0] == 400
    )
    assert received == []


@pytest.mark.parametrize(
    "header",
    [
        "Landfall-Ed25519",
        "Landfall-Ed25519 ",
        "Landfall-Ed25519 key=,time=,nonce=,body=,signature=",
        "Landfall-Ed25519 " + "x" * 60_000,
    ],
)
def test_a_header_that_is_not_one_is_refused(
    server: ThreadingHTTPServer, received: list[Any], header: str
) -> None:
    assert send(server, Asked.of(OPEN_PATH, {}), header) == (401, SignatureRefusal.MALFORMED)
    assert received == []


def test_a_header_of_more_than_a_line_may_have_is_refused(
    server: ThreadingHTTPServer, received: list[Any]
) -> None:
    assert send(server, Asked.of(OPEN_PATH, {}), "Landfall-Ed25519 " + "x" * 70_000)[0] == 431
    assert received == []


def test_every_part_of_the_header_has_one_notation(check: SignatureCheck) -> None:
    header = Asked.of(OPEN_PATH, {}).header

    for other in (
        header.upper(),
        f" {header}",
        f"{header} ",
        header.replace(",", ", "),
        header.replace("time=", "time=0"),
        header.replace("nonce=0", "nonce=0".upper()),
        header.replace("1", "\N{ARABIC-INDIC DIGIT ONE}"),
    ):
        assert check.check("POST", OPEN_PATH, other) is SignatureRefusal.MALFORMED


def test_the_token_of_the_pod_is_taken_although_there_is_no_secret(
    server: ThreadingHTTPServer, received: list[Any]
) -> None:
    asked = Asked.of(OPEN_PATH, {})

    assert send(server, asked, "Bearer l0cal") == (202, None)
    assert send(server, asked, "Bearer ")[0] == 401
    assert received == ["open"]


def test_a_driver_without_keys_takes_no_signature(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    handler = ControlHandler(print, print, print, lambda _: Answer(Outcome.DONE))
    server = serve_control(Control(token, "127.0.0.1", 0), handler)
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("POST", OPEN_PATH, b"{}", {"Authorization": Asked.of(OPEN_PATH, {}).header})
    answer = connection.getresponse()
    wanted = parse_challenge(answer.getheader("WWW-Authenticate") or "")
    connection.close()
    server.shutdown()

    assert answer.status == 401
    assert wanted
    assert wanted[1] is SignatureRefusal.UNKNOWN_KEY


def test_the_document_with_the_keys_holds_no_secret(keys: Path) -> None:
    assert json.loads(keys.read_text())["keys"] == [new_key().public_key().public_bytes_raw().hex()]
