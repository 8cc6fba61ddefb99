"""How the auditor logs in: to stores and to Kafka, as their libraries document it.

A Secret is a folder with one file per key, as Kubernetes mounts it. No value of one is written to a
message.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from landfall_audit.errors import AuditReason, AuditStalled

USER_AGENT = "landfall-audit"


def secret_folder(name: str) -> Path:
    """Return the folder of a Secret: ``$LANDFALL_SECRETS/NAME``, or in ``/etc/landfall/secrets``.

    Raises:
        AuditStalled: SPEC_INVALID, it is not the name of a Secret.
    """
    if name in {"", ".", ".."} or Path(name).name != name:
        raise AuditStalled(AuditReason.SPEC_INVALID, f"not the name of a secret: {name!r}")
    return Path(os.environ.get("LANDFALL_SECRETS") or "/etc/landfall/secrets") / name


def read_secret(name: str) -> Mapping[str, str]:
    """Return the values of a Secret by key, each without its final newline.

    Raises:
        AuditStalled: SPEC_INVALID, there is no such folder, or a file in it cannot be read.
    """
    folder = secret_folder(name)
    try:
        files = [f for f in folder.iterdir() if f.is_file() and not f.name.startswith(".")]
        return {file.name: file.read_text("utf-8").removesuffix("\n") for file in files}
    except (OSError, UnicodeDecodeError) as error:
        # Only the type: the text of a decoding error quotes bytes of the Secret.
        raise AuditStalled(
            AuditReason.SPEC_INVALID,
            f"secret {name!r} cannot be read from {folder}: {type(error).__name__}; "
            "$LANDFALL_SECRETS names the folder that holds one per secret",
        ) from None


def require(name: str, secret: Mapping[str, str], *keys: str) -> list[str]:
    """Return the values of these keys.

    Raises:
        AuditStalled: SPEC_INVALID, the Secret lacks one.
    """
    if missing := [key for key in keys if key not in secret]:
        raise AuditStalled(
            AuditReason.SPEC_INVALID, f"secret {name!r} lacks {' and '.join(missing)}"
        )
    return [secret[key] for key in keys]


def fault(error: BaseException) -> str:
    """Return why a connection failed: the system's message, else the error's type.

    A client's own text may quote a URL with a password.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, OSError) and current.strerror:
            return current.strerror.lower()
        current = current.__cause__ or current.__context__
    return type(error).__name__
