"""``landfall locate``: from topic, Kafka partition and offset to the object and the row in it."""

import argparse
from dataclasses import asdict, dataclass

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.checks.locate import (
    BeforeStart,
    NotYet,
    Place,
    Read,
    Skipped,
    Unknown,
    place_of,
    row_of,
)
from landfall.cli import console, read_back
from landfall.cli.group_store import GroupStore
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.registry import output_format


@dataclass(frozen=True, slots=True)
class Found:
    """One object that holds the offset, or may hold it.

    Attributes:
        url: of the object.
        row: in it, counted from 1; None when only the object is known.
        rows: in the object.
        certain: whether it is this object, or one of several.
    """

    url: str
    row: int | None
    rows: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the offset, in one word and in a sentence, and where it is."""

    fate: str
    message: str
    slot: int | None = None
    objects: tuple[Found, ...] = ()


def locate(arguments: argparse.Namespace) -> ExitCode:
    """The command."""
    opened = GroupStore.of(arguments.group)
    answer = look_up(opened, TopicPartition(arguments.topic, arguments.partition), arguments.offset)
    out = console.out()
    if arguments.json:
        out.print(msgspec.json.encode(asdict(answer)).decode(), markup=False)
    else:
        out.print(escape(answer.message))
        for found in answer.objects:
            row = (
                ""
                if found.row is None
                else f"  row {console.count(found.row)} of {console.count(found.rows)}"
            )
            out.print(f"{escape(found.url)}{row}")
    return ExitCode.FAULT if answer.fate == "lost" else ExitCode.OK


def look_up(opened: GroupStore, tp: TopicPartition, offset: int) -> Answer:
    """Ask the ledger, then read what may hold the offset."""
    place = place_of(opened.records(), tp, offset)
    return (
        _read(opened, place, tp, offset) if isinstance(place, Read) else _unread(place, tp, offset)
    )


def _unread(place: Place, tp: TopicPartition, offset: int) -> Answer:
    match place:
        case BeforeStart(start):
            return Answer(
                "before-start",
                f"{tp} offset {offset} lies before the start: landing began at {start}",
            )
        case NotYet(checkpoint):
            return Answer(
                "not-landed",
                f"{tp} offset {offset} is not landed yet: the next to land is {checkpoint}",
            )
        case Skipped(slot, hole):
            return Answer(
                "skipped",
                f"{tp} offset {offset} was lost at the source and skipped: {hole.reason}",
                slot,
            )
        case _:
            assert isinstance(place, Unknown | Read)
            return Answer("unknown", f"{tp} is not known to this group")


def _read(opened: GroupStore, place: Read, tp: TopicPartition, offset: int) -> Answer:
    format_ = output_format(opened.group.spec.output)
    maybe: list[LandedObject] = []
    known_first = sorted(place.candidates(offset), key=lambda o: row_of(o, offset) is None)
    for landed in known_first:
        row = row_of(landed, offset)
        if row is None:
            seen = [known for known, _ in read_back.rows(opened, format_, landed)]
            if None in seen:
                maybe.append(landed)
                continue
            row = seen.index(offset) if offset in seen else None
        if row is not None:
            return _found(opened, place, landed, row, tp, offset)
    return _undecided(opened, place, maybe, tp, offset)


def _found(
    opened: GroupStore, place: Read, landed: LandedObject, row: int, tp: TopicPartition, offset: int
) -> Answer:
    is_data = landed.kind is ObjectKind.DATA
    fate, verb = ("landed", "landed") if is_data else ("dead-lettered", "was dead-lettered")
    found = Found(opened.url(landed.upload.key), row + 1, landed.rows, certain=True)
    return Answer(fate, f"{tp} offset {offset} {verb}, COMMIT {place.slot}", place.slot, (found,))


def _undecided(
    opened: GroupStore, place: Read, maybe: list[LandedObject], tp: TopicPartition, offset: int
) -> Answer:
    s, who = place.landed, f"{tp} offset {offset}"
    urls = [opened.url(o.upload.key) for o in maybe]
    if not maybe and s.filtered + s.invisible:
        of = f"of this range {s.filtered} records were left out by a transform and {s.invisible} offsets hold no record"
        return Answer("no-record", f"{who} has no record in any object: {of}", place.slot)
    if not maybe:
        return Answer(
            "lost",
            f"{who} was committed in slot {place.slot}, but no object holds it: run fsck",
            place.slot,
        )
    certain = len(maybe) == 1 and not s.filtered + s.invisible
    found = tuple(Found(url, None, o.rows, certain) for url, o in zip(urls, maybe, strict=True))
    where = (
        "is in this object" if certain else "is in one of these objects, if it has a record at all"
    )
    fate = "landed" if certain else "possibly-landed"
    return Answer(
        fate,
        f"{who} {where}; the format stores no offsets, so the row is not known",
        place.slot,
        found,
    )
