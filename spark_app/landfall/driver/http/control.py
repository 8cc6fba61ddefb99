"""The driver's second HTTP face, on a port of its own, by which it is told things: see ``landfall.api.contract``.

A request needs the token before anything else is looked at. The token is read from its file at each
request, so that a rotated secret is in force as soon as it is mounted; without a file, or with an
empty one, nobody gets in. A body is bounded and must be exactly one of the contract's documents.
What is accepted is only noted here, and done by the driver.
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
    EXECUTORS_PATH,
    OPEN_PATH,
    YIELD_PATH,
    HandOver,
    TakeOver,
    WantExecutors,
)
from landfall.driver.http.server import PATIENCE_SECONDS, in_background

log = logging.getLogger(__name__)

BODY_BYTES = 4096

ControlCommand = WantExecutors | HandOver | TakeOver
WORDS: Mapping[str, type[ControlCommand]] = {
    EXECUTORS_PATH: WantExecutors,
    YIELD_PATH: HandOver,
    OPEN_PATH: TakeOver,
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Control:
    """Where control is served.

    Attributes:
        token_file: holds the token; a final newline does not count.
        host: to listen on.
        port: 0 for any free one.
    """

    token_file: Path
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ControlHandler:
    """Who does what is told; called from any thread."""

    want: Callable[[int], None]
    hand_over: Callable[[str], None]
    take_over: Callable[[], None]

    def dispatch(self, word: ControlCommand) -> None:
        """Pass a word on."""
        match word:
            case WantExecutors(wanted):
                self.want(wanted)
            case HandOver(to):
                self.hand_over(to)
            case TakeOver():
                self.take_over()
            case _:
                assert_never(word)


def serve_control(control: Control, listener: ControlHandler) -> ThreadingHTTPServer:
    """Listen in a background thread until ``shutdown``.

    Raises:
        OSError: the port is taken.
    """
    return in_background(
        control.host, control.port, type("Handler", (_Handler,), {"told": (control, listener)})
    )


class _Handler(BaseHTTPRequestHandler):
    server_version = f"landfall/{__version__}"
    timeout = PATIENCE_SECONDS
    told: ClassVar[tuple[Control, ControlHandler]]

    def answer(self) -> None:
        code = self._code()
        self.close_connection = True  # a body that was refused is still in the way
        self.send_response(code)
        self.send_header("Content-Length", "0")
        if code is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if code is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  # the base class's names

    def _code(self) -> HTTPStatus:
        control, listener = self.told
        if not authorized(self.headers.get("Authorization", ""), control.token_file):
            return HTTPStatus.UNAUTHORIZED
        if self.path not in WORDS:
            return HTTPStatus.NOT_FOUND
        if self.command != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        try:
            listener.dispatch(decoded(WORDS[self.path], self._body()))
        except ValueError as error:
            log.warning("not understood", extra={"path": self.path, "why": str(error)})
            return HTTPStatus.BAD_REQUEST
        return HTTPStatus.ACCEPTED

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= BODY_BYTES:
            raise ValueError(f"a body of {length} bytes")
        return self.rfile.read(length)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """What is accepted is logged by whoever does it."""


def authorized(header: str, token_file: Path) -> bool:
    """Whether an ``Authorization`` header holds the token; how long that takes tells nothing about the token."""
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        log.error("the control token cannot be read", extra={"why": error.strerror})  # noqa: TRY400  # it says all
        return False
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode(), token)
    return same and bool(token) and scheme.lower() == "bearer"


def decoded(kind: type[T], body: bytes) -> T:
    """The document in a body.

    Raises:
        ValueError: it is another one: not JSON, a field missing, of another type, or unknown.
    """
    try:
        document = msgspec.json.decode(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    word = msgspec.convert(document, kind)
    if unknown := document.keys() - {field.name for field in fields(kind)}:  # type: ignore[arg-type]  # a dataclass
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    return word
