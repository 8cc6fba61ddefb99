"""Files of other programs as the auditor reads them: a listing, and reads of one version.

One module for each kind of store, which reads with the library of the store. Versions differ in
what part lists name: the ETag of S3 and Azure, Google's generation, in HDFS when a file was closed
and its size, and in a folder its inode, too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from landfall.api.spec import Feed
from landfall.audit import Unchecked
from landfall.errors import Reason, Stalled


class CannotCompare(Exception):  # noqa: N818  # states a fact, like StopIteration
    """Rows of a file cannot be read as they were landed; ``why`` is counted."""

    def __init__(self, why: Unchecked) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it is now."""

    name: str
    etag: str
    modified: datetime


class SourceFolder(Protocol):
    """Where the files of a feed are."""

    def files(self) -> Iterator[FoundFile]:
        """All files, in any order."""
        ...

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version.

        Raises:
            CannotCompare: another version is there, or none.
        """
        ...


def open_source(feed: Feed) -> SourceFolder:
    """Where the files of a feed are.

    Raises:
        StoreDenied: credentials are missing.
        Stalled: SPEC_INVALID, the library for this kind of store is not installed.
    """
    try:
        return _open(feed)
    except ModuleNotFoundError as error:
        message = f"source.files: {feed.topic}: {feed.url}: {error.name} is not installed"
        raise Stalled(Reason.SPEC_INVALID, message) from error


def _open(feed: Feed) -> SourceFolder:
    scheme, _, rest = feed.url.partition("://")
    host, _, path = rest.partition("/")
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    match scheme:
        case "abfss":
            from landfall.audit.sources.azure import SourceContainer  # noqa: PLC0415

            container, _, account = host.partition("@")
            return SourceContainer.of(account, container, path, feed.azure)
        case "gs":
            from landfall.audit.sources.gcs import SourceGcsBucket  # noqa: PLC0415

            return SourceGcsBucket.of(host, path, feed.gcs)
        case "hdfs":
            from landfall.audit.sources.hdfs import SourceHdfs  # noqa: PLC0415

            return SourceHdfs.of(host, unquote(path), feed.hdfs)
        case "file":
            from landfall.audit.sources.folder import SourcePath  # noqa: PLC0415

            return SourcePath(Path("/", unquote(path)))
    from landfall.audit.sources.s3 import SourceBucket  # noqa: PLC0415

    return SourceBucket.of(host, path, feed.s3)


def counts(feed: Feed, name: str) -> bool:
    """Whether the file of this name is one of the feed."""

    def matches(pattern: str | None) -> bool:
        return pattern is not None and re.compile(pattern, re.DOTALL).fullmatch(name) is not None

    return (feed.include is None or matches(feed.include)) and not matches(feed.exclude)
