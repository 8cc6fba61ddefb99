"""The ledger as the checker sees it: every chain, built and folded by ``landfall.ledger`` itself.

A chain is a ``View`` with a small number, so that a state of the search holds a number and not a
ledger. Each record is made, encoded and folded once, however many states share it. What a driver
has read is a view, and so is what the store holds. Uploads are numbered too, and a set of uploads
is an
``int`` with a bit for each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from landfall import ledger
from landfall.ledger import Header, Record, State, object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

TP = TopicPartition("t", 0)
TIME = "2026-11-21T12:00:00+00:00"
GROUP = "model"
FOUNDER = "D0"

OPEN, ADD, COMMIT, REPAIR, YIELD, DROP = "OPEN", "ADD", "COMMIT", "REPAIR", "YIELD", "DROP"


class Made(NamedTuple):
    """An upload whose parts are there.

    Attributes:
        writer: the driver whose task made it.
        start: its first offset.
        end: the offset after its last.
        generation: names the object.
        incarnation: of the topic, when it was read; a recreated topic has another incarnation.
        instead: of which lost upload; -1 for a round's.
    """

    writer: int
    start: int
    end: int
    generation: int = 1
    incarnation: int = 0
    instead: int = -1


class Entry(NamedTuple):
    """What to append.

    Attributes:
        writer: under whose name.
        kind: of the record.
        about: which upload, or which incarnation of the topic.
        applied_through: up to which COMMIT all is applied.
        generation: of an OPEN.
        revision: of an OPEN.
    """

    writer: str
    kind: str
    about: int = -1
    applied_through: int = -1
    generation: int = 0
    revision: str = ""


class Slot(NamedTuple):
    """A record in a slot: its number among all records, the slot's number and place, and the views
    before and after it.
    """

    number: int
    seq: int
    place: tuple[int, int]
    entry: Entry
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class View:
    """A chain, folded.

    Attributes:
        state: as the product folds it.
        slots: its records' numbers, in order.
        seqs: per place, an epoch and an index in it, the number of the slot.
        commits: per COMMIT's slot, the uploads that stand for it now, repairs included.
        unapplied: uploads that whoever opens this ledger has to complete.
        decided: uploads whose objects must become visible.
        named: the same, with the lost ones that were repaired.
        applied: uploads of COMMITs that the ledger says are applied.
    """

    state: State
    slots: tuple[int, ...]
    seqs: dict[tuple[int, int], int]
    commits: dict[int, int]
    unapplied: int
    decided: int
    named: int
    applied: int


def union(sets: Iterable[int]) -> int:
    """The union of sets of bits."""
    joined = 0
    for one in sets:
        joined |= one
    return joined


def bits(members: int) -> tuple[int, ...]:
    """The members of a set of bits."""
    return _BITS[members] if members < len(_BITS) else _bits(members)


def _bits(members: int) -> tuple[int, ...]:
    return tuple(i for i in range(members.bit_length()) if members >> i & 1)


_BITS = tuple(_bits(members) for members in range(1 << 12))


class Chains:
    """Every chain and every upload met so far."""

    def __init__(self, revision: str = "", *, remembers_names: bool = True) -> None:
        """Begin with a ledger that somebody made, letting the topic partition in at offset 0.

        Args:
            revision: of that driver.
            remembers_names: of topic partitions that left, as the product does; without it they are
                forgotten.
        """
        self._remembers_names = remembers_names
        self.uploads: list[Made] = []
        self.objects: list[LandedObject] = []
        self.keys: list[int] = []
        """Per upload, all uploads of the same key."""
        self.views: list[View] = [View(State(), (), {}, {}, 0, 0, 0, 0)]
        self.slots: list[Slot] = []
        self._numbers: dict[Made, int] = {}
        self._slots: dict[tuple[int, Entry], Slot] = {}
        opened = self.slot(0, Entry(FOUNDER, OPEN, revision=revision)).after
        self.founded = self.slot(opened, Entry(FOUNDER, ADD, 0)).after

    def upload(self, made: Made) -> int:
        """The number of an upload."""
        number = self._numbers.get(made)
        if number is None:
            number = self._numbers[made] = len(self.uploads)
            key = object_names.ObjectName(
                TP.topic, "all", made.generation, TP.partition, made.start, ".txt"
            ).key
            rows = made.end - made.start
            upload = Upload(
                key, str(number), (Part(f"part of {number}", rows),), f"batch of {number}"
            )
            self.uploads.append(made)
            self.objects.append(
                LandedObject(upload, ObjectKind.DATA, rows, made.start, made.end - 1, 0)
            )
            same = union(1 << i for i, o in enumerate(self.objects) if o.upload.key == key)
            self.keys.append(0)
            for i in bits(same):
                self.keys[i] = same
        return number

    def slot(self, before: int, entry: Entry) -> Slot:
        """The record that says ``entry`` after a view, folded.

        Raises:
            Stalled: LEDGER_BROKEN, the product's fold refuses it.
        """
        slot = self._slots.get((before, entry))
        if slot is None:
            view = self.views[before]
            record = self._record(view, entry)
            state = ledger.fold(view.state, ledger.encode(record))
            if not self._remembers_names:
                state = replace(state, retired={})
            place = (view.state.epoch, view.state.next_index)
            slot = Slot(len(self.slots), state.seq, place, entry, before, len(self.views))
            self._slots[before, entry] = slot
            self.slots.append(slot)
            self.views.append(self._view(view, slot, state))
        return slot

    def commit_of(self, view: View, upload: int) -> int:
        """The slot of the COMMIT that an upload stands for, itself or in place of a lost one."""
        while upload >= 0:
            for seq, uploads in view.commits.items():
                if uploads >> upload & 1:
                    return seq
            upload = self.uploads[upload].instead
        raise ValueError(f"no COMMIT in {view}")

    def _record(self, view: View, entry: Entry) -> Record:
        header = ledger.next_header(view.state, entry.writer, TIME, entry.applied_through)
        match entry.kind:
            case "OPEN":
                header = Header(
                    header.seq,
                    header.prev,
                    header.epoch + 1,
                    entry.writer,
                    TIME,
                    header.applied_through,
                )
                return ledger.Open(
                    header=header,
                    group=GROUP,
                    lane="0",
                    generation=entry.generation,
                    software="model",
                    revision=entry.revision,
                )
            case "ADD":
                return ledger.Add(
                    header=header, entries=(ledger.Entry(TP, f"incarnation-{entry.about}", 0),)
                )
            case "DROP":
                return ledger.Drop(header=header, topic_partitions=(TP,), reason="topic recreated")
            case "COMMIT":
                landed = self.objects[entry.about]
                piece = Slice(TP, OffsetRange(landed.first_offset, landed.last_offset + 1))
                slices = (LandedSlice(piece, (landed,), landed.rows, 0, 0, 0, landed.rows),)
                return ledger.Commit(header=header, token=landed.upload.token, slices=slices)
            case "REPAIR":
                lost = self.uploads[entry.about].instead
                return ledger.Repair(
                    header=header,
                    commit=self.commit_of(view, lost),
                    objects=(self.objects[entry.about],),
                )
            case "YIELD":
                return ledger.Yield(header=header, reason="handed over")
            case _:
                raise ValueError(entry.kind)

    def _view(self, before: View, slot: Slot, state: State) -> View:
        commits, named, about = dict(before.commits), before.named, slot.entry.about
        if slot.entry.kind == COMMIT:
            commits[slot.seq] = 1 << about
            named |= 1 << about
        elif slot.entry.kind == REPAIR:
            lost = self.uploads[about].instead
            commits[self.commit_of(before, lost)] ^= 1 << lost | 1 << about
            named |= 1 << about
        open_again = union(
            1 << int(o.upload.upload_id) for lost in state.unapplied.values() for o in lost
        )
        applied = union(uploads for seq, uploads in commits.items() if seq <= state.applied_through)
        return View(
            state,
            (*before.slots, slot.number),
            before.seqs | {slot.place: slot.seq},
            commits,
            open_again,
            union(commits.values()),
            named,
            applied,
        )
