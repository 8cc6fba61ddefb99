"""A file in memory, for tests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A ``FileBytes`` in memory."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.content)

    def read(self, start: int, end: int, /) -> bytes:
        """Return exactly these bytes.

        Raises:
            ValueError: they are not all in the file.
        """
        if not 0 <= start <= end <= len(self.content):
            raise ValueError(f"{self.name}: no bytes [{start}, {end}) in {len(self.content)}")
        return self.content[start:end]
