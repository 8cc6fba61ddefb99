"""The drivers' two HTTP faces, asked from the operator's event loop: ``/status`` by anybody, control with the group's token.

A driver that does not answer within three seconds has not answered. Nothing is tried twice: the
next pass asks again, and everything a driver is told is a level.
"""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Protocol

import aiohttp

from landfall.api.contract import (
    CONTROL_PORT,
    EXECUTORS_PATH,
    HTTP_PORT,
    OPEN_PATH,
    YIELD_PATH,
    HandOver,
    TakeOver,
    WantExecutors,
)
from landfall.errors import Retry
from landfall_operator.runtime.metrics import Metrics

SECONDS = 3.0
LARGEST = 64 * 2**20
"""Bytes of a status; one topic partition takes some 300."""
STATUS_PATH = "/status"

Word = WantExecutors | HandOver | TakeOver
_PATHS: Mapping[type[Word], str] = {
    WantExecutors: EXECUTORS_PATH,
    HandOver: YIELD_PATH,
    TakeOver: OPEN_PATH,
}


class DriverUnreachable(Retry):
    """A driver did not take what it was told."""


class Unauthorized(DriverUnreachable):
    """The token is not the one it knows."""


class Drivers(Protocol):
    """Whom a pass asks."""

    async def status(self, address: str) -> bytes | None:
        """What a driver answers to ``/status``; None when it does not."""

    async def tell(self, address: str, word: Word, token: str) -> None:
        """Tell a driver something.

        Raises:
            Denied: it knows another token.
            Unheard: it did not answer, or not with 202.
        """


class HttpDrivers:
    """Asks drivers at their pods' addresses."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        metrics: Metrics,
        before_word: Callable[[], None] = lambda: None,
    ) -> None:
        """Use a session, which somebody else closes; ``before_word`` may refuse, by raising Fenced."""
        self._session = session
        self._metrics = metrics
        self._before_word = before_word
        self._timeout = aiohttp.ClientTimeout(total=SECONDS)

    async def status(self, address: str) -> bytes | None:
        """See ``Drivers``."""
        outcome = "error"
        try:
            async with self._session.get(
                _url(address, HTTP_PORT, STATUS_PATH), timeout=self._timeout
            ) as answer:
                outcome = _named(answer.status)
                return await _body(answer) if answer.status == HTTPStatus.OK else None
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None
        finally:
            self._metrics.driver_requests.labels(STATUS_PATH, outcome).inc()

    async def tell(self, address: str, word: Word, token: str) -> None:
        """See ``Drivers``."""
        self._before_word()
        path, outcome = _PATHS[type(word)], "error"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            request = self._session.post(
                _url(address, CONTROL_PORT, path),
                json=asdict(word),
                headers=headers,
                timeout=self._timeout,
            )
            async with request as answer:
                outcome = _named(answer.status)
                code = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise DriverUnreachable(f"{path} of {address}: no answer: {error}") from error
        finally:
            self._metrics.driver_requests.labels(path, outcome).inc()
        if code == HTTPStatus.UNAUTHORIZED:
            raise Unauthorized(f"{path} of {address}: 401")
        if code >= HTTPStatus.BAD_REQUEST:
            raise DriverUnreachable(f"{path} of {address}: {code}")


async def _body(answer: aiohttp.ClientResponse) -> bytes | None:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > LARGEST:
            return None
    return bytes(body)


def _named(code: int) -> str:
    return "ok" if code < HTTPStatus.BAD_REQUEST else str(code)


def _url(address: str, port: int, path: str) -> str:
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"http://{host}:{port}{path}"
