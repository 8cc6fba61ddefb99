"""What Landfall asks of a place that keeps objects, in three small protocols; a ``Store`` is all three.

``Slots``    small values created once, never changed: the ledger stands on ``create`` having exactly one winner.
``Uploads``  objects in two phases: parts become an object only by ``complete``, and a decided upload can be completed by
             anybody, any number of times, with the same outcome.
``Objects``  reading back.

Keys are relative to the root the store was opened on, use ``/``, and never start with one. Every
method raises ``Retry`` when the answer is unknown or the store is busy (the effect may or may not
have happened) and ``Stalled`` when a person is needed (credentials, missing bucket). The
implementations: ``s3``, ``file``, ``memory``; one behaviour suite runs on all.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import BinaryIO, Protocol

from landfall.api import spec
from landfall.objects import ObjectStat, OpenUpload, Part, Upload


class Created(StrEnum):
    """The answer to a create-if-absent."""

    WON = "won"
    TAKEN = "taken"
    """The key exists. It may hold our own bytes: a lost answer and a retry look just like this, so
    read before deciding.
    """


class Slots(Protocol):
    """Small values, each created once."""

    def create(self, key: str, body: bytes) -> Created:
        """Create the key with this body if it does not exist; of racing callers exactly one wins."""
        ...

    def read(self, key: str) -> bytes | None:
        """The whole value, or None if there is none."""
        ...

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Every visible object whose key starts with ``prefix`` and is greater than ``after``, in key order."""
        ...

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint that may be stale or lost. Nothing may ever be decided by it."""
        ...


class Uploads(Protocol):
    """Objects in two phases."""

    @property
    def least_part_bytes(self) -> int:
        """The least size of a part that is not the last (S3: 5 MiB)."""
        ...

    def begin(self, key: str, token: str) -> str:
        """Begin an upload nobody can see, and return its id."""
        ...

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload part ``number`` (from 1). All but the last must hold at least ``least_part_bytes``."""
        ...

    def complete(self, upload: Upload) -> None:
        """Make the object visible, or find that it is: afterwards it is there with this token and size.

        Raises:
            UploadLost: there is neither such an upload nor its object.
            Retry: unknown yet; calling again is safe.
        """
        ...

    def abort(self, key: str, upload_id: str) -> None:
        """Forget an upload; one that is gone already is fine. A completed object is never touched."""
        ...

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Every open upload whose key starts with ``prefix``."""
        ...


class Objects(Protocol):
    """Reading back what is visible."""

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of a visible object, or None."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream, in pieces: a large one never sits in memory whole. FileNotFoundError if absent."""
        ...


class Store(Slots, Uploads, Objects, Protocol):
    """A place that keeps both the ledger and the objects."""


class StoreType(Protocol):
    """What ``spec.output.store`` names: how to open a store of your own."""

    def of(self, output: spec.Output) -> Store:
        """Open the store at ``output.url``.

        Raises:
            Stalled: SPEC_INVALID or STORE_DENIED, saying what is wrong.
        """
        ...
