"""The stores of a group as one: of its ledger, its objects, and its dead letters.

A ledger needs conditional creates; objects do not (``landfall.objects``: only the object proves a
completion). So objects may be in a store that has none, while the ledger is in another
(``spec.ledger``). Dead letters may be in places of their own, with different readers
(``spec.badRecords.url``).

Whose a key is follows from the key alone (``Routing``). Uploads are all of the objects' store, or
of a place of dead letters. A listing has each key from its own store, and is still in the order of
keys. Dead letters of a place that is not known are unreachable, which is not absent: to ask for one
raises ``LettersUnreachable``, and listings leave them out.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import BinaryIO, TypeVar

from landfall.errors import LettersAway, LettersDenied, LettersUnreachable, Retry, StoreDenied
from landfall.objects import ObjectStat, OpenUpload, Part, Upload
from landfall.store import Created, Store
from landfall.store.copying import read_exactly
from landfall.store.lifecycle import ExpiresUploads, GivesAdvice

Listed = TypeVar("Listed", ObjectStat, OpenUpload)
_LEDGER, _OBJECTS = "ledger", "objects"


@dataclass(frozen=True)
class Routing:
    """In which of the stores keys are.

    Attributes:
        is_ledgers: whether a key is in the ledger's store.
        ledger_may_have: whether there may be such keys with a prefix.
        objects_may_have: whether there may be other keys with a prefix.
        place_of: the place of dead letters that a key is in, regardless of the other arguments;
            empty if it is in none.
        places_may_have: whether there may be such keys with a prefix.
    """

    is_ledgers: Callable[[str], bool]
    ledger_may_have: Callable[[str], bool]
    objects_may_have: Callable[[str], bool]
    place_of: Callable[[str], str]
    places_may_have: Callable[[str], bool]


@dataclass(frozen=True)
class LettersStore:
    """A store of dead letters, and the field of the spec that names it, for messages."""

    store: Store
    field: str


class RoutedStore:
    """A ``Store`` over several. Thread-safe if they are.

    Attributes:
        routing: in which of them a key is.
        ledger: the store of the ledger, which keeps the promises of ``Slots``.
        objects: the store of the objects, which keeps the promises of ``Uploads`` and ``Objects``;
            the same one unless the ledger is elsewhere.
        letters: the places of dead letters that are known, as ``objects``.
    """

    def __init__(
        self,
        routing: Routing,
        ledger: Store,
        objects: Store,
        letters: Mapping[str, LettersStore] = MappingProxyType({}),
    ) -> None:
        self.routing = routing
        self.ledger = ledger
        self.objects = objects
        self.letters = letters
        uploads = (objects, *(place.store for place in letters.values()))
        self._uploads = uploads
        self.least_part_bytes = max(store.least_part_bytes for store in uploads)
        self.pauses_before_lost = max((store.pauses_before_lost for store in uploads), key=sum)
        self.discards_uploads = all(store.discards_uploads for store in uploads)

    def __repr__(self) -> str:
        stores = [self.objects, *(place.store for place in self.letters.values())]
        return f"RoutedStore({', '.join(map(repr, [self.ledger] * self.is_apart + stores))})"

    @property
    def is_apart(self) -> bool:
        """True if the ledger is not where the objects are."""
        return self.ledger is not self.objects

    @contextmanager
    def _of(self, key: str) -> Iterator[Store]:
        """The store that a key is in."""
        if place := self.routing.place_of(key):
            with self._letters(place, key) as store:
                yield store
        else:
            yield self.ledger if self.routing.is_ledgers(key) else self.objects

    @contextmanager
    def _uploads_of(self, key: str) -> Iterator[Store]:
        """The store that an object is uploaded to."""
        if place := self.routing.place_of(key):
            with self._letters(place, key) as store:
                yield store
        else:
            yield self.objects

    @contextmanager
    def _letters(self, place: str, key: str) -> Iterator[Store]:
        """The store of a place of dead letters, whose errors name it.

        Raises:
            LettersUnreachable: the place is not known.
            LettersAway: the store does not answer; LettersDenied, it refuses.
        """
        known = self.letters.get(place)
        if known is None:
            raise LettersUnreachable(
                f"{key}: unreachable, not lost: these dead letters are in place {place}, which "
                "neither badRecords.url nor badRecords.formerPlaces of the spec names",
            )
        try:
            yield known.store
        except Retry as error:
            away = LettersDenied if isinstance(error, StoreDenied) else LettersAway
            raise away(f"{known.field}: {error}") from error

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent.

        In the objects' store, which may know no condition if the ledger is elsewhere, this looks
        before and afterwards. Of two that create at the same moment, both may win there: no
        decision of the ledger is such a key.
        """
        if self.routing.is_ledgers(key) or not self.is_apart:
            return self.ledger.create(key, body)
        if self.objects.read(key) is not None:
            return Created.TAKEN
        answer = self.objects.create(key, body)
        if answer is Created.WON and self.objects.read(key) != body:
            return Created.TAKEN
        return answer

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        with self._of(key) as store:
            return store.read(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """The visible objects of all, in key order."""
        routing = self.routing
        parts = list[Iterator[ObjectStat]]()
        if not self.is_apart or routing.ledger_may_have(prefix):
            found = self.ledger.list_after(prefix, after)
            parts.append(stat for stat in found if self._share(stat.key) == _LEDGER)
        if self.is_apart and routing.objects_may_have(prefix):
            found = self.objects.list_after(prefix, after)
            parts.append(stat for stat in found if self._share(stat.key) == _OBJECTS)
        parts += self._in_places(prefix, lambda store: store.list_after(prefix, after))
        yield from heapq.merge(*parts, key=lambda each: each.key.encode())

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with self._of(key) as store:
            store.overwrite(key, body)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes."""
        with self._of(key) as store:
            return store.read_range(key, start, length)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces."""
        by_share = defaultdict[str, list[str]](list)
        for key in keys:
            by_share[self._share(key)].append(key)
        for chosen in by_share.values():
            with self._of(chosen[0]) as store:
                store.delete_slots(chosen)

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin an upload."""
        with self._uploads_of(key) as store:
            return store.begin(key, token)

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part."""
        with self._uploads_of(key) as store:
            return store.put_part(key, upload_id, number, body)

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part from an object; what is in another place is sent from here."""
        with self._uploads_of(source) as store:
            if self.routing.place_of(source) == self.routing.place_of(key):
                return store.put_copy(key, upload_id, number, source, start, length)
            body = read_exactly(store, source, start, length)
        return self.put_part(key, upload_id, number, body)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the object visible."""
        with self._uploads_of(upload.key) as store:
            store.complete(upload, is_fresh=is_fresh)

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload."""
        with self._uploads_of(key) as store:
            store.abort(key, upload_id)

    def retire(self, upload: Upload) -> None:
        """Drop what is left of an upload, and delete its object."""
        with self._uploads_of(upload.key) as store:
            store.retire(upload)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """The uploads that can be discarded."""
        for upload in self.objects.open_uploads(prefix):
            if not self.routing.place_of(upload.key):
                yield upload
        for uploads in self._in_places(prefix, lambda store: store.open_uploads(prefix)):
            yield from uploads

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of a visible object."""
        with self._of(key) as store:
            return store.stat(key)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A stream of the object's bytes."""
        with self._of(key) as store:
            return store.open(key)

    # ------------------------------------------------------------------------------------- settings

    def upload_lifetime(self) -> timedelta | None:
        """The shortest time after which an open upload is discarded, if it is known."""
        known = [s.upload_lifetime() for s in self._uploads if isinstance(s, ExpiresUploads)]
        return min((lifetime for lifetime in known if lifetime is not None), default=None)

    def advice(self) -> Sequence[str]:
        """Return what to change in the settings of the stores."""
        stores = [self.ledger] * self.is_apart + [*self._uploads]
        return [hint for s in stores if isinstance(s, GivesAdvice) for hint in s.advice()]

    # --------------------------------------------------------------------------------------- shares

    def _share(self, key: str) -> str:
        """Return the store of a key: a place, or one of two constants that name no place."""
        if place := self.routing.place_of(key):
            return place
        return _LEDGER if self.routing.is_ledgers(key) or not self.is_apart else _OBJECTS

    def _in_places(
        self, prefix: str, listing: Callable[[Store], Iterator[Listed]]
    ) -> list[Iterator[Listed]]:
        """Return what each place lists, without what is not its own."""
        if not self.routing.places_may_have(prefix):
            return []
        return [self._in_place(place, prefix, listing) for place in self.letters]

    def _in_place(
        self, place: str, prefix: str, listing: Callable[[Store], Iterator[Listed]]
    ) -> Iterator[Listed]:
        with self._letters(place, prefix) as store:
            for item in listing(store):
                if self.routing.place_of(item.key) == place:
                    yield item
