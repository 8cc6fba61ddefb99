"""Ledgers made up by tests: commits, merges and replays, and where each row is afterwards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from landfall import ledger
from landfall.driver.decide.counting import CountingObject
from landfall.driver.decide.landed_now import LandedNow
from landfall.ledger import Header, Purpose, Replacement
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import (
    MadeBy,
    NewObject,
    ReplacementList,
    Section,
    encode_list,
)
from landfall.ledger.task_results import (
    DecidedObject,
    LandedObject,
    LandedSlice,
    ObjectKind,
    ReplayedSlice,
)
from landfall.objects import Part, Upload

GROUP, TOPIC = "shop", "clicks"
TIME = "2026-11-21T{:02}:{:02}:00+00:00"
"""The slot of a record, as hours and minutes."""
_DECISION = ledger.Decision("replay", "me", "", "t")

Row = tuple[int, int]
"""Kafka partition and offset."""


def tp(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)


@dataclass
class History:
    """Records as a driver writes them; each is applied by the next one unless ``applied`` is off.

    Attributes:
        now: what was gathered from the records.
        rows: the object that holds each row that counts.
        at: the next offset of each Kafka partition.
        counted: objects that counted when others took their place.
        replaces: the REPLACEs of backfills, and what undid them.
        records: all of them, with the lists of REPLACEs.
    """

    now: LandedNow = field(default_factory=lambda: LandedNow(GROUP))
    rows: dict[Row, str] = field(default_factory=dict)
    at: dict[int, int] = field(default_factory=dict)
    generation: int = 1
    counted: dict[str, CountingObject] = field(default_factory=dict)
    replaces: dict[int, tuple[ledger.Replace, ReplacementList]] = field(default_factory=dict)
    records: list[tuple[ledger.Record, ReplacementList | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open(1)

    def _take(self, record: ledger.Record, listed: ReplacementList | None = None) -> None:
        self.now.take(record, listed)
        self.records.append((record, listed))

    def header(self, applied_through: int | None = None) -> Header:
        seq = self.now.slot + 1
        through = self.now.slot if applied_through is None else applied_through
        return Header(seq, "", 1, "w", TIME.format(*divmod(seq, 60)), through)

    def open(self, generation: int) -> "History":
        self.generation = generation
        self._take(
            ledger.Open(
                header=self.header(),
                group=GROUP,
                lane="0",
                generation=generation,
                software="0",
                spec=f"spec-{generation}",
            )
        )
        return self

    def add(self, *partitions: int, start: int = 0, topic_id: str = "id") -> "History":
        entries = tuple(ledger.Entry(tp(each), topic_id, start) for each in partitions)
        self._take(ledger.Add(header=self.header(), entries=entries))
        self.at |= dict.fromkeys(partitions, start)
        return self

    def drop(self, partition: int) -> "History":
        gone = ledger.Drop(header=self.header(), topic_partitions=(tp(partition),), reason="test")
        self._take(gone)
        del self.at[partition]
        return self

    def hole(self, partition: int, length: int) -> "History":
        start = self.at[partition]
        piece = Slice(tp(partition), OffsetRange(start, start + length))
        self._take(ledger.Hole(header=self.header(), piece=piece, reason="test"))
        self.at[partition] += length
        return self

    def commit(
        self, partition: int, folders: Sequence[str], applied_through: int | None = None
    ) -> "History":
        """Land a row per folder name; ``-`` is a dead letter, and nothing a filtered record."""
        start = self.at[partition]
        objects = []
        for folder in sorted({*folders} - {""}):
            offsets = [start + i for i, name in enumerate(folders) if name == folder]
            objects.append(self._object(partition, folder, start, offsets))
        piece = Slice(tp(partition), OffsetRange(start, start + len(folders)))
        filtered, bad = folders.count(""), folders.count("-")
        landed = len(folders) - filtered - bad
        by_key = tuple(sorted(objects, key=lambda o: o.upload.key))
        made = LandedSlice(piece, by_key, landed, filtered, bad, 0, 9)
        header = self.header(applied_through)
        self._take(ledger.Commit(header=header, token="t", slices=(made,)))
        self.at[partition] += len(folders)
        return self

    def merge(
        self,
        keys: Iterable[str],
        purpose: Purpose = Purpose.COMPACT,
        undoes: int = -1,
        *,
        mixed: bool = False,
    ) -> str:
        """Put one object in the place of others of a folder, and return its key.

        A backfill that is promoted is called ``fix``. Rows that are mixed were sorted.
        """
        (key,) = self.merge_apart(keys, purpose=purpose, undoes=undoes, mixed=mixed)
        return key

    def merge_apart(
        self,
        *groups: Iterable[str],
        purpose: Purpose = Purpose.COMPACT,
        undoes: int = -1,
        mixed: bool = False,
    ) -> tuple[str, ...]:
        """Replace each group of objects of a folder by one, and return the keys of the new ones."""
        made = [self._merged([self.now.objects[key] for key in sorted(keys)]) for keys in groups]
        retire = sorted((each for old, _, _ in made for each in old), key=lambda each: each.key)
        objects = tuple(NewObject(new, sections, mixed) for _, new, sections in made)
        listed = ReplacementList(tuple(each.decided for each in retire), objects)
        sections = [section for new in objects for section in new.sections]
        rows = sum(section.rows for section in sections)
        header = self.header()
        named = Replacement("list", "0" * 64, len(retire), rows, len(objects), rows)
        record = ledger.Replace(
            header=header,
            token="t",
            purpose=purpose,
            listed=named,
            read_through=header.seq - 1,
            folders=(retire[0].folder,),
            slices=self._spans(sections) if purpose is Purpose.COMPACT else (),
            backfill="fix" if purpose is Purpose.BACKFILL else "",
            undoes=undoes,
        )
        self._take(record, listed)
        where = {each.key: new.upload.key for old, new, _ in made for each in old}
        self.rows = {row: where.get(was, was) for row, was in self.rows.items()}
        return tuple(new.upload.key for _, new, _ in made)

    def _merged(
        self, retire: Sequence[CountingObject]
    ) -> tuple[Sequence[CountingObject], LandedObject, tuple[Section, ...]]:
        key = object_names.renamed(retire[0].key, self.now.slot)
        sections = tuple(section for each in retire for section in each.sections)
        new = LandedObject(
            Upload(key, "u", (Part("e", 9),), "t"),
            ObjectKind.DATA,
            sum(section.rows for section in sections),
            sections[0].first_offset,
            sections[-1].last_offset,
            0,
        )
        return retire, new, sections

    @staticmethod
    def _spans(sections: Sequence[Section]) -> tuple[Slice, ...]:
        """From the first to the last row of each Kafka partition."""
        spans: dict[int, tuple[int, int]] = {}
        for each in sections:
            first, last = spans.get(each.partition, (each.first_offset, each.last_offset))
            spans[each.partition] = min(first, each.first_offset), max(last, each.last_offset)
        return tuple(
            Slice(tp(number), OffsetRange(first, last + 1))
            for number, (first, last) in sorted(spans.items())
        )

    def backfill(self, other: "History", retire: Iterable[str]) -> int:
        """Put what another history has landed in the place of objects, and return the slot."""
        side = other.applied()
        pieces = [span.landed for tp in sorted(side.ranges) for span in side.present(tp)]
        new = sorted(side.objects.values(), key=lambda each: each.key)
        objects = tuple(self._renamed(each) for each in new)
        gone = tuple(self.now.objects[key].decided for key in sorted(retire))
        listed = ReplacementList(gone, objects, tuple(pieces), MadeBy(other.generation, "spec"))
        return self._put(listed, self._slices(listed), purpose=Purpose.BACKFILL)

    def undo(self, slot: int) -> int:
        """Bring back what a backfill, or an undoing, has retired, and return the slot."""
        record, before = self.replaces[slot]
        back = (self._renamed(self.counted[each.key]) for each in before.retire)
        objects = tuple(sorted(back, key=lambda new: new.key))
        gone = tuple(DecidedObject(slot, new.landed) for new in before.objects)
        listed = ReplacementList(gone, objects)
        return self._put(listed, record.slices, purpose=Purpose.UNDO, undoes=slot)

    def _renamed(self, each: CountingObject) -> NewObject:
        key = object_names.renamed(each.key, self.now.slot)
        upload = structs.replace(each.landed.upload, key=key)
        return NewObject(structs.replace(each.landed, upload=upload), each.sections)

    @staticmethod
    def _slices(listed: ReplacementList) -> tuple[Slice, ...]:
        pieces = [again.piece for again in listed.landed_again]
        return tuple(
            Slice(
                tp,
                OffsetRange(
                    min(p.offsets.start for p in pieces if p.topic_partition == tp),
                    max(p.offsets.end for p in pieces if p.topic_partition == tp),
                ),
            )
            for tp in sorted({piece.topic_partition for piece in pieces})
        )

    def _put(self, listed: ReplacementList, slices: tuple[Slice, ...], **fields: Any) -> int:
        self.counted |= self.now.objects
        named, _ = encode_list(GROUP, "0", listed)
        header = self.header()
        record = ledger.Replace(
            header=header,
            token="t",
            listed=named,
            read_through=header.seq - 1,
            folders=tuple(sorted(listed.folders)),
            slices=slices,
            **fields,
        )
        self._take(record, listed)
        self.replaces[header.seq] = record, listed
        return header.seq

    def replay(self, key: str, folder: str) -> "History":
        """Land the dead letters of an object again, all into one folder, by a new generation."""
        self.open(self.generation + 1)
        letters = self.now.objects[key]
        (section,) = letters.sections
        offsets = [offset for (_, offset), where in sorted(self.rows.items()) if where == key]
        start = object_names.origin(GROUP, key).start
        made = self._object(section.partition, folder, start, offsets)
        piece = Slice(tp(section.partition), OffsetRange(start, offsets[-1] + 1))
        slice_ = ReplayedSlice(key, piece, len(offsets), (made,), len(offsets), 0, 0)
        self._take(
            ledger.Replay(header=self.header(), token="t", slices=(slice_,), decision=_DECISION)
        )
        return self

    def applied(self) -> LandedNow:
        """What was gathered, once all of it is visible."""
        self._take(ledger.Applied(header=self.header()))
        return self.now

    def _object(
        self, partition: int, folder: str, start: int, offsets: Sequence[int]
    ) -> LandedObject:
        is_data = folder != "-"
        if is_data:
            key = object_names.ObjectName(
                TOPIC, f"dt={folder}", self.generation, partition, start, ".json"
            ).key
        else:
            key = object_names.dead_letter_key(GROUP, TOPIC, self.generation, partition, start)
        self.rows |= {(partition, offset): key for offset in offsets}
        return LandedObject(
            Upload(key, "u", (Part("e", len(offsets)),), "t"),
            ObjectKind.DATA if is_data else ObjectKind.DEAD_LETTERS,
            len(offsets),
            offsets[0],
            offsets[-1],
            0,
        )
