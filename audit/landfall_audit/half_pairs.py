"""JSON with halves of surrogate pairs, as it lands: by a reading of the auditor's own."""

import re

_SURROGATES = re.compile(rb"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F]\w\w")
_PAIR_LENGTH = 12


def without_halves(document: bytes) -> bytes:
    """Return JSON in which halves of surrogate pairs are U+FFFD, as they land."""
    # Between two backslashes that stand for one, each backslash begins an escape.
    return rb"\\".join(
        _SURROGATES.sub(lambda m: m[0] if len(m[0]) == _PAIR_LENGTH else rb"\ufffd", part)
        for part in document.split(rb"\\")
    )
