"""A version of a file as its readers read it."""

from dataclasses import dataclass

from landfall.objects import ListedFile
from landfall.store import SourceFiles


@dataclass(frozen=True)
class VersionedFile:
    """``landfall.files.FileBytes`` of one version of a file.

    Attributes:
        source: where the file is.
        file: the version.
    """

    source: SourceFiles
    file: ListedFile

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.name

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.file.size

    def read(self, start: int, end: int, /) -> bytes:
        """Return exactly the bytes ``start <= byte < end``.

        Raises:
            FileChanged: another version is there, or none.
            Retry: the store does not answer; StoreDenied, it refuses.
        """
        return self.source.read(self.file, start, end)
