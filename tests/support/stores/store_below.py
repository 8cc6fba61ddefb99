"""A store whose root is a folder of another one, as that of a side lane is in its group's."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import BinaryIO

from msgspec import structs

from landfall.objects import ObjectStat, OpenUpload, Part, Upload
from landfall.store import Store
from landfall.store.below import SlotsBelow


class StoreBelow(SlotsBelow):
    """A ``Store`` whose keys are relative to a folder of another store."""

    slots: Store

    @property
    def least_part_bytes(self) -> int:
        """See ``Store``, as of all methods."""
        return self.slots.least_part_bytes

    @property
    def pauses_before_lost(self) -> Sequence[float]:
        return self.slots.pauses_before_lost

    @property
    def discards_uploads(self) -> bool:
        return self.slots.discards_uploads

    def begin(self, key: str, token: str) -> str:
        return self.slots.begin(self._key(key), token)

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        return self.slots.put_part(self._key(key), upload_id, number, body)

    def put_copy(  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        into, of = self._key(key), self._key(source)
        return self.slots.put_copy(into, upload_id, number, of, start, length)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        self.slots.complete(self._upload(upload), is_fresh=is_fresh)

    def abort(self, key: str, upload_id: str) -> None:
        self.slots.abort(self._key(key), upload_id)

    def retire(self, upload: Upload) -> None:
        self.slots.retire(self._upload(upload))

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        for found in self.slots.open_uploads(self._key(prefix)):
            yield replace(found, key=self._relative(found.key))

    def stat(self, key: str) -> ObjectStat | None:
        found = self.slots.stat(self._key(key))
        return found and replace(found, key=key)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        return self.slots.open(self._key(key))

    def _upload(self, upload: Upload) -> Upload:
        return structs.replace(upload, key=self._key(upload.key))

    def _relative(self, key: str) -> str:
        return key.removeprefix(self._key(""))
