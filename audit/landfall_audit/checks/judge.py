"""Compares the rows of a range's objects with the records that Kafka holds of it.

Pure: arrays in, counts out.

Formats that store offsets are compared offset by offset. For all other formats, each row is first
matched to the offset of the record that it must be: the rows of an output partition, in order, are
the records that belong there, in order. Only where that does not hold row by row, each row is
matched to the first of these that exists:

1. a record with the same payload that belongs in this output partition,
2. a record with the same payload that belongs in another one (the row is misplaced),
3. a record with the same payload that another row matched already (the row is a duplicate),
4. a record of this output partition that no row matched (the row is a corrupted copy of it),
5. a record of unknown output partition that no row matched.

A row that matches none is foreign. Payloads are compared by ``hash``: 64 bits, with another key in
every process.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from landfall_audit import PartitionResult, Unchecked

Int64s = npt.NDArray[np.int64]
_NameOfRecord = Callable[[int], Hashable]

UNKNOWN = -1
"""The output partition of a record for which it cannot be computed."""
DEAD_LETTERS = -2
"""Stands for an output partition where objects hold dead letters."""
NO_RECORD = -1
"""The offset of a row that matches no record."""
ELSEWHERE = "elsewhere"
"""The name of records that may be in objects that were not compared."""


@dataclass(frozen=True)
class ReferenceRecords:
    """Visible records of a range as Kafka holds them, in order; three arrays of one length.

    Attributes:
        offsets: of the records.
        hashes: what the hash of each record's row must be.
        places: the number of each record's output partition, or ``UNKNOWN``.
        elsewhere: which of them may also be in an object that is not compared; None if none may.
        undecided: records for which it is not known what their row must hold; None if there are
            none.
    """

    offsets: Int64s
    hashes: Int64s
    places: Int64s
    elsewhere: npt.NDArray[np.bool_] | None = None
    undecided: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class ObjectRows:
    """The rows of one object, in order.

    Attributes:
        place: the number of the object's output partition, or ``DEAD_LETTERS``.
        offsets: of the rows; None if the format stores none.
        hashes: of the rows.
        run: objects of one output partition, run and schema have their rows in order, one after the
            other.
        schema: the digest of the schema of the rows, if they have one of their own.
        is_sorted: whether the rows are sorted by something else than their offsets.
        is_opaque: whether only the records of the rows are known, and not their contents.
    """

    place: int
    offsets: Int64s | None
    hashes: Int64s
    run: int = 0
    schema: str = ""
    is_sorted: bool = False
    is_opaque: bool = False


_NameOfRow = Callable[[ObjectRows, int], Hashable]


@dataclass(frozen=True, slots=True)
class RangeRules:
    """Expectations of a range.

    Attributes:
        payloads: whether the rows of data objects hold the payloads that Kafka holds.
        filtered: how many records a transform left out, or were lost with their objects.
        compacted: whether Kafka may have removed single records since they were landed.
    """

    payloads: bool = True
    filtered: int = 0
    compacted: bool = False


@dataclass(frozen=True)
class _ObjectRows:
    """The rows of all objects, one object after the other."""

    offsets: Int64s
    hashes: Int64s
    places: Int64s
    opaque: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, objects: Sequence[ObjectRows], offsets: Sequence[Int64s]) -> "_ObjectRows":
        places = [np.full(len(o.hashes), o.place, np.int64) for o in objects]
        opaque = [np.full(len(o.hashes), o.is_opaque, np.int64) for o in objects]
        hashes = _joined([o.hashes for o in objects])
        return cls(_joined(offsets), hashes, _joined(places), _joined(opaque) != 0)


def judge(
    records: ReferenceRecords,
    objects: Sequence[ObjectRows],
    rules: RangeRules,
    result: PartitionResult,
) -> Mapping[str, Int64s]:
    """Compare one range and add what is found to the result of its topic partition.

    Returns:
        The offsets of wrong records, by the name of their count; none of rows that match no record
        and store no offset, and none that is missing if a transform may have left it out. Records
        that may be elsewhere, and were not found here, are called ``ELSEWHERE``.
    """
    data = [o for o in objects if o.place != DEAD_LETTERS]
    lettered = _joined(
        [o.offsets for o in objects if o.place == DEAD_LETTERS and o.offsets is not None]
    )
    if any(o.offsets is None for o in data):
        if not rules.payloads:
            _compare_counts(records, objects, rules, result)
            return {}
        data_offsets = iter(_matched(records, data, lettered))
    else:
        data_offsets = (o.offsets for o in data if o.offsets is not None)
    offsets = [next(data_offsets) if o.place != DEAD_LETTERS else o.offsets for o in objects]
    known = [_none if o is None else o for o in offsets]
    return _compare_offsets(records, objects, known, rules, result)


_none: Int64s = np.empty(0, np.int64)


def _joined(arrays: Sequence[Int64s]) -> Int64s:
    return np.concatenate([_none, *arrays])


def _compare_counts(
    records: ReferenceRecords,
    objects: Sequence[ObjectRows],
    rules: RangeRules,
    result: PartitionResult,
) -> None:
    """Compare only the number of rows: neither offsets nor payloads identify them."""
    expected, rows = len(records.offsets) - rules.filtered, sum(len(o.hashes) for o in objects)
    result.expected += expected
    result.found += min(expected, rows)
    result.add_unchecked(expected, Unchecked.COUNTED)
    if rows < expected:
        result.missing += expected - rows
        result.add_missing_range(int(records.offsets[0]), int(records.offsets[-1]) + 1)
    elif rules.compacted:
        result.add_unchecked(rows - expected, Unchecked.COMPACTED)
    else:
        result.duplicate += rows - expected


def _compare_offsets(
    records: ReferenceRecords,
    objects: Sequence[ObjectRows],
    offsets: Sequence[Int64s],
    rules: RangeRules,
    result: PartitionResult,
) -> Mapping[str, Int64s]:
    """Compare row by row; ``offsets`` has one array per object."""
    rows = _ObjectRows.of(objects, offsets)
    at = np.searchsorted(records.offsets, rows.offsets)
    is_record = at < len(records.offsets)
    is_record[is_record] = records.offsets[at[is_record]] == rows.offsets[is_record]
    foreign = rows.offsets[~is_record]
    if rules.compacted:
        result.add_unchecked(len(foreign), Unchecked.COMPACTED)
    else:
        result.foreign += len(foreign)
    at, hashes, places = at[is_record], rows.hashes[is_record], rows.places[is_record]
    seen = np.zeros(len(records.offsets), np.int64)
    np.add.at(seen, at, 1)
    result.duplicate += int((seen - 1).clip(min=0).sum())
    result.found += int((seen > 0).sum())
    absent = seen == 0
    elsewhere = _none
    if records.elsewhere is not None:
        elsewhere = records.offsets[absent & records.elsewhere]
        absent &= ~records.elsewhere
    _add_missing(records, absent, rules, result)
    result.expected -= len(elsewhere)
    # Dead letters hold what Kafka holds, regardless of the group's decoding.
    routed = places != DEAD_LETTERS
    is_compared = ~routed | (rules.payloads & ~rows.opaque[is_record])
    if records.undecided is not None:
        is_compared &= ~routed | ~records.undecided[at]
    corrupted = np.unique(at[is_compared & (records.hashes[at] != hashes)])
    result.corrupted += len(corrupted)
    result.add_unchecked(len(np.unique(at[~is_compared])), Unchecked.PAYLOAD)
    # They have no output partition of their own, and an unknown one cannot be compared.
    placed = routed & (records.places[at] != UNKNOWN)
    result.add_unchecked(int((routed & ~placed).sum()), Unchecked.PLACE)
    misplaced = np.unique(at[placed & (records.places[at] != places)])
    result.misplaced += len(misplaced)
    result.disordered += sum(_out_of_order(run) for run in _runs(objects, offsets))
    return {
        "missing": records.offsets[absent] if not rules.filtered else _none,
        "duplicate": records.offsets[seen > 1],
        "misplaced": records.offsets[misplaced],
        "corrupted": records.offsets[corrupted],
        "foreign": foreign[(foreign != NO_RECORD) & (not rules.compacted)],
        ELSEWHERE: elsewhere,
    }


def _add_missing(
    records: ReferenceRecords,
    absent: npt.NDArray[np.bool_],
    rules: RangeRules,
    result: PartitionResult,
) -> None:
    missing = max(int(absent.sum()) - rules.filtered, 0)
    result.expected += len(records.offsets) - min(rules.filtered, int(absent.sum()))
    result.missing += missing
    if not missing:
        return
    # If a transform filters, it is unknown which of the absent records should be there: the ranges
    # then name all absent ones.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], absent.view(np.int8), [0]])))
    for first, after in edges.reshape(-1, 2).tolist():
        result.add_missing_range(int(records.offsets[first]), int(records.offsets[after - 1]) + 1)


def _runs(objects: Sequence[ObjectRows], offsets: Sequence[Int64s]) -> Iterator[Int64s]:
    """The rows that must be in offset order: all of a place, run and schema, by name."""
    by_place: defaultdict[tuple[int, int, str], list[Int64s]] = defaultdict(list)
    for o, object_offsets in zip(objects, offsets, strict=True):
        if not o.is_sorted:
            by_place[o.place, o.run, o.schema].append(object_offsets[object_offsets != NO_RECORD])
    return (_joined(runs) for runs in by_place.values())


def _out_of_order(offsets: Int64s) -> int:
    """The least number of rows that must move for the rest to be in order.

    That is all but the longest increasing subsequence. Duplicates count as in order.
    """
    if not (np.diff(offsets) < 0).any():
        return 0
    offsets = offsets[np.sort(np.unique(offsets, return_index=True)[1])]
    ends: list[int] = []
    for offset in offsets.tolist():
        place = bisect_right(ends, offset)
        ends[place : place + 1] = [offset]
    return len(offsets) - len(ends)


# ----------------------------------------------------------------------- rows without offsets


def _matched(
    records: ReferenceRecords, data: Sequence[ObjectRows], lettered: Int64s
) -> list[Int64s]:
    """For each object, the offset of the record that each of its rows is, or ``NO_RECORD``."""
    is_open = ~np.isin(records.offsets, lettered)
    matched: list[Int64s | None] = [None] * len(data)
    for place in {o.place for o in data}:
        here = [i for i, o in enumerate(data) if o.place == place]
        at = np.flatnonzero(is_open & (records.places == place))
        rows = _joined([data[i].hashes for i in here])
        if len(at) == len(rows) and (records.hashes[at] == rows).all():
            ends = np.cumsum([len(data[i].hashes) for i in here])[:-1]
            for i, part in zip(here, np.split(records.offsets[at], ends), strict=True):
                matched[i] = part
            is_open[at] = False
    rest = [i for i, offsets in enumerate(matched) if offsets is None]
    if rest:
        matching = _Matching(records, np.flatnonzero(is_open), [data[i] for i in rest])
        for i, offsets in zip(rest, matching.result(), strict=True):
            matched[i] = offsets
    return [offsets for offsets in matched if offsets is not None]


@dataclass
class _Matching:
    """Matches rows to records where they do not agree one by one.

    Attributes:
        records: of the range.
        open_: positions of the records that no row has matched yet.
        objects: whose rows are matched.
        positions: for each object, the position of each row's record, or ``NO_RECORD``.
        taken: positions that a row has matched.
    """

    records: ReferenceRecords
    open_: Int64s
    objects: Sequence[ObjectRows]
    positions: "list[array[int]]" = field(init=False)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.positions = [array("q", [NO_RECORD]) * len(o.hashes) for o in self.objects]
        self.places, self.hashes = self.records.places.tolist(), self.records.hashes.tolist()

    def result(self) -> list[Int64s]:
        """The offset of each row's record, or ``NO_RECORD``; the order of the steps matters.

        They go from the surest match to the weakest, because a record is matched only once.
        """
        at = self.open_.tolist()
        self._match(at, lambda i: (self.places[i], self.hashes[i]), lambda o, h: (o.place, h))
        self._match(at, lambda i: self.hashes[i], lambda _, h: h)
        self._match_duplicates()
        self._match(at, lambda i: self.places[i], lambda o, _: o.place)
        self._match(at, lambda i: self.places[i], lambda _, __: UNKNOWN)
        # NO_RECORD is -1: as an index it selects the appended element.
        offsets = np.append(self.records.offsets, NO_RECORD)
        return [offsets[np.frombuffer(row, np.int64)] if row else _none for row in self.positions]

    def _unmatched(self) -> Iterator[tuple[int, int, int]]:
        """Object number, row number and hash of every row without a record."""
        for number, o in enumerate(self.objects):
            positions = self.positions[number]
            yield from (
                (number, row, h)
                for row, h in enumerate(o.hashes.tolist())
                if positions[row] == NO_RECORD
            )

    def _match(
        self, at: Sequence[int], name_of_record: _NameOfRecord, name_of_row: _NameOfRow
    ) -> None:
        """Match each row to the first open record of the same name."""
        waiting: defaultdict[object, deque[int]] = defaultdict(deque)
        for position in at:
            if position not in self.taken:
                waiting[name_of_record(position)].append(position)
        for number, row, h in self._unmatched():
            queue = waiting.get(name_of_row(self.objects[number], h))
            if queue:
                self.positions[number][row] = position = queue.popleft()
                self.taken.add(position)

    def _match_duplicates(self) -> None:
        """Match each row whose payload only matched records have to the first such record."""
        first: dict[object, int] = {}
        for position, h in enumerate(self.hashes):
            first.setdefault((self.places[position], h), position)
            first.setdefault(h, position)
        for number, row, h in self._unmatched():
            seen_at = first.get((self.objects[number].place, h), first.get(h))
            if seen_at is not None:
                self.positions[number][row] = seen_at
