"""The ledger of two models of files: its records, folded by the product's own functions."""

from functools import cache
from typing import NamedTuple

from landfall import ledger
from landfall.discovery.file_rows import FeedRows
from landfall.ledger import Header, KnownFiles, PartList, Record, State, feeds
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, PartRows

TP = TopicPartition("files", 0)


class Version(NamedTuple):
    """A file as it was written once."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}{self.number}"


Versions = tuple[Version, ...]


class Slot(NamedTuple):
    """A record.

    Attributes:
        kind: its type.
        writer: the driver that wrote it.
        versions: what a DISCOVER lists, or what a COMMIT has landed.
        again: parked parts that a DISCOVER takes: with other numbers if it lists versions, else
            because the file has another version.
        known: what the files are that a DISCOVER names as known; None if it names none.
        ignored: parked parts that a decision gives up.
        end: where a RUN ends the feed.
    """

    kind: str
    writer: int
    versions: Versions = ()
    again: tuple[int, ...] = ()
    known: frozenset[Version] | None = None
    ignored: tuple[int, ...] = ()
    end: int = 0


@cache
def folded(slots: tuple[Slot, ...]) -> State:
    """The state after these slots.

    Raises:
        Stalled: the ledger refuses one of them.
    """
    if not slots:
        return State()
    slot, state = slots[-1], folded(slots[:-1])
    state = ledger.fold(state, ledger.encode(_record(state, slot)))
    if slot.kind == "OPEN" and not state.feeds:
        entries = (ledger.Entry(TP, "id", 0, feed=True),)
        add = ledger.Add(header=_header(state, slot.writer), entries=entries)
        state = ledger.fold(state, ledger.encode(add))
    return state


def _header(state: State, writer: int) -> Header:
    return ledger.next_header(state, f"D{writer}/{state.epoch}", "t", -1)


def _record(state: State, slot: Slot) -> Record:
    header, number = _header(state, slot.writer), next_number(state)
    match slot.kind:
        case "OPEN":
            epoch = state.epoch + 1
            header = Header(state.seq + 1, state.tip, epoch, f"D{slot.writer}/{epoch}", "t")
            return ledger.Open(header=header, group="g", lane="0", generation=1, software="0")
        case "COMMIT":
            offsets = feeds.part_offsets(number)
            piece, rest = Slice(TP, offsets), len(offsets) - 1
            counted = (PartRows(number, 0, 1, 0),)
            landed = LandedSlice(piece, (), 0, 1, 0, rest, 0, parts=counted)
            return ledger.Commit(header=header, token="t", slices=(landed,))
        case "HOLE":
            piece = Slice(TP, feeds.part_offsets(number))
            return ledger.Hole(header=header, piece=piece, reason="unreadable", attempt=1)
        case "SKIP":
            decision = ledger.Decision("skip", "kim", "unreadable", "t")
            piece = Slice(TP, feeds.part_offsets(number))
            return ledger.Hole(header=header, piece=piece, reason="", decision=decision)
        case "RUN":
            ended = (ledger.ClosedTopic(TP.topic, ((TP.partition, slot.end),), 1),)
            header = ledger.next_header(state, header.writer, "t", state.seq)
            return ledger.Run(header=header, until=1, began="t", topics=ended)
        case _:
            return _discover(state, header, slot)


def _discover(state: State, header: Header, slot: Slot) -> Record:
    first, count = state.feeds[TP].end, len(slot.versions)
    listed = PartList("list", "0" * 64, first, first + count, count, 0) if count else None
    known = slot.known is not None and KnownFiles("known", "0" * 64, first, len(slot.known))
    decision = ledger.Decision("files-ignore", "kim", "broken", "t")
    return ledger.Discover(
        header=header,
        topic_partition=TP,
        listed=listed,
        again=slot.again if count else (),
        replaced=() if count else slot.again,
        ignored=slot.ignored,
        known=known or None,
        decision=decision if slot.ignored else None,
    )


def next_number(state: State) -> int:
    """The number of the part that is landed next."""
    return feeds.number_of(state.checkpoint[TP]) if state.checkpoint.next_offsets else 0


@cache
def numbered(slots: tuple[Slot, ...]) -> Versions:
    """The version that each number was given to."""
    return tuple(version for slot in slots if slot.kind == "DISCOVER" for version in slot.versions)


@cache
def recorded(slots: tuple[Slot, ...]) -> frozenset[Version]:
    """The versions that the ledger knows: those of its last index, and all numbered after it."""
    known = frozenset[Version]()
    for slot in slots:
        known = known | {*slot.versions} if slot.kind == "DISCOVER" else known
        known = slot.known if slot.known is not None else known
    return known


@cache
def given_up(slots: tuple[Slot, ...]) -> frozenset[Version]:
    """The versions that somebody has given up, of those that the state remembers as given up."""
    decided = {number for slot in slots for number in slot.ignored}
    remembered = decided & folded(slots).feeds[TP].ignored.keys() if decided else set()
    return frozenset(numbered(slots)[number] for number in remembered)


def landed(slots: tuple[Slot, ...]) -> list[Version]:
    """The versions that COMMITs have landed, in order."""
    return [slot.versions[0] for slot in slots if slot.kind == "COMMIT"]


@cache
def counted(slots: tuple[Slot, ...], *, follows_numbers: bool) -> dict[Version, int | None]:
    """How many rows of each version the ledger counts, by the first number that it was given.

    Every version has one row. Without ``follows_numbers``, a part that is tried again is not known
    to be one that had a number before.
    """
    rows = FeedRows(TP, lambda _: parts)
    first = dict[Version, int]()
    for at, slot in enumerate(slots):
        former = slot.again[0] if slot.again and follows_numbers else -1
        parts = tuple(_part(version, former) for version in slot.versions)
        if slot.kind == "DISCOVER":
            start = len(numbered(slots[:at]))
            for number, version in enumerate(slot.versions, start):
                first.setdefault(version, number)
        if slot.kind in {"COMMIT", "DISCOVER"}:
            rows.take(_record(folded(slots[:at]), slot))
    found = {version: rows.of(number, number) for version, number in first.items()}
    return {version: None if each is None else each.filtered for version, each in found.items()}


def _part(version: Version, former: int) -> ListedPart:
    return ListedPart(version.name, str(version), 1, 0, 0, 1, former, int(former >= 0))
