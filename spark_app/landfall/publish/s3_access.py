"""Gives table libraries access to the bucket that ``spec.output.s3`` describes.

They get the credentials that landing uses at the time, from any origin: a secret, a profile, an
assumed role. So a caller that keeps a client asks again before they expire.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Generic, TypeVar
from urllib.parse import unquote, urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from pyarrow import fs

from landfall.api.spec import S3, Output
from landfall.errors import StoreAway
from landfall.store.s3.client import current_credentials, endpoint_of, proxy_of, region_of

Value = TypeVar("Value")
MAX_AGE_SECONDS = 300.0
"""How long credentials are used before they are looked up again."""


@dataclass(frozen=True)
class S3Settings:
    """Settings of an S3 client; empty text for unset ones.

    Attributes:
        endpoint: URL of the store; AWS if empty.
        region: that requests are signed for.
        path_style: whether the bucket is in the path of URLs.
        key_id: the access key.
        secret_key: its secret.
        token: of a session.
        connect_seconds: timeout for opening a connection.
        read_seconds: timeout for an answer.
        proxy: URL of a proxy, with its login.
        requester_pays: whether the account of the credentials pays for requests.
    """

    endpoint: str
    region: str
    path_style: bool
    key_id: str = ""
    secret_key: str = ""
    token: str = ""
    connect_seconds: float = 5.0
    read_seconds: float = 60.0
    proxy: str = ""
    requester_pays: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in messages."""
        quoted = urlsplit(self.proxy).password or ""
        values = (self.secret_key, self.token, quoted, unquote(quoted))
        return tuple(value for value in values if value)


class Recent(Generic[Value]):
    """Looks a value up at most every few minutes; thread-safe by being idempotent."""

    def __init__(self, look_up: Callable[[], Value]) -> None:
        """Look nothing up yet."""
        self._look_up = look_up
        self._found: tuple[float, Value] | None = None

    def __call__(self) -> Value:
        """The value as it was looked up last."""
        found = self._found
        if found is None or time.monotonic() - found[0] > MAX_AGE_SECONDS:
            found = self._found = time.monotonic(), self._look_up()
        return found[1]

    def forget(self) -> None:
        """Look up again next time, as after an error."""
        self._found = None


def s3_access(settings: S3) -> S3Settings:
    """Access to the bucket, with the credentials as they are now.

    Raises:
        StoreDenied: a secret or a role is not there.
        StoreAway: what hands out credentials does not answer.
    """
    # Arrow has no other setting for it. As in landing, no checksum follows the body of an upload:
    # versitygw 1.8 sometimes leaves it unread, and takes it for the next request.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    try:
        found = current_credentials(settings)
        endpoint = endpoint_of(settings)
    except (BotoCoreError, ClientError) as error:
        raise StoreAway(f"credentials of S3: {error}") from error
    access = S3Settings(
        endpoint or "",
        region_of(settings) or "",
        settings.path_style or _is_address(settings.endpoint),
        connect_seconds=settings.connect_timeout.total_seconds(),
        read_seconds=settings.read_timeout.total_seconds(),
        proxy=proxy_of(settings) or "",
        requester_pays=settings.requester_pays,
    )
    if found is None:
        return access
    return replace(
        access,
        key_id=found.access_key or "",
        secret_key=found.secret_key or "",
        token=found.token or "",
    )


def landed_files(output: Output) -> tuple[fs.FileSystem, str]:
    """Return a random-access reader of landed files, and the path of the output root in it.

    Raises:
        StoreDenied, StoreAway: as ``s3_access``.
    """
    scheme, _, path = output.url.rstrip("/").partition("://")
    if scheme != "s3":
        return fs.LocalFileSystem(), unquote(path)
    access = s3_access(output.s3)
    system = fs.S3FileSystem(
        access_key=access.key_id or None,
        secret_key=access.secret_key or None,
        session_token=access.token or None,
        region=access.region or None,
        endpoint_override=access.endpoint or None,
        connect_timeout=access.connect_seconds,
        request_timeout=access.read_seconds,
        proxy_options=access.proxy or None,
        force_virtual_addressing=bool(access.endpoint) and not access.path_style,
    )
    return system, path


def _is_address(endpoint: str | None) -> bool:
    """Return whether a host is an address, which has no subdomains, as botocore decides."""
    host = urlsplit(endpoint or "").hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
