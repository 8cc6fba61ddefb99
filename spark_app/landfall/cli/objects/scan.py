"""``landfall scan``: reads landed objects and names those that are wrong by today's spec."""

import argparse
from dataclasses import asdict, dataclass, field
from itertools import chain

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.objects.scan_objects import InScope, Window, objects_in_scope, replaced_lists
from landfall.cli.objects.scan_reading import Backup, Scanner
from landfall.cli.text import console
from landfall.cli.text.meter import advancing
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.task_results import ObjectKind
from landfall.task.rescanning import Wrong


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
        found = Backup(GroupStore.of(arguments.backup), opened).compared(found)
    result = ScanResult(unconfirmed=_unconfirmed(opened.name, state, arguments.topic))
    with advancing("scan", "ledger slots", max(state.applied_through, 0)) as progress:
        for each in progress.over(found, position=lambda each: each.scope.slot):
            result.objects += 1
            result.rows += each.scope.landed.rows
            result.parsed += each.is_parsed_only
            if each.wrong:
                result.wrong.append(WrongObject(each.scope, each.wrong))
                if not arguments.json:
                    _show(result.wrong[-1])
    _print_end(arguments, result)
    if result.wrong:
        return ExitCode.FAULT
    return ExitCode.OK if result.objects else ExitCode.NOTHING


def _unconfirmed(group: str, state: State, topic: str) -> int:
    """The rows of a topic that are committed, and not known to be visible by a look, either."""
    slots = (slot for slot in state.unapplied if slot > state.applied_through)
    objects = chain.from_iterable(state.unapplied[slot] for slot in slots)
    own = (o for o in objects if object_names.origin(group, o.upload.key).topic == topic)
    return sum(landed.rows for landed in own if landed.kind is ObjectKind.DATA)


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
        count = sum(each.wrong.rows for each in result.wrong)
        are = f"{console.counted(len(result.wrong), 'object')} with {console.count(count)} wrong"
        out.print(f"{scanned}: [red]{are}[/red]")
    else:
        out.print(f"{scanned}: [green]nothing is wrong[/green]")


def _as_json(topic: str, result: ScanResult) -> dict[str, object]:
    return {
        "topic": topic,
        "scanned": {"objects": result.objects, "rows": result.rows, "onlyParsed": result.parsed},
        "unconfirmedRows": result.unconfirmed,
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
        # Rows count from 1, as in all commands; -1 where none is wrong alone.
        "wrong": {**asdict(wrong), "row": wrong.row + 1 if wrong.row >= 0 else -1},
    }
