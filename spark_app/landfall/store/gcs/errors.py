"""Translates errors of Google's client to Landfall's, as ``s3.errors`` does for boto3.

==================================================  ============================================
the store's response, or what happened on the way   Landfall raises
==================================================  ============================================
a feature that is not there (notImplemented)        ``Stalled`` STORE_UNSAFE
throttling (rateLimitExceeded), 5xx, timeout,       ``StoreAway``: a later attempt may succeed
connection, a checksum that does not match
credentials missing or rejected; no bucket; 403     ``StoreDenied``: it may succeed later, too
any other error of the request (4xx)                ``StoreDenied``
==================================================  ============================================

The client has made its own attempts before any of these. Messages contain operation, bucket and
key, and quote the ``reason`` of Google's error: neither a token nor a key.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException

from google.api_core import exceptions as google
from google.auth import exceptions as auth
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from urllib3.exceptions import HTTPError

from landfall.errors import LandfallError, Reason, Stalled, StoreAway, StoreDenied
from landfall.network import connection_fault

_TEMPORARY = frozenset(
    {
        "rateLimitExceeded",
        "userRateLimitExceeded",
        "quotaExceeded",
        "backendError",
        "internalError",
    }
)
"""Reasons of responses whose cause is temporary, with any status."""
_UNSUPPORTED = frozenset({"notImplemented"})
_TEMPORARY_STATUS = frozenset({408, 429})
_REASON = re.compile(r'"reason": ?"(\w+)"|<Code>(\w+)</Code>')


def code_of(error: google.GoogleAPICallError) -> str:
    """Google's reason, such as ``conditionNotMet``; the error's name if the response has none."""
    for detail in error.errors:
        if isinstance(detail, dict) and detail.get("reason"):
            return str(detail["reason"])
    # Uploads and downloads do not parse the response: its body is in the message.
    match = _REASON.search(str(error.message))
    return next(filter(None, match.groups())) if match else type(error).__name__


def is_absent(error: google.NotFound) -> bool:
    """Return whether an object does not exist, and not its bucket, which has the same reason."""
    return "bucket does not exist" not in str(error.message)


def blames_credentials(error: Exception) -> bool:
    """Return whether a request may succeed with another key."""
    return isinstance(error, auth.RefreshError | google.Unauthorized | google.Forbidden)


@contextmanager
def translate_errors(operation: str, url: str, hint: str = "") -> Iterator[None]:
    """Translate any error of Google's client raised inside, as in the table of the module.

    ``operation`` and ``url``, such as ``gs://logs/key``, are for the message; ``hint`` is added to
    a refusal.
    """
    request = f"{operation} {url}"
    try:
        yield
    except google.GoogleAPICallError as error:
        raise _translate_response(error, request, hint) from error
    except google.RetryError as error:
        raise StoreAway(f"{request}: {_cause(error)}") from error
    except auth.TransportError as error:
        fault = connection_fault(error) or type(error).__name__
        raise StoreAway(f"{request}: no token: {fault}") from error
    except auth.GoogleAuthError as error:
        kind = StoreAway if error.retryable else StoreDenied
        raise kind(f"{request}: {_first_line(error)}") from error
    except (DataCorruption, InvalidResponse, HTTPError, HTTPException, OSError) as error:
        fault = connection_fault(error) or type(error).__name__
        raise StoreAway(f"{request}: {fault}") from error


def _translate_response(error: google.GoogleAPICallError, request: str, hint: str) -> LandfallError:
    code, status = code_of(error), int(error.code or 0)
    message = f"{request}: {code} ({status})"
    if code in _UNSUPPORTED or status == HTTPStatus.NOT_IMPLEMENTED:
        return Stalled(Reason.STORE_UNSAFE, message)
    if status >= 500 or status in _TEMPORARY_STATUS or code in _TEMPORARY:
        return StoreAway(message)
    return StoreDenied(f"{message}; {hint}" if hint else message)


def _cause(error: google.RetryError) -> str:
    cause = error.cause
    if isinstance(cause, google.GoogleAPICallError):
        return f"{code_of(cause)} ({int(cause.code or 0)})"
    return type(cause).__name__


def _first_line(error: auth.GoogleAuthError) -> str:
    """The error's name and its first line, such as ``RefreshError: invalid_grant: …``."""
    text = str(error.args[0]) if error.args else ""
    return f"{type(error).__name__}: {text.partition(chr(10))[0]}"
