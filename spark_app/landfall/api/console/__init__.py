"""The page of a group that its driver serves at ``/``, and the operator's of all groups.

They are static files, without a build, and ask by relative addresses, so that they work under any
path of a proxy. They show texts that come from payloads, so they set text and never markup, and the
Content-Security-Policy allows no script but their own files.
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
"""The page of a driver."""
GROUPS_PAGE = "groups.html"
"""The page of an operator."""
GROUPS_FILES = ("console.css", "shared.js", "groups.js")
"""The files that it needs."""
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)
"""Of each answer: a text of a payload that is in it must never run in a browser."""

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        PAGE: "text/html; charset=utf-8",
        GROUPS_PAGE: "text/html; charset=utf-8",
        "console.css": "text/css; charset=utf-8",
        "console.js": "text/javascript; charset=utf-8",
        "groups.js": "text/javascript; charset=utf-8",
        "shared.js": "text/javascript; charset=utf-8",
    }
)
"""Files of the pages, with their content types."""


def content_type(name: str) -> str | None:
    """The content type of a file of the pages; None if there is no such file."""
    return _KINDS.get(name)


@cache
def content(name: str) -> bytes:
    """The bytes of a file of the pages, which has a content type."""
    return files(__name__).joinpath(name).read_bytes()
