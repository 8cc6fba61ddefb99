"""Files that steps read: pinned by checksum, so that a range that is read again sees the same.

A step names a file and its SHA-256; a file with other bytes is refused when the group is built. A
new file is a new checksum in the spec, and so a new revision of the group. ``pinned_files`` says
which files a group's steps have read, for whoever records it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, runtime_checkable

from landfall.pipeline.decoders import Transform


@dataclass(frozen=True, slots=True, order=True)
class PinnedFile:
    """A file that a step has read.

    Attributes:
        path: where it was.
        sha256: of its bytes, in hexadecimal digits.
    """

    path: str
    sha256: str


@runtime_checkable
class ReadsFiles(Protocol):
    """A step that has read files."""

    @property
    def files(self) -> tuple[PinnedFile, ...]:
        """The files, as they were when the step was built."""
        ...


def pinned_files(steps: Iterable[Transform]) -> tuple[PinnedFile, ...]:
    """Return the files that these steps have read, each once, sorted."""
    found = {file for step in steps if isinstance(step, ReadsFiles) for file in step.files}
    return tuple(sorted(found))


def read_pinned(path: str, expected: str, read_file: Callable[[str], bytes]) -> bytes:
    """Return the bytes of a file.

    Raises:
        ValueError: it cannot be read, or has another checksum.
    """
    if len(expected) != 64 or set(expected) - set("0123456789abcdef"):
        raise ValueError("option sha256: expected 64 hexadecimal digits in lower case")
    try:
        data = read_file(path)
    except OSError as error:
        raise ValueError(f"option file: cannot read {path}: {error.strerror}") from error
    found = sha256(data).hexdigest()
    if found != expected:
        raise ValueError(f"option sha256: {path} has {found}")
    return data
