"""Reads a folder of a file system."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from landfall.audit.links import leads_out, open_below

_STAGING = ".landfall-staging"
"""The folder in which a file store keeps what is not visible yet."""


@dataclass(frozen=True)
class Folder:
    """A folder of a file system."""

    root: Path

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Paths relative to the folder and file sizes, without the staging folder.

        What links lead out of the folder is left out, and no link to a folder is followed.
        """
        keys = []
        for folder, folders, names in os.walk(self.root):
            if Path(folder) == self.root:
                folders[:] = (name for name in folders if name != _STAGING)
            keys += [Path(folder, name).relative_to(self.root).as_posix() for name in names]
        for key in sorted(key for key in keys if key.startswith(prefix)):
            path = self.root / key
            if path.is_file() and not leads_out(self.root, path):
                yield key, path.stat().st_size

    def open(self, key: str) -> BinaryIO:
        """The file, opened for reading."""
        return open_below(self.root, self.root / key)
