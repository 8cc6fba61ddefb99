"""Asks drivers for their status and sends them commands, over HTTP, from the operator's event loop.

Anybody may read ``/status``; the control port requires the group's bearer token. A request that
takes longer than three seconds has failed. Nothing is retried here: the next reconcile pass asks
again. Commands state what should hold (so many executors, this successor), so sending one twice
does no harm.
"""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Protocol

import aiohttp

from landfall.api.contract import (
    CONTROL_PATHS,
    CONTROL_PORT,
    HTTP_PORT,
    RETRY_PATH,
    ControlCommand,
    TryAgain,
)
from landfall.errors import Retry
from landfall_operator.runtime.metrics import Metrics

TIMEOUT_SECONDS = 3.0
MAX_STATUS_BYTES = 64 * 2**20
"""A longer status is ignored. Drivers of earlier releases list every topic partition: 300 bytes."""
STATUS_PATH = "/status"
_SUMMARY = f"{STATUS_PATH}?summary=true"

Command = ControlCommand | TryAgain
"""What the operator asks of a driver."""
_PATHS: Mapping[type, str] = {**CONTROL_PATHS, TryAgain: RETRY_PATH}


class DriverUnreachable(Retry):
    """A driver did not accept a command."""


class Unauthorized(DriverUnreachable):
    """A driver rejected the control token."""


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
            async with self._session.get(
                url_of(address, HTTP_PORT, _SUMMARY), timeout=self._timeout
            ) as response:
                outcome = _outcome(response.status)
                return await _body(response) if response.status == HTTPStatus.OK else None
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None
        finally:
            self._metrics.driver_requests.labels(STATUS_PATH, outcome).inc()

    async def send(self, address: str, command: Command, token: str) -> None:
        """See ``DriverClient``."""
        self._before_command()
        path, outcome = _PATHS[type(command)], "error"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            request = self._session.post(
                url_of(address, CONTROL_PORT, path),
                json=asdict(command),
                headers=headers,
                timeout=self._timeout,
            )
            async with request as response:
                outcome = _outcome(response.status)
                code = response.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise DriverUnreachable(f"{path} of {address}: no answer: {error}") from error
        finally:
            self._metrics.driver_requests.labels(path, outcome).inc()
        if code == HTTPStatus.UNAUTHORIZED:
            raise Unauthorized(f"{path} of {address}: 401")
        if code >= HTTPStatus.BAD_REQUEST:
            raise DriverUnreachable(f"{path} of {address}: {code}")


async def _body(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None if it is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_STATUS_BYTES:
            return None
    return bytes(body)


def _outcome(code: int) -> str:
    """The value of the metric's label ``outcome``."""
    return "ok" if code < HTTPStatus.BAD_REQUEST else str(code)


def url_of(address: str, port: int, path: str) -> str:
    """Where a driver's pod answers at a path; its address may be one of IPv6."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"http://{host}:{port}{path}"
