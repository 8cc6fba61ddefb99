"""The page of a group that its driver serves at ``/``: static files, without a build.

The page asks for ``status?summary=true`` and ``history`` by relative addresses, so that it works
under any path of a proxy. It shows texts that come from payloads, so it sets text and
never markup, and its Content-Security-Policy allows no script but its own file.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows what these files need: nothing of another host, no inline script, no frame around it."""

PAGE = "index.html"
"""The page itself."""

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        PAGE: "text/html; charset=utf-8",
        "console.css": "text/css; charset=utf-8",
        "console.js": "text/javascript; charset=utf-8",
    }
)
"""Files of the page, with their content types."""


def content_type(name: str) -> str | None:
    """The content type of a file of the page; None if there is no such file."""
    return _KINDS.get(name)


@cache
def content(name: str) -> bytes:
    """The bytes of a file of the page, which has a content type."""
    return files(__name__).joinpath(name).read_bytes()
