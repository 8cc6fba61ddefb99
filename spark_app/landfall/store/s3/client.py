"""Creates a boto3 client from ``spec.output.s3``: credentials, timeouts, and a count of requests.

The first credentials that are given are used: the secret (read again every few minutes, so that a
rotated one takes effect), the profile, boto3's default chain (environment, web identity, container,
instance). ``assumeRole`` assumes the role with these, and botocore renews it before it expires.
When a request is refused as if its credentials were wrong, they are read again, from any source,
and the request is sent once more: a key that was rotated does not cost a batch.

Payloads are signed by their SHA-256, on http and https alike: the store then rejects a body that
was changed on the way. It is the only hash of a part's bytes that Landfall computes: SHA-256 runs
at 1.7 GB per CPU-second, MD5, for comparing ETags, at 0.7. boto3's additional CRC is off
(``when_required``): it costs more, and some S3-compatible stores reject it.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    Credentials,
    DeferredRefreshableCredentials,
    ReadOnlyCredentials,
)
from botocore.exceptions import NoCredentialsError
from botocore.loaders import create_loader
from botocore.session import Session

from landfall import __version__
from landfall.api import spec
from landfall.api.secret_keys import PROXY_PASSWORD, PROXY_USER, S3_KEYS, is_of_proxy_only, lacks
from landfall.api.secrets import read_secret
from landfall.errors import Stalled, StoreDenied
from landfall.store.s3.errors import blames_credentials

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_CONNECTIONS = 64
"""Connections kept per client, as many as the threads that complete uploads."""
SECRET_LIFETIME = timedelta(minutes=30)
"""How long credentials from a secret are valid; botocore reads them again 15 minutes before."""
RENEWAL_INTERVAL = 1.0
"""Seconds for which refused credentials are not read again, so that many threads read them once."""
RECENTLY = 60.0
"""Seconds for which credentials count as changed: requests signed before may still be under way."""
"""Keys of the secret with the login of a proxy."""
logging.getLogger("botocore.credentials").setLevel(logging.CRITICAL)
"""It logs the traceback of what it raises."""
_MODELS = create_loader()
"""Shared between clients, so that only a process's first one parses the S3 model (70 ms)."""


class RenewableCredentials(Credentials):
    """Credentials that can be looked up again, from wherever they come. Thread-safe."""

    def __init__(self, look_up: Callable[[], Credentials | None]) -> None:
        """Look the credentials up; ``look_up`` returns None if there are none."""
        super().__init__("", "", method="landfall")
        self._look_up = look_up
        self._lock = threading.Lock()
        self._current = look_up()
        self._renewed = self._changed = float("-inf")

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """The credentials for one request."""
        # Read once: another thread may renew them meanwhile.
        current = self._current
        if current is None:
            self.renew()
            current = self._current
        if current is None:
            raise NoCredentialsError
        return current.get_frozen_credentials()

    def renew(self) -> bool:
        """Look the credentials up again, unless that was done a moment ago.

        Returns:
            Whether they have just changed, so that a request signed before may be refused no more.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._renewed >= RENEWAL_INTERVAL:
                before = self._current
                self._current = self._look_up()
                self._renewed = now
                if _frozen(before) != _frozen(self._current):
                    self._changed = now
            return now - self._changed < RECENTLY


class _FixedCredentials(CredentialProvider):
    """A credential provider that always returns the same, self-refreshing credentials."""

    METHOD = "landfall"

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Credentials:
        return self._credentials


def s3_client(settings: spec.S3Access, requests: Counter[str]) -> "S3Client":
    """A thread-safe client that counts its HTTP requests, retries included, in ``requests``.

    Raises:
        StoreDenied: there is no role to assume without credentials.
    """
    client: S3Client = aws_client("s3", settings)
    _count(client, requests)
    client.meta.events.register("before-call.s3.UploadPart", _send_body_as_bytes)
    if settings.requester_pays:
        client.meta.events.register("before-call.s3", _pay)
    return client


def aws_client(service: str, settings: spec.S3Access) -> Any:
    """A thread-safe client of a service of AWS, with the credentials and timeouts of S3's.

    Raises:
        StoreDenied: there is no role to assume without credentials.
    """
    region = region_of(settings)
    credentials = RenewableCredentials(lambda: _credentials(settings, region))
    session: Any = boto3.Session(botocore_session=_session(settings, credentials))
    client = session.client(
        service, endpoint_url=settings.endpoint, region_name=region, config=_config(settings)
    )
    renew = partial(_renew_if_refused, credentials)
    client.meta.events.register(f"needs-retry.{service}", renew)
    return client


def current_credentials(settings: spec.S3Access) -> ReadOnlyCredentials | None:
    """The credentials as they are now, for other clients; None if there are none.

    They hold for ten minutes at least.

    Raises:
        StoreDenied: a secret or a role is not there.
    """
    return _frozen(_credentials(settings, region_of(settings)))


def endpoint_of(settings: spec.S3Access) -> str | None:
    """The URL of the server, for other clients; None for the usual one of AWS."""
    if not (settings.use_fips or settings.use_dual_stack):
        return settings.endpoint
    session = _session(settings, None)
    client = session.create_client("s3", region_of(settings), config=_endpoint_config(settings))
    return str(client.meta.endpoint_url)


def proxy_of(settings: spec.S3Access) -> str | None:
    """The URL of the proxy, with user and password if the Secret has them.

    Raises:
        StoreDenied: the secret is not there.
    """
    if settings.proxy is None:
        return None
    ref = settings.credentials_secret_ref
    secret = _secret(ref.name) if ref else {}
    if PROXY_USER not in secret:
        return settings.proxy
    login = ":".join(quote(secret.get(key, ""), safe="") for key in (PROXY_USER, PROXY_PASSWORD))
    scheme, _, host = settings.proxy.partition("://")
    return f"{scheme}://{login}@{host}"


def region_of(settings: spec.S3Access) -> str | None:
    """The region that requests are signed for; None if nothing names one."""
    # The session sends nothing, so it needs none of the handlers, which take 15 ms to register.
    session = Session(profile=settings.profile, include_builtin_handlers=False)
    configured: str | None = session.get_config_variable("region")
    return settings.region or configured or ("us-east-1" if settings.endpoint else None)


def _credentials(settings: spec.S3Access, region: str | None) -> Credentials | None:
    """The credentials as they are now. A new session looks them up: sessions keep them."""
    secret = settings.credentials_secret_ref
    has_keys = secret and not is_of_proxy_only(_secret(secret.name))
    own = (
        _from_secret(secret.name)
        if secret and has_keys
        else _session(settings, None).get_credentials()
    )
    if not settings.assume_role:
        return own
    config = _endpoint_config(settings)
    return _assume_role(_session(settings, own), region, settings.assume_role, config)


def _renew_if_refused(
    credentials: RenewableCredentials,
    response: tuple[Any, dict[str, Any]] | None,
    attempts: int,
    **_: Any,
) -> float | None:
    """Renew the credentials after a refusal; the answer makes botocore send the request again."""
    if response is None or attempts > 1:
        return None
    code = str(response[1].get("Error", {}).get("Code", ""))
    if not blames_credentials(response[0].status_code, code):
        return None
    return 0.0 if credentials.renew() else None


def _frozen(credentials: Credentials | None) -> ReadOnlyCredentials | None:
    return credentials.get_frozen_credentials() if credentials else None


def _endpoint_config(settings: spec.S3Access) -> Config:
    """Return the AWS endpoints in use, and how they are reached."""
    proxy = proxy_of(settings)
    return Config(
        # None leaves it to the environment, and to the profile.
        use_fips_endpoint=settings.use_fips or None,
        use_dualstack_endpoint=settings.use_dual_stack or None,
        proxies={"http": proxy, "https": proxy} if proxy else None,
    )


def _config(settings: spec.S3Access) -> Config:
    own = Config(
        connect_timeout=settings.connect_timeout.total_seconds(),
        read_timeout=settings.read_timeout.total_seconds(),
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        max_pool_connections=MAX_CONNECTIONS,
        tcp_keepalive=True,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={
            "addressing_style": "path" if settings.path_style else "auto",
            "payload_signing_enabled": True,
        },
        # botocore composes a new one for each request, in an eighth of a request's CPU time.
        user_agent=f"landfall/{__version__}",
    )
    return own.merge(_endpoint_config(settings))


def _session(settings: spec.S3Access, credentials: Credentials | None) -> Session:
    """A session with these credentials, else from the profile or the default chain."""
    session = Session(profile=settings.profile)
    session.register_component("data_loader", _MODELS)
    if credentials:
        session.register_component(
            "credential_provider", CredentialResolver([_FixedCredentials(credentials)])
        )
    return session


def _secret(name: str) -> Mapping[str, str]:
    try:
        return read_secret(name)
    except Stalled as error:
        raise StoreDenied(str(error)) from error


def _from_secret(name: str) -> DeferredRefreshableCredentials:
    def read() -> dict[str, str | None]:
        secret = _secret(name)
        if missing := lacks("s3", secret):
            raise StoreDenied(f"secret {name!r} {missing}")
        access_key, secret_key = (secret[key] for key in S3_KEYS)
        return {
            "access_key": access_key,
            "secret_key": secret_key,
            "token": secret.get("AWS_SESSION_TOKEN"),
            "expiry_time": (datetime.now(UTC) + SECRET_LIFETIME).isoformat(),
        }

    return DeferredRefreshableCredentials(refresh_using=read, method="landfall-secret")


def _assume_role(
    session: Session, region: str | None, role: spec.AssumeRole, config: Config
) -> DeferredRefreshableCredentials:
    own = session.get_credentials()
    if own is None:
        raise StoreDenied(f"no credentials to assume role {role.role_arn} with")
    arguments = {"RoleSessionName": role.session_name} | (
        {"ExternalId": role.external_id} if role.external_id else {}
    )
    sts = partial(session.create_client, region_name=region, config=config)
    fetcher = AssumeRoleCredentialFetcher(sts, own, role.role_arn, extra_args=arguments)
    return DeferredRefreshableCredentials(
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )


def _pay(params: dict[str, Any], **_: Any) -> None:
    """State that the account of the credentials pays for the request."""
    params["headers"]["x-amz-request-payer"] = "requester"


def _send_body_as_bytes(params: dict[str, Any], **_: Any) -> None:
    """Replace the file that boto3 wraps a body in by its bytes.

    Reading that file in chunks would cost a seventh of an upload's CPU time.
    """
    if isinstance(params["body"], BytesIO):
        params["body"] = params["body"].getvalue()
        params["headers"].pop("Expect", None)


def _count(client: "S3Client", requests: Counter[str]) -> None:
    lock = threading.Lock()

    def sent(event_name: str, **_: Any) -> None:
        with lock:
            requests[event_name.rpartition(".")[2]] += 1

    client.meta.events.register("before-send.s3", sent)
