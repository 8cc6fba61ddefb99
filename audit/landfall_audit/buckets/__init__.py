"""Output roots and folders of feeds as the auditor reads them, by the library of each store.

One module for each kind, with one class that lists and reads both: objects as they are, and files
of other programs by their version. Versions differ in what part lists name: the ETag of S3 and
Azure, Google's generation, in HDFS when a file was closed and its size, and in a folder its inode,
too. Nothing is ever written.
"""

import heapq
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import unquote

from landfall_audit import Unchecked
from landfall_audit.errors import AuditReason, AuditStalled
from landfall_audit.spec import (
    AuditedSpec,
    AzureSection,
    FeedSection,
    GcsSection,
    HdfsSection,
    RootSection,
    S3Section,
)

_READ_BYTES = 1 << 20
_IN_LEDGER = re.compile(r"_landfall/(?![^/]+/(dead-letters(@[0-9a-f]{16})?|0-retired)/)")
_PLACE = re.compile(r"(_landfall/[^/]+/0-retired/[0-9]+/)?_landfall/[^/]+/dead-letters@([^/]+)/")


class Bucket(Protocol):
    """An output root that can be listed and read."""

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys below a prefix, sorted, with their sizes in bytes."""
        ...

    def open(self, key: str) -> BinaryIO:
        """A stream of an object's bytes; FileNotFoundError if it does not exist."""
        ...


class CannotCompare(Exception):  # noqa: N818  # states a fact, like StopIteration
    """Rows of a file cannot be read as they were landed; ``why`` is counted."""

    def __init__(self, why: Unchecked) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A file as it is now."""

    name: str
    etag: str
    modified: datetime


class SourceFolder(Protocol):
    """Where the files of a feed are."""

    def files(self) -> Iterator[BucketFile]:
        """All files, in any order."""
        ...

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version.

        Raises:
            CannotCompare: another version is there, or none.
        """
        ...


class BucketOrSource(Bucket, SourceFolder, Protocol):
    """A store of any kind: objects and files."""


@dataclass(frozen=True)
class WithLedger:
    """An output root whose ledger is in another one: all under ``_landfall/`` but objects there.

    These are dead letters, and copies of replaced objects.

    The output root itself may have a mark there, and what probes left: neither is looked at.
    """

    ledger: Bucket
    objects: Bucket

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys of both."""
        ledgers = (entry for entry in self.ledger.visible(prefix) if _IN_LEDGER.match(entry[0]))
        others = (entry for entry in self.objects.visible(prefix) if not _IN_LEDGER.match(entry[0]))
        yield from heapq.merge(ledgers, others)

    def open(self, key: str) -> BinaryIO:
        """A stream of an object's bytes."""
        return (self.ledger if _IN_LEDGER.match(key) else self.objects).open(key)


@dataclass(frozen=True)
class WithLetters:
    """A group's root or roots, and the places of dead letters by the names that keys give them."""

    rest: Bucket
    letters: Mapping[str, Bucket]

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys of all that are known."""
        places: list[tuple[str, Bucket]] = [("", self.rest), *self.letters.items()]
        yield from heapq.merge(*(self._of(place, it, prefix) for place, it in places))

    def _of(self, place: str, bucket: Bucket, prefix: str) -> Iterator[tuple[str, int]]:
        return (entry for entry in bucket.visible(prefix) if _place(entry[0]) == place)

    def open(self, key: str) -> BinaryIO:
        """A stream of an object's bytes.

        Raises:
            FileNotFoundError: it does not exist.
            CannotCompare: it is in a place that is not known.
        """
        if not (place := _place(key)):
            return self.rest.open(key)
        if place not in self.letters:
            raise CannotCompare(Unchecked.LETTERS_UNREACHABLE)
        return self.letters[place].open(key)


def _place(key: str) -> str:
    match = _PLACE.match(key)
    return match[2] if match else ""


def open_buckets(spec: AuditedSpec) -> Bucket:
    """The output root of a group, with its ledger and dead letters if they are elsewhere.

    Raises:
        Stalled, StoreDenied: as ``open_bucket``.
    """
    objects = open_bucket(spec.output)
    rest = WithLedger(open_bucket(spec.ledger), objects) if spec.ledger else objects
    letters = {place.id: open_bucket(place) for place in spec.bad_records.places}
    return WithLetters(rest, letters)


def open_bucket(root: RootSection) -> Bucket:
    """Open a root.

    Raises:
        AuditStalled: SPEC_INVALID, the store is loaded from a Python module.
        StoreDenied: credentials are missing.
    """
    if root.store:
        raise AuditStalled(
            AuditReason.SPEC_INVALID,
            f"{root.section}.store: audit reads Landfall's own stores and cannot use {root.store}",
        )
    bucket = _open(root.url, s3=root.s3, azure=root.azure, gcs=root.gcs, hdfs=root.hdfs)
    if bucket is None:
        raise AuditStalled(
            AuditReason.SPEC_INVALID, f"{root.section}.url: audit cannot read {root.url}"
        )
    return bucket


def open_source(feed: FeedSection) -> SourceFolder:
    """Where the files of a feed are.

    Raises:
        StoreDenied: credentials are missing.
        AuditStalled: SPEC_INVALID, the library for this kind of store is not installed.
    """
    try:
        source = _open(feed.url, s3=feed.s3, azure=feed.azure, gcs=feed.gcs, hdfs=feed.hdfs)
    except ModuleNotFoundError as error:
        message = f"source.files: {feed.topic}: {feed.url}: {error.name} is not installed"
        raise AuditStalled(AuditReason.SPEC_INVALID, message) from error
    if source is None:
        message = f"source.files: {feed.topic}: audit cannot read {feed.url}"
        raise AuditStalled(AuditReason.SPEC_INVALID, message)
    return source


def _open(
    url: str, *, s3: S3Section, azure: AzureSection, gcs: GcsSection, hdfs: HdfsSection
) -> BucketOrSource | None:
    """Open the store at a URL; None if no kind of store has its scheme."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    match scheme:
        case "s3":
            from landfall_audit.buckets.s3 import S3Bucket  # noqa: PLC0415

            return S3Bucket.of(host, path, s3)
        case "abfss":
            from landfall_audit.buckets.azure import Container  # noqa: PLC0415

            container, _, account = host.partition("@")
            return Container.of(account, container, path, azure)
        case "gs":
            from landfall_audit.buckets.gcs import GcsBucket  # noqa: PLC0415

            return GcsBucket.of(host, path, gcs)
        case "hdfs":
            from landfall_audit.buckets.hdfs import HdfsFolder  # noqa: PLC0415

            return HdfsFolder.of(host, unquote(path), hdfs)
        case "file":
            from landfall_audit.buckets.folder import LocalFolder  # noqa: PLC0415

            return LocalFolder(Path("/", unquote(path)))
    return None


def counts(feed: FeedSection, name: str) -> bool:
    """Return whether the file of this name belongs to the feed."""

    def matches(pattern: str | None) -> bool:
        return pattern is not None and re.compile(pattern, re.DOTALL).fullmatch(name) is not None

    return (feed.include is None or matches(feed.include)) and not matches(feed.exclude)


class _Raw(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def stream_of(read: Callable[[int], bytes]) -> BinaryIO:
    """A buffered stream over a function that returns the next bytes, at most so many."""
    return cast("BinaryIO", io.BufferedReader(_Raw(read), _READ_BYTES))
