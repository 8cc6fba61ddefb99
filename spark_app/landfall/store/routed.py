"""Two stores as one: the ledger in one, the objects in the other (``spec.ledger``).

A ledger needs conditional creates; objects do not (``landfall.objects``: only the object proves a
completion). So objects may be in a store that has none, while the ledger is in another.

Whose a key is follows from the key alone (``Routing``). Uploads are all of the objects' store. A
listing has the ledger's keys from the ledger's store and
all others from the objects' store, and is still in the order of keys.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import BinaryIO

from landfall.objects import ObjectStat, OpenUpload, Part, Upload
from landfall.store import Created, Store
from landfall.store.lifecycle import ExpiresUploads, GivesAdvice


@dataclass(frozen=True)
class Routing:
    """In which of the two stores keys are.

    Attributes:
        is_ledgers: whether a key is in the ledger's store.
        ledger_may_have: whether there may be such keys with a prefix.
        objects_may_have: whether there may be other keys with a prefix.
    """

    is_ledgers: Callable[[str], bool]
    ledger_may_have: Callable[[str], bool]
    objects_may_have: Callable[[str], bool]


class RoutedStore:
    """A ``Store`` over two. Thread-safe if they are.

    Attributes:
        routing: in which of them a key is.
        ledger: the store of the ledger, which keeps the promises of ``Slots``.
        objects: the store of the objects, which keeps those of ``Uploads`` and ``Objects``.
    """

    def __init__(self, routing: Routing, ledger: Store, objects: Store) -> None:
        self.routing = routing
        self.ledger, self.objects = ledger, objects
        self.least_part_bytes = objects.least_part_bytes
        self.pauses_before_lost = objects.pauses_before_lost
        self.discards_uploads = objects.discards_uploads

    def __repr__(self) -> str:
        return f"RoutedStore({self.ledger!r}, {self.objects!r})"

    def _of(self, key: str) -> Store:
        return self.ledger if self.routing.is_ledgers(key) else self.objects

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent.

        In the objects' store, which may know no condition, this looks before and afterwards. Of two
        that create at the same moment, both may win there: no decision of the ledger is such a key.
        """
        if self.routing.is_ledgers(key):
            return self.ledger.create(key, body)
        if self.objects.read(key) is not None:
            return Created.TAKEN
        answer = self.objects.create(key, body)
        if answer is Created.WON and self.objects.read(key) != body:
            return Created.TAKEN
        return answer

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        return self._of(key).read(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """The visible objects of both, in key order."""
        parts = []
        if self.routing.ledger_may_have(prefix):
            found = self.ledger.list_after(prefix, after)
            parts.append(each for each in found if self.routing.is_ledgers(each.key))
        if self.routing.objects_may_have(prefix):
            found = self.objects.list_after(prefix, after)
            parts.append(each for each in found if not self.routing.is_ledgers(each.key))
        yield from heapq.merge(*parts, key=lambda each: each.key.encode())

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        self._of(key).overwrite(key, body)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes."""
        return self._of(key).read_range(key, start, length)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces."""
        for store, is_ledgers in ((self.ledger, True), (self.objects, False)):
            if chosen := [key for key in keys if self.routing.is_ledgers(key) is is_ledgers]:
                store.delete_slots(chosen)

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin an upload."""
        return self.objects.begin(key, token)

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part."""
        return self.objects.put_part(key, upload_id, number, body)

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part from an object, which is in the objects' store as its copy is."""
        return self.objects.put_copy(key, upload_id, number, source, start, length)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the object visible."""
        self.objects.complete(upload, is_fresh=is_fresh)

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload."""
        self.objects.abort(key, upload_id)

    def retire(self, upload: Upload) -> None:
        """Drop what is left of an upload, and delete its object."""
        self.objects.retire(upload)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """The uploads that can be discarded."""
        return self.objects.open_uploads(prefix)

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of a visible object."""
        return self._of(key).stat(key)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A stream of the object's bytes."""
        return self._of(key).open(key)

    # ------------------------------------------------------------------------------------- settings

    def upload_lifetime(self) -> timedelta | None:
        """The shortest time after which an open upload is discarded, if it is known."""
        known = self.objects
        return known.upload_lifetime() if isinstance(known, ExpiresUploads) else None

    def advice(self) -> Sequence[str]:
        """What to change in the settings of either store."""
        both = (self.ledger, self.objects)
        return [each for store in both if isinstance(store, GivesAdvice) for each in store.advice()]
