"""What each part of Landfall says is visible in a ledger: the objects that count, and their rows.

A ledger is played in which everything happens that changes what counts: COMMITs with dead letters,
REPLAYs, lost and repaired uploads, objects that are given up, holes, topic partitions that leave
and enter again, generations, merges, cuts, backfills, undoing, and segments.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.checks.locate import Committed, find_offset
from landfall.cli.group_store import GroupStore
from landfall.cli.objects import locate, verify
from landfall.cli.objects.fsck import examine
from landfall.cli.objects.scan_objects import Window, objects_in_scope, replaced_lists
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.counting import CountingObject
from landfall.driver.replacing.compaction_folders import Folders
from landfall.errors import Reason
from landfall.landed.history import History
from landfall.landed.locating import OffsetLocation, lookup_of
from landfall.landed.specs import LandedBy
from landfall.landed.what_counts import WhatCounts
from landfall.lane import sealed_through
from landfall.ledger import Decision
from landfall.ledger.entries import Blocked, Missing
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.publish.following import Follower
from landfall.reading.groups import LandedGroup
from tests.support.driver.fakes import NOW
from tests.support.ledger.landed_group import backup_group
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.undoable import BAD, TPS, Undoable, key_of

DECISION = Decision("replay", "kim", "a test", "t")
FILTERED = ""
"""In the place of a folder: a transform leaves the record out."""

Keys = Counter[str]
"""How often each object counts: once, unless something is wrong."""


@dataclass
class PlayedLedger(Undoable):
    """A ledger in which everything is recorded that changes what counts, carried out at once."""

    generation: int = 1
    lives: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(TPS, 0))
    began: dict[TopicPartition, int] = field(default_factory=dict)
    replayed: set[tuple[int, int, int]] = field(default_factory=set)
    landed_in: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _of_lost: list[tuple[int, int, int]] = field(default_factory=list)
    _opens: tuple[int, dict[int, ledger.Open]] = (-1, {})

    # ------------------------------------------------------------------------------ what is done

    def land(self, tp: TopicPartition, folders: Sequence[str], *, fate: str = "visible") -> None:
        """Land a record per folder; ``fate`` is what becomes of the first of the objects.

        It is ``visible``, ``repaired`` (its upload was lost), ``missing`` and repaired later by a
        BLOCK's REPAIR, or ``lost``: given up.
        """
        start, token = self.at[tp], f"token-{self.sample.state.seq + 1}"
        self.at[tp] += len(folders)
        self._of_lost = []
        objects = tuple(self._made(token, tp, start, folders))
        piece = Slice(tp, OffsetRange(start, start + len(folders)))
        filtered, bad = folders.count(FILTERED), folders.count(BAD)
        landed = LandedSlice(
            piece, objects, len(folders) - filtered - bad, filtered, bad, 0, 9 * len(folders)
        )
        self.sample.append(self.sample.committing(landed))
        slot = self.sample.state.seq
        numbers = range(start, start + len(folders))
        self.landed_in |= {(tp.partition, each, self.version(tp)): slot for each in numbers}
        if fate != "visible" and objects:
            first, *rest = objects
            self._complete(rest)
            self._lose(slot, tp, first, piece, fate)
        else:
            self._complete(objects)
        self.sample.shown()

    def _lose(
        self, slot: int, tp: TopicPartition, lost: LandedObject, piece: Slice, fate: str
    ) -> None:
        key = lost.upload.key
        self.store.abort(key, lost.upload.upload_id)
        if fate in ("missing", "lost"):
            blocked = Blocked(tp, Reason.OBJECT_LOST, "a test", piece.offsets)
            self.sample.append(
                lambda h: ledger.Block(
                    header=h, entries=(blocked,), missing=(Missing(slot, (key,)),)
                )
            )
        if fate == "lost":
            self.sample.append(
                lambda h: ledger.Lost(header=h, commit=slot, objects=(lost,), decision=DECISION)
            )
            return
        ends = lost.first_offset, lost.last_offset
        again = self._uploaded(lost.upload.token, key, self._of_lost, *ends)
        again = replace(again, kind=lost.kind)
        self.sample.append(lambda h: ledger.Repair(header=h, commit=slot, objects=(again,)))
        self._complete([again])

    def replay(self, key: str, folder: str) -> None:
        """See ``Undoable``."""
        super().replay(key, folder)
        self.replayed |= {*self._lines(key)}
        self.landed_in |= dict.fromkeys(self._lines(key), self.sample.state.seq - 1)

    def hole(self, tp: TopicPartition, length: int) -> None:
        """Skip a range."""
        piece = Slice(tp, OffsetRange(self.at[tp], self.at[tp] + length))
        self.at[tp] += length
        self.sample.append(lambda h: ledger.Hole(header=h, piece=piece, reason="a test"))
        self.sample.shown()

    def is_present(self, row: tuple[int, int, int]) -> bool:
        """Whether a row is of the present life of its topic partition."""
        return self.landed_in[row] > self.began.get(TPS[row[0]], -1)

    def mergeable(self, folder: str) -> list[CountingObject]:
        """The objects of a folder that may be merged with the first one.

        One generation has landed them all by one spec, and all of their rows are of present lives,
        or none is.
        """
        found = self.objects(folder)
        kinds = [self._kind(each) for each in found]
        return [each for each, kind in zip(found, kinds, strict=True) if kind == kinds[0]]

    def _kind(self, each: CountingObject) -> tuple[int, str, frozenset[bool]]:
        rows = self._lines(each.key)
        slot = self.landed_in[rows[0]]
        are_present = frozenset(self.is_present(row) for row in rows)
        return self.generation_at(slot), self.spec_at(slot), are_present

    def shown(self) -> str:
        """The records, one per line."""
        records = (ledger.decode(seq, body) for seq, body in self.lane.bodies())
        return "\n".join(f"{each.header.seq} {each}" for each in records)

    def generation_at(self, slot: int) -> int:
        """The generation that wrote a slot."""
        return self._opened(slot).generation

    def _opened(self, slot: int) -> ledger.Open:
        """The last OPEN up to a slot; the ledger is read once for each of its states."""
        through = self.sample.state.seq
        if self._opens[0] != through:
            records = (ledger.decode(seq, body) for seq, body in self.lane.bodies())
            opens = {each.header.seq: each for each in records if isinstance(each, ledger.Open)}
            self._opens = through, opens
        return self._opens[1][max(seq for seq in self._opens[1] if seq <= slot)]

    def version(self, tp: TopicPartition) -> int:
        """What rows of the present life of a topic partition are marked with."""
        return -self.lives[tp]

    def spec_at(self, slot: int) -> str:
        """The stored spec of whoever owned the lane in a slot."""
        return self._opened(slot).spec

    def made_by(self, slot: int) -> str:
        """The stored spec by which a slot has landed rows; of backfills, none is stored."""
        return "" if slot in self.changes else self.spec_at(slot)

    def open(self) -> None:
        """Let the next generation own the lane."""
        self.generation += 1
        self.sample.open(self.generation)

    def change_spec(self) -> None:
        """Let the same generation own the lane, with another stored spec."""
        route = {"pattern": f"of={self.sample.state.seq}/dt={{date}}"}
        name = store_spec(self.store, group(route=route), LANE)
        self.sample.open(self.sample.state.generation, name)

    def roll(self) -> None:
        """Roll all sealed epochs up, if there are any."""
        self.open()
        self.sample.shown()
        if sealed_through(self.sample.state, 10**6) >= 0:
            self.sample.roll().shown()

    def enter_again(self, tp: TopicPartition) -> None:
        """Let a topic partition leave and enter again, as one of a topic that was created anew."""
        self.sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(tp,), reason="a test"))
        self.open()
        self.lives[tp] += 1
        entry = ledger.Entry(tp, f"id-{self.lives[tp]}", 0)
        self.sample.append(lambda h: ledger.Add(header=h, entries=(entry,)))
        self.began[tp] = self.sample.state.seq
        self.sample.shown()
        self.at[tp] = 0

    def _made(
        self, token: str, tp: TopicPartition, start: int, folders: Sequence[str]
    ) -> Iterator[LandedObject]:
        """Upload an object per folder, and one with the dead letters, in order of their keys."""
        keys = {
            folder: key_of(folder, self.sample.state.generation, tp.partition, start)
            for folder in {*folders} - {FILTERED}
        }
        for folder, key in sorted(keys.items(), key=lambda each: each[1]):
            offsets = [start + i for i, each in enumerate(folders) if each == folder]
            lines = [(tp.partition, offset, self.version(tp)) for offset in offsets]
            made = self._uploaded(token, key, lines, offsets[0], offsets[-1])
            kind = ObjectKind.DEAD_LETTERS if folder == BAD else ObjectKind.DATA
            self._of_lost = self._of_lost or lines
            yield replace(made, kind=kind)

    def _complete(self, objects: Iterable[LandedObject]) -> None:
        for each in objects:
            self.store.complete(each.upload)

    def backfill(self, ranges: dict[TopicPartition, OffsetRange], folders: Sequence[str]) -> int:
        """See ``Undoable``."""
        slot = super().backfill(ranges, folders)
        self.landed_in |= dict.fromkeys(self._new_rows(slot), slot)
        return slot

    def _new_rows(self, slot: int) -> Iterator[tuple[int, int, int]]:
        _, new = self.changes[slot]
        yield from ((partition, offset, version) for _, partition, offset, version in new)

    def lines(self, key: str) -> list[tuple[int, int, int]]:
        """The rows of an object: Kafka partition, offset and version."""
        return self._lines(key)

    def letters(self) -> list[str]:
        """See ``Undoable``; those of present topic partitions."""
        now = read_landed(self.lane)
        known = {key: now.objects.get(key) for key in super().letters()}
        return [key for key, each in known.items() if each and now.is_present(each)]


# ---------------------------------------------------------------------------------- who is asked

COMPACT = {"below": "1Mi", "target": "2Mi"}


def group(**changes: Any) -> ConsumerGroup:
    """The group whose ledger is played."""
    output = {"url": "s3://backup/root", "format": "Json", "codec": "None"}
    spec = {"route": {"pattern": "dt={date}"}, "completeness": {"delay": "1h"}, "compact": COMPACT}
    return backup_group(output, **{**spec, **changes})


def visible(played: PlayedLedger) -> Keys:
    """The data objects that are in the store."""
    keys = (stat.key for stat in played.store.list_after(""))
    return Keys(key for key in keys if not object_names.is_system_key(key))


def by_backfills(played: PlayedLedger) -> Keys:
    """What a backfill plans with."""
    return Keys(
        key
        for key, each in read_landed(played.lane).objects.items()
        if each.landed.kind is ObjectKind.DATA
    )


def by_readers(played: PlayedLedger) -> Keys:
    """What ``landfall.read`` reads."""
    of = group()
    opened = LandedGroup(played.store, of.spec.output, (GROUP, LANE), of)
    if opened.slot < 0 or "clicks" not in opened.topics():
        return Keys()
    return Keys(file.key for file in opened.scan("clicks").files())


def by_publishers(played: PlayedLedger, most: int = 5_000) -> Keys:
    """What a table has that follows the ledger in stretches of so many objects."""
    found = Keys()
    for stretch in Follower(played.lane, most).stretches(-1):
        for each in stretch.objects:
            found[each.landed.upload.key] += 1
        for replaced in stretch.replaced:
            found.subtract(Keys(old.upload.key for old in replaced.retired))
            found.update(Keys(new.landed.upload.key for new in replaced.objects))
    return +found


def by_readers_of_objects(played: PlayedLedger, most: int = 5_000) -> Keys:
    """What a publisher has that opens each object, which must be there."""
    found, follower = Keys(), Follower(played.lane, most)
    for stretch in follower.remaining(-1):
        found.subtract(Keys(old.upload.key for each in stretch.replaced for old in each.retired))
        found = Keys({key: n for key, n in found.items() if n > 0})
        found.update(Keys(each.landed.upload.key for each in stretch.objects))
    return found


def by_scans(played: PlayedLedger) -> Keys:
    """What ``landfall scan`` looks at."""
    opened = GroupStore(group(), played.store)
    state = opened.seen_state()
    lists = replaced_lists(opened, state)
    window = Window("clicks", None, None, "")
    return Keys(each.landed.upload.key for each in objects_in_scope(opened, state, window, lists))


def by_downstream(played: PlayedLedger) -> Counter[tuple[int, int, int]]:
    """The rows that another group reads of this one, but what it reads of dead letters."""
    history = History(played.lane, played.store.stat)
    history.follow()
    what, found = WhatCounts(history, "spec.source.landed"), Counter[tuple[int, int, int]]()
    for tp, life in history.lives(history.topic_partitions).items():
        if life.start < life.end:
            counting = what.of(Slice(tp, OffsetRange(life.start, life.end)), life)
            for key, piece in counting.pieces.items():
                if piece.landed.kind is ObjectKind.DATA:
                    lines = played.lines(key)
                    ranges = piece.rows or [(0, len(lines))]
                    found.update(line for first, end in ranges for line in lines[first:end])
            for key in counting.mixed:
                found.update(line for line in played.lines(key) if line[0] == tp.partition)
    return found - Counter({row: found[row] for row in played.replayed})


def missing_downstream(played: PlayedLedger) -> set[str]:
    """The objects that another group would look for in vain."""
    history = History(played.lane, played.store.stat)
    history.follow()
    what, found = WhatCounts(history, "spec.source.landed"), set[str]()
    for tp, life in history.lives(history.topic_partitions).items():
        if life.start < life.end:
            found |= what.of(Slice(tp, OffsetRange(life.start, life.end)), life).pieces.keys()
    return {key for key in found if played.store.stat(key) is None}


def wanted_downstream(played: PlayedLedger) -> Counter[tuple[int, int, int]]:
    """The rows that another group should read: those of present topic partitions."""
    now, found = read_landed(played.lane), Counter[tuple[int, int, int]]()
    for key, each in now.objects.items():
        if each.landed.kind is ObjectKind.DATA:
            found.update(played.lines(key))
    return Counter(
        {
            row: n
            for row, n in found.items()
            if row not in played.replayed and played.is_present(row)
        }
    )


def by_verify(played: PlayedLedger) -> list[str]:
    """What ``landfall verify`` finds wrong."""
    faults = verify.examine(GroupStore(group(), played.store)).faults
    return [each for each in faults if "damaged dead letters" not in each]  # they are lines here


def by_fsck(played: PlayedLedger) -> list[str]:
    """What ``landfall fsck`` finds wrong."""
    report = examine(GroupStore(group(), played.store), deep=False)
    return [str(finding) for finding in report.findings]


def wrong_places(played: PlayedLedger) -> list[str]:
    """What ``landfall locate`` says wrongly of records of present topic partitions."""
    opened, wrong = GroupStore(group(), played.store), list[str]()
    for key in by_backfills(played):
        for row in filter(played.is_present, played.lines(key)):
            found, url = _located(opened, TPS[row[0]], row[1]), opened.url(key)
            urls = {each.url for each in found.objects} if found else {url}
            is_certain = found is not None and found.fate == "landed"
            if urls != {url} if is_certain else url not in urls:
                wrong.append(f"{row} is in {url}, not in {urls}: {found}")
    return wrong


def _located(opened: GroupStore, tp: TopicPartition, offset: int) -> OffsetLocation | None:
    """Where a record is; None if dead letters must be read for it, which are lines here."""
    try:
        return locate.look_up(opened, tp, offset)
    except ValueError as error:
        if "damaged dead letters" in str(error):
            return None
        raise


def wrong_specs(played: PlayedLedger) -> list[str]:
    """Objects that another group reads by another spec than what landed their rows."""
    history = History(played.lane, played.store.stat)
    history.follow()
    what, wrong = WhatCounts(history, "spec.source.landed"), list[str]()
    for tp, life in history.lives(history.topic_partitions).items():
        found = what.of(Slice(tp, OffsetRange(life.start, life.end)), life) if life.end else None
        for key, piece in found.pieces.items() if found else ():
            if piece.landed.kind is not ObjectKind.DATA or not played.lines(key):
                continue  # not a row is in an object that was given up
            rows = [row for row in played.lines(key) if row[0] == tp.partition]
            landed_in = {s for row in rows if (s := played.landed_in[row]) >= life.began}
            by = what.landed_by.slot(piece)
            if not {played.spec_at(by)} <= {played.spec_at(slot) for slot in landed_in}:
                wrong.append(f"{key}: of slot {by}, and its rows of {landed_in}")
    return wrong


def wrong_specs_of_locate(played: PlayedLedger) -> list[str]:
    """Objects that ``landfall locate`` reads by another spec than what landed their rows."""
    opened, wrong = GroupStore(group(), played.store), list[str]()
    now = opened.lane.read()
    for key in by_backfills(played):
        row = next(filter(played.is_present, played.lines(key)), None)
        if row is None:
            continue
        tp = TPS[row[0]]
        state = find_offset(opened.records(), tp, row[1])
        assert isinstance(state, Committed), state
        lookup = lookup_of(opened, now, state, tp, row[1])
        landed_in = {played.landed_in[row] for row in played.lines(key)}
        for place in lookup.places:
            if place.key != key or place.landed.kind is not ObjectKind.DATA:
                continue
            slot = lookup.landed_by.slot(place)
            if {played.spec_at(slot)} != {played.spec_at(each) for each in landed_in}:
                wrong.append(f"{key}: of slot {slot}, and its rows of {landed_in}")
    return wrong


def wrong_specs_of_scans(played: PlayedLedger) -> list[str]:
    """Objects that a scan reads by another spec than what landed their rows."""
    wrong, opened = [], GroupStore(group(), played.store)
    state = opened.seen_state()
    window, lists = Window("clicks", None, None, ""), replaced_lists(opened, state)
    landed_by = LandedBy(History(opened.lane, opened.store.stat), lists=lists)
    for each in objects_in_scope(opened, state, window, lists):
        key, slot = each.key, landed_by.slot(each)
        landed_in = {played.landed_in[row] for row in played.lines(key)}
        if {played.spec_at(slot)} != {played.spec_at(each) for each in landed_in}:
            wrong.append(f"{key}: of slot {slot}, and its rows of {landed_in}")
    return wrong


def wrong_specs_of_publishers(played: PlayedLedger, most: int = 5_000) -> list[str]:
    """Objects that who follows the ledger reads by another spec than what landed their rows."""
    wrong, follower = [], Follower(played.lane, most)
    for stretch in follower.stretches(-1):
        new = (each for replaced in stretch.replaced for each in replaced.objects)
        for each in (*stretch.objects, *new):
            key = each.landed.upload.key
            landed_in = {played.landed_in[row] for row in played.lines(key)}
            generation = object_names.parse_key(key).generation
            found = follower.opens.digest(generation, each.decided)
            if landed_in and {found} != {played.made_by(slot) for slot in landed_in}:
                wrong.append(f"{key}: by {found!r}, and its rows of {landed_in}")
    return wrong


def wrong_specs_of_compaction(played: PlayedLedger) -> list[str]:
    """Objects that a driver would merge by another spec than what landed their rows."""
    folders, wrong = Folders(played.lane, group()), list[str]()
    folders.follow(NOW)
    for folder in folders.folders.values():
        for key, each in folder.objects.items():
            landed_in = {played.landed_in[row] for row in played.lines(key)}
            if landed_in and {each.spec} != {played.made_by(slot) for slot in landed_in}:
                wrong.append(f"{key}: by {each.spec!r}, and its rows of {landed_in}")
    return wrong


def by_compaction(played: PlayedLedger) -> Keys:
    """The objects that a driver would merge."""
    folders = Folders(played.lane, group())
    folders.follow(NOW)
    return Keys(key for each in folders.folders.values() for key in each.objects)
