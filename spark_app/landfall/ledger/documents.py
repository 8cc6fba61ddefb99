"""Small JSON documents beside the ledger, which whoever may write to the bucket can write. Pure."""

import json
from typing import Any

from landfall import untrusted_json


def parse_document(body: bytes | None) -> dict[str, Any]:
    """Return the JSON object that a file of the bucket holds.

    Raises:
        ValueError: it holds none, or one that is nested too deeply.
    """
    found = untrusted_json.decode_by(json.loads, body or b"")
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, no object")  # noqa: TRY004  # of a file
    return found
