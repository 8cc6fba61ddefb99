"""Holding the rows of a range's objects against the records that Kafka holds of it. Pure: arrays in, numbers out.

Formats that store offsets are compared offset by offset. For the others every row is first given
the offset of the record it must be: the rows of an output partition, in order, are the records that
belong there, in order. Only where that does not hold row by row, it is asked which record a row may
be: one of the same payload that belongs here, then one that belongs elsewhere, then one that was
seen already; a row that is none of these stands for a record that is missing here.

Payloads are compared by ``hash``: 64 bits, keyed anew in every process.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from landfall.audit import PartitionResult, Unchecked

Int64s = npt.NDArray[np.int64]
_Name = Callable[[int], Hashable]

UNKNOWN = -1
"""The place of a record nobody could work out."""
LETTERS = -2
"""The place of dead letters."""
NOBODY = -1
"""The offset of a row that is no record."""


@dataclass(frozen=True)
class Logged:
    """Visible records of a range as Kafka holds them, in order: offset, what the row's hash must be, output partition."""

    offsets: Int64s
    hashes: Int64s
    places: Int64s


@dataclass(frozen=True)
class Landed:
    """The rows of one object, in order; ``offsets`` are None where the format stores none."""

    place: int
    offsets: Int64s | None
    hashes: Int64s


_Wanted = Callable[[Landed, int], Hashable]


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be asked of a range.

    Attributes:
        payloads: whether rows hold the payloads that Kafka holds.
        filtered: records a transform left out on purpose.
        compacted: whether Kafka may have dropped single records since.
    """

    payloads: bool = True
    filtered: int = 0
    compacted: bool = False


@dataclass(frozen=True)
class _Rows:
    """Rows of all objects one after the other."""

    offsets: Int64s
    hashes: Int64s
    places: Int64s

    @classmethod
    def of(cls, objects: Sequence[Landed], offsets: Sequence[Int64s]) -> "_Rows":
        places = [np.full(len(o.hashes), o.place, np.int64) for o in objects]
        return cls(_joined(offsets), _joined([o.hashes for o in objects]), _joined(places))


def judge(
    logged: Logged, objects: Sequence[Landed], rules: Rules, account: PartitionResult
) -> None:
    """Add what is found of one range to its topic partition's account."""
    data = [o for o in objects if o.place != LETTERS]
    lettered = _joined([o.offsets for o in objects if o.place == LETTERS and o.offsets is not None])
    if any(o.offsets is None for o in data):
        if not rules.payloads:
            _count(logged, objects, rules, account)
            return
        offsets = iter(_aligned(logged, data, lettered))
    else:
        offsets = (o.offsets for o in data if o.offsets is not None)
    told = [next(offsets) if o.place != LETTERS else o.offsets for o in objects]
    _by_offset(logged, objects, [_none if t is None else t for t in told], rules, account)


_none: Int64s = np.empty(0, np.int64)


def _joined(arrays: Sequence[Int64s]) -> Int64s:
    return np.concatenate([_none, *arrays])


def _count(
    logged: Logged, objects: Sequence[Landed], rules: Rules, account: PartitionResult
) -> None:
    expected, rows = len(logged.offsets) - rules.filtered, sum(len(o.hashes) for o in objects)
    account.expected += expected
    account.found += min(expected, rows)
    account.leave(expected, Unchecked.COUNTED)
    if rows < expected:
        account.missing += expected - rows
        account.lacks(int(logged.offsets[0]), int(logged.offsets[-1]) + 1)
    elif rules.compacted:
        account.leave(rows - expected, Unchecked.COMPACTED)
    else:
        account.duplicate += rows - expected


def _by_offset(
    logged: Logged,
    objects: Sequence[Landed],
    offsets: Sequence[Int64s],
    rules: Rules,
    account: PartitionResult,
) -> None:
    rows = _Rows.of(objects, offsets)
    at = np.searchsorted(logged.offsets, rows.offsets)
    known = at < len(logged.offsets)
    known[known] = logged.offsets[at[known]] == rows.offsets[known]
    strangers = int((~known).sum())
    if rules.compacted:
        account.leave(strangers, Unchecked.COMPACTED)
    else:
        account.foreign += strangers
    at, hashes, places = at[known], rows.hashes[known], rows.places[known]
    seen = np.zeros(len(logged.offsets), np.int64)
    np.add.at(seen, at, 1)
    account.duplicate += int((seen - 1).clip(min=0).sum())
    account.found += int((seen > 0).sum())
    _lack(logged, seen == 0, rules, account)
    if rules.payloads:
        account.corrupted += len(np.unique(at[logged.hashes[at] != hashes]))
    else:
        account.leave(int((seen > 0).sum()), Unchecked.PAYLOAD)
    routed = places != LETTERS
    placed = routed & (logged.places[at] != UNKNOWN)
    account.leave(int((routed & ~placed).sum()), Unchecked.PLACE)
    account.misplaced += len(np.unique(at[placed & (logged.places[at] != places)]))
    account.disordered += sum(_to_move(run) for run in _runs(objects, offsets))


def _lack(
    logged: Logged, absent: npt.NDArray[np.bool_], rules: Rules, account: PartitionResult
) -> None:
    missing = max(int(absent.sum()) - rules.filtered, 0)
    account.expected += len(logged.offsets) - min(rules.filtered, int(absent.sum()))
    account.missing += missing
    if not missing:
        return
    # with a filter nobody knows which of the absent ones should be there: all of them are told
    edges = np.flatnonzero(np.diff(np.concatenate([[0], absent.view(np.int8), [0]])))
    for first, after in edges.reshape(-1, 2).tolist():
        account.lacks(int(logged.offsets[first]), int(logged.offsets[after - 1]) + 1)


def _runs(objects: Sequence[Landed], offsets: Sequence[Int64s]) -> Iterator[Int64s]:
    """Rows that must be in the order of their offsets: the objects of an output partition, in the order of their names."""
    by_place: defaultdict[int, list[Int64s]] = defaultdict(list)
    for o, found in zip(objects, offsets, strict=True):
        by_place[o.place].append(found[found != NOBODY])
    return (_joined(runs) for runs in by_place.values())


def _to_move(offsets: Int64s) -> int:
    """How many rows would have to move for the others to be in order: all but a longest run that is. Repeats are let be."""
    if not (np.diff(offsets) < 0).any():
        return 0
    offsets = offsets[np.sort(np.unique(offsets, return_index=True)[1])]
    ends: list[int] = []
    for offset in offsets.tolist():
        place = bisect_right(ends, offset)
        ends[place : place + 1] = [offset]
    return len(offsets) - len(ends)


# ----------------------------------------------------------------------- rows without their offsets


def _aligned(logged: Logged, data: Sequence[Landed], lettered: Int64s) -> list[Int64s]:
    """For each object, the offset of the record that each of its rows is; ``NOBODY`` where it is none."""
    open_ = ~np.isin(logged.offsets, lettered)
    told: list[Int64s | None] = [None] * len(data)
    for place in {o.place for o in data}:
        here = [i for i, o in enumerate(data) if o.place == place]
        at = np.flatnonzero(open_ & (logged.places == place))
        rows = _joined([data[i].hashes for i in here])
        if len(at) == len(rows) and (logged.hashes[at] == rows).all():
            ends = np.cumsum([len(data[i].hashes) for i in here])[:-1]
            for i, part in zip(here, np.split(logged.offsets[at], ends), strict=True):
                told[i] = part
            open_[at] = False
    left = [i for i, offsets in enumerate(told) if offsets is None]
    if left:
        matches = _Matching(logged, np.flatnonzero(open_), [data[i] for i in left]).result()
        for i, offsets in zip(left, matches, strict=True):
            told[i] = offsets
    return [offsets for offsets in told if offsets is not None]


@dataclass
class _Matching:
    """Which record each row is, where rows and records do not agree one by one."""

    logged: Logged
    open_: Int64s
    objects: Sequence[Landed]
    told: "list[array[int]]" = field(init=False)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.told = [array("q", [NOBODY]) * len(o.hashes) for o in self.objects]
        self.places, self.hashes = self.logged.places.tolist(), self.logged.hashes.tolist()

    def result(self) -> list[Int64s]:
        at = self.open_.tolist()
        self._match(
            at,
            lambda position: (self.places[position], self.hashes[position]),
            lambda o, h: (o.place, h),
        )
        self._match(at, lambda position: self.hashes[position], lambda _, h: h)
        self._repeats()
        self._match(at, lambda position: self.places[position], lambda o, _: o.place)
        self._match(at, lambda position: self.places[position], lambda _, __: UNKNOWN)
        offsets = np.append(self.logged.offsets, NOBODY)
        return [offsets[np.frombuffer(told, np.int64)] if told else _none for told in self.told]

    def _rows(self) -> Iterator[tuple[int, int, int]]:
        """Object, row and hash of every row that is nobody yet."""
        for number, o in enumerate(self.objects):
            told = self.told[number]
            yield from (
                (number, row, h) for row, h in enumerate(o.hashes.tolist()) if told[row] == NOBODY
            )

    def _match(self, at: Sequence[int], name: _Name, wanted: _Wanted) -> None:
        """Give each row the first open record of the name it wants."""
        waiting: defaultdict[object, deque[int]] = defaultdict(deque)
        for position in at:
            if position not in self.taken:
                waiting[name(position)].append(position)
        for number, row, h in self._rows():
            queue = waiting.get(wanted(self.objects[number], h))
            if queue:
                self.told[number][row] = position = queue.popleft()
                self.taken.add(position)

    def _repeats(self) -> None:
        """A row of a payload that the range has, and whose records are all taken, is one of them again."""
        first: dict[object, int] = {}
        for position, h in enumerate(self.hashes):
            first.setdefault((self.places[position], h), position)
            first.setdefault(h, position)
        for number, row, h in self._rows():
            again = first.get((self.objects[number].place, h), first.get(h))
            if again is not None:
                self.told[number][row] = again
