"""``landfall scan``: reads landed objects and names those that are wrong by today's spec."""

import argparse
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.api.spec import GroupSpec
from landfall.cli import console
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.scan_objects import InScope, Window, objects_in_scope
from landfall.errors import Reason, Stalled
from landfall.formats import Row
from landfall.landed.history import History
from landfall.landed.specs import LandedBy
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records
from landfall.registry import output_format
from landfall.task.partitioning import PartitionedChunk, Partitioners
from landfall.task.rescanning import Landed, Wrong, can_be_decoded, wrong_rows


@dataclass(frozen=True, slots=True)
class WrongObject:
    """An object that is wrong: what the ledger says of it, and its wrong rows."""

    scope: InScope
    wrong: Wrong


@dataclass
class ScanResult:
    """What was read, and what is wrong.

    Attributes:
        objects: how many objects were read.
        rows: how many rows they have, as the ledger says.
        parsed: objects of which rows were only parsed, because they are not payloads.
        wrong: objects that are wrong, in the order of the ledger.
    """

    objects: int = 0
    rows: int = 0
    parsed: int = 0
    wrong: list[WrongObject] = field(default_factory=list)


def scan(arguments: argparse.Namespace) -> ExitCode:
    """Scan objects and print those that are wrong; the exit code is FAULT if there are any.

    Raises:
        Stalled: SPEC_INVALID, the spec is not usable; LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    opened = GroupStore.of(arguments.group)
    state = opened.lane.read()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    known = {tp.topic for tp in (*state.members, *state.retired)}
    console.require_topics(opened.name, [arguments.topic], known)
    window = Window(
        arguments.topic, arguments.start, arguments.until, arguments.output_partition.strip("/")
    )
    scanner = _Scanner(opened)
    result = ScanResult()
    found = map_concurrently(scanner.examine, objects_in_scope(opened, state, window))
    for scope, is_parsed_only, wrong in found:
        result.objects += 1
        result.rows += scope.landed.rows
        result.parsed += is_parsed_only
        if wrong:
            result.wrong.append(WrongObject(scope, wrong))
            if not arguments.json:
                _show(result.wrong[-1])
    _print_end(arguments, result)
    if result.wrong:
        return ExitCode.FAULT
    return ExitCode.OK if result.objects else ExitCode.NOTHING


@dataclass
class Counted:
    """Counts rows that pass."""

    rows: int = 0

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows."""
        for row in rows:
            self.rows += 1
            yield row


class _Scanner:
    """Reads objects by the spec that landed them, and decodes their rows by today's."""

    def __init__(self, opened: GroupStore) -> None:
        self._opened = opened
        self._history = History(opened.lane)
        self._history.follow()
        self._landed_by = LandedBy(self._history)
        self._partitioners = Partitioners(opened.group.spec)
        self._lock = threading.Lock()

    def examine(self, scope: InScope) -> tuple[InScope, bool, Wrong | None]:
        """The object, whether its rows were only parsed, and what is wrong with it."""
        topic = scope.origin.topic
        with self._lock:  # neither specs nor stages are for several threads
            made_by = self._made_by(scope.slot, topic)
            today = self._opened.specs.for_topic(topic)
        is_parsed_only = not can_be_decoded(today, made_by)
        try:
            wrong = self._read(scope, made_by, is_parsed_only=is_parsed_only)
        except FileNotFoundError:
            wrong = Wrong(scope.landed.rows, -1, -1, "is not there")
        except (ValueError, EOFError, OSError) as error:
            wrong = Wrong(scope.landed.rows, -1, -1, f"cannot be read: {error}")
        return scope, is_parsed_only, wrong

    def _made_by(self, slot: int, topic: str) -> GroupSpec:
        try:
            return self._landed_by.spec(slot, topic)
        except Stalled as stalled:
            if stalled.reason is not Reason.SPEC_INVALID:
                raise
            return self._opened.specs.for_topic(topic)  # an older release stored none

    def _read(self, scope: InScope, made_by: GroupSpec, *, is_parsed_only: bool) -> Wrong | None:
        format_, landed = output_format(made_by.output), scope.landed
        tp = TopicPartition(scope.origin.topic, scope.origin.partition)
        is_dense = landed.rows == landed.last_offset - landed.first_offset + 1
        what = Landed(tp, scope.folder, landed.first_offset, is_dense and scope.origin.plan < 0)
        wrong, counted = None, Counted()
        with self._opened.store.open(landed.upload.key) as stream:
            rows = counted.of(format_.rows(stream))
            if is_parsed_only:
                deque(rows, maxlen=0)
            else:
                wrong = wrong_rows(self._partition, what, rows)
        if counted.rows != landed.rows:
            why = f"has {counted.rows} rows, but the ledger says {landed.rows}"
            return Wrong(max(counted.rows, landed.rows), -1, -1, why)
        return wrong

    def _partition(self, records: Records) -> PartitionedChunk:
        with self._lock:
            topic = records.topic_partition.topic
            return self._partitioners.for_topic(topic).partition(records)


# ------------------------------------------------------------------------------------------- output


def _show(found: WrongObject) -> None:
    console.out().print(
        f"[red]{escape(found.scope.landed.upload.key)}[/red]  slot {found.scope.slot}  "
        f"{escape(_what(found))}",
        soft_wrap=True,
    )


def _what(found: WrongObject) -> str:
    scope, wrong = found.scope, found.wrong
    if wrong.row < 0:
        return wrong.why
    rows = f"{console.count(wrong.rows)} of {console.counted(scope.landed.rows, 'row')}"
    tp = f"{scope.origin.topic}/{scope.origin.partition}"
    where = f"{tp} offset {wrong.offset}" if wrong.offset >= 0 else f"row {wrong.row}"
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
    if not result.objects:
        out.print("[red]nothing was scanned: no object is in scope[/red]")
    elif result.wrong:
        count = sum(each.wrong.rows for each in result.wrong)
        are = f"{console.counted(len(result.wrong), 'object')} with {console.count(count)} wrong"
        out.print(f"{scanned}: [red]{are}[/red]")
    else:
        out.print(f"{scanned}: [green]nothing is wrong[/green]")


def _as_json(topic: str, result: ScanResult) -> dict[str, object]:
    return {
        "topic": topic,
        "scanned": {"objects": result.objects, "rows": result.rows, "onlyParsed": result.parsed},
        "wrong": [_object(each) for each in result.wrong],
    }


def _object(found: WrongObject) -> dict[str, object]:
    scope, wrong = found.scope, found.wrong
    return {
        "key": scope.landed.upload.key,
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
        "wrong": asdict(wrong),
    }
