"""The entries of ``landfall log``: a record in words, in numbers, and who asked for it. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from landfall.ledger import (
    Add,
    Applied,
    Block,
    Commit,
    Decision,
    Discover,
    Drop,
    Extend,
    Finalize,
    Hole,
    Lease,
    LeaseOutcome,
    Lost,
    Open,
    Purpose,
    Record,
    Repair,
    Replace,
    Replay,
    Retired,
    Run,
    Segment,
    Snapshot,
    Unblock,
    Yield,
)
from landfall.ledger.decisions import topic_partition
from landfall.ledger.segments import entries_of
from landfall.ledger.task_results import LandedObject, ObjectKind

MAX_NAMES = 3
"""The maximum number of names in a line; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """The REPLACE in slot ``slot`` has undone another one, in these folders."""

    slot: int
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplaceOutcome:
    """The outcome of a REPLACE by later records.

    Attributes:
        applied: whether its objects are in use, or were.
        undoes: the slot of the REPLACE that it undoes.
        superseded_by: the slot of the REPLACE that was recorded instead, before this was applied.
        undone: the undo records in force.
    """

    applied: bool = True
    undoes: int | None = None
    superseded_by: int | None = None
    undone: tuple[Undoing, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacing:
    """The purpose of a REPLACE.

    Attributes:
        purpose: Compact, Backfill or Undo.
        backfill: the name of the backfill that was promoted.
        folders: the output partitions with the folders above them.
        outcome: its outcome by later records.
    """

    purpose: str
    backfill: str | None
    folders: tuple[str, ...]
    outcome: ReplaceOutcome


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A record of the ledger as ``landfall log --json`` prints it.

    Attributes:
        slot: its number.
        time: when it was written, ISO 8601 in UTC.
        kind: its tag in the ledger.
        epoch: of the driver that wrote it.
        writer: the random name of that driver's process.
        topics: that it is about, sorted.
        summary: it in words.
        counts: it in numbers.
        decision: who asked for it, when and why; None if Landfall recorded it by itself.
        replace: of a REPLACE.
    """

    slot: int
    time: str
    kind: str
    epoch: int
    writer: str
    topics: tuple[str, ...]
    summary: str
    counts: Mapping[str, int]
    decision: Decision | None
    replace: Replacing | None = None


def log_entry(group: str, record: Record, outcome: ReplaceOutcome) -> LogEntry:
    """The entry of a record; ``outcome`` is of a REPLACE."""
    described = _described(record)
    header = record.header
    return LogEntry(
        slot=header.seq,
        time=header.time,
        kind=kind_of(record),
        epoch=header.epoch,
        writer=header.writer,
        topics=tuple(sorted(topics_of(group, record))),
        summary=described.text + (_outcome_text(outcome) if isinstance(record, Replace) else ""),
        counts=described.counts,
        decision=decision_of(record),
        replace=_replacing(record, outcome) if isinstance(record, Replace) else None,
    )


def kind_of(record: Record) -> str:
    """The tag of a record in the ledger, such as COMMIT."""
    return str(record.__struct_config__.tag)


def decision_of(record: Record) -> Decision | None:
    """Return who asked for a record; None if there was no request."""
    return getattr(record, "decision", None)


def topics_of(group: str, record: Record) -> set[str]:
    """The topics that a record is about."""
    match record:
        case Block() | Unblock():
            return {entry.topic_partition.topic for entry in record.entries}
        case Finalize():
            return {entry.topic for entry in record.entries}
        case Run():
            return {*(topic.topic for topic in record.topics), *record.left}
        case Discover() | Extend():
            return {record.topic_partition.topic}
        case Repair():
            return {topic_partition(o.upload.key).topic for o in record.objects}
        case _:
            return {entry.topic for entry in entries_of(group, record)}


@dataclass
class Outcomes:
    """Follows REPLACEs from the last record of a ledger to the first.

    Attributes:
        pending: slots of REPLACEs that are not applied yet.
        undone_by: the slot of the REPLACE that one undoes; -1 for none.
    """

    pending: Collection[int]
    undone_by: Callable[[Replace], int]
    _undone: dict[int, list[Undoing]] = field(default_factory=dict)
    _superseded: dict[int, int] = field(default_factory=dict)

    def of(self, record: Record) -> ReplaceOutcome:
        """Return a record's outcome by later ones; no record may be given twice."""
        if not isinstance(record, Replace):
            return ReplaceOutcome()
        slot = record.header.seq
        superseded, undone = self._superseded.pop(slot, None), self._undone.pop(slot, [])
        if record.instead != -1:
            self._superseded[record.instead] = slot
        target = self.undone_by(record)
        gone = {folder for undoing in undone for folder in undoing.folders}
        in_force = tuple(folder for folder in record.folders if folder not in gone)
        if target != -1 and superseded is None and in_force:
            self._undone.setdefault(target, []).append(Undoing(slot, in_force))
        is_applied = superseded is None and slot not in self.pending
        return ReplaceOutcome(
            is_applied, None if target == -1 else target, superseded, tuple(undone)
        )


def _replacing(record: Replace, outcome: ReplaceOutcome) -> Replacing:
    return Replacing(str(record.purpose), record.backfill or None, record.folders, outcome)


def _outcome_text(outcome: ReplaceOutcome) -> str:
    if outcome.superseded_by is not None:
        return f"; superseded by slot {outcome.superseded_by} before it was applied"
    text = f"; undoes slot {outcome.undoes}" if outcome.undoes is not None else ""
    text += "" if outcome.applied else "; not applied yet"
    if outcome.undone:
        slots = ", ".join(str(undoing.slot) for undoing in outcome.undone)
        folders = {folder for undoing in outcome.undone for folder in undoing.folders}
        text += f"; undone in slot {slots} ({_named(folders)})"
    return text


# ---------------------------------------------------------------------------------------- in words


@dataclass(frozen=True, slots=True)
class _Described:
    """A record in words and numbers."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)


def _described(record: Record) -> _Described:  # noqa: C901, PLR0911, PLR0912  # one arm per record type
    match record:
        case Open():
            revision = f", revision {record.revision}" if record.revision else ""
            return _Described(
                f"a driver takes the lane: epoch {record.header.epoch}, generation "
                f"{record.generation}{revision}, software {record.software}"
            )
        case Yield():
            return _Described(f"the driver gives the lane up: {record.reason}")
        case Add():
            entries = [f"{e.topic_partition} at {e.start}" for e in record.entries]
            return _Described(f"enter: {_named(entries)}", {"topic_partitions": len(entries)})
        case Drop():
            gone = [str(tp) for tp in record.topic_partitions]
            text = f"leave: {_named(gone)}: {record.reason}"
            return _Described(text, {"topic_partitions": len(gone)})
        case Commit() | Replay():
            return _landed(record)
        case Replace():
            return _replaced(record)
        case Hole():
            text = f"skips {record.piece}: {record.reason}"
            return _Described(text, {"offsets": len(record.piece.offsets)})
        case Repair():
            text = f"new uploads of slot {record.commit}"
            return _of_objects(text, record.objects)
        case Lost():
            return _of_objects(f"gives up lost objects of slot {record.commit}", record.objects)
        case Block():
            entries = [f"{e.topic_partition} ({e.reason}: {e.message})" for e in record.entries]
            return _Described(f"blocks {_named(entries)}", {"topic_partitions": len(entries)})
        case Unblock():
            free = [str(entry.topic_partition) for entry in record.entries]
            return _Described(f"unblocks {_named(free)}", {"topic_partitions": len(free)})
        case Finalize():
            entries = [f"{e.topic} up to {_time(e.until)}" for e in record.entries]
            return _Described(f"complete: {_named(entries)}", {"topics": len(entries)})
        case Run():
            left = f"; not landed: {_named(record.left)}" if record.left else ""
            text = f"the range until {_time(record.until)} is landed{left}"
            return _Described(text, {"topics": len(record.topics)})
        case Discover() | Lease() | Extend() | LeaseOutcome():
            return _of_feed(record)
        case Retired():
            slots = ", ".join(map(str, record.slots))
            text = f"the old objects of the REPLACE in slot {slots} are deleted"
            return _Described(text, {"replaces": len(record.slots)})
        case Snapshot():
            return _Described(f"the state is stored in {record.key}")
        case Applied():
            text = f"everything up to slot {record.header.applied_through} is visible"
            return _Described(text)
        case Segment(rolled=rolled):
            text = f"slots {rolled.first} to {rolled.last} are stored in one segment"
            return _Described(text, {"slots": rolled.last - rolled.first + 1})


def _landed(record: Commit | Replay) -> _Described:
    slices = record.slices
    objects = [o for s in slices for o in s.objects]
    counts = {
        ("dead_letter_objects" if isinstance(record, Replay) else "ranges"): len(slices),
        "records": sum(s.landed for s in slices),
        "dead_letters": sum(s.dead_lettered for s in slices),
        "filtered": sum(s.filtered for s in slices),
        "objects": len(objects),
        "output_partitions": len(_folders(objects)),
    }
    partitions = sorted({s.piece.topic_partition for s in slices})
    verb = "lands dead letters again" if isinstance(record, Replay) else "lands"
    named = [str(s.piece) for s in slices] if len(slices) <= MAX_NAMES else map(str, partitions)
    return _Described(f"{verb}: {_named(named)}", counts)


def _replaced(record: Replace) -> _Described:
    listed = record.listed
    counts = {
        "replaced_objects": listed.retired,
        "replaced_records": listed.retired_rows,
        "objects": listed.objects,
        "records": listed.rows,
        "duplicates": record.duplicates,
        "output_partitions": len(record.folders),
        "ranges": len(record.slices),
    }
    match record.purpose:
        case Purpose.COMPACT:
            text = "merges objects"
        case Purpose.BACKFILL:
            text = f"backfill {record.backfill} replaces objects"
        case Purpose.UNDO:
            text = "restores objects"
    if record.again:
        text += f", as decided in slot {record.instead}, for which nothing waits any more"
    elif record.instead != -1:
        is_empty = not record.listed.retired + record.listed.objects
        text = f"gives up slot {record.instead}" if is_empty else text
        text += "" if is_empty else f" instead of slot {record.instead}, whose uploads were lost"
    return _Described(f"{text}: {_named(record.folders)}", counts)


def _of_objects(text: str, objects: Collection[LandedObject]) -> _Described:
    counts = {"objects": len(objects), "records": sum(o.rows for o in objects)}
    return _Described(f"{text}: {_named(o.upload.key for o in objects)}", counts)


def _of_feed(record: Discover | Lease | Extend | LeaseOutcome) -> _Described:
    topic = record.topic_partition.topic
    match record:
        case Lease():
            text = f"{topic}: parts are leased to {record.holder} until {_time(record.until)}"
            return _Described(text, {"parts": len(record.numbers)})
        case Extend():
            text = f"{topic}: lease {record.lease} is extended until {_time(record.until)}"
            return _Described(text)
        case LeaseOutcome():
            counts = {
                "done": len(record.done),
                "failed": len(record.failed),
                "returned": len(record.returned),
                "expired": len(record.expired),
            }
            why = f": {record.why}" if record.why else ""
            return _Described(f"{topic}: parts of lease {record.lease} are back{why}", counts)
        case Discover(listed=listed):
            again = {
                "numbered_again": len(record.again),
                "replaced": len(record.replaced),
                "ignored": len(record.ignored),
            }
            if listed is None:
                return _Described(f"{topic}: no new parts of files", again)
            found = {
                "parts": listed.end - listed.first,
                "files": listed.files,
                "bytes": listed.bytes,
            }
            text = f"{topic}: parts {listed.first} to {listed.end - 1} of files are found"
            return _Described(text, found | again)


def _folders(objects: Iterable[LandedObject]) -> set[str]:
    """The folders of the data objects among these."""
    return {o.upload.key.rpartition("/")[0] for o in objects if o.kind is ObjectKind.DATA}


def _named(names: Iterable[str]) -> str:
    listed = sorted({*names})
    rest = len(listed) - MAX_NAMES
    return ", ".join(listed[:MAX_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def _time(millis: int) -> str:
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:  # at an end of the calendar
        return f"{millis} ms"
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
