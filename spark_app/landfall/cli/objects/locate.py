"""``landfall locate``: from topic, Kafka partition and offset to the object and the row in it.

For a feed also from a file and a row; see ``locate_files``.
"""

import argparse
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice

import msgspec
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.checks.landed_again import in_force
from landfall.checks.locate import (
    BeforeStart,
    CandidateRows,
    Committed,
    NotLanded,
    OffsetState,
    SkippedOffset,
    Unknown,
    find_offset,
    leaving_out,
    places,
)
from landfall.cli.group_store import GroupStore
from landfall.cli.objects import read_back
from landfall.cli.objects.locate_files import FeedParts
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.formats import Format
from landfall.landed.history import History
from landfall.landed.specs import LandedBy, Lists
from landfall.lane import records_in_segments
from landfall.lane.replacements import read_applied
from landfall.ledger import State
from landfall.ledger.effects import RangeSkipped
from landfall.ledger.names import folders, object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.registry import Allowed, output_format, plug_ins


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
class OffsetLocation:
    """The outcome of an offset: one word, one sentence, and the objects. ``--json`` prints it.

    ``schemas`` are the stored schemas that its range was decoded with; ``landfall cat`` prints one.
    """

    fate: str
    message: str
    slot: int | None = None
    objects: tuple[FoundObject, ...] = ()
    schemas: tuple[str, ...] = ()


def locate(arguments: argparse.Namespace) -> ExitCode:
    """Print the outcome of an offset; the exit code is FAULT if a committed record is lost.

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
    """Print the outcome of the parts of a file, or of one of its rows."""
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
        return _print(arguments, OffsetLocation("unknown", message))
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


def _print(arguments: argparse.Namespace, answer: OffsetLocation) -> ExitCode:
    out = console.out()
    if arguments.json:
        out.print(msgspec.json.encode(asdict(answer)).decode(), markup=False)
    else:
        out.print(escape(answer.message))
        for object_ in answer.objects:
            out.print(escape(object_.url) + _row_text(object_))
        # The COMMIT names the schemas of a whole range, not of each record.
        one_of = "one of " if len(answer.schemas) > 1 else ""
        for url in answer.schemas:
            out.print(f"decoded with {one_of}{escape(url)}")
    return ExitCode.FAULT if answer.fate == "lost" else ExitCode.OK


def _row_text(found: FoundObject) -> str:
    if found.row is None:
        return ""
    return f"  row {console.count(found.row)} of {console.count(found.rows)}"


def look_up(opened: GroupStore, tp: TopicPartition, offset: int) -> OffsetLocation:
    """Find an offset in the ledger, then read the objects that may hold it."""
    now = opened.lane.read()
    is_known = not _is_replaced_since(now, tp.topic)
    rolled = records_in_segments(opened.lane, tp, offset) if is_known else None
    state = find_offset(rolled or opened.records(), tp, offset)
    is_feed = tp.topic in {feed.topic for feed in opened.group.spec.source.files}
    row = FeedParts(opened, tp).describe(offset) if is_feed else ""
    if isinstance(state, Committed):
        lookup = replace(
            lookup_of(opened=opened, now=now, state=state, tp=tp, offset=offset), row=row
        )
        state = lookup.committed
        answer = lookup.answer()
        if group := state.landed.read_from:
            origin = f"its range was read from what {group} has landed, as Kafka had lost it"
            answer = replace(answer, message=f"{answer.message}; {origin}")
        return (
            replace(answer, schemas=_schemas(opened, state.schemas)) if answer.objects else answer
        )
    answer = _without_objects(state, tp, offset)
    return replace(answer, message=f"{answer.message} ({row})") if row else answer


def lookup_of(
    opened: GroupStore, now: State, state: Committed, tp: TopicPartition, offset: int
) -> "ObjectLookup":
    """Begin the search for an offset that a COMMIT covers.

    Args:
        opened: the group.
        now: the state of its ledger.
        state: what ``find_offset`` has found.
        tp: the topic partition.
        offset: in it.

    Raises:
        Stalled: LEDGER_BROKEN, the list of a REPLACE is missing or damaged.
        Retry: the store does not answer.
    """
    replaced = [*read_applied(opened.store, state.replacements, now.applied_through)]
    state = replace(state, replacements=tuple(record for record, _ in replaced))
    if found := in_force(tp, offset, replaced):
        state = replace(state, again=found[1])
    return ObjectLookup(
        opened=opened,
        committed=state,
        tp=tp,
        offset=offset,
        places=tuple(
            places(group=opened.name, tp=tp, offset=offset, committed=state, replaced=replaced)
        ),
        lists={record.header.seq: (record, listed) for record, listed in replaced},
    )


def _is_replaced_since(state: State, topic: str) -> bool:
    """Return whether a record in no segment yet may have replaced objects of a topic."""
    last = state.segments[-1].last if state.segments else -1
    replaced = (folder for folder, slot in state.replaced.items() if slot > last)
    topics = (folders.split_destination(folder)[1].partition("/")[0] for folder in replaced)
    return state.replaced_known_from > last or topic in topics


def _schemas(opened: GroupStore, names: Collection[str]) -> tuple[str, ...]:
    keys = (object_names.schema_key(opened.name, LANE, name) for name in sorted(names))
    return tuple(opened.url(key) for key in keys)


def _without_objects(state: OffsetState, tp: TopicPartition, offset: int) -> OffsetLocation:
    """The answer for an offset that no COMMIT covers."""
    match state:
        case BeforeStart(start):
            return OffsetLocation(
                "before-start",
                f"{tp} offset {offset} lies before the start: landing began at {start}",
            )
        case NotLanded(checkpoint):
            return OffsetLocation(
                "not-landed",
                f"{tp} offset {offset} is not landed yet: the next offset to land is {checkpoint}",
            )
        case SkippedOffset(slot, hole):
            return OffsetLocation(
                "skipped",
                f"{tp} offset {offset} was skipped: {hole.reason}{_by(hole)}",
                slot,
            )
        case _:
            assert isinstance(state, Unknown | Committed)
            return OffsetLocation("unknown", f"{tp} is not in this group's ledger")


def _by(hole: RangeSkipped) -> str:
    """Return who decided on the HOLE; the spec's ``onDataLoss`` if it was no person."""
    decision = hole.decision
    return f" ({decision.verb} by {decision.who}, {decision.requested})" if decision else ""


@dataclass(frozen=True)
class ObjectLookup:
    """The search for one offset among the objects of the slice that covers it.

    Attributes:
        opened: the group.
        committed: the slice that covers the offset, and what has changed since.
        tp: the topic partition.
        offset: in it.
        places: where the offset may be.
        lists: the applied REPLACEs that concern the offset.
        row: the row and the file of a feed's offset; else empty.
    """

    opened: GroupStore
    committed: Committed
    tp: TopicPartition
    offset: int
    places: tuple[CandidateRows, ...]
    lists: Lists
    row: str = ""

    @property
    def _subject(self) -> str:
        return f"{self.tp} offset {self.offset}" + (f" ({self.row})" if self.row else "")

    def answer(self) -> OffsetLocation:
        """Return the outcome of the offset.

        Raises:
            Stalled: SPEC_INVALID, an object's format is a plug-in that the group's file does not
                name; LEDGER_BROKEN.
            Retry: the store does not answer.
        """

        def known_row(place: CandidateRows) -> int | None:
            # Rows that are sorted by a column can be anywhere.
            is_data = place.landed.kind is ObjectKind.DATA
            in_order = not is_data or getattr(self._format(place), "keeps_order", True)
            return place.row_of(self.offset) if in_order else None

        # Objects whose row follows from the ledger alone come first: they need not be read.
        candidates = sorted(self.places, key=lambda place: known_row(place) is None)
        possible: list[CandidateRows] = []
        given_up = [o for o in candidates if o.key in self.committed.lost]
        for place in (candidate for candidate in candidates if candidate not in given_up):
            row = known_row(place)
            if row is None:
                offsets = self._offsets(place)
                if None in offsets or (self.offset in offsets and not place.is_alone):
                    possible.append(place)
                    continue
                row = offsets.index(self.offset) if self.offset in offsets else None
                row = None if row is None else place.first_row + row
            if row is not None:
                return self._found(place, row)
        if possible:
            return self._possible(possible, given_up)
        return self._given_up(given_up) if given_up else self._absent()

    @cached_property
    def landed_by(self) -> LandedBy:
        """The specs by which objects were made."""
        history = History(self.opened.lane, self.opened.store.stat)
        history.follow()
        return LandedBy(history, lists=self.lists)

    def _format(self, place: CandidateRows) -> Format:
        """The format of an object; dead letters have one of their own."""
        is_data = place.landed.kind is ObjectKind.DATA
        slot = self.landed_by.slot(place) if is_data else self.committed.slot
        topic = self.tp.topic
        try:
            output = self.landed_by.spec(slot, topic).output
        except Stalled as stalled:
            if stalled.reason is not Reason.SPEC_INVALID:
                raise
            output = self.opened.specs.for_topic(topic).output  # an older release stored none
        plugins = plug_ins(self.opened.group.spec)
        why = "and the group's file does not name it"
        Allowed(plugins, self.landed_by.file(slot), why).check_format(output)
        return output_format(output)

    def _offsets(self, place: CandidateRows) -> list[int | None]:
        """The offsets of the rows of a place, as the object stores them.

        Raises:
            Stalled: OBJECT_LOST, the object is damaged.
        """
        rows = read_back.rows(self.opened, self._format(place), place.landed)
        end = place.first_row + place.rows.rows
        try:
            return [known for known, _ in islice(rows, place.first_row, end)]
        except (ValueError, EOFError) as error:
            raise Stalled(Reason.OBJECT_LOST, f"{place.key}: damaged: {error}") from error

    def _given_up(self, given_up: list[CandidateRows]) -> OffsetLocation:
        """The answer if an object that may hold the offset can never be recreated."""
        key = given_up[0].key
        slot = self.committed.lost[key]
        may = "was" if len(given_up) == 1 else "may have been"
        return OffsetLocation(
            "given-up",
            f"{self._subject} {may} in {key}, which the LOST in slot {slot} gave up: its upload "
            "was lost, and Kafka has the records no more",
            slot,
        )

    def _found(self, place: CandidateRows, row: int) -> OffsetLocation:
        landed, slot = place.landed, place.slot
        is_data = landed.kind is ObjectKind.DATA
        fate, verb = ("landed", "was landed") if is_data else ("dead-lettered", "was dead-lettered")
        found = FoundObject(self.opened.url(landed.key), row + 1, landed.rows, certain=True)
        by = {self.committed.slot: "COMMIT"} | {
            slot: "REPLAY" for slot, _ in self.committed.replays
        }
        if slot in by:
            how = f"by the {by[slot]} in slot {slot}"
        else:
            how = (
                f"by the COMMIT in slot {self.committed.slot}, and is now in an object of the "
                f"REPLACE in slot {slot}, which replaced the first one"
            )
        return OffsetLocation(fate, f"{self._subject} {verb} {how}", slot, (found,))

    def _possible(
        self, possible: list[CandidateRows], given_up: list[CandidateRows]
    ) -> OffsetLocation:
        landed = self.committed.now
        is_left_out = (
            bool(given_up)
            or landed.filtered + landed.invisible
            or leaving_out(self.committed.replacements)
        )
        is_certain = len(possible) == 1 and not is_left_out
        found = tuple(
            FoundObject(self.opened.url(o.key), None, o.landed.rows, is_certain) for o in possible
        )
        where = "one of these objects" if len(possible) > 1 else "this object"
        perhaps = "" if is_certain else ", if it has a record at all"
        message = (
            f"{self._subject} is in {where}{perhaps}; {self._why_unknown(possible)}, so the row is "
            "unknown"
        )
        own = {self.committed.slot, *(slot for slot, _ in self.committed.replays)}
        slot = max({place.slot for place in possible} - own, default=None)
        if slot is not None:
            message += f"; it replaced what the COMMIT landed, by the REPLACE in slot {slot}"
        for key in (object_.key for object_ in given_up):
            message += (
                f"; or it was in {key}, which the LOST in slot {self.committed.lost[key]} gave up"
            )
        fate = "landed" if is_certain else "possibly-landed"
        return OffsetLocation(fate, message, self.committed.slot if slot is None else slot, found)

    def _why_unknown(self, possible: list[CandidateRows]) -> str:
        if all(place.is_alone for place in possible):
            return "the format stores no offsets"
        return "rows of several Kafka partitions are mixed"

    def _absent(self) -> OffsetLocation:
        landed, slot = self.committed.now, self.committed.slot
        if self.row:
            message = f"{self._subject} is in no object: there is no such row, or it was filtered"
            return OffsetLocation("no-record", message, slot)
        if landed.filtered + landed.invisible:
            filtered = console.counted(landed.filtered, "record")
            invisible = console.counted(landed.invisible, "offset")
            message = (
                f"{self._subject} has no record in any object: in this range, a transform filtered "
                f"{filtered}, and {invisible} had no visible record"
            )
            return OffsetLocation("no-record", message, slot)
        if replaced := leaving_out(self.committed.replacements):
            message = (
                f"{self._subject} is in no object: the REPLACE in slot {replaced.header.seq} "
                "replaced the object that had it, and the new ones leave out duplicates, or are "
                "made by other code"
            )
            return OffsetLocation("no-record", message, replaced.header.seq)
        message = f"{self._subject} was committed in slot {slot}, but no object holds it: run fsck"
        return OffsetLocation("lost", message, slot)
