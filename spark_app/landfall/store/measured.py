"""Counts and times the calls of a store, for the driver's metrics."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import BinaryIO, TypeVar

from landfall.errors import Retry, StoreDenied
from landfall.objects import ObjectStat, OpenUpload, Part, Upload
from landfall.store import Created, Store
from landfall.store.routed import RoutedStore

Item = TypeVar("Item")


class StoreCalls:
    """How often stores were called, how it ended, and how long it took. Thread-safe.

    Attributes:
        counts: by kind of store, operation and outcome: ``ok``, ``denied``, ``unavailable`` (the
            store does not answer or is busy, or the outcome is unknown) or ``failed``.
        seconds: by kind of store and operation.
    """

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str, str]]()
        self.seconds = defaultdict[tuple[str, str], float](float)
        self._lock = threading.Lock()

    def add(self, kind: str, operation: str, outcome: str, seconds: float) -> None:
        """Count a call."""
        with self._lock:
            self.counts[kind, operation, outcome] += 1
            self.seconds[kind, operation] += seconds

    def copy(self) -> "StoreCalls":
        """The numbers of this moment."""
        made = StoreCalls()
        with self._lock:
            made.counts.update(self.counts)
            made.seconds.update(self.seconds)
        return made


class MeasuredStore:
    """Passes calls on to a store and counts them. Thread-safe if the store is."""

    def __init__(self, store: Store, kind: str, calls: StoreCalls) -> None:
        self._store = store
        self._kind = kind
        self._calls = calls
        self.least_part_bytes = store.least_part_bytes
        self.pauses_before_lost = store.pauses_before_lost
        self.discards_uploads = store.discards_uploads

    def __repr__(self) -> str:
        return repr(self._store)

    @contextmanager
    def _measured(self, operation: str) -> Iterator[None]:
        begun, outcome = time.monotonic(), "failed"
        try:
            yield
            outcome = "ok"
        except StoreDenied:
            outcome = "denied"
            raise
        except Retry:
            outcome = "unavailable"
            raise
        finally:
            self._calls.add(self._kind, operation, outcome, time.monotonic() - begun)

    def _listed(self, operation: str, items: Callable[[], Iterator[Item]]) -> Iterator[Item]:
        """All items: time between them is the reader's and does not count."""
        waited = 0.0
        outcome = "ok"
        begun = time.monotonic()
        try:
            found = items()
            while (item := next(found, None)) is not None:
                waited += time.monotonic() - begun
                yield item
                begun = time.monotonic()
        except StoreDenied:
            outcome = "denied"
            raise
        except Retry:
            outcome = "unavailable"
            raise
        finally:
            waited += time.monotonic() - begun
            self._calls.add(self._kind, operation, outcome, waited)

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """As the store's."""
        with self._measured("create"):
            return self._store.create(key, body)

    def read(self, key: str) -> bytes | None:
        """As the store's."""
        with self._measured("read"):
            return self._store.read(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """As the store's."""
        return self._listed("list", lambda: self._store.list_after(prefix, after))

    def overwrite(self, key: str, body: bytes) -> None:
        """As the store's."""
        with self._measured("overwrite"):
            self._store.overwrite(key, body)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """As the store's."""
        with self._measured("read"):
            return self._store.read_range(key, start, length)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """As the store's."""
        with self._measured("delete"):
            self._store.delete_slots(keys)

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """As the store's."""
        with self._measured("begin"):
            return self._store.begin(key, token)

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """As the store's."""
        with self._measured("put_part"):
            return self._store.put_part(key, upload_id, number, body)

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """As the store's."""
        with self._measured("put_copy"):
            return self._store.put_copy(key, upload_id, number, source, start, length)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """As the store's."""
        with self._measured("complete"):
            self._store.complete(upload, is_fresh=is_fresh)

    def abort(self, key: str, upload_id: str) -> None:
        """As the store's."""
        with self._measured("abort"):
            self._store.abort(key, upload_id)

    def retire(self, upload: Upload) -> None:
        """As the store's."""
        with self._measured("retire"):
            self._store.retire(upload)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """As the store's."""
        return self._listed("list_uploads", lambda: self._store.open_uploads(prefix))

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """As the store's."""
        with self._measured("stat"):
            return self._store.stat(key)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """As the store's."""
        with self._measured("open"):
            return self._store.open(key)


def measured(store: Store, kinds: Sequence[str], calls: StoreCalls) -> Store:
    """The store, with its calls counted.

    Args:
        store: one store, or several.
        kinds: of the objects' store, of the ledger's if it is another one, and of the places of
            dead letters.
        calls: where to count.
    """
    if not isinstance(store, RoutedStore):
        return MeasuredStore(store, kinds[0], calls)
    objects = MeasuredStore(store.objects, kinds[0], calls)
    ledger = MeasuredStore(store.ledger, kinds[1], calls) if store.is_apart else objects
    of_places = zip(store.letters.items(), kinds[1 + store.is_apart :], strict=True)
    letters = {
        place: replace(known, store=MeasuredStore(known.store, kind, calls))
        for (place, known), kind in of_places
    }
    return RoutedStore(store.routing, ledger, objects, letters)
