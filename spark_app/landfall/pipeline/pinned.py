"""Files that decoders and steps read: pinned by checksum, so that each reading gives the same.

A spec names a file and its SHA-256, in the option ``sha256`` of the decoder or the step; a file
with other bytes is refused when the group is built. A new file is a new checksum in the spec, and
so a new revision of the group. Where a decoder's spec names no checksum, the driver adds the
checksum of the file it has read to the spec that it stores and sends to its tasks
(``registry.pinned``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, runtime_checkable

CHECKSUM = "sha256"
"""The option with the checksum of the file that a decoder reads."""


@dataclass(frozen=True, slots=True, order=True)
class PinnedFile:
    """A file that a decoder or a step has read.

    Attributes:
        path: where it was.
        sha256: of its bytes, in hexadecimal digits.
    """

    path: str
    sha256: str


@runtime_checkable
class ReadsFiles(Protocol):
    """A decoder or a step that has read files."""

    @property
    def files(self) -> tuple[PinnedFile, ...]:
        """The files, as they were when it was built."""
        ...


def no_file(path: str) -> bytes:
    """The reader of files of a stage that is built without any: finds none."""
    raise FileNotFoundError(path)


def pinned_files(stages: Iterable[object]) -> tuple[PinnedFile, ...]:
    """Return the files that these stages have read, each once, sorted."""
    found = {file for stage in stages if isinstance(stage, ReadsFiles) for file in stage.files}
    return tuple(sorted(found))


def read_pinned(path: str, expected: str, read_file: Callable[[str], bytes]) -> bytes:
    """Return the bytes of a file.

    Raises:
        ValueError: it cannot be read, or has another checksum.
    """
    _check_digits(expected)
    try:
        data = read_file(path)
    except OSError as error:
        raise ValueError(f"option file: cannot read {path}: {error.strerror}") from error
    pinned_as(path, sha256(data).hexdigest(), expected)
    return data


def pinned_as(path: str, found: str, expected: str | None) -> PinnedFile:
    """Return a file that has this checksum; any is right if none is expected.

    Raises:
        ValueError: another one is expected.
    """
    if expected is not None:
        _check_digits(expected)
        if found != expected:
            raise ValueError(f"option sha256: {path} has {found}")
    return PinnedFile(path, found)


def _check_digits(expected: str) -> None:
    if len(expected) != 64 or set(expected) - set("0123456789abcdef"):
        raise ValueError("option sha256: expected 64 hexadecimal digits in lower case")
