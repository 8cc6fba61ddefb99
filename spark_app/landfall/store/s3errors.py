"""What boto3 raises, told as Landfall's errors.

===============================================  =================================================================
the store or the way to it said                  we say
===============================================  =================================================================
credentials missing, refused; no bucket, 403     ``Stalled`` STORE_DENIED
not implemented                                  ``Stalled`` STORE_UNSAFE
any other fault of the request (4xx)             ``Stalled`` STORE_DENIED: the same request will be refused again
throttled, 5xx, time-out, connection, expired    ``Retry``: boto3's own attempts are used up, a later one may succeed
===============================================  =================================================================

Messages name operation, bucket and key, and quote the store's code and sentence, neither of which
holds a secret.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions as boto

from landfall.errors import LandfallError, Reason, Stalled, StoreAway

_PASSING = frozenset(
    {
        "SlowDown",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "OperationAborted",
        "ConditionalRequestConflict",
        "ExpiredToken",
        "IncompleteBody",
        "BadDigest",
        "XAmzContentSHA256Mismatch",
    }
)
"""Codes of 4xx answers that a later attempt may not get: the load, the clock, the wire, a token
about to be renewed.
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
    """The store's error code, such as ``NoSuchKey``; a HEAD has only its status, such as ``404``."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: boto.ClientError) -> int:
    """The HTTP status; 0 if unknown."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


@contextmanager
def told(operation: str, place: str) -> Iterator[None]:
    """Turn whatever boto3 raises inside into one of Landfall's errors; ``place`` is ``s3://bucket/key``."""
    try:
        yield
    except boto.ClientError as error:
        raise _of_answer(error, f"{operation} {place}") from error
    except _NO_CREDENTIALS as error:
        raise Stalled(Reason.STORE_DENIED, f"{operation} {place}: {error}") from error
    except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
        # Names of errors only: a proxy's or endpoint's URL may hold a password.
        raise StoreAway(f"{operation} {place}: {type(error).__name__}") from error


def _of_answer(error: boto.ClientError, asked: str) -> LandfallError:
    code, status = code_of(error), status_of(error)
    said = (
        f"{asked}: {code} ({status}): {error.response.get('Error', {}).get('Message', '')}".rstrip(
            ": "
        )
    )
    if status == 501:
        return Stalled(Reason.STORE_UNSAFE, said)
    if status >= 500 or status in {0, 408, 429} or code in _PASSING:
        return StoreAway(said)
    return Stalled(Reason.STORE_DENIED, said)
