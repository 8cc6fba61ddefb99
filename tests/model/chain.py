"""The ledger as the checker sees it: every chain, built and folded by ``landfall.ledger`` itself.

A chain is a ``View`` with a small number, so that a state of the search holds a number and not a
ledger. Each record is made, encoded and folded once, however many states share it. What a driver
has read is a view, and so is what the store holds. Uploads are numbered too, and a set of uploads
is an
``int`` with a bit for each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import structs

from landfall import ledger
from landfall.checks.stored import named_schemas
from landfall.errors import Reason
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from landfall.source import Watermarks, membership
from tests.model.rules import Rules, Scope
from tests.model.verbs import VERBS, decided

TP = TopicPartition("t", 0)
TIME = "2026-11-21T12:00:00+00:00"
GROUP = "model"
FOUNDER = "D0"

OPEN, ADD, COMMIT, REPAIR, YIELD, DROP = "OPEN", "ADD", "COMMIT", "REPAIR", "YIELD", "DROP"
LOST, BLOCK, BLOCK_TRUNCATED = "LOST", "BLOCK", "BLOCK for a truncated log"
APPLIED = "APPLIED"


class Made(NamedTuple):
    """An upload whose parts are there.

    Attributes:
        writer: the driver whose task made it.
        start: its first offset.
        end: the offset after its last.
        generation: names the object.
        incarnation: of the topic, when it was read; a recreated topic has another incarnation.
        instead: of which lost upload; -1 for a round's.
        cut: where the log had been cut back when it was read; -1 for nowhere.
    """

    writer: int
    start: int
    end: int
    generation: int = 1
    incarnation: int = 0
    instead: int = -1
    cut: int = -1

    def records(self) -> set[tuple[int, int, int]]:
        """What it holds: incarnation, whether it came after the cut, and offset of each record."""
        return records(self.incarnation, self.cut, range(self.start, self.end))


def records(incarnation: int, cut: int, offsets: range) -> set[tuple[int, int, int]]:
    """The records at these offsets of a log: incarnation, whether after the cut, and offset."""
    return {(incarnation, int(0 <= cut <= offset), offset) for offset in offsets}


class Entry(NamedTuple):
    """What to append.

    Attributes:
        writer: under whose name.
        kind: of the record, or the verb of a decision.
        about: which upload, or which incarnation of the topic; the offset where the log was cut
            back; for a decision, where the log starts.
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
        commits: per COMMIT's slot, the uploads that stand for it now, repairs included, also of
            what is given up.
        unapplied: uploads that whoever opens this ledger has to complete.
        decided: uploads whose objects must become visible.
        named: the same, with the lost ones that were repaired.
        applied: uploads of COMMITs that the ledger says are applied.
        missing: uploads that a BLOCK names as missing.
        given_up: uploads that a LOST gave up, or that were missing when they left the lane.
        names_schema: whether a COMMIT names the schema of the payloads.
        not_landed: offsets that somebody decided not to land: of HOLEs, after a DROP, and those of
            a truncated log that was accepted.
    """

    state: State
    slots: tuple[int, ...]
    seqs: dict[tuple[int, int], int]
    commits: dict[int, int]
    unapplied: int
    decided: int
    named: int
    applied: int
    missing: int = 0
    given_up: int = 0
    not_landed: int = 0
    names_schema: bool = False


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

    def __init__(self, rules: Rules, scope: Scope) -> None:
        """Begin with a ledger that somebody made, letting the topic partition in at offset 0."""
        self._rules, self._end = rules, scope.records
        self._schemas = (ledger.digest(b"the schema"),) * scope.schemas
        self.uploads: list[Made] = []
        self.objects: list[LandedObject] = []
        self.keys: list[int] = []
        """Per upload, all uploads of the same key."""
        self.views: list[View] = [View(State(), (), {}, {}, 0, 0, 0, 0)]
        self.slots: list[Slot] = []
        self._numbers: dict[Made, int] = {}
        self._slots: dict[tuple[int, Entry], Slot] = {}
        opened = self.slot(0, Entry(FOUNDER, OPEN, revision=scope.revisions[:1])).after
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
            if not self._rules.never_reuses_names:
                state = replace(state, retired={})
            if entry.kind == REPAIR and not self._rules.repairs_under_own_slot:
                unapplied = {s: o for s, o in state.unapplied.items() if s != state.seq}
                state = replace(state, unapplied=unapplied)
            place = (view.state.epoch, view.state.next_index)
            slot = Slot(len(self.slots), state.seq, place, entry, before, len(self.views))
            self._slots[before, entry] = slot
            self.slots.append(slot)
            self.views.append(self._view(view, slot, record, state))
        return slot

    def commit_of(self, view: View, upload: int) -> int:
        """The slot of the COMMIT that an upload stands for, itself or in place of a lost one."""
        while upload >= 0:
            for seq, uploads in view.commits.items():
                if uploads >> upload & 1:
                    return seq
            upload = self.uploads[upload].instead
        raise ValueError(f"no COMMIT in {view}")

    def due_under(self, view: View, upload: int) -> int:
        """The slot under which an upload is due: of a COMMIT, or of the REPAIR of a missing one."""
        for seq, due in (*view.state.unapplied.items(), *view.state.missing.items()):
            if any(o.upload.upload_id == str(upload) for o in due):
                return seq
        return self.commit_of(view, upload)

    def is_due(self, view: View, upload: int) -> bool:
        """Whether an upload may still be made again."""
        return not view.given_up >> upload & 1

    def decides(self, before: int, verb: str, log_start: int) -> bool:
        """Whether a person's decision records something here."""
        marks = Watermarks(log_start, self._end)
        return bool(decided(self.views[before].state, TP, verb, marks))

    def _record(self, view: View, entry: Entry) -> Record:  # noqa: C901, PLR0911  # an arm each
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
                return self._commit(header, entry)
            case "REPAIR":
                lost = self.uploads[entry.about].instead
                return ledger.Repair(
                    header=header,
                    commit=self.due_under(view, lost),
                    objects=(self.objects[entry.about],),
                )
            case "LOST":
                slot, given_up = self.due_under(view, entry.about), self.objects[entry.about]
                return ledger.Lost(header=header, commit=slot, objects=(given_up,))
            case "BLOCK" | "BLOCK for a truncated log":
                return self._block(view, header, entry)
            case verb if verb in VERBS:
                marks = Watermarks(entry.about, self._end)
                return decided(view.state, TP, verb, marks)[0].make(header=header)
            case "APPLIED":
                return ledger.Applied(header=header)
            case "YIELD":
                return ledger.Yield(header=header, reason="handed over")
            case _:
                raise ValueError(entry.kind)

    def _commit(self, header: Header, entry: Entry) -> ledger.Commit:
        landed = self.objects[entry.about]
        piece = Slice(TP, OffsetRange(landed.first_offset, landed.last_offset + 1))
        last, cut = landed.last_offset, self.uploads[entry.about].cut
        epoch = int(0 <= cut <= last)
        slices = (
            LandedSlice(piece, (landed,), landed.rows, 0, 0, 0, landed.rows, (), epoch, last),
        )
        if self._schemas:
            slices = (structs.replace(slices[0], schemas=self._schemas),)
        return ledger.Commit(header=header, token=landed.upload.token, slices=slices)

    def _block(self, view: View, header: Header, entry: Entry) -> ledger.Block:
        if entry.kind == BLOCK_TRUNCATED:
            truncated = membership.truncated(TP, entry.about, view.state.checkpoint[TP])
            return ledger.Block(header=header, entries=(truncated,))
        lost = self.objects[entry.about]
        offsets = OffsetRange(lost.first_offset, lost.last_offset + 1)
        blocked = ledger.Blocked(TP, Reason.OBJECT_LOST, "cannot be made again", offsets)
        # What an UNBLOCK let a driver try once more is missing already.
        is_new = not view.missing >> entry.about & 1
        gone = ledger.Missing(self.due_under(view, entry.about), (lost.upload.key,))
        return ledger.Block(header=header, entries=(blocked,), missing=(gone,) * is_new)

    def _view(self, before: View, slot: Slot, record: Record, state: State) -> View:
        commits, named, about = dict(before.commits), before.named, slot.entry.about
        missing = _uploads_of(state.missing)
        given_up = before.given_up | _given_up(before, record, missing)
        if slot.entry.kind == COMMIT:
            commits[slot.seq] = 1 << about
            named |= 1 << about
        elif slot.entry.kind == REPAIR:
            lost = self.uploads[about].instead
            commits[self.commit_of(before, lost)] ^= 1 << lost | 1 << about
            named |= 1 << about
        open_again = _uploads_of(state.unapplied)
        applied = union(uploads for seq, uploads in commits.items() if seq <= state.applied_through)
        return View(
            state,
            (*before.slots, slot.number),
            before.seqs | {slot.place: slot.seq},
            commits,
            open_again,
            union(commits.values()) & ~given_up,
            named & ~given_up,
            # A missing object that a REPAIR makes again is due under the slot of the REPAIR.
            applied & ~missing & ~open_again & ~given_up,
            missing,
            given_up,
            before.not_landed | self._not_landed(before.state, record),
            before.names_schema or any(named_schemas(record)),
        )

    def _not_landed(self, before: State, record: Record) -> int:
        """Offsets that a record says will not be landed."""
        match record:
            case ledger.Hole(piece=piece):
                offsets = piece.offsets
            case ledger.Drop(decision=decision) if decision:
                offsets = OffsetRange(before.checkpoint[TP], self._end + 1)
            case ledger.Unblock() if before.blocked[TP].reason is Reason.DATA_LOSS:
                offsets = before.blocked[TP].offsets
            case _:
                return 0
        return union(1 << offset for offset in range(offsets.start, offsets.end))


def _uploads_of(by_slot: Mapping[int, tuple[LandedObject, ...]]) -> int:
    return union(1 << int(o.upload.upload_id) for objects in by_slot.values() for o in objects)


def _given_up(before: View, record: Record, missing: int) -> int:
    """Uploads that a record gives up."""
    match record:
        case ledger.Lost(objects=objects):
            return _uploads_of({0: objects})
        case ledger.Drop():
            return before.missing & ~missing
        case _:
            return 0
