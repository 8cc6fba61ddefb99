"""Sends requests to the control ports of drivers, signed by the operator, or with a token.

A tenant chooses the image of a driver, so anything may answer (docs/adr/0045): see ``cautious``. A
driver that refuses a signature returns why, and what its clock shows. That is believed only so far
that the request is signed once more (docs/adr/0057): for the driver's clock, within ``MAX_OFFSET``,
or with the former key, which drivers know until the new one has reached them.
"""

import ipaddress
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import aiohttp

from landfall.api.contract import CONTROL_PORT
from landfall.api.signatures import (
    Addressee,
    SignatureRefusal,
    SignedHeader,
    body_hash,
    parse_challenge,
)
from landfall.api.status_summary import MAX_BYTES
from landfall_operator.runtime.signing_keys import SigningKey

MAX_OFFSET = timedelta(minutes=10)
"""How far a driver's clock may be from the operator's. One who forges answers gets signatures that
are good for as long in the future.
"""
_MAX_OFFSET = int(MAX_OFFSET.total_seconds() * 1000)
_NONCE_BYTES = 16
_MAX_OFFSETS = 10_000


@dataclass(frozen=True, slots=True)
class Bearer:
    """The token of a driver that knows no signatures."""

    token: str = field(repr=False)


Credentials = Addressee | Bearer
"""How a driver recognizes the operator: by a signature for this addressee, or by its token."""


def clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Signer:
    """Signs requests; it remembers how far the clocks of drivers are from its own."""

    def __init__(
        self, keys: Callable[[], tuple[SigningKey, ...]], clock: Callable[[], int] = clock
    ) -> None:
        """``keys`` returns the current key, and after it the keys that drivers may still know."""
        self._keys = keys
        self._clock = clock
        self._offsets: dict[str, int] = {}

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """The present keys."""
        return self._keys()

    def sign(self, key: SigningKey, to: Addressee, target: str, body: bytes) -> str:
        """The header of a POST to a driver."""
        signed = SignedHeader(
            key.id,
            self._clock() + self._offsets.get(to.pod, 0),
            secrets.token_hex(_NONCE_BYTES),
            body_hash(body),
        )
        return signed.text(key.private.sign(signed.signed_text("POST", target, to)))

    def correct(self, to: Addressee, time: int) -> bool:
        """Take a driver's clock for right; False if it is too far away."""
        offset = time - self._clock()
        if abs(offset) > _MAX_OFFSET:
            return False
        if len(self._offsets) >= _MAX_OFFSETS:
            self._offsets.clear()  # pods that are gone; the remaining pods report theirs again
        self._offsets[to.pod] = offset
        return True


class ControlPort:
    """The control ports of all drivers."""

    def __init__(self, session: aiohttp.ClientSession, signer: Signer) -> None:
        """Use a session that the caller closes."""
        self._session = session
        self._signer = signer

    @asynccontextmanager
    async def post(
        self,
        address: str,
        path: str,
        document: object,
        credentials: Credentials,
        timeout_seconds: float,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a document; its body has not been read.

        Raises:
            TimeoutError, ClientError, OSError: there is no answer.
        """
        body = json.dumps(document).encode()
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)

        async def send(authorization: str) -> aiohttp.ClientResponse:
            return await self._session.post(
                url_of(address, CONTROL_PORT, path),
                data=body,
                timeout=timeout,
                **cautious(Authorization=authorization, **{"Content-Type": "application/json"}),
            )

        if isinstance(credentials, Bearer):
            response = await send(f"Bearer {credentials.token}")
        else:
            response = await self._signed(send, credentials, path, body)
        try:
            yield response
        finally:
            response.close()

    async def _signed(self, send: Any, to: Addressee, path: str, body: bytes) -> Any:
        """The answer to a signed request, which is signed again if that may help."""
        corrected = False
        keys = iter(self._signer.keys)
        key = next(keys)
        while True:
            response = await send(self._signer.sign(key, to, path, body))
            refused = refusal_of(response)
            again = None
            if refused and refused[1] is SignatureRefusal.CLOCK and not corrected:
                corrected = True
                again = key if self._signer.correct(to, refused[0]) else None
            elif refused and refused[1] is SignatureRefusal.UNKNOWN_KEY:
                again = next(keys, None)
            if again is None:
                return response
            response.close()
            key = again


def refusal_of(response: aiohttp.ClientResponse) -> tuple[int, SignatureRefusal] | None:
    """The clock of a driver that refuses a signature, and why it does."""
    if response.status != HTTPStatus.UNAUTHORIZED:
        return None
    return parse_challenge(response.headers.get("WWW-Authenticate", "")[:200])


def why_refused(response: aiohttp.ClientResponse) -> str:
    """Explain a 401 in a sentence."""
    refused = refusal_of(response)
    if refused is None:
        return "it takes neither the operator's signature nor its token"
    match refused[1]:
        case SignatureRefusal.UNKNOWN_KEY:
            return "unknown-key: the operator's key has not reached it yet"
        case SignatureRefusal.CLOCK:
            return f"clock: it shows {refused[0]}, and the operator's {clock()} (ms since 1970)"
    return f"it refuses the operator's signature: {refused[1]}"


_CODES = frozenset(map(int, HTTPStatus))


class AnswerRejected(aiohttp.ClientError):
    """An answer that no driver gives: compressed, or too long."""


def cautious(**headers: str) -> dict[str, Any]:
    """How every request to a tenant's pod is made, with these headers."""
    return {
        "allow_redirects": False,
        "auto_decompress": False,
        "max_headers": 64,
        "headers": {"Accept-Encoding": "identity", **headers},
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


def is_success(code: int) -> bool:
    """Return whether a status code is one of the 200s."""
    return HTTPStatus.OK <= code < HTTPStatus.MULTIPLE_CHOICES


def outcome_of(code: int) -> str:
    """The value of the metric's label ``outcome``; a tenant's pod may send any code."""
    if is_success(code):
        return "ok"
    return str(code) if code in _CODES else "error"


def url_of(address: str, port: int, path: str) -> str:
    """Where a driver's pod answers at a path; its address may be one of IPv6."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"http://{host}:{port}{path}"
