"""Files of other programs as the auditor reads them: a listing, and reads of one version.

Versions are told apart as the writer does, by the ETag of S3 and, in a folder, by when a file was
written, its size and its inode: both are what part lists name.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from landfall.api.spec import Feed
from landfall.audit import Unchecked
from landfall.errors import Reason, Stalled

_STAGING = ".landfall-staging"


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
        Stalled: SPEC_INVALID, the auditor cannot read what the URL names.
    """
    scheme, _, rest = feed.url.partition("://")
    if scheme == "file":
        return _Folder(Path("/", unquote(rest.lstrip("/"))))
    if scheme != "s3":
        message = f"source.files: {feed.topic}: audit cannot read files in {feed.url}"
        raise Stalled(Reason.SPEC_INVALID, message)
    from landfall.audit.source_bucket import SourceBucket  # noqa: PLC0415  # boto3 takes half a second

    host, _, path = rest.partition("/")
    return SourceBucket.of(host, path, feed.s3)


def counts(feed: Feed, name: str) -> bool:
    """Whether the file of this name is one of the feed."""

    def matches(pattern: str | None) -> bool:
        return pattern is not None and re.compile(pattern, re.DOTALL).fullmatch(name) is not None

    return (feed.include is None or matches(feed.include)) and not matches(feed.exclude)


@dataclass(frozen=True)
class _Folder:
    root: Path

    def files(self) -> Iterator[FoundFile]:
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                relative = path.relative_to(self.root).as_posix()
                if not relative.startswith(f"{_STAGING}/") and path.is_file():
                    status = path.stat()
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield FoundFile(relative, _etag(status), modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        try:
            with (self.root / name).open("rb") as stream:
                stream.seek(start)
                body = stream.read(end - start)
                if _etag(os.fstat(stream.fileno())) == etag:
                    return body
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise CannotCompare(Unchecked.VERSION)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
