"""A small disk for the S3 server's data: an ext4 file system in a file, mounted where the server
keeps its objects, and filled.
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


@dataclass(frozen=True)
class Disk:
    """Mounted at ``home/data``, which must be empty then."""

    home: Path

    @property
    def data(self) -> Path:
        """Where it is mounted."""
        return self.home / "data"

    def mount(self) -> bool:
        """Have it there; whether this machine can."""
        image = self.home / "disk.ext4"
        with image.open("wb") as file:
            file.truncate(SIZE)
        self.data.mkdir(exist_ok=True)
        # no blocks held back for root, as whom the server runs here
        made = _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image))
        if not (made and _run("mount", "-o", "loop", str(image), str(self.data))):
            return False
        (self.data / "lost+found").rmdir()  # it would be a bucket
        return True

    def unmount(self) -> None:
        """Have it gone."""
        if self.data.is_mount():
            _run("umount", "--lazy", str(self.data))
        (self.home / "disk.ext4").unlink(missing_ok=True)

    @contextmanager
    def full(self) -> Iterator[int]:
        """Not a byte more can be written while the block runs; how many were taken."""
        ballast = self.home / "data" / ".ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                yield _fill(file.fileno())
        finally:
            ballast.unlink()


def _fill(file: int) -> int:
    """Take every block there is."""
    taken, size = 0, 2**30
    while size >= BLOCK:
        try:
            os.posix_fallocate(file, taken, size)
            taken += size
        except OSError:
            size //= 2
    return taken


def _run(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
