"""How a file is cut into parts, by its name and size alone."""

from landfall.files import FilePart
from landfall.files.compression import Compression, compression_of


def cut(size: int, part_bytes: int) -> tuple[FilePart, ...]:
    """Return adjacent parts of nearly equal size, each of at most ``part_bytes`` bytes.

    Raises:
        ValueError: ``part_bytes`` is less than 1.
    """
    if part_bytes < 1:
        raise ValueError(f"cannot cut a file into parts of {part_bytes} bytes")
    count = max(-(-size // part_bytes), 1)  # rounded up
    return tuple(FilePart(size * i // count, size * (i + 1) // count) for i in range(count))


def cut_if_plain(
    name: str, size: int, part_bytes: int, compression: Compression
) -> tuple[FilePart, ...]:
    """Return the parts of a file: one if it is compressed as a whole.

    Raises:
        ValueError: it is compressed in a way that cannot be read.
    """
    is_plain = compression_of(name, compression) is Compression.NONE
    return cut(size, part_bytes if is_plain else max(part_bytes, size))
