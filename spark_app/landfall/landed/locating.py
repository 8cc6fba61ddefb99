"""Finds the object and the row of an offset, once it is known what the ledger records of it.

What the ledger alone shows is in ``landfall.checks.locate``. Where that leaves several objects, or
no row, they are read. Who asks without a login gets an answer within ``Restrictions``.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from landfall.api.contract import LANE
from landfall.api.spec import GroupSpec
from landfall.api.words import counted
from landfall.checks.landed_again import in_force
from landfall.checks.locate import (
    BeforeStart,
    CandidateRows,
    Committed,
    NotLanded,
    OffsetState,
    SkippedOffset,
    Unknown,
    leaving_out,
    places,
)
from landfall.errors import Reason, Stalled
from landfall.formats import Format
from landfall.landed.history import History
from landfall.landed.opened_group import OpenedGroup
from landfall.landed.specs import LandedBy, Lists
from landfall.landed.stored_rows import stored_rows
from landfall.lane.replacements import read_applied
from landfall.ledger import State
from landfall.ledger.effects import RangeSkipped
from landfall.ledger.names import folders, object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.pipeline.route.pattern import parse_route
from landfall.registry import Allowed, output_format, plug_ins

HIDDEN = "…"
"""The name that is shown for a folder that a payload has named."""

ReasonOf = Callable[[GroupSpec, CandidateRows, int], str]
"""Returns why the record in a row (counted from 0) of an object of dead letters is one."""


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The limits of an answer to a client without a login.

    Folders that a value of payloads has named are hidden, and so is who decided something: see
    docs/adr/0052-a-payload-is-quoted-in-its-dead-letter-only.md.

    Attributes:
        read_objects: how many objects may be read.
        read_bytes: how many bytes they may have together.
        listed_objects: how many objects are named.
    """

    read_objects: int
    read_bytes: int
    listed_objects: int


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
    """The outcome of an offset: one word, one sentence, and the objects.

    ``landfall locate --json`` prints it, and a driver answers it at ``/record``.

    ``schemas`` are the stored schemas that its range was decoded with; ``landfall cat`` prints one.
    """

    fate: str
    message: str
    slot: int | None = None
    objects: tuple[FoundObject, ...] = ()
    schemas: tuple[str, ...] = ()


def location_of(  # noqa: PLR0913  # what is asked for, and how
    opened: OpenedGroup,
    now: State,
    outcome: OffsetState,
    tp: TopicPartition,
    offset: int,
    *,
    row: str = "",
    restrictions: Restrictions | None = None,
    reason_of: ReasonOf | None = None,
) -> OffsetLocation:
    """Return the location of an offset, reading the objects that may hold it.

    Args:
        opened: the group.
        now: the state of its ledger.
        outcome: what ``find_offset`` has found.
        tp: the topic partition.
        offset: in it.
        row: the row and the file of a feed's offset; else empty.
        restrictions: of the answer; None for none.
        reason_of: describes dead letters; None to leave their reasons out.

    Raises:
        Stalled: as ``ObjectLookup.answer`` and ``lookup_of``.
        Retry: the store does not answer.
    """
    if not isinstance(outcome, Committed):
        answer = _without_objects(outcome, tp, offset, shows_who=restrictions is None)
        return replace(answer, message=f"{answer.message} ({row})") if row else answer
    lookup = replace(
        lookup_of(opened, now, outcome, tp, offset),
        row=row,
        restrictions=restrictions,
        reason_of=reason_of,
    )
    answer = lookup.answer()
    if group := lookup.committed.landed.read_from:
        origin = f"its range was read from what {group} has landed, as Kafka had lost it"
        answer = replace(answer, message=f"{answer.message}; {origin}")
    schemas = _schemas(opened, lookup.committed.schemas) if answer.objects else ()
    return replace(answer, schemas=schemas)


def lookup_of(
    opened: OpenedGroup, now: State, state: Committed, tp: TopicPartition, offset: int
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
        now=now,
        committed=state,
        tp=tp,
        offset=offset,
        places=tuple(
            places(group=opened.name, tp=tp, offset=offset, committed=state, replaced=replaced)
        ),
        lists={record.header.seq: (record, listed) for record, listed in replaced},
    )


def _schemas(opened: OpenedGroup, names: Collection[str]) -> tuple[str, ...]:
    keys = (object_names.schema_key(opened.name, LANE, name) for name in sorted(names))
    return tuple(opened.url(key) for key in keys)


def is_changed_since(state: State, topic: str) -> bool:
    """Return whether a record in no segment yet may change where a landed offset of a topic is.

    It may have replaced objects, given them up or replayed dead letters, or let a topic partition
    enter again.
    """
    last = state.segments[-1].last if state.segments else -1
    if state.changed_seq > last:
        return True
    replaced = (folder for folder, slot in state.replaced.items() if slot > last)
    topics = (folders.split_destination(folder)[1].partition("/")[0] for folder in replaced)
    return state.replaced_known_from > last or topic in topics


def _without_objects(
    state: OffsetState, tp: TopicPartition, offset: int, *, shows_who: bool
) -> OffsetLocation:
    """The answer for an offset that no COMMIT covers."""
    match state:
        case BeforeStart(start):
            return OffsetLocation(
                "before-start",
                f"{tp} offset {offset} lies before the start: landing began at {start}",
            )
        case NotLanded(checkpoint, left) if left >= 0:
            return OffsetLocation(
                "not-landed",
                f"{tp} offset {offset} is not landed: the topic partition left at offset "
                f"{checkpoint}, by the DROP in slot {left}; `landfall reset` lets it enter again",
                left,
            )
        case NotLanded(checkpoint):
            return OffsetLocation(
                "not-landed",
                f"{tp} offset {offset} is not landed yet: the next offset to land is {checkpoint}",
            )
        case SkippedOffset(slot, hole):
            return OffsetLocation(
                "skipped",
                f"{tp} offset {offset} was skipped: {hole.reason}{_by(hole, shows_who=shows_who)}",
                slot,
            )
        case _:
            assert isinstance(state, Unknown | Committed)
            return OffsetLocation("unknown", f"{tp} is not in this group's ledger")


def _by(hole: RangeSkipped, *, shows_who: bool) -> str:
    """Return who decided on the HOLE; the spec's ``onDataLoss`` if it was no person."""
    decision = hole.decision
    if decision is None:
        return ""
    who = f" by {decision.who}" if shows_who else ""
    return f" ({decision.verb}{who}, {decision.requested})"


@dataclass(frozen=True)
class ObjectLookup:
    """The search for one offset among the objects of the slice that covers it.

    Attributes:
        opened: the group.
        now: the state of its ledger.
        committed: the slice that covers the offset, and what has changed since.
        tp: the topic partition.
        offset: in it.
        places: where the offset may be.
        lists: the applied REPLACEs that concern the offset.
        row: the row and the file of a feed's offset; else empty.
        restrictions: of the answer; None for none.
        reason_of: describes dead letters; None to leave their reasons out.
    """

    opened: OpenedGroup
    now: State
    committed: Committed
    tp: TopicPartition
    offset: int
    places: tuple[CandidateRows, ...]
    lists: Lists
    row: str = ""
    restrictions: Restrictions | None = None
    reason_of: ReasonOf | None = None

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
        unread: list[CandidateRows] = []
        limits = self.restrictions
        left_bytes = limits.read_bytes if limits else 0
        left_objects = limits.read_objects if limits else 0
        given_up = [o for o in candidates if o.key in self.committed.lost]
        for place in (candidate for candidate in candidates if candidate not in given_up):
            row = known_row(place)
            if row is None:
                size = place.landed.upload.size
                if limits and (size > left_bytes or not left_objects):
                    unread.append(place)
                    continue
                left_bytes -= size
                left_objects -= 1
                offsets = self._offsets(place)
                if None in offsets or (self.offset in offsets and not place.is_alone):
                    possible.append(place)
                    continue
                row = offsets.index(self.offset) if self.offset in offsets else None
                row = None if row is None else place.first_row + row
            if row is not None:
                return self._found(place, row)
        if possible or unread:
            return self._possible([*possible, *unread], given_up, has_unread=bool(unread))
        return self._given_up(given_up) if given_up else self._absent()

    @cached_property
    def landed_by(self) -> LandedBy:
        """The specs by which objects were made."""
        history = History(self.opened.lane, self.opened.store.stat)
        history.state = self.now  # it is asked for single slots only
        return LandedBy(history, lists=self.lists)

    def _slot(self, place: CandidateRows) -> int:
        """The slot by whose spec an object was made."""
        is_data = place.landed.kind is ObjectKind.DATA
        return self.landed_by.slot(place) if is_data else self.committed.slot

    def _spec(self, slot: int) -> GroupSpec | None:
        """The spec of a slot; None if an older release stored none."""
        try:
            return self.landed_by.spec(slot, self.tp.topic)
        except Stalled as stalled:
            if stalled.reason is not Reason.SPEC_INVALID:
                raise
            return None

    def _format(self, place: CandidateRows) -> Format:
        """The format of an object; dead letters have one of their own."""
        slot = self._slot(place)
        output = (self._spec(slot) or self.opened.specs.for_topic(self.tp.topic)).output
        plugins = plug_ins(self.opened.group.spec)
        why = "and the group's file does not name it"
        Allowed(plugins, self.landed_by.file(slot), why).check_format(output)
        return output_format(output)

    def _offsets(self, place: CandidateRows) -> list[int | None]:
        """The offsets of the rows of a place, as the object stores them.

        Raises:
            Stalled: OBJECT_LOST, the object is damaged.
        """
        rows = stored_rows(self.opened, self._format(place), place.landed)
        end = place.first_row + place.rows.rows
        try:
            return [known for known, _ in islice(rows, place.first_row, end)]
        except (ValueError, EOFError) as error:
            raise Stalled(Reason.OBJECT_LOST, f"{place.key}: damaged: {error}") from error

    def _key(self, place: CandidateRows) -> str:
        """The key of an object, as it may be shown."""
        if self.restrictions is None or place.landed.kind is not ObjectKind.DATA:
            return place.key
        spec = self._spec(self._slot(place))
        if spec and not parse_route(spec.route.pattern, spec.route.topic_path).fields:
            return place.key  # times name its folders
        return without_values(place.key)

    def _given_up(self, given_up: list[CandidateRows]) -> OffsetLocation:
        """The answer if an object that may hold the offset can never be recreated."""
        slot, key = self.committed.lost[given_up[0].key], self._key(given_up[0])
        may = "was" if len(given_up) == 1 else "may have been"
        message = (
            f"{self._subject} {may} in {key}, which the LOST in slot {slot} gave up: its upload "
            "was lost, and Kafka has the records no more"
        )
        return OffsetLocation("given-up", message, slot)

    def _found(self, place: CandidateRows, row: int) -> OffsetLocation:
        landed, slot = place.landed, place.slot
        is_data = landed.kind is ObjectKind.DATA
        fate, verb = ("landed", "was landed") if is_data else ("dead-lettered", "was dead-lettered")
        found = FoundObject(self.opened.url(self._key(place)), row + 1, landed.rows, certain=True)
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
        message = f"{self._subject} {verb} {how}"
        if self.reason_of and not is_data:
            spec = self._spec(slot) or self.opened.specs.for_topic(self.tp.topic)
            message += f": {self.reason_of(spec, place, row)}"
        return OffsetLocation(fate, message, slot, (found,))

    def _possible(
        self,
        possible: list[CandidateRows],
        given_up: list[CandidateRows],
        *,
        has_unread: bool,
    ) -> OffsetLocation:
        landed = self.committed.now
        is_left_out = (
            bool(given_up)
            or landed.filtered + landed.invisible
            or leaving_out(self.committed.replacements)
        )
        is_certain = len(possible) == 1 and not is_left_out
        listed = self.restrictions.listed_objects if self.restrictions else None
        found = tuple(
            FoundObject(self.opened.url(self._key(o)), None, o.landed.rows, is_certain)
            for o in possible[:listed]
        )
        where = "one of these objects" if len(possible) > 1 else "this object"
        perhaps = "" if is_certain else ", if it has a record at all"
        why = "not all were read" if has_unread else self._why_unknown(possible)
        message = f"{self._subject} is in {where}{perhaps}; {why}, so the row is unknown"
        if more := len(possible) - len(found):
            message += f"; {counted(more, 'more object')} may have it"
        own = {self.committed.slot, *(slot for slot, _ in self.committed.replays)}
        slot = max({place.slot for place in possible} - own, default=None)
        if slot is not None:
            message += f"; it replaced what the COMMIT landed, by the REPLACE in slot {slot}"
        for place in given_up[:listed]:
            lost = self.committed.lost[place.key]
            message += f"; or it was in {self._key(place)}, which the LOST in slot {lost} gave up"
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
            filtered = counted(landed.filtered, "record")
            invisible = counted(landed.invisible, "offset")
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


def without_values(key: str) -> str:
    """The key of a data object, without the values that name its folders."""
    destination, below = folders.split_destination(key)
    topic, *output_partition, name = below.split("/")
    above = destination.split("/") if destination else []
    hidden = [_without_value(folder) for folder in output_partition]
    return "/".join([*map(_without_value, above), topic, *hidden, name])


def _without_value(folder: str) -> str:
    name, is_named, _ = folder.partition("=")
    return f"{name}={HIDDEN}" if is_named else HIDDEN
