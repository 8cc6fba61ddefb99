"""A boto3 client of S3 by ``s3`` of a place, and what its errors mean.

The first credentials that are given are used: the Secret, the profile, boto3's default chain. With
``assumeRole`` they are what the role is assumed with. A Secret is read again every few minutes, as
it may be rotated while an audit runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import boto3
from botocore import exceptions as boto
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    Credentials,
    DeferredRefreshableCredentials,
)
from botocore.session import Session

from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled, AuditStoreDenied
from landfall_audit.login import USER_AGENT, fault, read_secret, require
from landfall_audit.spec import S3Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3 import S3Client

_LIFETIME = timedelta(minutes=30)
"""How long keys of a Secret are taken for valid; botocore reads them again 15 minutes before."""
_CONNECTIONS = 64
_TEMPORARY = frozenset(
    {
        *("SlowDown", "ServiceUnavailable", "RequestTimeout", "RequestTimeTooSkewed"),
        *("TooManyRequestsException", "OperationAborted", "InternalError"),
    }
)
"""Codes of answers after which the same request may succeed, for any status."""


class _Provider(CredentialProvider):
    METHOD = "landfall-audit"

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Credentials:
        return self._credentials


def s3_client(settings: S3Section) -> "S3Client":
    """Return a client, which threads may share.

    Raises:
        AuditStalled: SPEC_INVALID, the Secret is not there or lacks a key.
        AuditStoreDenied: there is no role to assume without credentials.
    """
    session, region, config = _opened(settings)
    client: S3Client = boto3.Session(botocore_session=session).client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=region,
        config=_timeouts(settings).merge(config),
    )
    if settings.requester_pays:
        client.meta.events.register("before-call.s3", _pay)
    return client


@dataclass(frozen=True, slots=True)
class BucketAccess:
    """Access of a library that is not boto3 to a bucket; empty text for what is not set."""

    endpoint: str
    region: str
    path_style: bool
    key_id: str = ""
    secret_key: str = ""
    token: str = ""


def s3_access(settings: S3Section) -> BucketAccess:
    """Return access with the credentials as they are now.

    Raises:
        AuditStalled, AuditStoreDenied: as ``s3_client``.
    """
    session, region, _ = _opened(settings)
    access = BucketAccess(settings.endpoint or "", region or "", settings.path_style)
    found = session.get_credentials()
    if found is None:
        return access
    now = found.get_frozen_credentials()
    return replace(
        access,
        key_id=now.access_key or "",
        secret_key=now.secret_key or "",
        token=now.token or "",
    )


def _opened(settings: S3Section) -> tuple[Session, str | None, Config]:
    """A session with credentials, the region, and settings of connections."""
    secret = _secret(settings)
    config = _endpoints(settings, secret)
    session = _session(settings, _of_secret(settings, secret))
    region = settings.region or session.get_config_variable("region")
    region = region or ("us-east-1" if settings.endpoint else None)
    if role := settings.assume_role:
        own = session.get_credentials()
        if own is None:
            raise AuditStoreDenied(f"no credentials to assume role {role.role_arn} with")
        arguments = {"RoleSessionName": role.session_name}
        if role.external_id:
            arguments["ExternalId"] = role.external_id
        sts = partial(session.create_client, region_name=region, config=config)
        fetcher = AssumeRoleCredentialFetcher(sts, own, role.role_arn, extra_args=arguments)
        assumed = DeferredRefreshableCredentials(
            refresh_using=fetcher.fetch_credentials, method="assume-role"
        )
        session = _session(settings, assumed)
    return session, region, config


def _secret(settings: S3Section) -> "Mapping[str, str]":
    ref = settings.credentials_secret_ref
    return read_secret(ref.name) if ref else {}


def _of_secret(settings: S3Section, secret: "Mapping[str, str]") -> Credentials | None:
    """The keys of the Secret; None if it has only the login of a proxy, or there is none."""
    ref = settings.credentials_secret_ref
    has_keys = any(key.startswith("AWS_") for key in secret)
    if ref is None or ("PROXY_USER" in secret and not has_keys):
        return None
    name = ref.name

    def read() -> dict[str, str | None]:
        now = read_secret(name)
        key, value = require(name, now, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        return {
            "access_key": key,
            "secret_key": value,
            "token": now.get("AWS_SESSION_TOKEN"),
            "expiry_time": (datetime.now(UTC) + _LIFETIME).isoformat(),
        }

    read()
    return DeferredRefreshableCredentials(refresh_using=read, method="secret")


def _session(settings: S3Section, credentials: Credentials | None) -> Session:
    session = Session(profile=settings.profile)
    if credentials:
        resolver = CredentialResolver([_Provider(credentials)])
        session.register_component("credential_provider", resolver)
    return session


def _endpoints(settings: S3Section, secret: "Mapping[str, str]") -> Config:
    proxy = settings.proxy
    if proxy and "PROXY_USER" in secret:
        login = (quote(secret.get(key, ""), safe="") for key in ("PROXY_USER", "PROXY_PASSWORD"))
        proxy = proxy.replace("://", f"://{':'.join(login)}@", 1)
    return Config(
        use_fips_endpoint=settings.use_fips or None,
        use_dualstack_endpoint=settings.use_dual_stack or None,
        proxies={"http": proxy, "https": proxy} if proxy else None,
    )


def _timeouts(settings: S3Section) -> Config:
    return Config(
        connect_timeout=settings.connect_timeout.total_seconds(),
        read_timeout=settings.read_timeout.total_seconds(),
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        max_pool_connections=_CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if settings.path_style else "auto"},
        user_agent_extra=USER_AGENT,
    )


def _pay(params: dict[str, Any], **_: Any) -> None:
    params["headers"]["x-amz-request-payer"] = "requester"


def code_of(error: boto.ClientError) -> str:
    """The store's error code, such as ``NoSuchKey``; after a HEAD the status, such as ``404``."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def translate_errors(operation: str, url: str) -> Iterator[None]:
    """Translate any error of boto3 raised inside; the message begins with operation and URL."""
    request = f"{operation} {url}"
    try:
        yield
    except boto.ClientError as error:
        raise _translated(error, request) from error
    except (
        boto.NoCredentialsError,
        boto.PartialCredentialsError,
        boto.ProfileNotFound,
        boto.ConfigNotFound,
        boto.InvalidConfigError,
        boto.NoRegionError,
        boto.ParamValidationError,
        boto.UnauthorizedSSOTokenError,
    ) as error:
        raise AuditStoreDenied(f"{request}: {error}") from error
    except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
        raise AuditRetry(f"{request}: {_server(error)}{fault(error)}") from error


def _server(error: Exception) -> str:
    """Return the server that botocore names; nothing else of the URL, such as a password."""
    named = getattr(error, "kwargs", {})
    parts = urlsplit(str(named.get("proxy_url") or named.get("endpoint_url") or ""))
    if not parts.hostname:
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}: "


def _translated(error: boto.ClientError, request: str) -> AuditRetry | AuditStalled:
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = error.response.get("Error", {}).get("Message", "")
    if code == "NoSuchBucket":
        text = "the bucket does not exist"
    message = f"{request}: {code} ({status}): {text}".rstrip(": ")
    if status == 501:
        return AuditStalled(AuditReason.STORE_UNSAFE, message)
    is_throttled = "throttl" in code.lower() or "limitexceeded" in code.lower()
    if status >= 500 or status in {0, 408, 429} or code in _TEMPORARY or is_throttled:
        return AuditRetry(message)
    return AuditStoreDenied(message)
