"""Landfall's requirements of an object store, as three small protocols; a ``Store`` is all three.

``Slots``
    Small values that are created once and never changed. The ledger relies on ``create`` having
    exactly one winner.
``Uploads``
    Objects in two phases: uploaded parts become an object only by ``complete``. Any process can
    complete a decided upload, any number of times, with the same result. ``retire`` is the way
    back, for objects that were replaced: any process can do that, any number of times,
    too, and it is final.
``Objects``
    Reading back what is visible.

Files of other programs are none of this: ``SourceFiles`` only reads them.

Keys are relative to the root the store was opened on, use ``/``, and never start with one. Every
method raises ``Retry`` if the outcome is unknown or the store is busy (the call may or may not have
had its effect), ``StoreDenied``, which is a ``Retry``, if it refuses (credentials, missing bucket),
and ``Stalled`` if it cannot do what is needed (STORE_UNSAFE). The implementations are ``s3``,
``file`` and ``memory``; tests/behaviour runs the same tests on all.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import BinaryIO, Protocol

from landfall.api import spec
from landfall.objects import ListedFile, ObjectStat, OpenUpload, Part, Upload


class Created(StrEnum):
    """The result of a create-if-absent."""

    WON = "won"
    TAKEN = "taken"
    """The key exists. It may hold the caller's own bytes, written by an attempt whose response was
    lost: read the key before deciding.
    """


class Slots(Protocol):
    """Small values, each created once."""

    def create(self, key: str, body: bytes) -> Created:
        """Create the key with this body if it does not exist. One of racing callers wins."""
        ...

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        ...

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """The visible objects whose key starts with ``prefix`` and is greater than ``after``.

        They are in key order. A key created before the call is never missing.
        """
        ...

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint, which may be stale or lost later: no decision may depend on it."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """At most ``length`` bytes from byte ``start`` on; None if the key does not exist.

        A negative ``start`` counts from the end. Fewer bytes come only from the value's end.
        """
        ...

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment or a later snapshot replaces, those that exist.

        No object of data has such a key: those are deleted by ``retire``, and by nothing else.
        """
        ...


class Uploads(Protocol):
    """Objects in two phases."""

    @property
    def least_part_bytes(self) -> int:
        """Minimum size of every part but the last (S3: 5 MiB)."""
        ...

    @property
    def pauses_before_lost(self) -> Sequence[float]:
        """Seconds between looks at an upload that seems lost, before it counts as lost.

        Empty if a completion is atomic, so that no reader ever finds neither upload nor object.
        """
        ...

    @property
    def discards_uploads(self) -> bool:
        """True if any process can discard an upload. If not, the store does it alone, after a time.

        Then ``abort`` does nothing, and ``open_uploads`` finds none.
        """
        ...

    def begin(self, key: str, token: str) -> str:
        """Begin an upload and return its id; its object will carry the token."""
        ...

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload part ``number``, counted from 1.

        Every part but the last must have at least ``least_part_bytes`` bytes.
        """
        ...

    def put_copy(  # noqa: PLR0913, PLR0917  # a part of one object, and a range of another
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload part ``number`` from ``length`` bytes of the visible object ``source``.

        They are those from byte ``start`` on, at least one, and the object must have them all. A
        store that can copy them does; through other stores they are sent from here, and are in
        memory.

        Raises:
            FileNotFoundError: there is no such object.
        """
        ...

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the object visible; afterwards it is there, with the upload's token and size.

        Args:
            upload: a decided upload.
            is_fresh: no process has tried to complete it before, and it was uploaded a moment ago.
                A clear answer to the one request may then be believed without a look at the object.

        Raises:
            UploadLost: neither the upload nor its object was found. It is lost if this is still so
                after all ``pauses_before_lost``.
            Retry: the outcome is unknown; calling again is safe.
        """
        ...

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload that was not completed, if it exists. Objects are never removed."""
        ...

    def retire(self, upload: Upload) -> None:
        """Drop what is left of an upload, then delete its object; afterwards neither is there.

        A process that completes the upload later, or is just about to, finds nothing to complete it
        from: the object does not come back. Nothing is done if neither is there.

        Raises:
            Stalled: another object is at the key, which stays: LEDGER_BROKEN if it has a token,
                else OBJECT_LOST.
            Retry: the outcome is unknown; calling again is safe.
        """
        ...

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """The uploads that can be discarded, whose key starts with ``prefix``."""
        ...


class Objects(Protocol):
    """Reading back what is visible."""

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of a visible object; None if there is none."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A stream of the object's bytes, which never holds a large object in memory.

        Raises:
            FileNotFoundError: there is no such object.
        """
        ...


class Store(Slots, Uploads, Objects, Protocol):
    """A place for both the ledger and the objects."""


class SourceFiles(Protocol):
    """Files of other programs, by version. They are only read; nothing is ever written there.

    Names are relative to the root that it was opened on, and may have any characters. The methods
    raise ``Retry`` and ``StoreDenied`` as a store's do. The ETag of a file distinguishes its
    versions; only S3's depends on the content.
    """

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """The files whose name starts with ``prefix`` and is greater than ``after``.

        They are in the order of the UTF-8 bytes of their names. A file that was complete before the
        call is never missing. Folders, and objects that only stand for one, are left out.
        """
        ...

    def find(self, name: str) -> ListedFile | None:
        """The file of this name as it is now; None if there is none."""
        ...

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Exactly the bytes ``start <= byte < end`` of this version, where ``end <= file.size``.

        Raises:
            FileChanged: another version is there, or none.
        """
        ...


class StoreType(Protocol):
    """The value of ``spec.output.store``: a class that opens a custom store."""

    def of(self, root: spec.Root, /) -> Store:
        """Open the store at ``root.url``, which is ``spec.output`` or ``spec.ledger``.

        Raises:
            Stalled: SPEC_INVALID, with what is wrong.
            StoreDenied: there are no credentials.
        """
        ...
