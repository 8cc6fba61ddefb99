"""How requests to the pods of tenants are made, and how their answers are read.

A tenant chooses the image of a driver, so anything may answer (docs/adr/0045). No redirect is
followed: it would lend the operator's place in the network. No answer is decompressed, and none
longer than a few hundred kilobytes is read.
"""

import ipaddress
from http import HTTPStatus
from typing import Any

import aiohttp

from landfall.api.status_summary import MAX_BYTES

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
    """Whether a status code is one of the 200s."""
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
