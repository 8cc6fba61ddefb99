"""Translates errors of Azure's client to Landfall's, as ``s3.errors`` does for boto3.

==================================================  ============================================
the store's response, or what happened on the way   Landfall raises
==================================================  ============================================
a feature that is not there                         ``Stalled`` STORE_UNSAFE
throttling (ServerBusy), 5xx, timeout, connection   ``StoreAway``: a later attempt may succeed
credentials missing or rejected; no container; 403  ``StoreDenied``: it may succeed later, too
any other error of the request (4xx)                ``StoreDenied``
==================================================  ============================================

The client has made its own attempts before any of these. Messages contain operation, container and
key, and quote the store's error code: neither a signature nor a key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from azure.core import exceptions as azure

from landfall.errors import LandfallError, Reason, Stalled, StoreAway, StoreDenied
from landfall.network import connection_fault

_TEMPORARY = frozenset(
    {
        "ServerBusy",
        "InternalError",
        "OperationTimedOut",
        "Md5Mismatch",
        "BlobBeingRehydrated",
        "LeaseIdMissing",
    }
)
"""Codes of responses whose cause is temporary: load, a damaged transfer, another client's lease."""
_UNSUPPORTED = frozenset(
    {"FeatureNotSupported", "UnsupportedHeader", "NotImplemented", "APINotImplemented"}
)
_CREDENTIALS = frozenset(
    {"AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"}
)
"""Codes of refusals of a wrong key, and of a signature that has expired."""
_TEMPORARY_STATUS = frozenset({0, 408, 429})


def code_of(error: azure.HttpResponseError) -> str:
    """The store's error code, such as ``BlobNotFound``; the status if the response has none."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or error.status_code or "")


def blames_credentials(error: azure.HttpResponseError) -> bool:
    """Return whether a request may succeed with other credentials of the same rights."""
    return error.status_code == HTTPStatus.UNAUTHORIZED or code_of(error) in _CREDENTIALS


@contextmanager
def translate_errors(operation: str, url: str, hint: str = "") -> Iterator[None]:
    """Translate any error of Azure's client raised inside, as in the table of the module.

    ``operation`` and ``url``, such as ``abfss://logs@account…/key``, are for the message; ``hint``
    is added to a refusal.
    """
    request = f"{operation} {url}"
    try:
        yield
    except azure.ClientAuthenticationError as error:
        raise StoreDenied(f"{request}: {_reason(error)}") from error
    except azure.HttpResponseError as error:
        raise _translate_response(error, request, hint) from error
    except (azure.AzureError, OSError) as error:
        # Never the client's text: it may quote a URL with a signature.
        fault = connection_fault(error) or type(error).__name__
        raise StoreAway(f"{request}: {fault}") from error


def _translate_response(error: azure.HttpResponseError, request: str, hint: str) -> LandfallError:
    code, status = code_of(error), int(error.status_code or 0)
    message = f"{request}: {_reason(error)}"
    if code in _UNSUPPORTED:
        return Stalled(Reason.STORE_UNSAFE, message)
    if status >= 500 or status in _TEMPORARY_STATUS or code in _TEMPORARY:
        return StoreAway(message)
    return StoreDenied(f"{message}; {hint}" if hint else message)


def _reason(error: azure.HttpResponseError) -> str:
    """Code and status; without them, as for a token that cannot be had, its first line."""
    if error.status_code:
        return f"{code_of(error)} ({error.status_code})"
    return str(error.message).partition("\n")[0]
