"""The arguments of a client of HDFS by ``hdfs`` of a place, and what its errors mean."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from landfall_audit.errors import (
    AuditError,
    AuditReason,
    AuditRetry,
    AuditStalled,
    AuditStoreDenied,
)
from landfall_audit.login import secret_folder
from landfall_audit.spec import HdfsSection

_DENIED = ("AccessControl", "Authorization", "InvalidPath", "ParentNotDirectory", "Sasl", "Token")
"""Parts of the names of exceptions that go away when a user changes rights or names."""
_CLASS = re.compile(r"(?:[a-z][\w$]*\.)+([A-Z]\w+)")


def client_options(authority: str, settings: HdfsSection) -> dict[str, Any]:
    """Return the arguments of ``hdfs_native.Client``, which makes no request until it is used.

    Args:
        authority: host and port of the name node, or a name service of the configuration.
        settings: how to access it.

    Raises:
        AuditStalled: SPEC_INVALID, the Secret is not there, or has no keytab for the principal.
    """
    if settings.user:
        os.environ["HADOOP_USER_NAME"] = settings.user  # the client takes it from nowhere else
    folder = None
    if settings.credentials_secret_ref:
        name = settings.credentials_secret_ref.name
        folder = secret_folder(name)
        needed = folder / "keytab" if settings.principal else folder
        if not needed.exists():
            raise AuditStalled(
                AuditReason.SPEC_INVALID,
                f"secret {name!r}: there is no {needed}; "
                "$LANDFALL_SECRETS names the folder that holds one per secret",
            )
    return {
        "url": (settings.endpoint or f"hdfs://{authority}").rstrip("/"),
        "config": {
            "dfs.client.socket-timeout": f"{settings.read_timeout.total_seconds() * 1000:.0f}",
            "dfs.client.failover.max.attempts": str(settings.max_attempts),
        },
        "config_dir": str(folder) if folder else None,
        "kerberos_principal": settings.principal,
        "kerberos_keytab": f"{folder}/keytab" if settings.principal else None,
    }


@contextmanager
def translate_errors(operation: str, url: str) -> Iterator[None]:
    """Translate any error of the client raised inside; messages begin with operation and URL.

    The name node's exceptions are text: a Java class, its message, and a stack that is left out.
    """
    try:
        yield
    except AuditError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        text = re.split(r"\\n|\n", str(error), maxsplit=1)[0]
        found = _CLASS.search(str(error))
        is_denied = found is not None and any(part in found[1] for part in _DENIED)
        kind = AuditStoreDenied if is_denied else AuditRetry
        raise kind(f"{operation} {url}: {text}") from error
