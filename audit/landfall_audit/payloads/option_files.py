"""Files that options of decoders name, such as descriptors."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from landfall_audit.payloads import Undecided


def content(options: Mapping[str, object], name: str) -> bytes:
    """The bytes of the file that an option names; its checksum must match ``sha256``.

    Raises:
        Undecided: it is not on this machine, or has other bytes.
    """
    path = str(options[name])
    try:
        found = Path(path).read_bytes()
    except OSError:
        raise Undecided(f"{path}, which is not on this machine") from None
    wanted = options.get("sha256")
    if wanted is not None and hashlib.sha256(found).hexdigest() != str(wanted).lower():
        raise Undecided(f"{path}, which has other bytes here")
    return found
