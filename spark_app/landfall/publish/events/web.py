"""Requests to a server of a user's, by HTTP, with its errors as Landfall's.

==============================  =================================================================
answer                          means
==============================  =================================================================
200 to 299                      it is done
401, 403                        ``DestinationDenied``: a user may have to act
408, 425, 429, 500 to 599       ``DestinationAway``, and not before the time ``Retry-After`` names
no answer, or not in time       ``DestinationAway``: whether it is done is not known
anything else                   ``Stalled``: again would be answered alike
==============================  =================================================================

No message holds more of a URL than its server: a path or a query may be a secret. Proxies of the
environment are not used, and no redirect is followed.

Source: RFC 9110, "HTTP Semantics", sections 15 and 10.2.3.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import urllib3

from landfall.api.values import duration
from landfall.errors import (
    DestinationAway,
    DestinationDenied,
    LandfallError,
    Reason,
    Stalled,
)
from landfall.network import warn_of_plain_http
from landfall.publish.context import Context
from landfall.schemas.deadline import pool_until

MAX_WAIT_SECONDS = 3600.0
"""The longest that ``Retry-After`` is heeded."""
MAX_ANSWER_BYTES = 4 << 20
ANSWER_TIMEOUTS = 4
"""How many time-outs a whole answer may take: urllib3's timer restarts with each byte."""
_TEMPORARY = frozenset({408, 425, 429})
_QUOTED_CHARACTERS = 200
_TLS_FILES: Mapping[str, str] = {
    "tls.crt": "cert_file",
    "tls.key": "key_file",
    "ca.crt": "ca_certs",
}


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request; ``path`` follows the server's URL."""

    method: str
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class WebResponse:
    """An answer: status, headers and the first ``MAX_ANSWER_BYTES`` of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class WebServer:
    """A server of a user's.

    Attributes:
        what: the kind of server, with which messages begin, such as ``webhook``.
        context: of the publisher, whose secret may hold ``ca.crt``, ``tls.crt`` and ``tls.key``.
        url: of the server, without a slash at its end.
        timeout_seconds: how long to wait for a connection, and again for the answer.
        monotonic: counts seconds from any start.
    """

    what: str
    context: Context
    url: str
    timeout_seconds: float = 30.0
    monotonic: Callable[[], float] = time.monotonic
    _not_before: float = field(default=float("-inf"), init=False)

    @property
    def name(self) -> str:
        """The kind and address of the service, without anything that may be a secret."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{self.what} {parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")

    def send(self, request: WebRequest) -> WebResponse:
        """The answer to a request, if it is done.

        Raises:
            DestinationAway, Stalled: see the table of the module.
        """
        answer = self.ask(request)
        if not 200 <= answer.status < 300:
            raise self.refusal(answer)
        return answer

    def ask(self, request: WebRequest) -> WebResponse:
        """Return the answer to a request, with any status.

        Raises:
            DestinationAway: there is none, the server has asked to wait, or it has failed.
            Stalled: SPEC_INVALID, the secret is not there.
        """
        if (wait := self._not_before - self.monotonic()) > 0:
            raise DestinationAway(f"{self.name}: asked to wait, {wait:.0f} s are left")
        timeout = urllib3.Timeout(connect=self.timeout_seconds, read=self.timeout_seconds)
        try:
            with pool_until(ANSWER_TIMEOUTS * self.timeout_seconds, **self._tls()) as pool:
                response = pool.request(
                    request.method,
                    f"{self.url}{request.path}",
                    headers=self._sent(request.headers),
                    body=request.body,
                    timeout=timeout,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                body = response.read(MAX_ANSWER_BYTES)
                answer = WebResponse(response.status, response.headers, body)
                response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise DestinationAway(f"{self.name}: {_describe(error)}") from None
        if answer.status in _TEMPORARY or answer.status >= 500:
            wait = _seconds(answer.headers.get("Retry-After", ""))
            self._not_before = self.monotonic() + min(wait, MAX_WAIT_SECONDS)
            raise DestinationAway(self.says(answer))
        return answer

    def refusal(self, answer: WebResponse) -> LandfallError:
        """The error for an answer that a retry would get again."""
        if answer.status in {401, 403}:
            return DestinationDenied(self.says(answer))
        return Stalled(Reason.DESTINATION_CONFLICT, self.says(answer))

    def says(self, answer: WebResponse) -> str:
        """The status and the beginning of an answer, without values of the secret."""
        text = " ".join(answer.body.decode("utf-8", "replace").split())
        for value in self.context.secret().values():
            text = text.replace(value.strip(), "***") if value.strip() else text
        body = f": {text[:_QUOTED_CHARACTERS]}" if text else ""
        return f"{self.name}: answered with status {answer.status}{body}"

    def _sent(self, headers: Mapping[str, str]) -> dict[str, str]:
        if "Authorization" in headers:
            warn_of_plain_http(self.url)
        return dict(headers)

    def _tls(self) -> dict[str, Any]:
        """Return TLS options; read each time, so that a rotated secret takes effect."""
        secret = self.context.secret()
        files = {key: name for key, name in _TLS_FILES.items() if key in secret}
        return {name: self.context.secret_path(key) for key, name in files.items()}


def url_option(name: str, text: str) -> str:
    """The URL of a server in an option, without a slash at its end.

    Raises:
        ValueError: it is none of a server that speaks HTTP; the message does not quote it.
    """
    try:
        parts = urlsplit(text)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_server = False
    if not is_server or not text.isascii() or any(c.isspace() for c in text):
        raise ValueError(f"option {name}: must be a URL such as https://hooks.example.com/landfall")
    if parts.username or parts.password or parts.fragment:
        raise ValueError(f"option {name}: must be a URL without user, password and fragment")
    return text.rstrip("/")


def timeout_option(name: str, text: str) -> float:
    """The seconds of an option that is a duration.

    Raises:
        ValueError: it is none, or not between 1 s and 5 min.
    """
    try:
        seconds = duration(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from None
    if not 1 <= seconds <= 300:
        raise ValueError(f"option {name}: must be from 1s to 5m, got {text!r}")
    return seconds


def _seconds(retry_after: str) -> float:
    """How long ``Retry-After`` asks to wait: seconds, or until a date."""
    if (number := retry_after.strip()).isascii() and number.isdigit():
        return float(number)
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)


def _describe(error: Exception) -> str:
    # The text of urllib3's errors names objects and addresses in memory, and may hold the path.
    reason = getattr(error, "reason", None) or error
    known = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    text = f": {str(reason).rpartition('>: ')[2]}" if isinstance(reason, known) else ""
    return f"{type(reason).__name__}{text}"
