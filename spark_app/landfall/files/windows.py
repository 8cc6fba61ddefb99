"""The bytes of a file as a stream of bounded windows, and a source of exact numbers of bytes."""

from collections.abc import Iterator

from landfall.files import FileBytes, FilePart, UnreadableFileError

_BEHIND_BYTES = 64 * 2**10
"""How many bytes are read first behind a part, for the rest of its last record."""


def check_part(file: FileBytes, part: FilePart) -> None:
    """Check that a part is inside the file.

    Raises:
        ValueError: it is not, so it is a part of another file, or of another version.
    """
    if part.end > file.size:
        raise ValueError(f"{file.name}: no part {part} in {file.size} bytes")


def windows(file: FileBytes, start: int, end: int, window_bytes: int) -> Iterator[bytes]:
    """Return the bytes from ``start`` to the end of the file; a window ends at ``end``.

    Behind ``end`` windows are small at first, for there is hardly ever more than one record left.
    """
    at, behind = start, min(_BEHIND_BYTES, window_bytes)
    while at < file.size:
        if at < end:
            stop = min(at + window_bytes, end)
        else:
            stop, behind = min(at + behind, file.size), min(2 * behind, window_bytes)
        yield file.read(at, stop)
        at = stop


class Source:
    """Takes exact numbers of bytes from a stream of windows, and knows its position.

    Attributes:
        position: of the next byte, counted from the start of the file.
        window: bytes that are in memory.
        at: where in ``window`` the next byte is; who reads there directly moves it on.
    """

    def __init__(self, name: str, pieces: Iterator[bytes], position: int) -> None:
        self.name = name
        self.window, self.at = b"", 0
        self._pieces = pieces
        self._window_position = position

    @property
    def position(self) -> int:
        """The position of the next byte."""
        return self._window_position + self.at

    def error(self, reason: str, position: int | None = None) -> UnreadableFileError:
        """Return an error here, or at another position."""
        return UnreadableFileError(
            self.name, self.position if position is None else position, reason
        )

    def at_end(self) -> bool:
        """Whether there are no more bytes."""
        return not self.has(1)

    def has(self, count: int) -> bool:
        """Have this many bytes in the window, counted from ``at``; False if the file ends before.

        Each byte is copied once, however many windows they take.
        """
        found = len(self.window) - self.at
        if found >= count:
            return True
        pieces = [self.window[self.at :]]
        while found < count and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            found += len(piece)
        self._window_position += self.at
        self.window, self.at = b"".join(pieces), 0
        return found >= count

    def take(self, count: int) -> bytes:
        """Return exactly this many bytes.

        Raises:
            UnreadableFileError: the file ends before.
        """
        if count < 0:
            raise self.error(f"a length of {count}")
        if not self.has(count):
            missing = count - len(self.window) + self.at
            raise self.error(f"the file ends early: {missing} bytes are missing")
        taken = self.window[self.at : self.at + count]
        self.at += count
        return taken

    def skip_to(self, mark: bytes, end: int) -> bool:
        """Move to the first ``mark`` that begins before the position ``end``; False if none does.

        Without one, the position is at or before ``end`` and means nothing else.
        """
        while self.position < end:
            stop = self.at + end - self.position + len(mark) - 1
            found = self.window.find(mark, self.at, stop)
            if found >= 0:
                self.at = found
                return True
            if len(self.window) >= stop:
                return False
            # The mark may begin in the last bytes of this window.
            self.at = max(self.at, len(self.window) - len(mark) + 1)
            if not self.has(len(self.window) - self.at + 1):
                return False
        return False
