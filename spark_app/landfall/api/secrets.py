"""Secrets by reference: a folder per secret with one file per key, as Kubernetes mounts them.

Nothing else in Landfall reads secrets, and no value ever goes into a message, a status or the
ledger.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from landfall.errors import Reason, Stalled

DEFAULT_FOLDER = "/etc/landfall/secrets"


def read_secret(name: str) -> Mapping[str, str]:
    """The values of a secret by key, read anew at each call, so that a rotated secret is seen; one final newline is cut.

    The folder is ``$LANDFALL_SECRETS/<name>``, by default ``/etc/landfall/secrets/<name>``.
    Kubernetes' own dot files are left out.

    Raises:
        Stalled: SPEC_INVALID, there is no such folder, or a file in it cannot be read.
    """
    folder = Path(os.environ.get("LANDFALL_SECRETS") or DEFAULT_FOLDER) / name
    if name in {"", ".", ".."} or Path(name).name != name:
        raise Stalled(Reason.SPEC_INVALID, f"not the name of a secret: {name!r}")
    try:
        files = [
            path
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".")
        ]
        return {path.name: path.read_text("utf-8").removesuffix("\n") for path in files}
    except (OSError, UnicodeDecodeError) as error:
        # Only the kind of error: a decoding error's text holds bytes of the secret.
        raise Stalled(
            Reason.SPEC_INVALID,
            f"secret {name!r} cannot be read from {folder}: {type(error).__name__}",
        ) from None
