"""A client of a bucket of Google Cloud Storage by ``gcs`` of a place, and what its errors mean.

The first credentials that are given are used: the Secret, with the key file of a service account;
none, if ``endpoint`` names another server; then Google's default ones.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

import google.auth
from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.cloud.storage import Bucket, Client
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.oauth2 import service_account
from urllib3.exceptions import HTTPError

from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled, AuditStoreDenied
from landfall_audit.login import fault, read_secret, require
from landfall_audit.spec import GcsSection

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_KEY = "key.json"
_REASON = re.compile(r'"reason": ?"(\w+)"|<Code>(\w+)</Code>')


def bucket_client(name: str, settings: GcsSection) -> Bucket:
    """Return a client of a bucket, which makes no request until it is used.

    Raises:
        AuditStalled: SPEC_INVALID, the Secret is not there, or has no key of a service account.
    """
    options = {"api_endpoint": settings.endpoint.rstrip("/")} if settings.endpoint else {}
    client = Client(project="none", credentials=_credentials(settings), client_options=options)
    return client.bucket(name)


def _credentials(settings: GcsSection) -> Credentials:
    if settings.credentials_secret_ref:
        name = settings.credentials_secret_ref.name
        (key,) = require(name, read_secret(name), _KEY)
        try:
            made: Credentials = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
                json.loads(key), scopes=[_SCOPE]
            )
        except ValueError:  # its text may quote the key
            raise AuditStalled(
                AuditReason.SPEC_INVALID,
                f"secret {name!r}: {_KEY} is not the key file of a service account",
            ) from None
        return made
    if settings.endpoint:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    found, _ = google.auth.default(scopes=[_SCOPE])
    return found


def is_absent(error: google_errors.NotFound) -> bool:
    """Return whether an object does not exist, and not its bucket, which has the same reason."""
    return "bucket does not exist" not in str(error.message)


@contextmanager
def translate_errors(operation: str, url: str) -> Iterator[None]:
    """Translate any error of Google's client raised inside; messages begin with operation and URL.

    They quote the ``reason`` of Google's error, and neither a token nor a key.
    """
    request = f"{operation} {url}"
    try:
        yield
    except google_errors.GoogleAPICallError as error:
        code, status = _reason(error), int(error.code or 0)
        is_temporary = status >= 500 or status in {408, 429} or "LimitExceeded" in code
        kind = AuditRetry if is_temporary else AuditStoreDenied
        raise kind(f"{request}: {code} ({status})") from error
    except google_errors.RetryError as error:
        raise AuditRetry(f"{request}: {type(error.cause).__name__}") from error
    except auth.GoogleAuthError as error:
        kind = (
            AuditRetry
            if isinstance(error, auth.TransportError) or error.retryable
            else AuditStoreDenied
        )
        raise kind(f"{request}: no token: {type(error).__name__}") from error
    except (DataCorruption, InvalidResponse, HTTPError, HTTPException, OSError) as error:
        raise AuditRetry(f"{request}: {fault(error)}") from error


def _reason(error: google_errors.GoogleAPICallError) -> str:
    for detail in error.errors:
        if isinstance(detail, dict) and detail.get("reason"):
            return str(detail["reason"])
    match = _REASON.search(str(error.message))
    return next(filter(None, match.groups())) if match else type(error).__name__
