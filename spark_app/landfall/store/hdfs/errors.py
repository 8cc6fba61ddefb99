"""Translates errors of ``hdfs-native`` to Landfall's.

==================================================  ============================================
what the name node or a data node answers           Landfall raises
==================================================  ============================================
no permission, no quota, a name that is not allowed ``StoreDenied``: it may succeed later
safe mode, standby, no data node, connection        ``StoreAway``: a later attempt may succeed
an operation that this version does not have        ``Stalled`` STORE_UNSAFE
any other exception                                 ``StoreAway``
==================================================  ============================================

The client reports an exception of the name node as text: the Java class, its message, and the stack
below it; only class and first line are quoted.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from landfall.errors import LandfallError, Reason, Stalled, StoreAway, StoreDenied

_DENIED = frozenset(
    {
        "AccessControlException",
        "AuthorizationException",
        "DSQuotaExceededException",
        "NSQuotaExceededException",
        "QuotaByStorageTypeExceededException",
        "InvalidPathException",
        "PathComponentTooLongException",
        "MaxDirectoryItemsExceededException",
        "ParentNotDirectoryException",
        "SaslException",
        "InvalidToken",
    }
)
"""Exceptions that go away when a user changes rights, quotas or names."""
_UNSUPPORTED = frozenset({"UnsupportedOperationException", "RpcNoSuchMethodException"})
_EXCEPTION = re.compile(r"(?:[a-z][\w$]*\.)+(?P<name>[A-Z]\w+)")
_LINE_END = re.compile(r"\\n|\n")


@contextmanager
def translate_errors(operation: str, url: str, hint: str = "") -> Iterator[None]:
    """Translate any error of the client raised inside, as in the table of the module.

    ``operation`` and ``url`` are for the message; ``hint`` is added to a refusal.
    """
    try:
        yield
    except LandfallError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise _translated(f"{operation} {url}", str(error), hint) from error


def exception_of(text: str) -> str:
    """The name of the Java class in an error's text, without its package; empty if none."""
    found = _EXCEPTION.search(text)
    return found["name"] if found else ""


def _translated(request: str, text: str, hint: str) -> LandfallError:
    first, name = _LINE_END.split(text, maxsplit=1)[0], exception_of(text)
    message = f"{request}: {first}"
    if name in _UNSUPPORTED:
        return Stalled(Reason.STORE_UNSAFE, message)
    if name not in _DENIED:
        return StoreAway(message)
    return StoreDenied(f"{message}; {hint}" if hint else message)
