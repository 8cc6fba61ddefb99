"""``landfall locate``: from topic, Kafka partition and offset to the object and the row in it.

Of a feed also from a file and a row; see ``locate_files``.
"""

import argparse
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace

import msgspec
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.checks.locate import (
    BeforeStart,
    Committed,
    NotLanded,
    OffsetState,
    Skipped,
    Unknown,
    find_offset,
    row_of,
)
from landfall.cli import console, read_back
from landfall.cli.group_store import GroupStore
from landfall.cli.locate_files import FeedParts
from landfall.errors import Reason, Stalled
from landfall.lane import records_in_segments
from landfall.ledger import Hole, object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.registry import output_format


@dataclass(frozen=True, slots=True)
class FoundObject:
    """One object that holds the offset, or may hold it.

    Attributes:
        url: of the object.
        row: in the object, counted from 1; None if only the object is known.
        rows: how many rows the object has.
        certain: whether this object holds the offset; otherwise one of several may.
    """

    url: str
    row: int | None
    rows: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an offset: one word, one sentence, and the objects. ``--json`` prints it.

    ``schemas`` are the stored schemas that its range was decoded with; ``landfall cat`` prints one.
    """

    fate: str
    message: str
    slot: int | None = None
    objects: tuple[FoundObject, ...] = ()
    schemas: tuple[str, ...] = ()


def locate(arguments: argparse.Namespace) -> ExitCode:
    """Print what became of an offset; the exit code is FAULT if a committed record is lost.

    Raises:
        Stalled: SPEC_INVALID, an offset or a file is missing, or there is no such row.
    """
    opened = GroupStore.of(arguments.group)
    if arguments.offset is None:
        return _locate_file(opened, arguments)
    if not arguments.place.isdecimal():
        message = f"PARTITION must be a number, got {arguments.place!r}: a file has no offset"
        raise Stalled(Reason.SPEC_INVALID, message)
    tp = TopicPartition(arguments.topic, int(arguments.place))
    return _print(arguments, look_up(opened, tp, arguments.offset))


def _locate_file(opened: GroupStore, arguments: argparse.Namespace) -> ExitCode:
    """Print what became of the parts of a file, or of one of its rows."""
    topic, place = arguments.topic, arguments.place
    if topic not in {feed.topic for feed in opened.group.spec.source.files}:
        message = f"{topic}: is no feed of files, so it takes PARTITION and OFFSET"
        raise Stalled(Reason.SPEC_INVALID, message)
    feed = FeedParts(opened, TopicPartition(topic, 0))
    name, row = place, ""
    found = feed.of_file(name)
    if not found:  # the name of a file may have a colon itself
        name, _, row = place.rpartition(":")
        found = feed.of_file(name) if row.isdecimal() and int(row) else []
    if not found:
        message = f"{topic}: no file {place!r} has a number: it is not found yet, or left out"
        return _print(arguments, Answer("unknown", message))
    if row:
        answer = look_up(opened, feed.tp, feed.offset_of(found, int(row)))
        return _print(arguments, answer)
    parts = feed.fates(found)
    if arguments.json:
        shown = {"file": name, "parts": [asdict(part) for part in parts]}
        console.out().print(msgspec.json.encode(shown).decode(), markup=False)
        return ExitCode.OK
    for part in parts:
        span = f"bytes {part.start} to {part.end}, ETag {part.etag}"
        console.out().print(escape(f"part {part.number} ({span}) {part.message}"))
        for url in part.objects:
            console.out().print(escape(url))
    return ExitCode.OK


def _print(arguments: argparse.Namespace, answer: Answer) -> ExitCode:
    out = console.out()
    if arguments.json:
        out.print(msgspec.json.encode(asdict(answer)).decode(), markup=False)
    else:
        out.print(escape(answer.message))
        for found in answer.objects:
            out.print(escape(found.url) + _row_text(found))
        # The COMMIT names the schemas of a whole range, not which of its records had which.
        one_of = "one of " if len(answer.schemas) > 1 else ""
        for url in answer.schemas:
            out.print(f"decoded with {one_of}{escape(url)}")
    return ExitCode.FAULT if answer.fate == "lost" else ExitCode.OK


def _row_text(found: FoundObject) -> str:
    if found.row is None:
        return ""
    return f"  row {console.count(found.row)} of {console.count(found.rows)}"


def look_up(opened: GroupStore, tp: TopicPartition, offset: int) -> Answer:
    """Find an offset in the ledger, then read the objects that may hold it."""
    rolled = records_in_segments(opened.lane, tp, offset)
    state = find_offset(rolled or opened.records(), tp, offset)
    is_feed = tp.topic in {feed.topic for feed in opened.group.spec.source.files}
    row = FeedParts(opened, tp).describe(offset) if is_feed else ""
    if isinstance(state, Committed):
        answer = _Lookup(opened, state, tp, offset, row).answer()
        return (
            replace(answer, schemas=_schemas(opened, state.schemas)) if answer.objects else answer
        )
    answer = _without_objects(state, tp, offset)
    return replace(answer, message=f"{answer.message} ({row})") if row else answer


def _schemas(opened: GroupStore, names: Collection[str]) -> tuple[str, ...]:
    keys = (object_names.schema_key(opened.name, LANE, name) for name in sorted(names))
    return tuple(opened.url(key) for key in keys)


def _without_objects(state: OffsetState, tp: TopicPartition, offset: int) -> Answer:
    """The answer for an offset that no COMMIT covers."""
    match state:
        case BeforeStart(start):
            return Answer(
                "before-start",
                f"{tp} offset {offset} lies before the start: landing began at {start}",
            )
        case NotLanded(checkpoint):
            return Answer(
                "not-landed",
                f"{tp} offset {offset} is not landed yet: the next offset to land is {checkpoint}",
            )
        case Skipped(slot, hole):
            return Answer(
                "skipped",
                f"{tp} offset {offset} was skipped: {hole.reason}{_by(hole)}",
                slot,
            )
        case _:
            assert isinstance(state, Unknown | Committed)
            return Answer("unknown", f"{tp} is not in this group's ledger")


def _by(hole: Hole) -> str:
    """Who decided on the HOLE; the spec's ``onDataLoss`` if nobody did."""
    decision = hole.decision
    return f" ({decision.verb} by {decision.who}, {decision.requested})" if decision else ""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The search for one offset among the objects of the slice that covers it."""

    opened: GroupStore
    committed: Committed
    tp: TopicPartition
    offset: int
    row: str = ""
    """Of a feed, which row of which file it is."""

    @property
    def subject(self) -> str:
        return f"{self.tp} offset {self.offset}" + (f" ({self.row})" if self.row else "")

    def answer(self) -> Answer:
        format_ = output_format(self.opened.specs.for_topic(self.tp.topic).output)

        def known_row(landed: LandedObject) -> int | None:
            # Rows that are sorted by a column can be anywhere.
            in_order = landed.kind is not ObjectKind.DATA or getattr(format_, "keeps_order", True)
            return row_of(landed, self.offset) if in_order else None

        # Objects whose row follows from the ledger alone come first: they need not be read.
        candidates = sorted(
            self.committed.candidates(self.offset), key=lambda o: known_row(o) is None
        )
        possible: list[LandedObject] = []
        if given_up := [o for o in candidates if o.upload.key in self.committed.lost]:
            return self._given_up(given_up)
        for landed in candidates:
            row = known_row(landed)
            if row is None:
                offsets = [known for known, _ in read_back.rows(self.opened, format_, landed)]
                if None in offsets:
                    possible.append(landed)
                    continue
                row = offsets.index(self.offset) if self.offset in offsets else None
            if row is not None:
                return self._found(landed, row)
        return self._possible(possible) if possible else self._absent()

    def _given_up(self, given_up: list[LandedObject]) -> Answer:
        """The answer if an object that may hold the offset can never be made."""
        key = given_up[0].upload.key
        slot = self.committed.lost[key]
        may = "was" if len(given_up) == 1 else "may have been"
        return Answer(
            "given-up",
            f"{self.subject} {may} in {key}, which the LOST in slot {slot} gave up: its upload was "
            "lost, and Kafka has the records no more",
            slot,
        )

    def _found(self, landed: LandedObject, row: int) -> Answer:
        is_data = landed.kind is ObjectKind.DATA
        fate, verb = ("landed", "was landed") if is_data else ("dead-lettered", "was dead-lettered")
        slot, url = self.committed.slot_of(landed), self.opened.url(landed.upload.key)
        found = FoundObject(url, row + 1, landed.rows, certain=True)
        record = "COMMIT" if slot == self.committed.slot else "REPLAY"
        return Answer(fate, f"{self.subject} {verb} by the {record} in slot {slot}", slot, (found,))

    def _possible(self, possible: list[LandedObject]) -> Answer:
        landed = self.committed.landed
        is_certain = len(possible) == 1 and not landed.filtered + landed.invisible
        found = tuple(
            FoundObject(self.opened.url(o.upload.key), None, o.rows, is_certain) for o in possible
        )
        where = (
            "is in this object"
            if is_certain
            else "is in one of these objects, if it has a record at all"
        )
        return Answer(
            "landed" if is_certain else "possibly-landed",
            f"{self.subject} {where}; the format stores no offsets, so the row is unknown",
            self.committed.slot,
            found,
        )

    def _absent(self) -> Answer:
        landed, slot = self.committed.landed, self.committed.slot
        if self.row:
            message = f"{self.subject} is in no object: there is no such row, or it was filtered"
            return Answer("no-record", message, slot)
        if landed.filtered + landed.invisible:
            filtered = console.counted(landed.filtered, "record")
            invisible = console.counted(landed.invisible, "offset")
            message = (
                f"{self.subject} has no record in any object: in this range, a transform filtered "
                f"{filtered}, and {invisible} had no visible record"
            )
            return Answer("no-record", message, slot)
        message = f"{self.subject} was committed in slot {slot}, but no object holds it: run fsck"
        return Answer("lost", message, slot)
