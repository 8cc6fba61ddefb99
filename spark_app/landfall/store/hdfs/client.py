"""Sets up a client of HDFS from a section ``hdfs``: name node, user, configuration, Kerberos."""

import ctypes
import functools
import os
from typing import Any

from hdfs_native import AsyncClient

from landfall.api import spec
from landfall.api.secrets import secret_folder
from landfall.errors import Stalled, StoreDenied

_USER = "HADOOP_USER_NAME"
KEYTAB = "keytab"
"""Key of the Secret with a Kerberos keytab, for the principal ``hdfs.principal``."""


def client(authority: str, settings: spec.HdfsAccess) -> AsyncClient:
    """A client, the same one for the same arguments as long as the process lives.

    A client is never released, not even when Python exits. Releasing the last reference joins the
    client's threads while holding the GIL, and one of them may be waiting for the GIL to deliver an
    answer: a deadlock.

    Raises:
        StoreDenied: the Secret is not there.
        OSError, RuntimeError, ValueError: the client refuses its options.
    """
    options = client_options(authority, settings)
    config = tuple(sorted(options.pop("config").items()))
    return _client(os.getpid(), os.environ.get(_USER, ""), config, **options)


@functools.cache
def _client(
    _process: int, _user: str, config: tuple[tuple[str, str], ...], **options: Any
) -> AsyncClient:
    made = AsyncClient(config=dict(config), **options)
    # A reference that is never dropped: those in modules are dropped when Python ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made.inner))
    return made


def client_options(authority: str, settings: spec.HdfsAccess) -> dict[str, Any]:
    """The arguments of a client, which makes no request until it is used.

    Args:
        authority: host and port of the name node, or a name service of the configuration.
        settings: how to access it.

    Raises:
        StoreDenied: the Secret is not there.
    """
    if settings.user:
        # The client takes it from nowhere else, so it holds for the process, which has one group;
        # its spec has one user.
        os.environ[_USER] = settings.user
    folder = _folder(settings)
    return {
        "url": (settings.endpoint or f"hdfs://{authority}").rstrip("/"),
        "config": {
            "dfs.client.socket-timeout": f"{settings.read_timeout.total_seconds() * 1000:.0f}",
            "dfs.client.failover.max.attempts": str(settings.max_attempts),
        },
        "config_dir": folder,
        "kerberos_principal": settings.principal,
        "kerberos_keytab": f"{folder}/{KEYTAB}" if settings.principal else None,
    }


def _folder(settings: spec.HdfsAccess) -> str | None:
    """The folder of the Secret, in which the client finds ``core-site.xml`` and the like."""
    if not settings.credentials_secret_ref:
        return None
    name = settings.credentials_secret_ref.name
    try:
        folder = secret_folder(name)
    except Stalled as error:
        raise StoreDenied(str(error)) from error
    needed = folder / KEYTAB if settings.principal else folder
    if not needed.exists():
        raise StoreDenied(
            f"no secret {name!r} with what the section hdfs needs: there is no {needed}; "
            "$LANDFALL_SECRETS names the folder that holds one per secret"
        )
    return str(folder)
