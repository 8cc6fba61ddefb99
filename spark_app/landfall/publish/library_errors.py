"""Classifies exceptions of a destination's library: wait, or a user must act.

A publisher retries what passes by itself: a network that fails, a server that is overloaded, a
commit that lost a race. Libraries raise the same classes for permanent errors, such as a table of a
format version that they cannot write. So the list below names errors that pass, and any other error
is retried a few times only: the same one ``REPEATS`` times in a row is a ``DestinationConflict``
with the library's own text. A publisher retries that every minute, so an error that passes after
all is forgotten with the first success.

=====================================================  ==================================
the error, or one that it was raised ``from``          becomes
=====================================================  ==================================
``PermissionError``, an HTTP status 401 or 403         ``DestinationDenied``
a name of ``_PASSING``, a status or text that passes   ``DestinationAway``
any other, fewer than ``REPEATS`` times in a row       ``DestinationAway``
any other, the same for the ``REPEATS``-th time        ``Stalled(DESTINATION_CONFLICT)``
=====================================================  ==================================

Imports no library: most of them are extras, so classes are known by their names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from landfall.errors import (
    DestinationAway,
    DestinationDenied,
    LandfallError,
    Reason,
    Stalled,
)

REPEATS = 5
"""How often in a row the same unknown error is treated as one that may pass."""

_PASSING = {
    "builtins.ConnectionError",
    "builtins.TimeoutError",
    "builtins.InterruptedError",
    "requests.ConnectionError",
    "requests.Timeout",
    "requests.ChunkedEncodingError",
    "urllib3.ProtocolError",
    "urllib3.TimeoutError",
    "botocore.ConnectionError",
    "botocore.HTTPClientError",
    "azure.ServiceRequestError",
    "azure.ServiceResponseError",
    "thrift.TTransportException",
    "sqlalchemy.TimeoutError",
    "pyiceberg.CommitFailedException",
    "pyiceberg.CommitStateUnknownException",
    "pyiceberg.ServiceUnavailableError",
    "pyiceberg.ServerError",
    "pyiceberg.TooManyRequestsError",
    "pyiceberg.AuthorizationExpiredError",
    "pyiceberg.WaitingForLockException",
    "_internal.CommitFailedError",  # of deltalake
}
"""Classes of errors that pass by themselves: the package, and the name of the class or a base."""
_LASTING = {"ssl.SSLCertVerificationError", "requests.SSLError", "botocore.SSLError"}
"""Exceptions to ``_PASSING``: a certificate that is not trusted is not trusted later either."""
_PASSING_STATUSES = {408, 419, 425, 429, 500, 502, 503, 504, 507, 509}
_DENIED_STATUSES = {401, 403}
_PASSING_TEXT = re.compile(
    r"timed[ -]?out|time-?out\b|connection (refused|reset|closed|aborted|error|is closed)"
    r"|could not connect|server closed the connection|error sending request|broken pipe"
    r"|network[ _](connection|is unreachable)|no route to host|name resolution|dns error"
    r"|slow_?down|throttl|too many (requests|connections)|internal_failure|service_?unavailable"
    r"|database is locked|status( code)?:? 5\d\d\b"
    r"|\b50[0234] (internal|bad|service|gateway)"
    r"|temporar(y|ily) (failure|unavailable)",
    re.IGNORECASE,
)
"""Texts of errors that pass, for libraries with one class for all errors, such as delta-rs."""
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+")
"""The varying parts in texts of the same error: numbers, digests, addresses, ids."""


@dataclass
class LibraryErrors:
    """Turns exceptions of a library into errors of Landfall, and counts those that repeat."""

    _repeated: dict[str, tuple[str, int]] = field(default_factory=dict)

    def translate(self, attempt: str, error: BaseException, message: str) -> LandfallError:
        """The error to raise for an exception; see the table of the module.

        Args:
            attempt: what failed, such as ``append to lake.orders``; errors are counted by it.
            error: the exception.
            message: the message for it, without secrets.
        """
        if is_denied(error):
            return DestinationDenied(message)
        if is_passing(error):
            return DestinationAway(message)
        text = _VARYING.sub("#", message.lower())
        last, count = self._repeated.get(attempt, ("", 0))
        count = count + 1 if text == last else 1
        self._repeated[attempt] = text, count
        if count < REPEATS:
            return DestinationAway(message)
        return Stalled(
            Reason.DESTINATION_CONFLICT,
            f"{message} (the same error at least {REPEATS} times in a row)",
        )

    def succeeded(self, attempt: str) -> None:
        """Forget the errors of an attempt, which has just succeeded."""
        self._repeated.pop(attempt, None)


def is_denied(error: BaseException) -> bool:
    """Return whether an error is about credentials or permissions."""
    return any(
        isinstance(cause, PermissionError) or _status(cause) in _DENIED_STATUSES
        for cause in _causes(error)
    )


def is_passing(error: BaseException) -> bool:
    """Return whether an error, or one that it was raised from, is known to pass by itself."""
    causes = [*_causes(error)]
    if any(_LASTING & _names(cause) for cause in causes):
        return False
    return any(
        _PASSING & _names(cause)
        or _status(cause) in _PASSING_STATUSES
        or _PASSING_TEXT.search(str(cause))
        for cause in causes
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _names(error: BaseException) -> set[str]:
    """The packages and names of an error's class and its bases."""
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__}


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error has, as requests, botocore or azure keep it."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(answer, "status_code", getattr(error, "status_code", None))
    return status if isinstance(status, int) else None
