import http.client
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import EXECUTORS_PATH, OPEN_PATH, YIELD_PATH
from landfall.driver.http.control import BODY_BYTES, Control, ControlHandler, serve_control

Commands = list[tuple[str, Any]]


@pytest.fixture
def received() -> Commands:
    return []


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    return path


@pytest.fixture
def server(token: Path, received: Commands) -> Iterator[ThreadingHTTPServer]:
    handler = ControlHandler(
        lambda wanted: received.append(("executors", wanted)),
        lambda to: received.append(("yield", to)),
        lambda: received.append(("open", None)),
    )
    server = serve_control(Control(token, "127.0.0.1", 0), handler)
    yield server
    server.shutdown()


def ask(
    server: ThreadingHTTPServer,
    path: str,
    body: object = None,
    method: str = "POST",
    authorization: str | None = "Bearer s3cret",
    **headers: str,
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {"Authorization": authorization} if authorization is not None else {}
    connection.request(method, path, sent, {**known, **headers})
    answer = connection.getresponse()
    assert answer.read() == b""
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("path", "body", "command"),
    [
        (EXECUTORS_PATH, {"wanted": 3}, ("executors", 3)),
        (EXECUTORS_PATH, {"wanted": 0}, ("executors", 0)),
        (YIELD_PATH, {"to": "g2-abc"}, ("yield", "g2-abc")),
        (OPEN_PATH, {}, ("open", None)),
    ],
)
def test_an_accepted_command_is_carried_out(
    server: ThreadingHTTPServer,
    received: Commands,
    path: str,
    body: object,
    command: tuple[str, Any],
) -> None:
    assert ask(server, path, body).status == 202
    assert received == [command]


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "s3cret",
        "Bearer",
        "Bearer ",
        "Bearer s3cre",
        "Bearer s3crets",
        "Basic s3cret",
        "Bearer sécret",
    ],
)
def test_a_request_without_the_token_is_refused(
    server: ThreadingHTTPServer, received: Commands, authorization: str | None
) -> None:
    answer = ask(server, OPEN_PATH, {}, authorization=authorization)

    assert (answer.status, answer.getheader("WWW-Authenticate")) == (401, "Bearer")
    assert ask(server, "/nope", {}, authorization=authorization).status == 401
    assert received == []


def test_a_rotated_token_is_in_force_at_once(
    server: ThreadingHTTPServer, token: Path, received: Commands
) -> None:
    token.write_text("another")

    assert ask(server, OPEN_PATH, {}).status == 401
    assert ask(server, OPEN_PATH, {}, authorization="bearer another").status == 202
    assert received == [("open", None)]


@pytest.mark.parametrize("content", ["", "\n", None])
def test_without_a_token_file_every_request_is_refused(
    server: ThreadingHTTPServer, token: Path, received: Commands, content: str | None
) -> None:
    if content is None:
        token.unlink()
    else:
        token.write_text(content)

    for authorization in ("Bearer ", "Bearer", "Bearer s3cret", None):
        assert ask(server, OPEN_PATH, {}, authorization=authorization).status == 401
    assert received == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (EXECUTORS_PATH, {}),
        (EXECUTORS_PATH, {"wanted": -1}),
        (EXECUTORS_PATH, {"wanted": "3"}),
        (EXECUTORS_PATH, {"wanted": 1.5}),
        (EXECUTORS_PATH, {"wanted": True}),
        (EXECUTORS_PATH, {"wanted": None}),
        (EXECUTORS_PATH, {"wanted": 3, "now": True}),
        (EXECUTORS_PATH, [3]),
        (EXECUTORS_PATH, 3),
        (EXECUTORS_PATH, b""),
        (EXECUTORS_PATH, b"{"),
        (EXECUTORS_PATH, b'{"wanted": 3'),
        (EXECUTORS_PATH, b"\xff\xfe"),
        (EXECUTORS_PATH, b"[" * 3000),
        (YIELD_PATH, {}),
        (YIELD_PATH, {"to": 3}),
        (OPEN_PATH, {"force": True}),
        (OPEN_PATH, None),
        (OPEN_PATH, []),
    ],
)
def test_another_document_is_refused(
    server: ThreadingHTTPServer, received: Commands, path: str, body: object
) -> None:
    assert ask(server, path, body).status == 400
    assert received == []


def test_a_body_without_end_is_refused(server: ThreadingHTTPServer, received: Commands) -> None:
    assert ask(server, OPEN_PATH, b" " * (BODY_BYTES + 1)).status == 400
    assert ask(server, OPEN_PATH, b"{}", **{"Content-Length": "-1"}).status == 400
    assert ask(server, OPEN_PATH, b"{}", **{"Content-Length": "many"}).status == 400
    assert received == []


def test_other_paths_and_methods_are_refused(
    server: ThreadingHTTPServer, received: Commands
) -> None:
    assert ask(server, "/control/nope", {}).status == 404
    assert ask(server, "/status", {}, method="GET").status == 404
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = ask(server, OPEN_PATH, {}, method=method)
        assert (answer.status, answer.getheader("Allow")) == (405, "POST")
    assert received == []


def test_a_command_may_be_sent_twice(server: ThreadingHTTPServer, received: Commands) -> None:
    for _ in range(2):
        assert ask(server, EXECUTORS_PATH, {"wanted": 2}).status == 202

    assert received == [("executors", 2), ("executors", 2)]
