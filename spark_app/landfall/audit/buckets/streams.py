"""Streams over what the libraries of stores offer for reading."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

_READ_BYTES = 1 << 20


class _Raw(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def stream_of(read: Callable[[int], bytes]) -> BinaryIO:
    """A buffered stream over a function that returns the next bytes, at most so many."""
    return cast("BinaryIO", io.BufferedReader(_Raw(read), _READ_BYTES))
