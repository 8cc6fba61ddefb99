"""Translates boto3's errors to Landfall's.

=================================================  =============================================
the store's response, or what happened on the way  Landfall raises
=================================================  =============================================
not implemented (501)                              ``Stalled`` STORE_UNSAFE
throttling, 5xx, timeout, connection               ``StoreAway``: a later attempt may succeed
credentials missing or rejected; no bucket; 403    ``StoreDenied``: it may succeed later, too, for
                                                   keys are rotated, and rights are given back
any other error of the request (4xx)               ``StoreDenied``
=================================================  =============================================

boto3 has made its own attempts before any of these. Messages contain operation, bucket and key, and
quote the store's error code and text, which contain no secret.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from botocore import exceptions as boto

from landfall.errors import LandfallError, Reason, Stalled, StoreAway, StoreDenied
from landfall.network import Address, connection_fault

_TEMPORARY = frozenset(
    {
        "SlowDown",
        "ServiceUnavailable",
        "TooManyRequestsException",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "OperationAborted",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "BadDigest",
        "XAmzContentSHA256Mismatch",
    }
)
"""Codes of 4xx responses whose cause is temporary: load, clock skew or a damaged transfer."""
_THROTTLING = ("throttl", "limitexceeded")
"""What the codes of throttling contain, in lower case: ``ThrottlingException``, ``KMSThrottling``,
``RequestLimitExceeded`` and their like.
"""
_CREDENTIALS = frozenset(
    {
        "AccessDenied",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "XAdminUserNotFound",
    }
)
"""Codes of responses to requests that were signed with the wrong credentials, perhaps. The last is
versitygw's for a key that does not exist, with the status 404.
"""

_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.ConfigNotFound,
    boto.InvalidConfigError,
    boto.NoRegionError,
    boto.ParamValidationError,
    boto.UnauthorizedSSOTokenError,
)


def code_of(error: boto.ClientError) -> str:
    """The store's error code, such as ``NoSuchKey``; after a HEAD the status, such as ``404``."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: boto.ClientError) -> int:
    """The HTTP status of the response; 0 if unknown."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_about_lock(error: boto.ClientError) -> bool:
    """Return whether a refusal's text concerns Object Lock, which has no error code of its own."""
    text = str(error.response.get("Error", {}).get("Message", "")).lower()
    return any(word in text for word in ("content-md5", "object lock", "objectlock"))


def blames_credentials(status: int, code: str) -> bool:
    """Return whether a request may have been refused for its credentials: new ones may help."""
    return code in _CREDENTIALS or (status in {401, 403} and not _is_temporary(status, code))


def _is_temporary(status: int, code: str) -> bool:
    return (
        status >= 500
        or status in {0, 408, 429}
        or code in _TEMPORARY
        or any(word in code.lower() for word in _THROTTLING)
    )


@contextmanager
def translate_errors(
    operation: str, url: str, hint: Callable[[boto.ClientError], str] = lambda _: ""
) -> Iterator[None]:
    """Translate any boto3 error raised inside, as in the table of the module.

    ``operation`` and ``url``, such as ``s3://bucket/key``, are for the message; ``hint`` names what
    may have led to a refusal.
    """
    try:
        yield
    except boto.ClientError as error:
        raise _translate_response(error, f"{operation} {url}", hint) from error
    except _NO_CREDENTIALS as error:
        raise StoreDenied(f"{operation} {url}: {error}") from error
    except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
        raise StoreAway(f"{operation} {url}: {_connection(error)}") from error


def _connection(error: Exception) -> str:
    """Return the server that was not reached, and why; else the error's type.

    Its text quotes the URL of proxy or endpoint, which may contain a password.
    """
    fault, named = connection_fault(error), getattr(error, "kwargs", {})
    if not fault:
        return type(error).__name__
    proxy = named.get("proxy_url")
    parts = urlsplit(str(proxy or named.get("endpoint_url") or ""))
    if not parts.hostname:
        return fault
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{'proxy ' if proxy else ''}{Address(parts.hostname, port)}: {fault}"


def _translate_response(
    error: boto.ClientError, request: str, hint: Callable[[boto.ClientError], str]
) -> LandfallError:
    code, status = code_of(error), status_of(error)
    text = error.response.get("Error", {}).get("Message", "")
    if code == "NoSuchBucket":
        text = f"the bucket {urlsplit(request.partition(' ')[2]).netloc} does not exist"
    message = f"{request}: {code} ({status}): {text}".rstrip(": ")
    if status != 501 and _is_temporary(status, code):
        return StoreAway(message)
    if why := hint(error):
        message = f"{message}; {why}"
    return Stalled(Reason.STORE_UNSAFE, message) if status == 501 else StoreDenied(message)
