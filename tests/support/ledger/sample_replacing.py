"""REPLACEs in a sample ledger: objects take the place of others, step by step as a driver does it.

``Merge`` makes one object of several, ``Cut`` makes two of that, and ``Undo`` brings back what
retired by a merge.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from msgspec import structs

from landfall import ledger
from landfall.ledger import Purpose, Replacement
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.merged_objects import Mergeable, halves, offsets_of
from landfall.ledger.replace.replacement_lists import (
    NewObject,
    ReplacementList,
    Section,
    encode_list,
)
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall.objects import Upload
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

Row = tuple[int, int]
"""A Kafka partition and an offset."""


@dataclass
class Merge:
    """Objects of one output partition, which are merged into one; nothing is recorded at first.

    With ``rows``, the new object has these, in this order, and is mixed. Otherwise it has all rows
    of the old ones, one object after the other.
    """

    sample: SampleLedger
    retire: tuple[DecidedObject, ...]
    read_through: int
    rows: Sequence[Row] | None = None

    @classmethod
    def of(
        cls,
        sample: SampleLedger,
        objects: Iterable[tuple[int, LandedObject]],
        rows: Sequence[Row] | None = None,
        read_through: int | None = None,
    ) -> "Merge":
        """A merge of these objects, each with the slot of its COMMIT, by all that is applied."""
        by_key = sorted(objects, key=lambda item: item[1].upload.key)
        retire = tuple(DecidedObject(*item) for item in by_key)
        applied = sample.state.applied_through
        return cls(sample, retire, applied if read_through is None else read_through, rows)

    def __post_init__(self) -> None:
        self.token = f"merge-{self.read_through}"
        self.new = self._uploaded()
        self.listed = ReplacementList(self.retire, (self.new,))
        self.slot = -1

    def _uploaded(self) -> NewObject:
        first = self.retire[0].landed
        partition = object_names.origin(GROUP, first.upload.key).partition
        sections = tuple(s for each in self.retire for s in self._sections(each.landed))
        last = max(section.last_offset for section in sections if section.partition == partition)
        offsets = [o for each in self.retire for o in self.sample.rows[each.landed.upload.key]]
        if self.rows is not None:
            offsets = [offset for _, offset in self.rows]
        landed = self.upload(first, self.sample.body(offsets), len(offsets), last)
        self.sample.rows[landed.upload.key] = (*offsets,)
        old = (self.sample.merged.get(each.landed.upload.key) for each in self.retire)
        is_mixed = self.rows is not None or any(new.mixed for new in old if new)
        self.sample.merged[landed.upload.key] = NewObject(landed, sections, is_mixed)
        return self.sample.merged[landed.upload.key]

    def upload(self, first: LandedObject, body: bytes, rows: int, last: int) -> LandedObject:
        """Upload what takes the place of an object, and perhaps of others after it."""
        key = object_names.renamed(first.upload.key, self.read_through)
        upload_id = self.sample.store.begin(key, self.token)
        part = self.sample.store.put_part(key, upload_id, 1, body)
        upload = Upload(key, upload_id, (part,), self.token)
        return LandedObject(upload, first.kind, rows, first.first_offset, last, zlib.crc32(body))

    def _sections(self, old: LandedObject) -> tuple[Section, ...]:
        """The sections that the rows of an old object have in the new one."""
        if old.upload.key in self.sample.merged:
            sections = self.sample.merged[old.upload.key].sections
        else:
            partition = object_names.origin(GROUP, old.upload.key).partition
            sections = (Section(partition, old.rows, old.first_offset, old.last_offset),)
        return tuple(map(self._kept, sections))

    def _kept(self, section: Section) -> Section:
        if self.rows is None:
            return section
        kept = sum(
            partition == section.partition and section.first_offset <= offset <= section.last_offset
            for partition, offset in self.rows
        )
        return replace(section, rows=kept)

    @property
    def duplicates(self) -> int:
        """How many rows are in no new object."""
        old = sum(each.landed.rows for each in self.listed.retire)
        return old - sum(each.landed.rows for each in self.listed.objects)

    def stored(self) -> Replacement:
        """Store the list; what a REPLACE names."""
        named, body = encode_list(GROUP, LANE, self.listed)
        self.sample.store.create(named.key, body)
        return named

    def record(self, **fields: object) -> "Merge":
        """Append the REPLACE, in ``slot``."""
        self.sample.append(lambda h: self.replace(h, self.stored(), **fields))
        self.slot = self.sample.state.seq
        return self

    def give_up(self) -> int:
        """Append a REPLACE with an empty list instead of it; returns the slot of that one."""
        named, body = encode_list(GROUP, LANE, ReplacementList((), ()))
        self.sample.store.create(named.key, body)
        fields = {
            "listed": named,
            "purpose": Purpose.UNDO,
            "instead": self.slot,
            "read_through": self.slot,
            "slices": (),
            "duplicates": 0,
            "retires_later": True,
        }
        self.sample.append(lambda h: self.replace(h, named, **fields))
        return self.sample.state.seq

    def replace(
        self, header: ledger.Header, named: Replacement, **fields: object
    ) -> ledger.Replace:
        """The REPLACE, with other fields if any are given."""
        known = {
            "token": self.token,
            "purpose": Purpose.COMPACT,
            "listed": named,
            "read_through": self.read_through,
            "folders": self._folders(),
            "slices": self._slices(),
            "duplicates": self.duplicates,
        }
        return ledger.Replace(header=header, **{**known, **fields})  # type: ignore[arg-type]

    def _objects(self) -> list[LandedObject]:
        old = [each.landed for each in self.listed.retire]
        return [*old, *(each.landed for each in self.listed.objects)]

    def _folders(self) -> tuple[str, ...]:
        return tuple(sorted({o.upload.key.rpartition("/")[0] for o in self._objects()}))

    def _slices(self) -> tuple[Slice, ...]:
        topic = object_names.origin(GROUP, self._objects()[0].upload.key).topic
        sections = [section for new in self.listed.objects for section in new.sections]
        return tuple(
            Slice(
                TopicPartition(topic, partition),
                OffsetRange(
                    min(s.first_offset for s in sections if s.partition == partition),
                    max(s.last_offset for s in sections if s.partition == partition) + 1,
                ),
            )
            for partition in sorted({section.partition for section in sections})
        )

    def complete(self) -> "Merge":
        """Make the new objects visible."""
        for new in self.listed.objects:
            self.sample.store.complete(new.landed.upload)
        return self

    def keep_copies(self) -> "Merge":
        """Keep copies of the old objects, which are visible still."""
        for each in self.listed.retire:
            key = each.landed.upload.key
            with self.sample.store.open(key) as stream:
                body = stream.read()
            self.sample.store.create(object_names.retired_key(GROUP, LANE, self.slot, key), body)
        return self


class Cut(Merge):
    """A merged object cut in two: its rows of a range, and the others."""

    def __init__(self, merge: Merge, range_: Slice) -> None:
        """Upload both halves."""
        self.merge, self.range = merge, range_
        sample = merge.sample
        retire = (DecidedObject(merge.slot, merge.new.landed),)
        super().__init__(sample, retire, sample.state.applied_through)

    def __post_init__(self) -> None:
        self.token = f"cut-{self.read_through}"
        whole, new = self.merge.new, list[NewObject]()
        source = Mergeable(self.merge.slot, whole.landed, "", whole.sections)
        for half in halves(source, (self.range,)):
            offsets = tuple(compress(self.sample.rows[source.key], half.mask))
            first, last = offsets_of(half.sections)
            upload = structs.replace(whole.landed.upload, key=half.key)
            named = structs.replace(whole.landed, upload=upload, first_offset=first)
            landed = self.upload(named, self.sample.body(offsets), len(offsets), last)
            self.sample.rows[landed.upload.key] = offsets
            new.append(NewObject(landed, half.sections))
            self.sample.merged[landed.upload.key] = new[-1]
        self.listed = ReplacementList(
            self.retire, tuple(sorted(new, key=lambda each: each.landed.upload.key))
        )
        self.slot = -1


class Undo(Merge):
    """What retired by a merge comes back under other names; the new object of the merge retires."""

    def __init__(self, merge: Merge) -> None:
        """Upload copies of what was kept."""
        self.merge = merge
        sample, new = merge.sample, merge.listed.objects
        retire = tuple(DecidedObject(merge.slot, each.landed) for each in new)
        super().__init__(sample, retire, sample.state.applied_through)

    def __post_init__(self) -> None:
        self.token = f"undo-{self.read_through}"
        back = sorted(map(self._copied, self.merge.retire), key=lambda new: new.key)
        self.listed = ReplacementList(self.retire, tuple(back))
        self.slot = -1

    def _copied(self, retired: DecidedObject) -> NewObject:
        old = retired.landed
        body = self.sample.store.read(self._where(old.upload.key)) or b""
        landed = self.upload(old, body, old.rows, old.last_offset)
        before = self.sample.merged.get(old.upload.key)
        new = NewObject(landed, self._sections(old), before is not None and before.mixed)
        self.sample.merged[landed.upload.key] = new
        if (rows := self.sample.rows.get(old.upload.key)) is not None:  # unless a task made it
            self.sample.rows[landed.upload.key] = rows
        return new

    def _where(self, key: str) -> str:
        """Where the content of an object is that has retired."""
        return object_names.retired_key(GROUP, LANE, self.merge.slot, key)

    @property
    def duplicates(self) -> int:
        """An undoing leaves out nothing."""
        return 0

    def record(self, **fields: object) -> "Merge":
        """Append the REPLACE."""
        return super().record(purpose=Purpose.UNDO, **fields)
