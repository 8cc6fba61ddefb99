"""Track the rows of objects through merges, backfills and undoings, to undo these. Pure.

A REPLACE replaces contents. A copy that an undoing makes has another name and the same *content*,
which is known by the name that it was first made under. So a REPLACE can be undone whenever all
contents that it made count: all that came after was undone since, or changed nothing. If one does
not count, the last REPLACE that took it away is to be undone first; that one is later, so one comes
to an end.

A backfill, and what undoes it, also changes which rows ranges have, though perhaps no object shows
it. So the contents of ranges are known as well, by the slot of the backfill that landed them.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, pairwise

from landfall.driver.decide.counting import output_partition, unplanned
from landfall.ledger import Replace
from landfall.ledger.effects import Effect, LifetimeBegan, LifetimeEnded, ObjectsReplaced
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.opened import taken_back
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import DecidedObject

_ALL = OffsetRange(0, 2**63 - 1)
_LANDED = -1
"""The content of a range that COMMITs have landed, in the life of before the first ADD."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Offsets with one content."""

    offsets: OffsetRange
    content: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A later change that prevents the undoing of a REPLACE.

    Attributes:
        slot: of the last record that changed what it had made.
        where: the folder, or the topic partition with its offsets.
        is_replace: it is a REPLACE, which can be undone; else a topic partition entered or left.
    """

    slot: int
    where: str
    is_replace: bool = True


@dataclass
class Contents:
    """The contents that count in some folders and ranges, through the last record taken in.

    Attributes:
        folders: objects elsewhere are left out.
    """

    folders: Collection[str]
    _records: dict[int, Replace] = field(default_factory=dict)
    _kinds: dict[int, tuple[int, bool]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _counting: dict[str, DecidedObject] = field(default_factory=dict)
    _known_as: dict[str, set[str]] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    _retired: dict[int, dict[str, str]] = field(default_factory=dict)
    _made: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _ranges: dict[TopicPartition, list[_Span]] = field(default_factory=dict)
    _before: dict[int, dict[Slice, list[_Span]]] = field(default_factory=dict)
    _after: dict[int, dict[Slice, list[_Span]]] = field(default_factory=dict)
    _lives: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, effect: Effect, listed: ReplacementList | None = None) -> None:
        """Take in the next event; of a REPLACE if it is applied and was not given up."""
        match effect:
            case LifetimeBegan() | LifetimeEnded():
                self._live(effect.slot, effect.topic_partition)
            case ObjectsReplaced() if listed is not None:
                self._replace(effect.record, listed)
            case _:
                pass

    def same_as(self, slot: int, folders: Collection[str]) -> int:
        """Return the last REPLACE that made in these folders what the one in a slot has made.

        What it retired is kept longest.
        """
        kind = self._kinds[slot]
        return max(
            s
            for s, slot_kind in self._kinds.items()
            if slot_kind == kind and s >= slot and {*folders} <= {*self._records[s].folders}
        )

    def counting(self, slot: int, folders: Collection[str]) -> list[DecidedObject]:
        """Return the objects that have what a REPLACE has made; nothing is in its way."""
        return [self._counting[content] for content in self._made_in(slot, folders)]

    def names(self, slot: int) -> frozenset[str]:
        """Return all keys that what a REPLACE has made ever had."""
        return frozenset(key for content in self._made[slot] for key in self._known_as[content])

    def obstacle(self, slot: int, folders: Collection[str]) -> Obstacle | None:
        """Return what must be undone before a REPLACE in these folders can be; None if nothing."""
        found = [
            Obstacle(self._gone[content], _folder(content))
            for content in self._made_in(slot, folders)
            if content not in self._counting
        ]
        for slice_, spans in self._after.get(slot, {}).items():
            now = self._cut(slice_)
            for start, end in _parts(spans, now):
                if (content := _content(spans, start)) != _content(now, start):
                    last = self._gone_at(slice_.topic_partition, start, content)
                    where = f"{slice_.topic_partition} {OffsetRange(start, end)}"
                    found.append(Obstacle(last, where, last in self._records))
        return max(found, key=lambda each: each.slot, default=None)

    def _gone_at(self, tp: TopicPartition, offset: int, content: int) -> int:
        """Return the slot of the last record that took a content away from an offset."""
        taken = (
            slot
            for slot, before in self._before.items()
            for slice_, spans in before.items()
            if slice_.topic_partition == tp
            and offset in slice_.offsets
            and _content(spans, offset) == content != _content(self._after[slot][slice_], offset)
        )
        return max(chain([self._lives.get(tp, -1)], taken))

    def _made_in(self, slot: int, folders: Collection[str]) -> Iterator[str]:
        return (content for content in self._made[slot] if _folder(content) in folders)

    def _replace(self, record: Replace, listed: ReplacementList) -> None:
        slot, back = record.header.seq, taken_back(record, listed)
        self._records[slot] = record
        root, is_undone = self._kinds.get(back, (slot, True))
        self._kinds[slot] = root, not is_undone
        gone = dict[str, str]()
        for key in (object_.key for object_ in listed.retire):
            if _folder(key) in self.folders:
                content = self._names.pop(key, key)
                self._counting.pop(content, None)
                self._gone[content] = slot
                gone[unplanned(key)] = content
        self._retired[slot] = gone
        is_given_up = record.instead != -1 and not record.again
        known = gone if is_given_up else self._retired.get(back, {})
        made = list[str]()
        for new in listed.objects:
            key = new.key
            if _folder(key) in self.folders:
                content = known.get(unplanned(key), key)
                self._names[key] = content
                self._counting[content] = DecidedObject(slot, new.landed)
                self._known_as.setdefault(content, set()).add(key)
                made.append(content)
        self._made[slot] = tuple(made)
        if changes_rows(record.purpose, record.undoes):
            self._land_again(record)

    def _land_again(self, record: Replace) -> None:
        slot, back = record.header.seq, self._before.get(record.undoes, {})
        self._before[slot] = {slice_: self._cut(slice_) for slice_ in record.slices}
        for slice_ in record.slices:
            self._put(slice_, back.get(slice_) or [_Span(slice_.offsets, slot)])
        self._after[slot] = {slice_: self._cut(slice_) for slice_ in record.slices}

    def _live(self, slot: int, tp: TopicPartition) -> None:
        """Let a topic partition enter or leave: what was landed of it is of a former life."""
        self._ranges[tp] = [_Span(_ALL, -2 - slot)]
        self._lives[tp] = slot

    def _cut(self, slice_: Slice) -> list[_Span]:
        """Return the spans of a range, without a gap."""
        spans = self._ranges.get(slice_.topic_partition, [_Span(_ALL, _LANDED)])
        return list(_within(spans, slice_.offsets))

    def _put(self, slice_: Slice, spans: Iterable[_Span]) -> None:
        tp, offsets = slice_.topic_partition, slice_.offsets
        old = self._ranges.get(tp, [_Span(_ALL, _LANDED)])
        kept = list(spans)
        for start, end in ((_ALL.start, offsets.start), (offsets.end, _ALL.end)):
            kept += _within(old, OffsetRange(start, end)) if start < end else ()
        self._ranges[tp] = sorted(kept, key=lambda each: each.offsets)


def chosen_folders(listed: ReplacementList, output_partitions: Collection[str]) -> frozenset[str]:
    """The folders of a list that these output partitions choose; ``*`` stands for any text."""
    patterns = [pattern.strip("/") for pattern in output_partitions or ["*"]]
    return frozenset(
        folder
        for folder in listed.folders
        if any(fnmatchcase(output_partition(f"{folder}/_"), pattern) for pattern in patterns)
    )


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _within(spans: Iterable[_Span], offsets: OffsetRange) -> Iterator[_Span]:
    for span in spans:
        start = max(span.offsets.start, offsets.start)
        end = min(span.offsets.end, offsets.end)
        if start < end:
            yield _Span(OffsetRange(start, end), span.content)


def _parts(one: Iterable[_Span], other: Iterable[_Span]) -> Iterator[tuple[int, int]]:
    """Return the ranges in which neither of two runs of spans has a border."""
    borders = {edge for span in (*one, *other) for edge in (span.offsets.start, span.offsets.end)}
    return pairwise(sorted(borders))


def _content(spans: Iterable[_Span], at: int) -> int:
    return next(span.content for span in spans if at in span.offsets)
