"""A version of a file as its readers read it, and the reader that a feed names."""

from dataclasses import dataclass

from landfall.api import spec
from landfall.errors import Reason, Stalled
from landfall.formats.parts import FileReader
from landfall.formats.readers import reader_of
from landfall.objects import ListedFile
from landfall.store import SourceFiles


@dataclass(frozen=True)
class VersionedFile:
    """``landfall.formats.parts.FileBytes`` of one version of a file.

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


def reader_of_feed(feed: spec.Feed) -> FileReader:
    """The reader of a feed's files.

    Raises:
        Stalled: SPEC_INVALID, there is no such reader, or an option is wrong.
    """
    try:
        return reader_of(feed.reader, feed.reader_options)
    except ValueError as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"spec.source.files: {feed.topic}: reader: {error}"
        ) from error
