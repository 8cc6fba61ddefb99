"""A small disk for the S3 server's data, which a fault can fill.

It is an ext4 file system in a file, mounted where the server keeps its objects.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SIZE = 4 * 2**30
"""Bytes; the file is sparse."""
BLOCK = 4096
"""Bytes of the smallest allocation."""


@dataclass(frozen=True)
class Disk:
    """A disk that is mounted at ``home/data``, which must be empty before."""

    home: Path

    @property
    def data(self) -> Path:
        """The mount point."""
        return self.home / "data"

    def mount(self) -> bool:
        """Make the file system and mount it; False if this machine cannot."""
        image = self.home / "disk.ext4"
        with image.open("wb") as file:
            file.truncate(SIZE)
        self.data.mkdir(exist_ok=True)
        # The server runs as root here: blocks reserved for root would leave it room (-m 0).
        made = _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image))
        if not (made and _run("mount", "-o", "loop", str(image), str(self.data))):
            return False
        (self.data / "lost+found").rmdir()  # the server would list this directory as a bucket
        return True

    def unmount(self) -> None:
        """Unmount the disk and delete its file."""
        if self.data.is_mount():
            # Lazy: a server that was just killed may keep files open for a moment.
            _run("umount", "--lazy", str(self.data))
        (self.home / "disk.ext4").unlink(missing_ok=True)

    @contextmanager
    def filled(self) -> Iterator[int]:
        """Keep the disk full while the block runs; yields the bytes that were allocated."""
        ballast = self.home / "data" / ".ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                yield _fill(file.fileno())
        finally:
            ballast.unlink()


def _fill(file: int) -> int:
    """Allocate every free block, in halving steps, and return the number of bytes."""
    allocated, size = 0, 2**30
    while size >= BLOCK:
        try:
            os.posix_fallocate(file, allocated, size)
            allocated += size
        except OSError:
            size //= 2
    return allocated


def _run(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
