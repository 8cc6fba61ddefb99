"""Reading an output root: a listing and plain reads, by the library of each kind of store.

Nothing is ever written.
"""

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from landfall.api.spec import GroupSpec, Root
from landfall.audit import Unchecked
from landfall.audit.sources import CannotCompare
from landfall.errors import Reason, Stalled

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


@dataclass(frozen=True)
class WithLedger:
    """An output root whose ledger is in another one: all under ``_landfall/`` but objects there.

    These are dead letters, and copies of objects whose place others took.

    The output root itself may have a mark there, and what probes left: neither is looked at.
    """

    ledger: Bucket
    objects: Bucket

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys of both."""
        ledgers = (each for each in self.ledger.visible(prefix) if _IN_LEDGER.match(each[0]))
        others = (each for each in self.objects.visible(prefix) if not _IN_LEDGER.match(each[0]))
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
        return (each for each in bucket.visible(prefix) if _place(each[0]) == place)

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


def open_buckets(spec: GroupSpec) -> Bucket:
    """The output root of a group, with its ledger and dead letters if they are elsewhere.

    Raises:
        Stalled, StoreDenied: as ``open_bucket``.
    """
    objects = open_bucket(spec.output)
    rest = WithLedger(open_bucket(spec.ledger), objects) if spec.ledger else objects
    letters = {place.id: open_bucket(place) for place in spec.bad_records.places}
    return WithLetters(rest, letters)


def open_bucket(root: Root) -> Bucket:
    """What is in a root.

    Raises:
        Stalled: SPEC_INVALID, the store is loaded from a Python module.
        StoreDenied: credentials are missing.
    """
    if root.store:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{root.section}.store: audit reads Landfall's own stores and cannot use {root.store}",
        )
    scheme, _, rest = root.url.partition("://")
    host, _, path = rest.partition("/")
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    match scheme:
        case "s3":
            from landfall.audit.buckets.s3 import S3  # noqa: PLC0415

            return S3.of(host, path, root.s3)
        case "abfss":
            from landfall.audit.buckets.azure import Container  # noqa: PLC0415

            container, _, account = host.partition("@")
            return Container.of(account, container, path, root.azure)
        case "gs":
            from landfall.audit.buckets.gcs import GcsBucket  # noqa: PLC0415

            return GcsBucket.of(host, path, root.gcs)
        case "hdfs":
            from landfall.audit.buckets.hdfs import HdfsFolder  # noqa: PLC0415

            return HdfsFolder.of(host, unquote(path), root.hdfs)
        case "file":
            from landfall.audit.buckets.folder import Folder  # noqa: PLC0415

            return Folder(Path("/", unquote(path)))
    raise Stalled(Reason.SPEC_INVALID, f"{root.section}.url: audit cannot read {root.url}")
