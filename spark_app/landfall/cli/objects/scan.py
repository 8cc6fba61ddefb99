"""``landfall scan``: reads landed objects and names those with errors by today's spec."""

import argparse
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby

import msgspec
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import GroupSpec
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.objects.scan_objects import (
    InScope,
    Window,
    objects_in_scope,
    replaced_lists,
)
from landfall.cli.text import console
from landfall.cli.text.meter import advancing
from landfall.errors import Reason, Stalled
from landfall.formats import Row
from landfall.landed.history import History
from landfall.landed.reader import LandedReader
from landfall.landed.specs import LandedBy, Lists
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.pipeline.records import Records
from landfall.registry import Allowed, output_format, plug_ins
from landfall.source import EndsEarly
from landfall.task.partitioning import PartitionedChunk, Partitioners
from landfall.task.redecoding import RowsOfFolder, rows_today
from landfall.task.rescanning import ScannedObject, Wrong, can_be_decoded, wrong_rows


@dataclass(frozen=True, slots=True)
class WrongObject:
    """An object with errors: its record in the ledger, and its wrong rows."""

    scope: InScope
    wrong: Wrong


@dataclass
class ScanResult:
    """The objects that were read, and their errors.

    Attributes:
        objects: how many objects were read.
        rows: how many rows they have by the ledger.
        parsed: objects whose rows were only parsed, because they are not payloads.
        wrong: objects with errors, in the order of the ledger.
        unconfirmed: rows of the topic that are committed, but not visible yet, and not scanned.
    """

    objects: int = 0
    rows: int = 0
    parsed: int = 0
    wrong: list[WrongObject] = field(default_factory=list)
    unconfirmed: int = 0


def scan(arguments: argparse.Namespace) -> ExitCode:
    """Scan objects and print those that are wrong; the exit code is FAULT if there are any.

    Raises:
        Stalled: SPEC_INVALID, the spec is not usable; LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    opened = GroupStore.of(arguments.group)
    state = opened.seen_state()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    known = {tp.topic for tp in (*state.members, *state.retired)}
    console.require_topics(opened.name, [arguments.topic], known)
    window = Window(
        arguments.topic, arguments.start, arguments.until, arguments.output_partition.strip("/")
    )
    lists = replaced_lists(opened, state)
    scanner = Scanner(opened, lists, arguments.plugin)
    found = map_concurrently(scanner.examine, objects_in_scope(opened, state, window, lists))
    if arguments.backup:
        found = PayloadBackup(GroupStore.of(arguments.backup), opened).compared(found)
    result = ScanResult(unconfirmed=_unconfirmed(opened.name, state, arguments.topic))
    with advancing("scan", "ledger slots", max(state.applied_through, 0)) as progress:
        for outcome in progress.over(found, position=lambda each: each.scope.slot):
            result.objects += 1
            result.rows += outcome.scope.landed.rows
            result.parsed += outcome.is_parsed_only
            if outcome.wrong:
                result.wrong.append(WrongObject(outcome.scope, outcome.wrong))
                if not arguments.json:
                    _show(result.wrong[-1])
    _print_end(arguments, result)
    if result.wrong:
        return ExitCode.FAULT
    return ExitCode.OK if result.objects else ExitCode.NOTHING


def _unconfirmed(group: str, state: State, topic: str) -> int:
    """The rows of a topic that are committed, and not found visible by a look, either."""
    slots = (slot for slot in state.unapplied if slot > state.applied_through)
    objects = chain.from_iterable(state.unapplied[slot] for slot in slots)
    own = (o for o in objects if object_names.origin(group, o.upload.key).topic == topic)
    return sum(landed.rows for landed in own if landed.kind is ObjectKind.DATA)


# ------------------------------------------------------------------------------------------- output


def _show(found: WrongObject) -> None:
    console.out().print(
        f"[red]{escape(found.scope.key)}[/red]  slot {found.scope.slot}  {escape(_what(found))}",
        soft_wrap=True,
    )


def _what(found: WrongObject) -> str:
    scope, wrong = found.scope, found.wrong
    if wrong.row < 0:
        return wrong.why
    rows = f"{console.count(wrong.rows)} of {console.counted(scope.landed.rows, 'row')}"
    tp = f"{scope.origin.topic}/{scope.origin.partition}"
    where = f"{tp} offset {wrong.offset}" if wrong.offset >= 0 else f"row {wrong.row + 1}"
    return f"{rows}, the first is {where}: it {wrong.why}"


def _print_end(arguments: argparse.Namespace, result: ScanResult) -> None:
    out = console.out()
    if arguments.json:
        out.print(msgspec.json.encode(_as_json(arguments.topic, result)).decode(), markup=False)
        return
    rows = console.counted(result.rows, "row")
    scanned = f"scanned {console.counted(result.objects, 'object')} with {rows}"
    if result.parsed:
        are = console.counted(result.parsed, "object")
        scanned += f"; {are} only parsed, for their rows do not hold what today's spec reads"
    if result.unconfirmed:
        left = console.counted(result.unconfirmed, "row is", "rows are")
        scanned += f"; {left} committed and not visible yet"
    if not result.objects:
        out.print("[red]nothing was scanned: no object is in scope[/red]")
    elif result.wrong:
        count = sum(outcome.wrong.rows for outcome in result.wrong)
        are = f"{console.counted(len(result.wrong), 'object')} with {console.count(count)} wrong"
        out.print(f"{scanned}: [red]{are}[/red]")
    else:
        out.print(f"{scanned}: [green]nothing is wrong[/green]")


def _as_json(topic: str, result: ScanResult) -> dict[str, object]:
    return {
        "topic": topic,
        "scanned": {"objects": result.objects, "rows": result.rows, "onlyParsed": result.parsed},
        "unconfirmedRows": result.unconfirmed,
        "wrong": [_object(outcome) for outcome in result.wrong],
    }


def _object(found: WrongObject) -> dict[str, object]:
    scope, wrong = found.scope, found.wrong
    return {
        "key": scope.key,
        "slot": scope.slot,
        "committed": scope.time,
        "ranges": [
            {
                "partition": slice_.topic_partition.partition,
                "from": slice_.offsets.start,
                "until": slice_.offsets.end,
            }
            for slice_ in scope.ranges
        ],
        "rows": scope.landed.rows,
        # Rows count from 1, as in all commands; -1 where none is wrong alone.
        "wrong": {**asdict(wrong), "row": wrong.row + 1 if wrong.row >= 0 else -1},
    }


# Reads landed objects by the spec that landed them, and decodes their rows by today's.
#
# ``PayloadBackup`` compares them with today's decoding of the payloads in a backup.


@dataclass(frozen=True)
class Examined:
    """An object that was read.

    Attributes:
        scope: the object.
        made_by: the spec that landed it.
        is_parsed_only: its rows were not decoded, because they do not contain the input of today's
            spec.
        wrong: its errors.
    """

    scope: InScope
    made_by: GroupSpec
    is_parsed_only: bool
    wrong: Wrong | None


_REMEDY = (
    "and the group's file does not name it; if you trust it, name it on the command line, "
    "--plugin package.module:Name"
)


@dataclass
class Counted:
    """Counts rows that pass."""

    rows: int = 0

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows."""
        for row in rows:
            self.rows += 1
            yield row


class Scanner:
    """Reads objects by the spec that landed them, and decodes their rows by today's."""

    def __init__(self, opened: GroupStore, lists: Lists, plugins: Collection[str] = ()) -> None:
        """Read the ledger as far as it goes.

        Args:
            opened: the group.
            lists: all REPLACEs that are applied, with their lists, by slot.
            plugins: formats that may be imported, besides those that the group's file names.
        """
        self._plugins = plug_ins(opened.group.spec) | frozenset(plugins)
        self._opened = opened
        self._history = History(opened.lane, opened.store.stat)
        self._history.follow()
        self._landed_by = LandedBy(self._history, lists=lists)
        self._partitioners = Partitioners(opened.group.spec)
        self._lock = threading.Lock()

    def examine(self, scope: InScope) -> Examined:
        """The object, and its errors."""
        topic = scope.origin.topic
        with self._lock:  # neither specs nor stages are thread-safe
            slot = self._landed_by.slot(scope)
            made_by = self._made_by(slot, topic)
            allowed = Allowed(self._plugins, self._landed_by.file(slot), _REMEDY)
            allowed.check_format(made_by.output)
            today = self._opened.specs.for_topic(topic)
        is_parsed_only = not can_be_decoded(today, made_by)
        try:
            wrong = self._read(scope, made_by, is_parsed_only=is_parsed_only)
        except FileNotFoundError:
            wrong = Wrong(scope.landed.rows, -1, -1, "is not there")
        except (ValueError, EOFError, OSError) as error:
            wrong = Wrong(scope.landed.rows, -1, -1, f"cannot be read: {error}")
        return Examined(scope, made_by, is_parsed_only, wrong)

    def _made_by(self, slot: int, topic: str) -> GroupSpec:
        try:
            return self._landed_by.spec(slot, topic)
        except Stalled as stalled:
            if stalled.reason is not Reason.SPEC_INVALID:
                raise
            return self._opened.specs.for_topic(topic)  # an older release stored none

    def _read(self, scope: InScope, made_by: GroupSpec, *, is_parsed_only: bool) -> Wrong | None:
        format_, landed = output_format(made_by.output), scope.landed  # checked
        tp = TopicPartition(scope.origin.topic, scope.origin.partition)
        is_dense = landed.rows == landed.last_offset - landed.first_offset + 1
        what = ScannedObject(
            tp, scope.folder, landed.first_offset, is_dense and scope.origin.plan < 0
        )
        wrong, counted = None, Counted()
        with self._opened.store.open(landed.key) as stream:
            rows = counted.of(format_.rows(stream))
            if is_parsed_only:
                deque(rows, maxlen=0)
            else:
                wrong = wrong_rows(self._partition, what, rows)
        if counted.rows != landed.rows:
            why = f"has {counted.rows} rows, but the ledger records {landed.rows}"
            return Wrong(max(counted.rows, landed.rows), -1, -1, why)
        return wrong

    def _partition(self, records: Records) -> PartitionedChunk:
        with self._lock:
            topic = records.topic_partition.topic
            return self._partitioners.for_topic(topic).partition(records)


# ---------------------------------------------------------------------------------- with a backup


class PayloadBackup:
    """A group that holds payloads, by which objects of another group are checked."""

    def __init__(self, backup: GroupStore, opened: GroupStore) -> None:
        """Read nothing yet.

        Args:
            backup: the group with the payloads.
            opened: the group that is checked.
        """
        history = History(Lane(backup.store, backup.name, LANE), backup.store.stat)
        self._reader = LandedReader(backup.store, history)
        # Stages of its own: other threads use the objects' stages meanwhile.
        self._opened = opened
        self._partitioners = Partitioners(opened.group.spec)

    def compared(self, found: Iterable[Examined]) -> Iterator[Examined]:
        """The same objects; a difference is an error, unless they had one."""
        for (_, ranges), group in groupby(found, key=lambda e: (e.scope.slot, e.scope.ranges)):
            objects = list(group)
            if len(ranges) == 1 and all(map(self._is_comparable, objects)):
                yield from self._compared(ranges[0], objects)
            else:
                yield from objects

    def _is_comparable(self, each: Examined) -> bool:
        """Return whether its range is as in its COMMIT, and its format the one written today."""
        today = self._opened.specs.for_topic(each.scope.origin.topic)
        # Its format comes from a bucket: as today's format it is named in the group's file.
        return each.scope.is_whole and each.made_by.output.format == today.output.format

    def _compared(self, slice_: Slice, objects: Sequence[Examined]) -> Iterator[Examined]:
        tp = slice_.topic_partition
        # The backup has the last topic of this name, which may have been created again since.
        self._reader.topic_ids = {tp: objects[0].scope.topic_id}
        try:
            partitioner = self._partitioners.for_topic(tp.topic)
            today = rows_today(partitioner, tp, self._reader.read(slice_))
        except (Stalled, EndsEarly) as error:
            why = error.__cause__ or error
            console.err().print(f"landfall: {escape(f'{slice_} is not compared: {why}')}")
            yield from objects
            return
        for folder, group in groupby(objects, key=lambda each: each.scope.folder):
            in_folder = list(group)
            if any(outcome.wrong for outcome in in_folder):
                yield from in_folder  # an error in an object is independent of the next one
                continue
            yield from self._of_folder(today.get(folder, RowsOfFolder()), in_folder)

    def _of_folder(self, today: RowsOfFolder, objects: Sequence[Examined]) -> Iterator[Examined]:
        for number, outcome in enumerate(objects, 1):
            wrong = self._wrong(today, outcome.scope, outcome)
            if wrong is None and number == len(objects):
                wrong = today.left
            yield replace(outcome, is_parsed_only=False, wrong=wrong)

    def _wrong(self, today: RowsOfFolder, scope: InScope, each: Examined) -> Wrong | None:
        with self._opened.store.open(scope.key) as stream:
            return today.wrong_rows(output_format(each.made_by.output).rows(stream))
