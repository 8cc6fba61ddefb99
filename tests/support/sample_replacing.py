"""Merges in a sample ledger: objects take the place of others, step by step as a driver does it."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from landfall import ledger
from landfall.ledger import Purpose, Replacement, object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import (
    NewObject,
    Replaced,
    RetiringObject,
    Section,
    encode_list,
)
from landfall.ledger.task_results import LandedObject
from landfall.objects import Upload
from tests.support.sample_ledger import GROUP, LANE, SampleLedger


@dataclass
class Merge:
    """Objects of one output partition, which are merged into one; nothing is recorded at first."""

    sample: SampleLedger
    retire: tuple[RetiringObject, ...]
    read_through: int

    @classmethod
    def of(cls, sample: SampleLedger, objects: Iterable[tuple[int, LandedObject]]) -> "Merge":
        """A merge of these objects, each with the slot of its COMMIT."""
        by_key = sorted(objects, key=lambda item: item[1].upload.key)
        return cls(sample, tuple(RetiringObject(*item) for item in by_key), sample.state.seq)

    def __post_init__(self) -> None:
        self.token = f"merge-{self.read_through}"
        self.new = self._uploaded()
        self.listed = Replaced(self.retire, (self.new,))

    def _uploaded(self) -> NewObject:
        first, last = self.retire[0].landed, self.retire[-1].landed
        name = object_names.parse_key(first.upload.key)
        extension = f".r{self.read_through}{self.sample.extension}"
        key = replace(name, extension=extension).key
        body = b"".join(self._read(each.landed.upload.key) for each in self.retire)
        upload_id = self.sample.store.begin(key, self.token)
        part = self.sample.store.put_part(key, upload_id, 1, body)
        rows = sum(each.landed.rows for each in self.retire)
        landed = LandedObject(
            Upload(key, upload_id, (part,), self.token),
            first.kind,
            rows,
            first.first_offset,
            last.last_offset,
            zlib.crc32(body),
        )
        sections = tuple(
            Section(
                object_names.origin(GROUP, o.upload.key).partition,
                o.rows,
                o.first_offset,
                o.last_offset,
            )
            for o in (each.landed for each in self.retire)
        )
        return NewObject(landed, sections)

    def _read(self, key: str) -> bytes:
        with self.sample.store.open(key) as stream:
            return stream.read()

    def stored(self) -> Replacement:
        """Store the list; what a REPLACE names."""
        named, body = encode_list(GROUP, LANE, self.listed)
        self.sample.store.create(named.key, body)
        return named

    def record(self, **fields: object) -> "Merge":
        """Append the REPLACE."""
        self.sample.append(lambda h: self.replace(h, self.stored(), **fields))
        return self

    def replace(
        self, header: ledger.Header, named: Replacement, **fields: object
    ) -> ledger.Replace:
        """The REPLACE, with other fields if any are given."""
        keys = [each.landed.upload.key for each in self.retire] + [self.new.landed.upload.key]
        origin, landed = object_names.origin(GROUP, keys[0]), self.new.landed
        offsets = OffsetRange(landed.first_offset, landed.last_offset + 1)
        known = {
            "token": self.token,
            "purpose": Purpose.COMPACT,
            "listed": named,
            "read_through": self.read_through,
            "folders": tuple(sorted({key.rpartition("/")[0] for key in keys})),
            "slices": (Slice(TopicPartition(origin.topic, origin.partition), offsets),),
        }
        return ledger.Replace(header=header, **{**known, **fields})  # type: ignore[arg-type]

    def complete(self) -> "Merge":
        """Make the new object visible."""
        self.sample.store.complete(self.new.landed.upload)
        return self
