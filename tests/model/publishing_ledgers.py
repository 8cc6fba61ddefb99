"""Small ledgers that a driver may have written, and what readers find in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from msgspec.structs import replace

from landfall import ledger
from landfall.errors import Reason
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

TOPICS = (TopicPartition("a", 0), TopicPartition("b", 0))


@dataclass(frozen=True)
class Slot:
    """A slot of a ledger.

    Attributes:
        record: that it holds.
        visible: numbers of the objects that it is the first to call visible.
        applied: the last slot whose objects are visible, as this slot says.
    """

    record: Record
    visible: tuple[int, ...]
    applied: int


@dataclass(eq=False)
class Ledger:
    """A ledger, and its objects by number: an upload and the table that its rows belong to."""

    slots: list[Slot] = field(default_factory=list)
    objects: list[LandedObject] = field(default_factory=list)
    state: State = field(default_factory=State)

    def number(self, landed: LandedObject) -> int:
        """The number of an object; the same key with another upload is another object."""
        if landed not in self.objects:
            self.objects.append(landed)
        return self.objects.index(landed)

    def table(self, number: int) -> int:
        """The table of an object."""
        topic = object_names.parse_key(self.objects[number].upload.key).topic
        return [tp.topic for tp in TOPICS].index(topic)

    def append(self, make: Callable[[Header], Record], applied: int = -1) -> "Ledger":
        """Append a record that says how far everything is applied."""
        header = ledger.next_header(self.state, "w", "t", max(applied, self.state.applied_through))
        record = make(header)
        self.state, visible = ledger.fold_applied(self.state, ledger.encode(record))
        numbers = tuple(self.number(o) for o in visible.objects)
        self.slots.append(Slot(record, numbers, self.state.applied_through))
        return self

    def commit(self, *tables: int, applied: int = -1) -> "Ledger":
        """Land one more record of each table."""
        slices = []
        for table in tables:
            tp = TOPICS[table]
            start = self.state.checkpoint[tp]
            key = object_names.ObjectName(tp.topic, "d", 1, 0, start, "").key
            made = LandedObject(
                Upload(key, "u", (Part("e", 1),), "t"), ObjectKind.DATA, 1, start, start, 0
            )
            piece = Slice(tp, OffsetRange(start, start + 1))
            slices.append(LandedSlice(piece, (made,), 1, 0, 0, 0, 1))
        token = "t"
        return self.append(
            lambda h: ledger.Commit(header=h, token=token, slices=tuple(slices)), applied
        )

    def due(self, slot: int, table: int) -> LandedObject:
        """An object of a slot that is not known to be visible, missing ones too."""
        objects = (*self.state.unapplied.get(slot, ()), *self.state.missing.get(slot, ()))
        return next(o for o in objects if o.upload.key.startswith(TOPICS[table].topic))

    def repair(self, slot: int, table: int, applied: int = -1) -> "Ledger":
        """Name another upload for an object."""
        before = self.due(slot, table)
        again = replace(before, upload=replace(before.upload, upload_id="v"))
        return self.append(
            lambda h: ledger.Repair(header=h, commit=slot, objects=(again,)), applied
        )

    def miss(self, slot: int, table: int, applied: int = -1) -> "Ledger":
        """Block a topic partition, because an object of it is missing."""
        gone, tp = self.due(slot, table), TOPICS[table]
        entry = ledger.Blocked(tp, Reason.OBJECT_LOST, "gone", OffsetRange(0, 1))
        missing = (ledger.Missing(slot, (gone.upload.key,)),)
        return self.append(
            lambda h: ledger.Block(header=h, entries=(entry,), missing=missing), applied
        )

    def lose(self, slot: int, table: int, applied: int = -1) -> "Ledger":
        """Give an object up."""
        gone = self.due(slot, table)
        return self.append(lambda h: ledger.Lost(header=h, commit=slot, objects=(gone,)), applied)

    def settle(self, applied: int) -> "Ledger":
        """Append a record that does nothing but say how far everything is applied."""
        return self.append(lambda h: ledger.Snapshot(header=h, key="k", sha256="s"), applied)


def _begun() -> Ledger:
    made = Ledger()
    opening = Header(0, ledger.GENESIS_HASH, 1, "w", "t")
    made.append(
        lambda _: ledger.Open(header=opening, group="g", lane="0", generation=1, software="0")
    )
    entries = tuple(ledger.Entry(tp, "id", 0) for tp in TOPICS)
    return made.append(lambda h: ledger.Add(header=h, entries=entries))


LEDGERS: Mapping[str, Ledger] = {
    "COMMITs": _begun().commit(0, 1).commit(0, applied=2).commit(1, applied=3).settle(4),
    "applied late": _begun().commit(0).commit(1).commit(0).settle(3).settle(4),
    "an object made again": _begun()
    .commit(0)
    .commit(1)
    .repair(2, 0)
    .commit(1, applied=2)
    .settle(5),
    "a missing object": _begun().commit(0, 1).miss(2, 0).settle(2).repair(2, 0).settle(5),
    "a lost object": _begun().commit(0, 1).lose(2, 0).commit(0).settle(4),
}
BEGUN = 2
"""The slots that every ledger has at first."""


@cache
def visible_between(chain: Ledger, after: int, through: int, table: int) -> tuple[int, ...]:
    """The objects of a table that slots after ``after`` through ``through`` call visible."""
    found = (n for slot in chain.slots[after + 1 : through + 1] for n in slot.visible)
    return tuple(n for n in found if chain.table(n) == table)


@cache
def named_between(chain: Ledger, after: int, end: int, table: int) -> tuple[int, ...]:
    """What a reader finds that counts COMMITs: it goes on after the last one that is applied.

    It reads the slots after ``after`` and takes what they name and what later slots correct of it,
    as far as the last slot says that it is applied.
    """
    named: dict[int, dict[str, LandedObject]] = {}
    for seq in range(after + 1, end + 1):
        _correct(named, seq, chain.slots[seq].record)
    applied = chain.slots[end].applied if end >= 0 else -1
    found = (chain.number(o) for seq in named if seq <= applied for o in named[seq].values())
    return tuple(n for n in found if chain.table(n) == table)


def _correct(named: dict[int, dict[str, LandedObject]], seq: int, record: Record) -> None:
    gone: dict[int, tuple[str, ...]] = {}
    match record:
        case ledger.Commit(slices=slices):
            named[seq] = {o.upload.key: o for s in slices for o in s.objects}
        case ledger.Repair(commit=commit, objects=objects):
            of = commit if commit in named else seq
            named.setdefault(of, {}).update({o.upload.key: o for o in objects})
        case ledger.Block(missing=missing):
            gone = {each.commit: each.keys for each in missing}
        case ledger.Lost(commit=commit, objects=objects):
            gone = {commit: tuple(o.upload.key for o in objects)}
        case _:
            pass
    for slot, keys in gone.items():
        named[slot] = {key: o for key, o in named.get(slot, {}).items() if key not in keys}


def shown(chain: Ledger, numbers: Sequence[int]) -> str:
    """Objects as people read them."""
    uploads = (chain.objects[n].upload for n in numbers)
    return ", ".join(f"{u.key}{' again' if u.upload_id == 'v' else ''}" for u in uploads)
