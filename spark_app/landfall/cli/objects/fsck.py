"""``landfall fsck``: checks every invariant of ledger and objects against the store itself.

The ledger is followed first, slot by slot. Then the store is listed once, in parallel with the
objects that the ledger names. A driver may be landing meanwhile: an object that no record names is
looked up in the slots written since, before it is reported.
"""

import argparse
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.checks import Finding, Invariant, load_records, objects
from landfall.checks.chain import Chain
from landfall.checks.objects import NamedObject
from landfall.checks.replacements import check_replace, check_stayed
from landfall.checks.stored import (
    check_ids,
    check_list,
    check_stored,
    listed_schemas,
    listed_specs,
    named_schemas,
    named_specs,
)
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.objects.named_objects import NamedObjects
from landfall.cli.text import console
from landfall.cli.text.meter import Progress, advancing, silent
from landfall.discovery import stored
from landfall.discovery.index import read_manifest
from landfall.errors import Reason, Stalled
from landfall.lane.expired_letters import read_expired
from landfall.lane.replacements import read_replaced
from landfall.ledger import (
    Commit,
    Discover,
    Drop,
    FeedState,
    Lost,
    Record,
    Repair,
    Replace,
    Replacement,
    Replay,
    Snapshot,
    State,
)
from landfall.ledger.names import object_names
from landfall.ledger.names.schema_ids import schema_of_id
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import ObjectStat, is_proven
from landfall.publish.cursor import published_prefix
from landfall.store import Slots
from landfall.untrusted_json import parse_document

READ_BYTES = 2**20
WITHOUT_ANCHOR = (
    "without --anchor, a ledger that was rewritten as a whole, together with its objects, "
    "passes this check"
)
"""The chain of hashes has no key: a writer of the whole ledger can replace it."""
MAX_FINDINGS = 5
"""How many findings of an invariant are printed; more are only counted."""
_OBJECT_INVARIANTS = {Invariant.I3, Invariant.I5, Invariant.I6}


@dataclass
class FsckReport:
    """The checks done, and their findings.

    Attributes:
        chain: the ledger as far as it is sound, with counts of the checked items.
        findings: every violation.
        named: objects that the ledger names.
        visible: visible objects of this group.
        foreign: visible objects that do not belong to Landfall.
        markers: visible objects that readers of directories skip, such as ``_SUCCESS``.
        waiting: open uploads of a COMMIT or REPAIR that are not completed yet.
        orphans: open uploads that no COMMIT names.
        schemas: stored schemas that the ledger names, by their SHA-256, with the first such slot.
        specs: likewise, stored specs.
        discovered: records that name lists of files.
        load_records: records of publishers' loads that were read.
        expired: dead letters that are deleted, by ``badRecords.retain``.
        has_objects: whether the objects were checked. They are not if the ledger is broken: after a
            broken slot it is unknown which objects should exist.
    """

    chain: Chain
    findings: list[Finding] = field(default_factory=list)
    named: int = 0
    visible: int = 0
    foreign: int = 0
    markers: int = 0
    waiting: int = 0
    orphans: int = 0
    schemas: dict[str, int] = field(default_factory=dict)
    specs: dict[str, int] = field(default_factory=dict)
    discovered: list[Discover] = field(default_factory=list)
    load_records: int = 0
    expired: int = 0
    has_objects: bool = False

    def of(self, invariant: Invariant) -> list[Finding]:
        """The violations of one invariant."""
        return [finding for finding in self.findings if finding.invariant is invariant]


@dataclass(frozen=True)
class LedgerNames:
    """Names in a ledger: objects, and by SHA-256 schemas and specs with the first slot."""

    objects: NamedObjects
    schemas: dict[str, int]
    specs: dict[str, int]


def fsck(arguments: argparse.Namespace) -> ExitCode:
    """Check a group and print a line per invariant; the exit code is FAULT if one is violated."""
    opened = GroupStore.of(arguments.group)
    anchors = {anchor.position.slot: anchor.sha256 for anchor in arguments.anchor}
    with advancing("fsck", "ledger slots") as progress:
        report = examine(opened, deep=arguments.deep, anchors=anchors, progress=progress)
    if not report.chain.slots and not report.findings:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    if arguments.json:
        console.print_json(_as_json(report))
    else:
        _show(report, deep=arguments.deep)
    return ExitCode.FAULT if report.findings else ExitCode.OK


def examine(
    opened: GroupStore,
    *,
    deep: bool,
    anchors: Mapping[int, str] | None = None,
    progress: Progress | None = None,
) -> FsckReport:
    """Check the ledger and, if it is sound, the objects.

    Args:
        opened: the group.
        deep: whether the bytes of each object are read.
        anchors: the hashes that slots must have, by their number.
        progress: is called with the number of slots, then of objects, that are checked.
    """
    progress = progress or silent("fsck", "ledger slots")
    report, names = FsckReport(Chain(opened.name, anchors or {})), NamedObjects()
    try:
        report.findings += _check_slots(opened, report, names, progress)
        report.findings += _check_schemas(opened, report.schemas)
        report.findings += _check_specs(opened, report.specs)
        report.findings += check_lists(opened.store, report.discovered)
        report.findings += check_indexes(opened.store, report.chain.state.feeds)
        truncated = report.chain.check_end(_head_slot(opened))
        if truncated and not report.findings:
            report.findings.append(truncated)
        if not report.findings:
            _ObjectCheck(
                opened=opened, report=report, names=names, deep=deep, progress=progress
            ).run()
        loads = check_load_records(opened, deep=deep)
        report.load_records = loads.read
        report.findings += loads.findings
    finally:
        names.close()
    return report


def _check_slots(
    opened: GroupStore, report: FsckReport, names: NamedObjects, progress: Progress
) -> Iterator[Finding]:
    """Follow the ledger from the slot after the chain's last one; end at the first broken slot."""
    chain = report.chain
    try:
        for _, body in opened.lane.bodies(chain.state):
            before = chain.state
            progress(chain.slots)
            record = chain.append(body)
            if isinstance(record, Finding):
                yield record
                return
            for name in named_schemas(record):
                report.schemas.setdefault(name, record.header.seq)
            if isinstance(record, Discover):
                report.discovered.append(record)
            for name in named_specs(record):
                report.specs.setdefault(name, record.header.seq)
            named = LedgerNames(names, report.schemas, report.specs)
            yield from _check_record(
                opened=opened, chain=chain, named=named, before=before, record=record
            )
    except Stalled as gap:
        if gap.reason is not Reason.LEDGER_BROKEN:
            raise
        yield Finding(Invariant.I1, "the next slot", str(gap), slot=chain.state.seq + 1)


def _check_record(
    opened: GroupStore, chain: Chain, named: LedgerNames, before: State, record: Record
) -> Iterator[Finding]:
    """Collect the objects that a record names, and check what needs the store or earlier slots."""
    names = named.objects
    match record:
        case Commit() | Replay():
            yield from _check_replay(names, record)
            yield from _name_objects(names, record)
        case Lost() | Drop():
            # Objects missing from topic partitions that leave are lost with them.
            lost = record.objects if isinstance(record, Lost) else ()
            gone = _keys(before.missing) - _keys(chain.state.missing)
            for key in gone.union(o.upload.key for o in lost):
                names.give_up(key)
        case Repair():
            for landed in record.objects:
                names.repair(landed)
        case Replace():
            yield from check_replaced(
                slots=opened.store, group=opened.name, named=named, before=before, record=record
            )
        case Snapshot():
            stored = opened.store.read(record.key)
            yield from filter(None, (chain.check_snapshot(before, record, stored),))
        case _:
            pass


def _check_schemas(opened: GroupStore, named: Mapping[str, int]) -> Iterator[Finding]:
    """Read every stored schema that the ledger names, and every id that names one."""
    store = opened.store
    for name, slot in sorted(named.items()):
        key = object_names.schema_key(opened.name, LANE, name)
        found = check_stored(
            invariant=Invariant.I9, name=name, slot=slot, key=key, stored=store.read(key)
        )
        yield from filter(None, (found,))
    prefix = object_names.schemas_prefix(opened.name, LANE)
    keys = [stat.key for stat in store.list_after(prefix)]
    ids = {key: schema_of_id(store.read(key)) for key in keys if "/" in key.removeprefix(prefix)}
    stored = {key.removeprefix(prefix).removesuffix(".json") for key in keys if key not in ids}
    # One stored during the listing may be missing in it.
    late = {name for name in ids.values() if name and name not in stored}
    stored |= {name for name in late if store.read(f"{prefix}{name}.json") is not None}
    yield from check_ids(ids, stored)


def _check_specs(opened: GroupStore, named: Mapping[str, int]) -> Iterator[Finding]:
    """Read every stored spec that the ledger names."""
    for name, slot in sorted(named.items()):
        key = object_names.spec_key(opened.name, LANE, name)
        found = check_stored(
            invariant=Invariant.I10, name=name, slot=slot, key=key, stored=opened.store.read(key)
        )
        yield from filter(None, (found,))


def _due(state: State) -> frozenset[str]:
    """Keys of decided objects that need not be visible yet."""
    return _keys(state.unapplied) | _keys(state.missing)


def _keys(objects_by_slot: Mapping[int, tuple[LandedObject, ...]]) -> frozenset[str]:
    return frozenset(o.upload.key for objects in objects_by_slot.values() for o in objects)


def _name_objects(names: NamedObjects, record: Commit | Replay) -> Iterator[Finding]:
    for landed in (o for s in record.slices for o in s.objects):
        earlier = names.add(record.header.seq, landed)
        if earlier is not None:
            yield Finding(
                Invariant.I4,
                "a key that no other COMMIT names",
                f"slot {earlier} names it already",
                record.header.seq,
                key=landed.key,
            )


def _check_replay(names: NamedObjects, record: Commit | Replay) -> Iterator[Finding]:
    """Check that the dead letters that a REPLAY read are those that an earlier record named."""
    for s in record.slices if isinstance(record, Replay) else ():
        named = names.find(s.dead_letters)
        rows = named.rows if named and named.kind is ObjectKind.DEAD_LETTERS else 0
        if rows != s.rows:
            got = f"{rows} rows" if named else "no such object"
            yield Finding(
                invariant=Invariant.I8,
                expected=f"dead letters of {s.rows} rows, which the REPLAY read",
                got=got,
                slot=record.header.seq,
                topic_partition=s.piece.topic_partition,
                offsets=s.piece.offsets,
                key=s.dead_letters,
            )


def _head_slot(opened: GroupStore) -> int:
    """The slot that the head names, or -1; the head may be stale, but that slot once existed."""
    try:
        head = opened.store.read(object_names.head_key(opened.name, LANE))
        return int(parse_document(head)["seq"])
    except (ValueError, KeyError, TypeError):
        return -1


@dataclass
class _ObjectCheck:
    """One listing of all visible objects, compared with the objects that the ledger names."""

    opened: GroupStore
    report: FsckReport
    names: NamedObjects
    deep: bool
    progress: Progress
    unnamed: dict[str, ObjectStat] = field(default_factory=dict)
    expired_through: int = -1

    def run(self) -> None:
        """Add what is found to the report."""
        self.report.has_objects, self.report.named = True, len(self.names)
        self._look_what_expired()
        self.progress.begin("objects", self.report.named)
        found = map_concurrently(self._check, self._pairs(), self.opened.new_pool)
        self.report.findings += [
            finding for finding in found if finding and not self._is_expired(finding)
        ]
        if self.report.of(Invariant.I6):
            # Some dead letters may have expired since; a record is written before they are deleted.
            self._look_what_expired()
            findings = self.report.findings
            self.report.findings = [
                finding for finding in findings if not self._is_expired(finding)
            ]
        self._count_uploads()
        self._look_at_later_slots()

    def _look_what_expired(self) -> None:
        expired = read_expired(self.opened.store, self.opened.name, LANE)
        self.expired_through = expired.through

    def _is_expired(self, finding: Finding) -> bool:
        """Return whether it is about dead letters that are missing because they have expired."""
        if finding.invariant is not Invariant.I6 or finding.slot is None or not finding.key:
            return False
        named = self.names.find(finding.key)
        is_expired = (
            finding.slot <= self.expired_through
            and named is not None
            and named.kind is ObjectKind.DEAD_LETTERS
        )
        self.report.expired += is_expired
        return is_expired

    def _pairs(self) -> Iterator[tuple[NamedObject, ObjectStat | None]]:
        checked = 0
        for named, stat in objects.merge_by_key(self._named(), self._visible()):
            if named:
                self.progress(checked := checked + 1)
                yield named, stat
            elif stat:
                self.unnamed[stat.key] = stat

    def _named(self) -> Iterator[NamedObject]:
        state = self.report.chain.state
        return self.names.in_order(_due(state), state.replacing, state.retiring)

    def _visible(self) -> Iterator[ObjectStat]:
        for stat in self.opened.store.list_after(""):
            if objects.is_landfall_object(stat.key, self.opened.name):
                self.report.visible += 1
                yield stat
            elif object_names.is_system_key(stat.key):
                pass
            elif stat.key.rpartition("/")[2].startswith(("_", ".")):
                self.report.markers += 1
            else:
                self.report.foreign += 1

    def _check(self, pair: tuple[NamedObject, ObjectStat | None]) -> Finding | None:
        named, stat = pair
        # An object that was not listed may have become visible after the listing passed its key,
        # and a listing carries no token: both need a request for the object itself.
        if stat is None or self.deep or not is_proven(named.landed.upload, stat.etag):
            stat = self.opened.store.stat(named.key)
        finding = objects.check_object(named, stat) or check_stayed(
            self.opened.name, self.report.chain.state, named
        )
        return self._check_bytes(named) if self.deep and stat and not finding else finding

    def _check_bytes(self, named: NamedObject) -> Finding | None:
        crc = 0
        try:
            with self.opened.store.open(named.key) as stream:
                while chunk := stream.read(READ_BYTES):
                    crc = zlib.crc32(chunk, crc)
        except FileNotFoundError:  # it was replaced or expired since, or is lost
            return objects.check_object(named, None)
        return objects.check_bytes(named, crc)

    def _count_uploads(self) -> None:
        decided = {n.landed.upload.upload_id for n in self._named() if not n.applied}
        for upload in self.opened.store.open_uploads(""):
            if upload.upload_id in decided:
                self.report.waiting += 1
            else:
                self.report.orphans += 1

    def _look_at_later_slots(self) -> None:
        """Report unnamed objects, except those named while the store was listed.

        An object replaced meanwhile is not missing.
        """
        report, seen = self.report, self.report.chain.state.seq
        if self.unnamed or report.of(Invariant.I6):
            report.findings += _check_slots(self.opened, report, self.names, self.progress)
        report.findings = [
            finding
            for finding in report.findings
            if finding.invariant is not Invariant.I6
            or self.names.changed(finding.key or "") <= seen
        ]
        report.findings += [
            objects.unnamed_object(stat)
            for key, stat in self.unnamed.items()
            if self.names.changed(key) <= seen
        ]


def _show(report: FsckReport, *, deep: bool) -> None:
    out, checked = console.out(), _checked(report, deep=deep)
    for invariant in Invariant:
        found = report.of(invariant)
        if found:
            outcome, what = "[red]BROKEN[/red]", checked[invariant]
        elif invariant in _OBJECT_INVARIANTS and not report.has_objects:
            outcome, what = "[yellow]?[/yellow]     ", "not checked, because the ledger is broken"
        else:
            outcome, what = "[green]ok[/green]    ", checked[invariant]
        out.print(f"{invariant.name:<3}  {outcome}  {invariant.value}: {what}")
        for finding in found[:MAX_FINDINGS]:
            out.print(f"            {escape(str(finding))}")
        if len(found) > MAX_FINDINGS:
            out.print(f"            and {console.count(len(found) - MAX_FINDINGS)} more")
    out.print(_other_counts(report))
    if not report.chain.anchors:
        out.print(WITHOUT_ANCHOR)


def _as_json(report: FsckReport) -> dict[str, object]:
    """Every invariant with all of its findings and counts."""
    return {
        "whole": not report.findings,
        "invariants": [
            {
                "name": invariant.name,
                "rule": invariant.value,
                "checked": report.has_objects or invariant not in _OBJECT_INVARIANTS,
                "findings": [_finding(finding) for finding in report.of(invariant)],
            }
            for invariant in Invariant
        ],
        "slots": report.chain.slots,
        "named_objects": report.named,
        "visible_objects": report.visible,
        "uploads_awaiting_completion": report.waiting,
        "uploads_of_no_commit": report.orphans,
        "markers": report.markers,
        "other_objects": report.foreign,
        "expired_dead_letter_objects": report.expired,
        "anchors": len(report.chain.anchors),
    }


def _finding(finding: Finding) -> dict[str, object]:
    tp, offsets = finding.topic_partition, finding.offsets
    return {
        "message": str(finding),
        "slot": finding.slot,
        "topic": tp.topic if tp else None,
        "partition": tp.partition if tp else None,
        "offsets": [offsets.start, offsets.end] if offsets else None,
        "key": finding.key,
    }


def _checked(report: FsckReport, *, deep: bool) -> dict[Invariant, str]:
    """How much was checked of each invariant."""
    chain, counted = report.chain, console.counted
    slots, snapshots = counted(chain.slots, "slot"), counted(chain.snapshots, "snapshot")
    ranges = counted(chain.slices, "range")
    topic_partitions = counted(len(chain.state.members), "topic partition")
    named = counted(report.named, "object")
    anchors = f", {counted(len(chain.anchors), 'anchor')}" if chain.anchors else ""
    leases = f", {counted(chain.leases.leases, 'LEASE')}" if chain.leases.leases else ""
    return {
        Invariant.I1: f"{slots}, {snapshots}{anchors}",
        Invariant.I2: f"{ranges} of {topic_partitions}",
        Invariant.I3: counted(report.visible, "visible object"),
        Invariant.I4: counted(report.named, "key"),
        Invariant.I5: f"{named} by {'checksum' if deep else 'size and ETag or token'}",
        Invariant.I6: f"COMMITs up to slot {chain.state.applied_through}",
        Invariant.I7: counted(chain.state.epoch, "epoch"),
        Invariant.I8: f"{counted(chain.commits, 'COMMIT')}{leases}",
        Invariant.I9: counted(len(report.schemas), "schema"),
        Invariant.I10: counted(len(report.specs), "spec"),
        Invariant.I11: counted(report.load_records, "record"),
        Invariant.I12: counted(sum(r.listed is not None for r in report.discovered), "list"),
        Invariant.I13: counted(chain.replaces, "REPLACE"),
    }


def _other_counts(report: FsckReport) -> str:
    waiting = console.counted(report.waiting, "committed upload awaits", "committed uploads await")
    orphans = console.counted(report.orphans, "open upload belongs", "open uploads belong")
    foreign = console.counted(report.foreign, "object does", "objects do")
    markers = console.counted(report.markers, "object is a marker", "objects are markers")
    expired = console.counted(report.expired, "dead-letter object has", "dead-letter objects have")
    return (
        f"{waiting} completion, {orphans} to no COMMIT, {markers}, {foreign} not belong to Landfall"
    ) + (f", {expired} expired" if report.expired else "")


# --------------------------------------------------------------------- lists and indexes of feeds


def check_lists(slots: Slots, records: Iterable[Discover]) -> Iterator[Finding]:
    """Read every list that these records name.

    Raises:
        Retry: the store does not answer.
    """
    for record in records:
        if listed := record.listed:
            topic, slot = record.topic_partition.topic, record.header.seq
            found = check_list(topic, listed, slot, slots.read(listed.key))
            yield from filter(None, (found,))


def check_indexes(slots: Slots, feeds: Mapping[TopicPartition, FeedState]) -> Iterator[Finding]:
    """Read the index of known files that the ledger names of each feed, with its pieces.

    Raises:
        Retry: the store does not answer.
    """
    for tp, feed in sorted(feeds.items()):
        try:
            for piece in read_manifest(slots, feed.known).pieces:
                stored.load(slots, piece.key, piece.sha256)
        except Stalled as broken:
            if broken.reason is not Reason.LEDGER_BROKEN:
                raise
            yield Finding(Invariant.I12, "an index", str(broken), topic_partition=tp)


# ---------------------------------------------------------------------------- loads of publishers


@dataclass(frozen=True)
class LoadRecords:
    """The findings about load records.

    Attributes:
        read: how many records were read.
        findings: their problems.
    """

    read: int
    findings: tuple[Finding, ...]


def check_load_records(opened: GroupStore, *, deep: bool) -> LoadRecords:
    """Read the records of the last load of each table, all of them if ``deep``.

    Publishers continue meanwhile: a record that was not listed is looked for again, and one that is
    gone when it is read was an old one.
    """
    prefix, store = published_prefix(opened.name, LANE), opened.store
    chains = load_records.load_chains(prefix, (stat.key for stat in store.list_after(prefix)))
    begins = {load_records.begin_of(chain) for chain in chains}
    due = begins.union(*(chain.missing() for chain in chains))
    lacking = [load_records.missing_record(key) for key in sorted(due) if store.read(key) is None]
    keys = [*begins, *(key for chain in chains for key in chain.keys(1 if deep else chain.last))]

    def check(key: str) -> Finding | None:
        body = store.read(key)
        return None if body is None else load_records.check_record(prefix, key, body)

    damaged = filter(None, map_concurrently(check, keys, opened.new_pool))
    return LoadRecords(len(keys), (*lacking, *damaged))


# ------------------------------------------------------------------------------- replaced objects


def check_replaced(
    slots: Slots, group: str, named: LedgerNames, before: State, record: Replace
) -> Iterator[Finding]:
    """Read the list that a REPLACE names, and add it to the named objects.

    Raises:
        Retry: the store does not answer.
    """
    slot, names = record.header.seq, named.objects
    listed = _read_list(slots, record.listed, slot)
    if isinstance(listed, Finding):
        yield listed
        return
    if record.again:  # the former slot has named the rest
        yield from _decide_again(names, record, listed)
        return
    if record.instead in before.replacing:
        yield from _give_up(slots, names, before.replacing[record.instead].listed, slot)
    for schema in listed_schemas(listed):
        named.schemas.setdefault(schema, slot)
    for spec in listed_specs(listed):
        named.specs.setdefault(spec, slot)
    yield from check_replace(
        group=group, before=before, record=record, listed=listed, find=names.find
    )
    yield from _replace(names, listed, slot)


def _read_list(slots: Slots, named: Replacement, slot: int) -> ReplacementList | Finding:
    """The list that the REPLACE in a slot names, or its fault."""
    try:
        return read_replaced(slots, slot, named)
    except Stalled as broken:
        if broken.reason is not Reason.LEDGER_BROKEN:
            raise
        expected = f"a list with SHA-256 {named.sha256[:12]}"
        return Finding(Invariant.I13, expected, str(broken), slot, key=named.key)


def _replace(names: NamedObjects, listed: ReplacementList, slot: int) -> Iterator[Finding]:
    """Expect the new objects, and no longer the old ones once the REPLACE is applied."""
    for retiring in listed.retire:
        names.retire(retiring.key, slot)
    for new in listed.objects:
        earlier = names.add(slot, new.landed)
        if earlier is not None:
            key = new.key
            got = f"slot {earlier} names it already"
            yield Finding(Invariant.I4, "a key that no other record names", got, slot, key=key)


def _decide_again(
    names: NamedObjects, record: Replace, listed: ReplacementList
) -> Iterator[Finding]:
    """Note that a REPLACE is decided in a later slot; the fold has compared the lists."""
    slot = record.header.seq
    if listed.folders != {*record.folders}:
        other = min(listed.folders ^ {*record.folders})
        got = f"other ones, such as {other}"
        yield Finding(Invariant.I13, "the folders of the objects", got, slot)
    for retiring in listed.retire:
        names.retire(retiring.key, slot)
    for new in listed.objects:
        names.decide_again(new.key, slot)


def _give_up(
    slots: Slots, names: NamedObjects, given_up: Replacement, slot: int
) -> Iterator[Finding]:
    """No longer expect the new objects of a REPLACE; the old ones stay."""
    listed = _read_list(slots, given_up, slot)
    if isinstance(listed, Finding):
        yield listed
        return
    for retiring in listed.retire:
        names.retire(retiring.key, -1)
    for new in listed.objects:
        names.retire(new.key, slot)
