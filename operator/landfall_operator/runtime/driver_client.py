"""Asks drivers for their status and sends them commands, over HTTP, from the operator's event loop.

Anybody may read ``/status``; the control port requires the group's bearer token. A request that
takes longer than three seconds has failed. Nothing is retried here: the next reconcile pass asks
again. Commands state what should hold (so many executors, this successor), so sending one twice
does no harm.

A tenant chooses the image of a driver, so anything may answer (docs/adr/0045). No redirect is
followed: it would lend the operator's place in the network. No answer is decompressed, and none
longer than a few hundred kilobytes is read.
"""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp

from landfall.api.contract import (
    CONTROL_PATHS,
    CONTROL_PORT,
    HTTP_PORT,
    RETRY_PATH,
    ControlCommand,
    TryAgain,
)
from landfall.api.status_summary import MAX_BYTES
from landfall.errors import Retry
from landfall_operator.runtime.metrics import Metrics

TIMEOUT_SECONDS = 3.0
STATUS_PATH = "/status"
_SUMMARY = f"{STATUS_PATH}?summary=true"

Command = ControlCommand | TryAgain
"""What the operator asks of a driver."""
_CODES = frozenset(map(int, HTTPStatus))
_PATHS: Mapping[type, str] = {**CONTROL_PATHS, TryAgain: RETRY_PATH}


class DriverUnreachable(Retry):
    """A driver did not accept a command."""


class Unauthorized(DriverUnreachable):
    """A driver rejected the control token."""


class AnswerRejected(aiohttp.ClientError):
    """An answer that no driver gives: compressed, or too long."""


class DriverClient(Protocol):
    """The drivers as a reconcile pass sees them. Addresses are the IP addresses of driver pods."""

    async def status(self, address: str) -> bytes | None:
        """A driver's status, or its summary; None when the driver does not answer."""

    async def send(self, address: str, command: Command, token: str) -> None:
        """Send a command to a driver.

        Raises:
            Unauthorized: The driver has another token.
            DriverUnreachable: The driver did not answer, or not with success.
            Fenced: This operator is no longer the leader; nothing was sent.
        """


class HttpDriverClient:
    """Sends requests to the addresses of the drivers' pods."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        metrics: Metrics,
        before_command: Callable[[], None] = lambda: None,
    ) -> None:
        """Use a session that the caller closes.

        ``before_command`` is called before each command and prevents it by raising Fenced.
        """
        self._session = session
        self._metrics = metrics
        self._before_command = before_command
        self._timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)

    async def status(self, address: str) -> bytes | None:
        """See ``DriverClient``."""
        outcome = "error"
        try:
            url = url_of(address, HTTP_PORT, _SUMMARY)
            async with self._session.get(url, timeout=self._timeout, **cautious()) as response:
                outcome = outcome_of(response.status)
                return await body_of(response) if response.status == HTTPStatus.OK else None
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None
        finally:
            self._metrics.driver_requests.labels(STATUS_PATH, outcome).inc()

    async def send(self, address: str, command: Command, token: str) -> None:
        """See ``DriverClient``."""
        self._before_command()
        path, outcome = _PATHS[type(command)], "error"
        try:
            request = self._session.post(
                url_of(address, CONTROL_PORT, path),
                json=asdict(command),
                timeout=self._timeout,
                **cautious(token),
            )
            async with request as response:
                outcome = outcome_of(response.status)
                code = response.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise DriverUnreachable(f"{path} of {address}: no answer: {error}") from error
        finally:
            self._metrics.driver_requests.labels(path, outcome).inc()
        if code == HTTPStatus.UNAUTHORIZED:
            raise Unauthorized(f"{path} of {address}: 401")
        if not _is_success(code):
            raise DriverUnreachable(f"{path} of {address}: {code}")


def cautious(token: str = "") -> dict[str, Any]:
    """How every request to a tenant's pod is made; ``token`` is the bearer's, if it needs one."""
    authorization = {"Authorization": f"Bearer {token}"} if token else {}
    return {
        "allow_redirects": False,
        "auto_decompress": False,
        "max_headers": 64,
        "headers": {"Accept-Encoding": "identity", **authorization},
    }


async def body_of(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer to a request with ``cautious``.

    Raises:
        AnswerRejected: it is compressed, or has more than ``MAX_BYTES``.
    """
    if encoding := response.headers.get("Content-Encoding", ""):
        raise AnswerRejected(f"the answer is encoded: {encoding[:80]}")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise AnswerRejected(f"the answer has more than {MAX_BYTES} bytes")
    return bytes(body)


def _is_success(code: int) -> bool:
    return HTTPStatus.OK <= code < HTTPStatus.MULTIPLE_CHOICES


def outcome_of(code: int) -> str:
    """The value of the metric's label ``outcome``; a tenant's pod may send any code."""
    if _is_success(code):
        return "ok"
    return str(code) if code in _CODES else "error"


def url_of(address: str, port: int, path: str) -> str:
    """Where a driver's pod answers at a path; its address may be one of IPv6."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"http://{host}:{port}{path}"
