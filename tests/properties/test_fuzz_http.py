"""A driver's two ports keep answering whatever is sent to them, and the token is required."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from landfall.api.contract import EXECUTORS_PATH, OPEN_PATH, YIELD_PATH
from landfall.api.verbs import Answer, Outcome, Request
from landfall.driver.http.control import Control, ControlHandler, serve_control
from landfall.driver.http.server import StatusBoard, serve
from tests.support.examples import share

SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
TOKEN = "the-token-of-this-test"
PATHS = st.one_of(
    st.sampled_from(
        ["/", "/status", "/metrics", "/healthcheck", EXECUTORS_PATH, YIELD_PATH, OPEN_PATH]
    ),
    st.sampled_from(
        ["//status", "/../etc/passwd", "/%2e%2e/", "*", "http://x/status", "", "/" + "a" * 70_000]
    ),
    st.text(max_size=10),
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"{}",
            b'{"wanted": -1}',
            b'{"wanted": 1e99}',
            b'{"wanted": "1"}',
            b'{"to": 5}',
            b"[" * 4000,
        ]
    ),
)
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "-1",
            "0",
            "99999999999999999999",
            "9" * 5000,
            "1_0",
            "٣",
            "x",
            "Bearer",
            "Bearer ",
            "Basic x",
        ]
    ),
    st.text(st.characters(max_codepoint=255), max_size=12),
)
NAMES = st.sampled_from(
    ["Authorization", "Content-Length", "Transfer-Encoding", "Host", "Expect", "X", " ", "é"]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "POST", "HEAD", "PUT", "OPTIONS", "get", "", "\x00"]))
    version = draw(st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/9.9", "", "HTTP/x"]))
    headers = "".join(
        f"{name}: {value}\r\n"
        for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    )
    head = f"{method} {draw(PATHS)} {version}\r\n{headers}\r\n"
    return head.encode("utf-8", "surrogatepass") + draw(BODIES)


def sent(server: ThreadingHTTPServer, request: bytes) -> bytes:
    """The answer to a request, after the sending side of the connection is shut down."""
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", server.server_port), 30) as connection,
        suppress(OSError),
    ):
        # The server may close the connection at any time, with or without an answer.
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.fixture(scope="module")
def status() -> Iterator[ThreadingHTTPServer]:
    server = serve(StatusBoard(lambda: datetime(2026, 11, 21, tzinfo=UTC)), "127.0.0.1", 0)
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def commands() -> list[object]:
    return []


@pytest.fixture(scope="module")
def control(
    commands: list[object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadingHTTPServer]:
    token: Path = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)

    def decide(request: Request) -> Answer:
        commands.append(request)
        return Answer(Outcome.DONE)

    server = serve_control(
        Control(token, "127.0.0.1", 0),
        ControlHandler(commands.append, commands.append, lambda: commands.append("open"), decide),
    )
    yield server
    server.shutdown()


@settings(max_examples=share(150), suppress_health_check=SUPPRESSED)
@given(request=st.one_of(requests(), st.binary(max_size=60)))
@example(b"GET /status HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n")
def test_the_status_port_keeps_answering(
    status: ThreadingHTTPServer, capfd: pytest.CaptureFixture[str], request: bytes
) -> None:
    answer = sent(status, request)

    assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert b" 200 " in sent(status, b"GET /healthcheck HTTP/1.1\r\n\r\n").partition(b"\r\n")[0]
    assert "Traceback" not in capfd.readouterr().err


@settings(max_examples=share(150), suppress_health_check=SUPPRESSED)
@given(request=st.one_of(requests(), st.binary(max_size=60)))
def test_the_control_port_accepts_nothing_without_the_token(
    control: ThreadingHTTPServer,
    commands: list[object],
    capfd: pytest.CaptureFixture[str],
    request: bytes,
) -> None:
    answer = sent(control, request)

    assert commands == []
    assert b" 202 " not in answer.partition(b"\r\n")[0]
    assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert "Traceback" not in capfd.readouterr().err


@settings(max_examples=share(100), suppress_health_check=SUPPRESSED)
@given(path=st.sampled_from([EXECUTORS_PATH, YIELD_PATH, OPEN_PATH]), body=BODIES)
def test_the_control_port_accepts_only_valid_commands(
    control: ThreadingHTTPServer,
    commands: list[object],
    capfd: pytest.CaptureFixture[str],
    path: str,
    body: bytes,
) -> None:
    commands.clear()
    authorization = f"Authorization: Bearer {TOKEN}"
    head = f"POST {path} HTTP/1.1\r\n{authorization}\r\nContent-Length: {len(body)}\r\n\r\n"

    code = sent(control, head.encode() + body).split(b" ")[1]

    assert code in {b"202", b"400"}
    assert len(commands) == (code == b"202")
    assert all(
        isinstance(command, str) or (isinstance(command, int) and command >= 0)
        for command in commands
    )
    assert "Traceback" not in capfd.readouterr().err
    commands.clear()
