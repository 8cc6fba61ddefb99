"""Merges in a sample ledger that are carried out to their end, of objects in any format."""

import zlib
from dataclasses import dataclass

from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import NewObject, Section
from landfall.ledger.task_results import LandedObject
from landfall.objects import Upload
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge


@dataclass
class WholeMerge(Merge):
    """A merge of objects whose bytes may follow each other, as those of JSON may."""

    def _uploaded(self) -> NewObject:
        old = [each.landed for each in self.retire]
        key = object_names.renamed(old[0].upload.key, self.read_through)
        body, store = self._merged(), self.sample.store
        upload_id = store.begin(key, self.token)
        upload = Upload(key, upload_id, (store.put_part(key, upload_id, 1, body),), self.token)
        sections = tuple(_section(each) for each in old)
        last = max(s.last_offset for s in sections if s.partition == sections[0].partition)
        rows = sum(each.rows for each in old)
        crc = zlib.crc32(body)
        landed = LandedObject(upload, old[0].kind, rows, old[0].first_offset, last, crc)
        return NewObject(landed, sections)

    def _merged(self) -> bytes:
        return b"".join(self._bytes(each.landed.upload.key) for each in self.retire)

    def _bytes(self, key: str) -> bytes:
        with self.sample.store.open(key) as stream:
            return stream.read()

    def record(self, **fields: object) -> "WholeMerge":
        super().record(**fields)
        return self

    def complete(self) -> "WholeMerge":
        super().complete()
        return self

    def retired(self, *, is_kept: bool = True) -> "WholeMerge":
        """Keep a copy of each old object, delete it, and record that all is applied."""
        slot = self.sample.state.seq
        for each in self.retire:
            key = each.landed.upload.key
            if is_kept:
                copy = object_names.retired_key(GROUP, LANE, slot, key)
                self.sample.store.create(copy, self._bytes(key))
            self.sample.store.delete_slots([key])
        self.sample.shown()
        return self


def _section(landed: LandedObject) -> Section:
    partition = object_names.origin(GROUP, landed.upload.key).partition
    return Section(partition, landed.rows, landed.first_offset, landed.last_offset)
