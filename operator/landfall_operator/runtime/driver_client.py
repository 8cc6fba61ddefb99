"""Asks drivers for their status and sends them commands, over HTTP, from the operator's event loop.

Anyone may read ``/status``; commands are signed (``control_port``). A request that takes longer
than three seconds has failed. Nothing is retried here: the next reconcile pass asks again. Commands
state what should hold (so many executors, this successor), so sending one twice does no harm.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Protocol

import aiohttp

from landfall.api.contract import (
    CONTROL_PATHS,
    HTTP_PORT,
    RETRY_PATH,
    ControlCommand,
    TryAgain,
)
from landfall.errors import Retry
from landfall_operator.runtime.control_port import (
    ControlPort,
    Credentials,
    body_of,
    cautious,
    is_success,
    outcome_of,
    url_of,
    why_refused,
)
from landfall_operator.runtime.metrics import Metrics

TIMEOUT_SECONDS = 3.0
STATUS_PATH = "/status"
_SUMMARY = f"{STATUS_PATH}?summary=true"

Command = ControlCommand | TryAgain
"""A command of the operator to a driver."""
_PATHS: Mapping[type, str] = {**CONTROL_PATHS, TryAgain: RETRY_PATH}


class DriverUnreachable(Retry):
    """A driver did not accept a command."""


class Unauthorized(DriverUnreachable):
    """A driver rejected the signature, or the control token."""


class DriverClient(Protocol):
    """The drivers as a reconcile pass sees them. Addresses are the IP addresses of driver pods."""

    async def status(self, address: str) -> bytes | None:
        """A driver's status, or its summary; None when the driver does not answer."""

    async def send(self, address: str, command: Command, credentials: Credentials) -> None:
        """Send a command to a driver.

        Raises:
            Unauthorized: The driver does not take the credentials.
            DriverUnreachable: The driver did not answer, or not with success.
            Fenced: This operator is no longer the leader; nothing was sent.
        """


class HttpDriverClient:
    """Sends requests to the addresses of the drivers' pods."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        control: ControlPort,
        metrics: Metrics,
        before_command: Callable[[], None] = lambda: None,
    ) -> None:
        """Use a session that the caller closes, and ``control`` for commands.

        ``before_command`` is called before each command and prevents it by raising Fenced.
        """
        self._session = session
        self._control = control
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

    async def send(self, address: str, command: Command, credentials: Credentials) -> None:
        """See ``DriverClient``."""
        self._before_command()
        path = _PATHS[type(command)]
        outcome = "error"
        refused = ""
        try:
            request = self._control.post(
                address, path, asdict(command), credentials, timeout_seconds=TIMEOUT_SECONDS
            )
            async with request as response:
                outcome = outcome_of(response.status)
                code = response.status
                if code == HTTPStatus.UNAUTHORIZED:
                    refused = why_refused(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise DriverUnreachable(f"{path} of {address}: no answer: {error}") from error
        finally:
            self._metrics.driver_requests.labels(path, outcome).inc()
        if refused:
            raise Unauthorized(f"{path} of {address}: 401: {refused}")
        if not is_success(code):
            raise DriverUnreachable(f"{path} of {address}: {code}")
