r"""JSON text with half of a surrogate pair, such as ``"\ud83d"``. Pure.

JSON's grammar permits the escape, and browsers write it where text was cut inside of an emoji
(``JSON.stringify``). It is no character, UTF-8 has no bytes for it, and DuckDB, Arrow and other
readers refuse a whole file because of it. So it is read, and landed as JSON, as U+FFFD, the
character that stands for one that cannot be represented; Java, and Spark with it, do the same.
"""

import re

_REPLACEMENT = rb"\ufffd"
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|.)",
    re.DOTALL,
)


def without_half_pairs(text: bytes) -> bytes:
    """Return JSON with U+FFFD for each half of a surrogate pair; equal to it if there is none."""
    if rb"\u" not in text:
        return text
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found[1] else found[0], text)
