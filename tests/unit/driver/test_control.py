import http.client
import json
from collections.abc import Iterator
from dataclasses import asdict
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import (
    EXECUTORS_PATH,
    OPEN_PATH,
    RETRY_PATH,
    YIELD_PATH,
    ExitCode,
    TryAgain,
)
from landfall.api.verbs import (
    VERBS,
    Answer,
    DropRequest,
    ExtendLeaseRequest,
    FilesDoneRequest,
    FilesFailedRequest,
    IgnoreFilesRequest,
    LeaseAnswer,
    LeaseRequest,
    Outcome,
    PromoteRequest,
    ReplayRequest,
    Request,
    ResetRequest,
    RetryFilesRequest,
    RetryRequest,
    ReturnFilesRequest,
    SkipRequest,
    TakeFilesRequest,
    UnblockRequest,
    UndoRequest,
)
from landfall.cli import main
from landfall.cli.decide import verb
from landfall.cli.decide.driver_control import DriverControl
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
        lambda request: answered(received, request),
    )
    server = serve_control(Control(token, "127.0.0.1", 0), handler)
    yield server
    server.shutdown()


def answered(received: Commands, request: Request) -> Answer:
    received.append(("request", request))
    outcome = Outcome(request.why) if request.why in set(Outcome) else Outcome.DONE
    return Answer(outcome, ("HOLE",), "message")


def ask(
    server: ThreadingHTTPServer,
    path: str,
    body: object = None,
    method: str = "POST",
    authorization: str | None = "Bearer s3cret",
    reads: str = "",
    **headers: str,
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {"Authorization": authorization} if authorization is not None else {}
    connection.request(method, path, sent, {**known, **headers})
    answer = connection.getresponse()
    read = answer.read().decode()
    assert reads in read if reads else not read
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


def test_the_operators_request_to_try_again_reaches_the_driver(
    server: ThreadingHTTPServer, token: Path, received: Commands
) -> None:
    sent = TryAgain("landfall-operator", "retry of the group")

    assert ask(server, RETRY_PATH, asdict(sent), reads="message").status == HTTPStatus.OK

    assert received == [("request", RetryRequest(who=sent.who, why=sent.why))]


# --------------------------------------------------------------------------- requests of engineers

BY: dict[str, Any] = {"who": "kim", "why": "INC-12"}
TP = {"topic": "clicks", "partition": 3}


@pytest.mark.parametrize(
    "request_",
    [
        SkipRequest(**BY, **TP, until=7, dry_run=True, id="x"),
        UnblockRequest(**BY, **TP, bad_records_until=9),
        DropRequest(**BY, **TP),
        ResetRequest(**BY, **TP, to="earliest"),
        ReplayRequest(**BY, topic="clicks"),
        UndoRequest(**BY, slot=977),
        PromoteRequest(**BY, name="fix-ts", dry_run=True),
        RetryRequest(who="kim"),
        RetryFilesRequest(who="kim", topic="hits"),
        IgnoreFilesRequest(**BY, topic="hits", names=("a.json", "b c.json")),
        TakeFilesRequest(who="kim", topic="hits", limit=9, lease_seconds=60, id="x"),
        FilesDoneRequest(who="kim", lease=41, numbers=(1, 2)),
        FilesFailedRequest(**BY, lease=41, names=("a", "b")),
        ReturnFilesRequest(who="kim", lease=41),
        ExtendLeaseRequest(who="kim", lease=41, lease_seconds=60),
    ],
    ids=list(VERBS),
)
def test_a_request_reaches_the_driver_as_it_was_asked(
    server: ThreadingHTTPServer, token: Path, received: Commands, request_: Request
) -> None:
    control = DriverControl.of(f"http://127.0.0.1:{server.server_port}", token)

    answer = control.ask(request_)

    assert received == [("request", request_)]
    expected = LeaseAnswer if isinstance(request_, LeaseRequest) else Answer
    assert answer == expected(Outcome.DONE, ("HOLE",), "message")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.DONE, 200),
        (Outcome.DRY_RUN, 200),
        (Outcome.WAITING, 202),
        (Outcome.REFUSED, 409),
        (Outcome.FAILED, 503),
    ],
)
def test_the_status_code_says_what_became_of_a_request(
    server: ThreadingHTTPServer, outcome: Outcome, code: int
) -> None:
    body = {"who": "kim", "why": outcome, **TP}

    answer = ask(server, "/control/drop", body, reads="HOLE")

    assert (answer.status, answer.getheader("Content-Type")) == (
        code,
        "application/json; charset=utf-8",
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        TP,
        {"who": "", "why": "x", **TP},
        {"who": "x", "why": "x", **TP, "force": True},
        [],
        b"{",
    ],
)
def test_a_request_that_lacks_something_is_refused(
    server: ThreadingHTTPServer, received: Commands, body: object
) -> None:
    assert ask(server, "/control/skip", body, reads="refused").status == 400
    assert received == []


def test_the_command_line_asks_the_driver_and_prints_what_it_recorded(
    server: ThreadingHTTPServer,
    token: Path,
    received: Commands,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    to_driver = ["--driver", url, "--token-file", str(token), "--who", "kim"]

    code = main(["skip", "clicks/3", "--why", "INC-12", *to_driver])

    assert code is ExitCode.OK
    assert capsys.readouterr().out == "HOLE\nmessage\n"
    (_, request) = received[0]
    assert (request.topic, request.partition, request.who, request.why) == (
        "clicks",
        3,
        "kim",
        "INC-12",
    )
    assert main(["drop", "clicks/3", "--why", "refused", *to_driver]) is ExitCode.REFUSED
    assert main(["drop", "clicks/3", "--why", "failed", *to_driver]) is ExitCode.UNAVAILABLE


def test_in_a_drivers_pod_its_own_driver_is_asked(
    server: ThreadingHTTPServer,
    token: Path,
    received: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "CONTROL_PORT", server.server_port)
    monkeypatch.setenv("LANDFALL_CONTROL_TOKEN_FILE", str(token))

    assert main(["replay-dead-letters", "clicks", "--why", "mended"]) is ExitCode.OK
    assert main(["retry"]) is ExitCode.OK
    assert [type(request) for _, request in received] == [ReplayRequest, RetryRequest]


def test_in_a_drivers_pod_no_secret_is_needed(
    server: ThreadingHTTPServer,
    token: Path,
    received: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "CONTROL_PORT", server.server_port)
    monkeypatch.setenv("LANDFALL_CONTROL_TOKEN_FILE", str(token.parent / "absent"))
    monkeypatch.setenv("LANDFALL_LOCAL_TOKEN_FILE", str(token))

    assert main(["retry"]) is ExitCode.OK
    assert [type(request) for _, request in received] == [RetryRequest]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["skip", "clicks/3", "--why", "x"], "name the group's file first"),
        (
            ["skip", "g.yaml", "clicks", "--why", "x"],
            "name the Kafka partition, too, as in clicks/3",
        ),
        (["skip", "g.yaml", "clicks/x", "--why", "x"], "not a topic partition such as clicks/3"),
        (["skip", "g.yaml", "clicks/3", "--why", " "], "who asks, and why, must not be empty"),
        (["skip", "clicks/3", "--why", "x", "--driver", "h:1"], "--driver needs the control token"),
        (
            ["skip", "clicks/3", "--why", "x", "--driver", "h:1", "--token-file", "/dev/null"],
            "h:1: not a URL such as http://host:8081",
        ),
        (
            ["retry", "--driver", "http://h", "--token-file", "/nope"],
            "/nope: No such file or directory",
        ),
        (["skip", "a", "b", "c/3", "--why", "x"], "too many words before c/3: a b"),
    ],
)
def test_a_wrong_command_line_of_a_verb_is_a_usage_error(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) is ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_a_driver_that_is_away_or_has_another_token_is_named(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another")
    asked = ["retry", "--token-file", str(wrong), "--driver"]

    assert main([*asked, f"http://127.0.0.1:{server.server_port}"]) is ExitCode.USAGE
    assert "the driver has another control token" in capsys.readouterr().err
    assert main([*asked, "http://127.0.0.1:1"]) is ExitCode.UNAVAILABLE
    assert "the driver at http://127.0.0.1:1 does not answer" in capsys.readouterr().err
