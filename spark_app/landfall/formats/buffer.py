"""The file that Arrow's writers write to: bytes in memory, taken out piece by piece."""


class Buffer:
    """The file Arrow writes to; ``take`` returns what was written since the last call."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        """Take the next bytes. Arrow calls it."""
        self._written.append(bytes(data))

    def flush(self) -> None:
        """Does nothing: nothing is buffered elsewhere. Arrow calls it."""

    def close(self) -> None:
        """Say that nothing follows. Arrow calls it."""
        self.closed = True

    def take(self) -> bytes:
        """Return what was written since the last call."""
        written, self._written = self._written, []
        return b"".join(written)
