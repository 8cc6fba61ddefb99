"""Reads a folder of a file system."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_STAGING = ".landfall-staging"
"""The folder in which a file store keeps what is not visible yet."""


@dataclass(frozen=True)
class Folder:
    """A folder of a file system."""

    root: Path

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Paths relative to the folder and file sizes, without the staging folder."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        keys = sorted(path.relative_to(self.root).as_posix() for path in found)
        for key in keys:
            if key.startswith(prefix) and not key.startswith(f"{_STAGING}/"):
                yield key, (self.root / key).stat().st_size

    def open(self, key: str) -> BinaryIO:
        """The file, opened for reading."""
        return (self.root / key).open("rb")
