"""Reads secrets by name from a folder per secret with one file per key, as Kubernetes mounts them.

This is the only module that reads secrets. No value is ever written to a message, a status or the
ledger.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from landfall.errors import Reason, Stalled

DEFAULT_FOLDER = "/etc/landfall/secrets"


def read_secret(name: str) -> Mapping[str, str]:
    """The values of a secret by key, each without its final newline.

    The files are read at every call, so that a rotated secret takes effect. The folder is
    ``$LANDFALL_SECRETS/<name>``, by default ``/etc/landfall/secrets/<name>``. Hidden files are
    skipped: Kubernetes keeps the versions of a mounted secret in them.

    Raises:
        Stalled: SPEC_INVALID, the folder does not exist, or a file in it cannot be read.
    """
    folder = secret_folder(name)
    try:
        files = [
            path
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".")
        ]
        return {path.name: path.read_text("utf-8").removesuffix("\n") for path in files}
    except FileNotFoundError:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"no secret {name!r}: there is no folder {folder}; "
            "$LANDFALL_SECRETS names the folder that holds one per secret",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        # Only the error's type is reported: the text of a decoding error quotes bytes of the
        # secret.
        raise Stalled(
            Reason.SPEC_INVALID,
            f"secret {name!r} cannot be read from {folder}: {type(error).__name__}",
        ) from None


def secret_file(name: str, key: str) -> Path:
    """The file that holds one key of a secret, for libraries that take no values, such as TLS.

    Raises:
        Stalled: SPEC_INVALID, it is not the name of a secret.
    """
    return secret_folder(name) / key


def secret_folder(name: str) -> Path:
    """The folder of a secret, for libraries that read their own files from it.

    Raises:
        Stalled: SPEC_INVALID, it is not the name of a secret.
    """
    if name in {"", ".", ".."} or Path(name).name != name:
        raise Stalled(Reason.SPEC_INVALID, f"not the name of a secret: {name!r}")
    return Path(os.environ.get("LANDFALL_SECRETS") or DEFAULT_FOLDER) / name
