"""The driver's control endpoint, an HTTP server on its own port: see ``landfall.api.contract``.

The token is checked before anything else in a request is looked at. It is read from its file at
each request, so that a rotated secret is in force as soon as it is mounted; without a file, or with
an empty one, every request is refused. A body is bounded and must be exactly one of the contract's
documents. An accepted command is only passed on here; the driver carries it out.
"""

import hmac
import logging
from collections.abc import Callable, Mapping
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
from landfall.driver.http.server import PATIENCE_SECONDS, in_background

log = logging.getLogger(__name__)

BODY_BYTES = 4096

COMMANDS: Mapping[str, type[ControlCommand]] = {path: kind for kind, path in CONTROL_PATHS.items()}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Control:
    """Where control commands are accepted.

    Attributes:
        token_file: holds the token; white space around it is ignored.
        host: the address to listen on.
        port: 0 for any free one.
    """

    token_file: Path
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ControlHandler:
    """Carries out each command; called from any thread."""

    want: Callable[[int], None]
    hand_over: Callable[[str], None]
    take_over: Callable[[], None]

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
    )


class _Handler(BaseHTTPRequestHandler):
    server_version = f"landfall/{__version__}"
    timeout = PATIENCE_SECONDS
    control: ClassVar[Control]
    handler: ClassVar[ControlHandler]

    def answer(self) -> None:
        code = self._code()
        # A refused body was not read, so the next request on this connection could not be found.
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Length", "0")
        if code is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if code is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  # the base class's names

    def _code(self) -> HTTPStatus:
        if not authorized(self.headers.get("Authorization", ""), self.control.token_file):
            return HTTPStatus.UNAUTHORIZED
        if self.path not in COMMANDS:
            return HTTPStatus.NOT_FOUND
        if self.command != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        try:
            self.handler.dispatch(decode(COMMANDS[self.path], self._body()))
        except ValueError as error:
            log.warning("control request refused", extra={"path": self.path, "why": str(error)})
            return HTTPStatus.BAD_REQUEST
        return HTTPStatus.ACCEPTED

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= BODY_BYTES:
            raise ValueError(f"body of {length} bytes, at most {BODY_BYTES} are accepted")
        return self.rfile.read(length)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Log nothing: an accepted command is logged by the driver that carries it out."""


def authorized(header: str, token_file: Path) -> bool:
    """Whether an ``Authorization`` header holds the token, compared in constant time."""
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        log.error("control token unreadable", extra={"why": error.strerror})  # noqa: TRY400  # a trace would add nothing
        return False
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode(), token)
    return same and bool(token) and scheme.lower() == "bearer"


def decode(kind: type[T], body: bytes) -> T:
    """The document of this kind in a body.

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
