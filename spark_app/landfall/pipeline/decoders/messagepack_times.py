"""Cuts MessagePack timestamps to microseconds before msgspec reads them, which would round them.

Rounding moves a time into the next microsecond, and so the last one of a day into the next day, and
the last one of the year 9999 out of the calendar. A payload is changed only where it holds a
timestamp that msgspec would round up; bytes that look like one inside of text or binary stay.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md, "Timestamp extension type".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

_LOOKS_LIKE_ONE = re.compile(
    rb"(?=(?:\xd7|[\xc7\x00]\x08)\xff(?P<short>.{4})|[\xc7\x00]\x0c\xff(?P<long>.{4}))", re.DOTALL
)
"""What may be a timestamp of 8 or 12 bytes, with the four that hold its nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The bytes after the first byte of a value.

    Attributes:
        width: the bytes of a length that follows; 0 if ``size`` is the length.
        size: the bytes of the value, or how many values are inside.
        inside: values inside for each of the length: 1 in an array, 2 in a map, else 0.
        is_extension: whether a byte with the type of an extension comes before the value.
    """

    width: int = 0
    size: int = 0
    inside: int = 0
    is_extension: bool = False


def _forms() -> Sequence[_Form]:
    forms = [_Form()] * 256
    for size in range(16):
        forms[0x80 + size], forms[0x90 + size] = _Form(0, size, 2), _Form(0, size, 1)
    for size in range(32):
        forms[0xA0 + size] = _Form(0, size)
    for i, width in enumerate((1, 2, 4)):
        forms[0xC4 + i] = forms[0xD9 + i] = _Form(width)
        forms[0xC7 + i] = _Form(width, is_extension=True)
    for i, width in enumerate((2, 4)):
        forms[0xDC + i], forms[0xDE + i] = _Form(width, 0, 1), _Form(width, 0, 2)
    for first, sizes in ((0xCA, (4, 8)), (0xCC, (1, 2, 4, 8)), (0xD0, (1, 2, 4, 8))):
        for i, size in enumerate(sizes):
            forms[first + i] = _Form(0, size)
    for i, size in enumerate((1, 2, 4, 8, 16)):
        forms[0xD4 + i] = _Form(0, size, is_extension=True)
    return forms


_FORMS = _forms()
"""The forms by the first byte."""


def with_cut_times(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Return the payloads, in which no timestamp is rounded up to a microsecond."""
    content = payloads.buffers()[2]
    if content is None or not _has_rounded(content):
        return payloads
    return pa.array(
        [None if row is None else _cut(row) for row in payloads.to_pylist()], payloads.type
    )


def _has_rounded(content: "bytes | pa.Buffer") -> bool:
    return any(
        _rest(match["short"] or match["long"], 8 if match["short"] else 12) >= 500
        for match in _LOOKS_LIKE_ONE.finditer(content)
    )


def _rest(octets: bytes, size: int) -> int:
    """The nanoseconds beyond microseconds, in a timestamp of this size."""
    # In the short form, two of the bits belong to the seconds.
    return (int.from_bytes(octets, "big") >> (2 if size == 8 else 0)) % 1000


def _cut(payload: bytes) -> bytes:
    if not _has_rounded(payload):
        return payload
    cut = bytearray(payload)
    for start, size in _timestamps(payload):
        octets = payload[start : start + 4]
        rest = _rest(octets, size) << (2 if size == 8 else 0)
        cut[start : start + 4] = (int.from_bytes(octets, "big") - rest).to_bytes(4, "big")
    return bytes(cut)


def _timestamps(payload: bytes) -> Iterator[tuple[int, int]]:
    """Where the timestamps with nanoseconds are, and their sizes; of a broken payload the first."""
    at, left = 0, 1
    while left and at < len(payload):
        form = _FORMS[payload[at]]
        at += 1
        number = int.from_bytes(payload[at : at + form.width], "big") if form.width else form.size
        at += form.width
        left += number * form.inside - 1
        if form.is_extension:
            is_whole = at + 1 + number <= len(payload)
            if is_whole and number in {8, 12} and payload[at] == 0xFF:
                yield at + 1, number
            at += 1
        if not form.inside:
            at += number
