"""``landfall fsck``: every invariant of ledger and objects, held against the real store.

First the ledger, slot by slot, then one listing of the store beside the names the ledger gave. A
driver may be landing
meanwhile: what looks like a stray is looked up in the slots that came since.
"""

import argparse
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.checks import Finding, Invariant, objects
from landfall.checks.chain import Chain
from landfall.checks.objects import Named
from landfall.cli import console
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.named_objects import NamedObjects
from landfall.errors import Reason, Stalled
from landfall.ledger import Commit, Record, Repair, Snapshot, State, object_names
from landfall.objects import ObjectStat

PIECE_BYTES = 2**20
SHOWN = 5
"""Findings shown of an invariant; the rest is counted."""


@dataclass
class Report:
    """What was looked at, and what was found."""

    chain: Chain
    findings: list[Finding] = field(default_factory=list)
    named: int = 0
    visible: int = 0
    foreign: int = 0
    waiting: int = 0
    orphans: int = 0
    has_objects: bool = False
    """Whether the objects were looked at: behind a broken slot nobody knows what should be there.
    """

    def of(self, invariant: Invariant) -> list[Finding]:
        """What was found of one invariant."""
        return [finding for finding in self.findings if finding.invariant is invariant]


def fsck(arguments: argparse.Namespace) -> ExitCode:
    """The command."""
    report = examine(GroupStore.of(arguments.group), deep=arguments.deep)
    _show(report, deep=arguments.deep)
    return ExitCode.FAULT if report.findings else ExitCode.OK


def examine(opened: GroupStore, *, deep: bool) -> Report:
    """Look at everything."""
    report, names = Report(Chain(opened.name)), NamedObjects()
    try:
        report.findings += _follow(opened, report.chain, names)
        end = report.chain.end(_hint(opened))
        if end and not report.findings:
            report.findings.append(end)
        if not report.findings:
            _Objects(opened, report, names, deep).compare()
    finally:
        names.close()
    return report


def _follow(opened: GroupStore, chain: Chain, names: NamedObjects) -> Iterator[Finding]:
    """Go over all slots from where the chain stands; ends at the first broken one."""
    try:
        for _, body in opened.lane.bodies(chain.state.seq + 1):
            before = chain.state
            record = chain.take(body)
            if isinstance(record, Finding):
                yield record
                return
            yield from _noted(opened, chain, names, before, record)
    except Stalled as gap:
        if gap.reason is not Reason.LEDGER_BROKEN:
            raise
        yield Finding(Invariant.I1, "the next slot", str(gap), slot=chain.state.seq + 1)


def _noted(
    opened: GroupStore, chain: Chain, names: NamedObjects, before: State, record: Record
) -> Iterator[Finding]:
    match record:
        case Commit():
            for landed in (o for s in record.slices for o in s.objects):
                if (slot := names.add(record.header.seq, landed)) is not None:
                    got, key = f"slot {slot} named it before", landed.upload.key
                    yield Finding(Invariant.I4, "a key of its own", got, record.header.seq, key=key)
        case Repair():
            for landed in record.objects:
                names.repair(landed)
        case Snapshot():
            finding = chain.snapshot(before, record, opened.store.read(record.key))
            if finding:
                yield finding
        case _:
            pass


def _hint(opened: GroupStore) -> int:
    """The slot that the head names; it may be stale, but what it names was there."""
    try:
        return int(
            json.loads(opened.store.read(object_names.head_key(opened.name, LANE)) or b"{}")["seq"]
        )
    except (ValueError, KeyError, TypeError):
        return -1


@dataclass
class _Objects:
    """One pass over everything visible, beside the names that the ledger gave."""

    opened: GroupStore
    report: Report
    names: NamedObjects
    deep: bool
    strays: dict[str, ObjectStat] = field(default_factory=dict)

    def compare(self) -> None:
        """Fill the report."""
        self.report.has_objects, self.report.named = True, len(self.names)
        self.report.findings += [
            finding for finding in map_concurrently(self._judge, self._pairs()) if finding
        ]
        self._uploads()
        self._strays()

    def _pairs(self) -> Iterator[tuple[Named, ObjectStat | None]]:
        for named, stat in objects.merge_by_key(self._named(), self._visible()):
            if named:
                yield named, stat
            elif stat:
                self.strays[stat.key] = stat

    def _named(self) -> Iterator[Named]:
        return self.names.in_order(self.report.chain.state.applied_through)

    def _visible(self) -> Iterator[ObjectStat]:
        for stat in self.opened.store.list_after(""):
            if objects.is_ours(stat.key, self.opened.name):
                self.report.visible += 1
                yield stat
            elif not stat.key.startswith(f"{object_names.SYSTEM}/"):
                self.report.foreign += 1

    def _judge(self, pair: tuple[Named, ObjectStat | None]) -> Finding | None:
        named, stat = pair
        # One that was not listed may have become visible after the listing went by.
        if stat is None or self.deep or not objects.is_proven(named.landed.upload, stat.etag):
            stat = self.opened.store.stat(named.key)
        finding = objects.judge(named, stat)
        return self._judge_bytes(named) if self.deep and stat and not finding else finding

    def _judge_bytes(self, named: Named) -> Finding | None:
        crc = 0
        with self.opened.store.open(named.key) as stream:
            while piece := stream.read(PIECE_BYTES):
                crc = zlib.crc32(piece, crc)
        return objects.judge_bytes(named, crc)

    def _uploads(self) -> None:
        decided = {n.landed.upload.upload_id for n in self._named() if not n.applied}
        for upload in self.opened.store.open_uploads(""):
            if upload.upload_id in decided:
                self.report.waiting += 1
            else:
                self.report.orphans += 1

    def _strays(self) -> None:
        """What was named while the listing went by is none."""
        since = NamedObjects()
        try:
            if self.strays:
                self.report.findings += _follow(self.opened, self.report.chain, since)
            for named in since.in_order(-1):
                self.strays.pop(named.key, None)
        finally:
            since.close()
        self.report.findings += [objects.stray(stat) for stat in self.strays.values()]


def _show(report: Report, *, deep: bool) -> None:
    out, chain = console.out(), report.chain
    looked = {
        Invariant.I1: f"{console.count(chain.slots)} slots, {console.count(chain.snapshots)} snapshots",
        Invariant.I2: f"{console.count(chain.slices)} ranges of {len(chain.state.members)} topic partitions",
        Invariant.I3: f"{console.count(report.visible)} visible objects",
        Invariant.I4: f"{console.count(report.named)} keys",
        Invariant.I5: f"{console.count(report.named)} objects by {'checksum' if deep else 'size and ETag or token'}",
        Invariant.I6: f"COMMITs up to slot {chain.state.applied_through}",
        Invariant.I7: f"{chain.state.epoch} epochs",
        Invariant.I8: f"{console.count(chain.commits)} COMMITs",
    }
    for invariant in Invariant:
        found = report.of(invariant)
        unseen = not report.has_objects and invariant in {Invariant.I3, Invariant.I5, Invariant.I6}
        verdict = (
            "[red]BROKEN[/red]"
            if found
            else "[yellow]?[/yellow]     "
            if unseen
            else "[green]ok[/green]    "
        )
        what = (
            "not looked at, because the ledger is broken"
            if unseen and not found
            else looked[invariant]
        )
        out.print(f"{invariant.name}  {verdict}  {invariant.value}: {what}")
        for finding in found[:SHOWN]:
            out.print(f"            {escape(str(finding))}")
        if len(found) > SHOWN:
            out.print(f"            and {console.count(len(found) - SHOWN)} more")
    out.print(_aside(report))


def _aside(report: Report) -> str:
    return (
        f"{console.count(report.waiting)} decided uploads wait for completion, "
        f"{console.count(report.orphans)} open uploads belong to no COMMIT, "
        f"{console.count(report.foreign)} objects are not Landfall's"
    )
