"""The driver's control endpoint, an HTTP server on its own port: see ``landfall.api.contract``.

The header ``Authorization`` is checked before anything else in a request is looked at: it has the
operator's signature (``signed_requests``), or a token. Keys and tokens are read from their files at
each request, so that new ones are in force as soon as they are mounted; without a file, or with an
empty one, every request is refused. A body is bounded and must be exactly one of the contract's
documents. An accepted command is only passed on here; the driver carries it out. A request of
``landfall.api.verbs`` is answered with a JSON document, which names what was recorded.
"""

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, TypeVar, assert_never

import msgspec

from landfall import __version__
from landfall.api.contract import (
    CONTROL_PATHS,
    ControlCommand,
    HandOver,
    TakeOver,
    WantExecutors,
)
from landfall.api.signatures import SignatureRefusal, SignedHeader, challenge
from landfall.api.verbs import VERB_PATHS, Answer, Outcome, Request
from landfall.driver.http.server import PATIENCE_SECONDS, in_background
from landfall.driver.http.signed_requests import SignatureCheck, clock, is_body, is_signed

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60
"""How long a request may take: a promotion is answered after twenty seconds."""
BODY_BYTES = 256 * 1024
"""How long a body is at most: a request may name a thousand files."""

COMMANDS: Mapping[str, type[ControlCommand]] = {path: kind for kind, path in CONTROL_PATHS.items()}

CODES: Mapping[Outcome, HTTPStatus] = {
    Outcome.DONE: HTTPStatus.OK,
    Outcome.DRY_RUN: HTTPStatus.OK,
    Outcome.WAITING: HTTPStatus.ACCEPTED,
    Outcome.REFUSED: HTTPStatus.CONFLICT,
    Outcome.FAILED: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The status codes of the answers to requests."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Control:
    """Where control commands are accepted.

    Attributes:
        token_file: holds the token; white space around it is ignored.
        host: the address to listen on.
        port: 0 for any free one.
        local_token_file: holds another one, for requests from within the pod.
        signatures: checks the operator's signatures; None to take tokens only.
    """

    token_file: Path
    host: str
    port: int
    local_token_file: Path | None = None
    signatures: SignatureCheck | None = None

    @property
    def token_files(self) -> tuple[Path, ...]:
        """The files with tokens."""
        local = (self.local_token_file,) if self.local_token_file else ()
        return (self.token_file, *local)


class _Refused(Exception):  # noqa: N818  # the name is the state
    """A request has neither the operator's signature nor a token."""

    def __init__(self, wanted: str) -> None:
        """``wanted`` is the header that names the credentials that are wanted."""
        super().__init__(wanted)
        self.wanted = wanted


@dataclass(frozen=True, slots=True)
class ControlHandler:
    """Carries out each command and request; called from any thread."""

    want: Callable[[int], None]
    hand_over: Callable[[str], None]
    take_over: Callable[[], None]
    decide: Callable[[Request], Answer]

    def dispatch(self, command: ControlCommand) -> None:
        """Call what carries out this command."""
        match command:
            case WantExecutors(wanted):
                self.want(wanted)
            case HandOver(to):
                self.hand_over(to)
            case TakeOver():
                self.take_over()
            case _:
                assert_never(command)


def serve_control(control: Control, handler: ControlHandler) -> ThreadingHTTPServer:
    """Accept commands in background threads until ``shutdown``.

    Raises:
        OSError: the port is taken.
    """
    return in_background(
        control.host,
        control.port,
        type("Handler", (_Handler,), {"control": control, "handler": handler}),
        ANSWER_SECONDS,
    )


class _Handler(BaseHTTPRequestHandler):
    server_version = f"landfall/{__version__}"
    timeout = PATIENCE_SECONDS
    control: ClassVar[Control]
    handler: ClassVar[ControlHandler]

    def answer(self) -> None:
        wanted = ""
        try:
            code, body = self._result()
        except _Refused as refused:
            code = HTTPStatus.UNAUTHORIZED
            body = b""
            wanted = refused.wanted
        # A refused body was not read, so the next request on this connection could not be found.
        self.close_connection = True
        self.send_response(code)
        if body:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if wanted:
            self.send_header("WWW-Authenticate", wanted)
        if code is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  # the base class's names

    def _result(self) -> tuple[HTTPStatus, bytes]:
        """Return the status code and the body to answer with.

        Raises:
            _Refused: the request has no right to be answered.
        """
        signed = self._authorize()
        if self.path not in COMMANDS and self.path not in VERB_PATHS:
            return HTTPStatus.NOT_FOUND, b""
        if self.command != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, b""
        try:
            body = self._body()
            if signed and not is_body(signed, body):
                raise self._refuse(SignatureRefusal.BODY)
            if self.path in COMMANDS:
                self.handler.dispatch(decode(COMMANDS[self.path], body))
                return HTTPStatus.ACCEPTED, b""
            request: Request = decode_request(self.path, body)
        except ValueError as error:
            log.warning("control request refused", extra={"path": self.path, "why": str(error)})
            # Requests of people get the error as text; the operator's commands need none.
            reason = msgspec.json.encode(Answer(Outcome.REFUSED, message=str(error)))
            return HTTPStatus.BAD_REQUEST, reason if self.path in VERB_PATHS else b""
        answer = self.handler.decide(request)
        return CODES[answer.outcome], msgspec.json.encode(answer)

    def _authorize(self) -> SignedHeader | None:
        """Return what was signed, or None for a request with a token; the body is not read.

        Raises:
            _Refused: it has neither.
        """
        header, signatures = self.headers.get("Authorization", ""), self.control.signatures
        if not is_signed(header):
            if not authorized(header, self.control.token_files):
                raise _Refused("Bearer")
            return None
        found = (
            signatures.check(self.command, self.path, header)
            if signatures
            else SignatureRefusal.UNKNOWN_KEY
        )
        if isinstance(found, SignatureRefusal):
            raise self._refuse(found)
        return found

    def _refuse(self, refusal: SignatureRefusal) -> _Refused:
        """The refusal of a signed request, with this driver's clock: the sender's may be wrong."""
        signatures = self.control.signatures
        return _Refused(challenge((signatures.clock if signatures else clock)(), refusal))

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= BODY_BYTES:
            raise ValueError(f"body of {length} bytes, at most {BODY_BYTES} are accepted")
        return self.rfile.read(length)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Log nothing: an accepted command is logged by the driver that carries it out."""


def authorized(header: str, token_files: Iterable[Path]) -> bool:
    """Return whether an ``Authorization`` header has a file's token; takes constant time."""
    scheme, _, given = header.partition(" ")
    tokens = list(filter(None, map(_token, token_files)))
    if not tokens:
        log.error("control token not read")
    # Each token is compared, so that the time does not reveal which file one is in.
    same = [hmac.compare_digest(given.strip().encode(), token) for token in tokens]
    return any(same) and scheme.lower() == "bearer"


def _token(file: Path) -> bytes:
    """Return the token in a file; empty if there is none, as before the Secret is made."""
    try:
        return file.read_bytes().strip()
    except OSError:
        return b""


def decode_request(path: str, body: bytes) -> Request:
    """Return the request that this path takes, from a body.

    Raises:
        ValueError: the body is not JSON, or a field is missing, unknown, or not allowed.
    """
    try:
        request: Request = msgspec.json.decode(body, type=VERB_PATHS[path])
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return request


def decode(kind: type[T], body: bytes) -> T:
    """Return the document of this kind in a body.

    Raises:
        ValueError: the body is not JSON, or a field is missing, of another type, or unknown.
    """
    try:
        document = msgspec.json.decode(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    command = msgspec.convert(document, kind)
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    if unknown := document.keys() - known:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    return command
