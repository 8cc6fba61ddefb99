"""Creates a boto3 client from ``spec.output.s3``: credentials, timeouts, and a count of requests.

The first credentials that are given are used: the secret (read again every few minutes, so that a
rotated one takes effect), the profile, boto3's default chain (environment, web identity, container,
instance). ``assumeRole`` assumes the role with these, and botocore renews it before it expires.

Payloads are signed by their SHA-256, on http and https alike: the store then rejects a body that
was changed on the way. It is the only hash of a part's bytes that Landfall computes: SHA-256 runs
at 1.7 GB per CPU-second, MD5, for comparing ETags, at 0.7. boto3's additional CRC is off
(``when_required``): it costs more, and some S3-compatible stores reject it.
"""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.loaders import create_loader
from botocore.session import Session

from landfall.api import spec
from landfall.api.secrets import read_secret
from landfall.errors import Reason, Stalled

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_CONNECTIONS = 64
"""Connections kept per client, as many as the threads that complete uploads."""
SECRET_LIFETIME = timedelta(minutes=30)
"""How long credentials from a secret are valid; botocore reads them again 15 minutes before."""
_MODELS = create_loader()
"""Shared between clients, so that only a process's first one parses the S3 model (70 ms)."""


class _FixedCredentials(CredentialProvider):
    """A credential provider that always returns the same, self-refreshing credentials."""

    METHOD = "landfall"

    def __init__(self, credentials: DeferredRefreshableCredentials) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> DeferredRefreshableCredentials:
        return self._credentials


def s3_client(settings: spec.S3, requests: Counter[str]) -> "S3Client":
    """A thread-safe client that counts its HTTP requests, retries included, in ``requests``.

    Raises:
        Stalled: STORE_DENIED or SPEC_INVALID, the credentials cannot be read.
    """
    session = _session(
        settings,
        _from_secret(settings.credentials_secret_ref.name)
        if settings.credentials_secret_ref
        else None,
    )
    region = (
        settings.region
        or session.get_config_variable("region")
        or ("us-east-1" if settings.endpoint else None)
    )
    if settings.assume_role:
        # A new session: one that has resolved credentials keeps them.
        session = _session(settings, _assume_role(session, region, settings.assume_role))
    client: S3Client = boto3.Session(botocore_session=session).client(
        "s3", endpoint_url=settings.endpoint, region_name=region, config=_config(settings)
    )
    _count(client, requests)
    client.meta.events.register("before-call.s3.UploadPart", _send_body_as_bytes)
    return client


def _config(settings: spec.S3) -> Config:
    return Config(
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
    )


def _session(settings: spec.S3, credentials: DeferredRefreshableCredentials | None) -> Session:
    """A session with these credentials, else those of the profile or of the default chain."""
    session = Session(profile=settings.profile)
    session.register_component("data_loader", _MODELS)
    if credentials:
        session.register_component(
            "credential_provider", CredentialResolver([_FixedCredentials(credentials)])
        )
    return session


def _from_secret(name: str) -> DeferredRefreshableCredentials:
    def read() -> dict[str, str | None]:
        secret = read_secret(name)
        missing = sorted({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} - secret.keys())
        if missing:
            raise Stalled(Reason.STORE_DENIED, f"secret {name!r} lacks {' and '.join(missing)}")
        return {
            "access_key": secret["AWS_ACCESS_KEY_ID"],
            "secret_key": secret["AWS_SECRET_ACCESS_KEY"],
            "token": secret.get("AWS_SESSION_TOKEN"),
            "expiry_time": (datetime.now(UTC) + SECRET_LIFETIME).isoformat(),
        }

    return DeferredRefreshableCredentials(refresh_using=read, method="landfall-secret")


def _assume_role(
    session: Session, region: str | None, role: spec.AssumeRole
) -> DeferredRefreshableCredentials:
    own = session.get_credentials()
    if own is None:
        raise Stalled(Reason.STORE_DENIED, f"no credentials to assume role {role.role_arn} with")
    arguments = {"RoleSessionName": role.session_name} | (
        {"ExternalId": role.external_id} if role.external_id else {}
    )
    sts = partial(session.create_client, region_name=region)
    fetcher = AssumeRoleCredentialFetcher(sts, own, role.role_arn, extra_args=arguments)
    return DeferredRefreshableCredentials(
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )


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
