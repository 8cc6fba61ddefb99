"""``landfall locate``: from topic, Kafka partition and offset to the object and the row in it.

For a feed also from a file and a row; see ``locate_files``. For a keyed table also from a key; see
``locate_key``.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.checks.locate import find_offset
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.locate_files import FeedParts
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.landed.locating import FoundObject, OffsetLocation, is_changed_since, location_of
from landfall.lane import records_in_segments
from landfall.ledger.offsets import TopicPartition

if TYPE_CHECKING:
    from landfall.cli.objects.locate_key import KeyAnswer


def locate(arguments: argparse.Namespace) -> ExitCode:
    """Print the outcome of an offset; the exit code is FAULT if a committed record is lost.

    Raises:
        Stalled: SPEC_INVALID, an offset or a file is missing, or there is no such row or key.
    """
    opened = GroupStore.of(arguments.group)
    if arguments.key:
        return _locate_key(opened, arguments)
    if arguments.place is None:
        raise Stalled(Reason.SPEC_INVALID, "name a Kafka partition, a file of a feed, or --key")
    if arguments.offset is None:
        return _locate_file(opened, arguments)
    if not arguments.place.isdecimal():
        message = f"PARTITION must be a number, got {arguments.place!r}: a file has no offset"
        raise Stalled(Reason.SPEC_INVALID, message)
    tp = TopicPartition(arguments.topic, int(arguments.place))
    return _print(arguments, look_up(opened, tp, arguments.offset))


def _locate_key(opened: GroupStore, arguments: argparse.Namespace) -> ExitCode:
    """Print the newest row of a key in each keyed table, and where it is."""
    from landfall.cli.objects.locate_key import find_key  # noqa: PLC0415  # it imports Arrow

    if arguments.place is not None:
        message = f"--key names no Kafka partition and no file, got {arguments.place}"
        raise Stalled(Reason.SPEC_INVALID, message)
    answers = find_key(opened, arguments.topic, arguments.key, partial(look_up, opened))
    out = console.out()
    if arguments.json:
        shown = {"tables": [asdict(answer) for answer in answers]}
        out.print(msgspec.json.encode(shown).decode(), markup=False)
        return _worst(answers)
    for answer in answers:
        out.print(escape(answer.message))
        if answer.location:
            _show(answer.location)
    return _worst(answers)


def _worst(answers: "Sequence[KeyAnswer]") -> ExitCode:
    fates = {answer.location.fate for answer in answers if answer.location}
    return ExitCode.FAULT if "lost" in fates else ExitCode.OK


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
    if arguments.json:
        console.out().print(msgspec.json.encode(asdict(answer)).decode(), markup=False)
    else:
        _show(answer)
    return ExitCode.FAULT if answer.fate == "lost" else ExitCode.OK


def _show(answer: OffsetLocation) -> None:
    out = console.out()
    out.print(escape(answer.message))
    for object_ in answer.objects:
        out.print(escape(object_.url) + _row_text(object_))
    # The COMMIT names the schemas of a whole range, not of each record.
    one_of = "one of " if len(answer.schemas) > 1 else ""
    for url in answer.schemas:
        out.print(f"decoded with {one_of}{escape(url)}")


def _row_text(found: FoundObject) -> str:
    if found.row is None:
        return ""
    return f"  row {console.count(found.row)} of {console.count(found.rows)}"


def look_up(opened: GroupStore, tp: TopicPartition, offset: int) -> OffsetLocation:
    """Find an offset in the ledger, then read the objects that may hold it."""
    now = opened.lane.read()
    is_known = not is_changed_since(now, tp.topic)
    rolled = records_in_segments(opened.lane, tp, offset) if is_known else None
    outcome = find_offset(rolled or opened.records(), tp, offset)
    is_feed = tp.topic in {feed.topic for feed in opened.group.spec.source.files}
    row = FeedParts(opened, tp).describe(offset) if is_feed else ""
    return location_of(opened, now, outcome, tp, offset, row=row)
