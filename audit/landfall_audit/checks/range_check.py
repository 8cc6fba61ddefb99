"""Compares one committed range with what Kafka, or the files, have of it.

Objects of the range are read whole; of replacements, only the pieces of the range. Records that may
be in mixed rows are only collected, see ``mixed_rows``.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from landfall_audit import Fault, FaultKind, Unchecked, basenames
from landfall_audit.buckets import CannotCompare
from landfall_audit.checks import wrong_values
from landfall_audit.checks.judge import (
    DEAD_LETTERS,
    ELSEWHERE,
    UNKNOWN,
    ObjectRows,
    RangeRules,
    ReferenceRecords,
    judge,
)
from landfall_audit.checks.partition_check import AuditedPartition
from landfall_audit.checks.range_readers import Readers
from landfall_audit.errors import AuditReason, AuditStalled
from landfall_audit.feeds.part_counts import wrong_counts
from landfall_audit.ledger.corrections import Content, CorrectedRows, Range
from landfall_audit.ledger.generations import GenerationReaders
from landfall_audit.objects import rows
from landfall_audit.objects.merged_rows import MergedRows
from landfall_audit.objects.mixed_pool import MixedPool
from landfall_audit.objects.object_reader import ObjectReader
from landfall_audit.objects.rows import MessageLike, Read, Rows
from landfall_audit.payloads import SourceRecord, Undecided
from landfall_audit.route_evaluator import Headers, RouteEvaluator, Source


@dataclass(frozen=True)
class _Comparison:
    """The parts of a range that are compared; ``codes`` are numbers of output partitions."""

    records: ReferenceRecords
    objects: Sequence[ObjectRows]
    rules: RangeRules
    codes: dict[str, int]

    @property
    def has_offsets(self) -> bool:
        """Return whether all rows have offsets."""
        return all(o.offsets is not None for o in self.objects)


@dataclass(frozen=True)
class _RangeReaders:
    """How the objects of a range are read, and its records compared.

    Attributes:
        main: of the generation that landed it.
        by_key: of the generation of each object.
        by_offset: of the generation that replayed a record; of ``main`` if there is none.
    """

    main: Readers
    by_key: Mapping[str, Readers]
    by_offset: Mapping[int, Readers]

    @property
    def is_complete(self) -> bool:
        """Return whether all formats are supported."""
        found = (self.main, *self.by_key.values(), *self.by_offset.values())
        return all(readers.rows is not None for readers in found)

    @property
    def all_rows(self) -> Sequence[Rows]:
        """The ways in which rows are read, each once."""
        found = (self.main, *self.by_key.values(), *self.by_offset.values())
        return [*{id(readers.rows): readers.rows for readers in found if readers.rows}.values()]

    def rows_of(self, key: str) -> Rows:
        """How the rows of an object are read."""
        rows = self.by_key[key].rows
        assert rows is not None, "is_complete"
        return rows

    def at(self, offset: int) -> Readers:
        """How the record at an offset is compared."""
        return self.by_offset.get(offset, self.main)


class RangeCheck:
    """Checks ranges, several at once; pieces of merged objects wait in a file."""

    def __init__(
        self,
        readers: GenerationReaders,
        objects: ObjectReader,
        merged: MergedRows,
        mixed: MixedPool,
        pool: Executor,
    ) -> None:
        """Check ranges of topics that have readers; ``pool`` reads objects."""
        self._readers, self._objects = readers, objects
        self._merged, self._mixed, self._pool = merged, mixed, pool

    def leave_unchecked(self, audited: AuditedPartition, range_: Range, why: Unchecked) -> None:
        """Count a range that cannot be compared."""
        audited.check.result.add_unchecked(range_.counted, why)
        for piece in range_.pieces:
            if piece.content is Content.MIXED:
                self._mixed.add_unchecked(piece.place, piece.rows)

    def check(self, audited: AuditedPartition, range_: Range) -> None:
        """Compare a range, or count why it cannot be compared."""
        # The objects are looked up first: they must exist even if they cannot be compared.
        found = (self._objects.existing_key(key, audited.check) for key in range_.objects or ())
        try:
            keys = [key for key in found if key]
        except CannotCompare as cannot:
            self.leave_unchecked(audited, range_, cannot.why)
            return
        own = [key for key in keys if key not in range_.replayed]
        try:
            readers = self._readers_of(audited.source[0], range_, own)
            readable = readers.is_complete
            why_not = audited.why_unchecked(range_) if readable else Unchecked.UNREADABLE
            if why_not is not None:
                self.leave_unchecked(audited, range_, why_not)
                return
            self._compare(audited, range_, own, readers)
        except AuditStalled as stalled:
            if stalled.reason is not AuditReason.DATA_LOSS:
                raise
            self.leave_unchecked(audited, range_, Unchecked.GONE)
        except CannotCompare as cannot:
            self.leave_unchecked(audited, range_, cannot.why)

    def _readers_of(self, topic: str, range_: Range, keys: Sequence[str]) -> _RangeReaders:
        """How a range is read: by the spec that landed it, and what was replayed by that one's."""
        named = [*keys, *(piece.key for piece in range_.pieces)]
        by_offset = dict[int, Readers]()
        for letters, slot in sorted(range_.replayed.items(), key=lambda item: item[1]):
            offsets = self._objects.read_letters(letters).offsets
            found = () if offsets is None else offsets.tolist()
            by_offset |= dict.fromkeys(found, self._readers.of_slot(topic, slot))
        return _RangeReaders(
            self._readers.of_range(topic, range_),
            {key: self._readers.of_key(topic, key) for key in named if _is_data(key)},
            by_offset,
        )

    def _compare(
        self,
        audited: AuditedPartition,
        range_: Range,
        keys: Sequence[str],
        readers: _RangeReaders,
    ) -> None:
        check, every = audited.check, readers.all_rows
        data = [key for key in keys if _is_data(key)]
        reads = [self._pool.submit(self._objects.read, key, readers.rows_of(key)) for key in data]
        plain = [piece for piece in range_.pieces if piece.content is Content.PLAIN]
        pieces = [
            self._pool.submit(self._merged.piece, piece, readers.rows_of(piece.key))
            for piece in plain
        ]
        letters = [
            check.count(key, self._objects.read_letters(key)) for key in keys if key not in data
        ]
        lettered = [ObjectRows(DEAD_LETTERS, read.offsets, read.hashes) for read in letters]
        codes: dict[str, int] = {}
        # Kafka is read while the pool reads the data objects.
        records = self._kafka_records(audited, range_, lettered, codes, readers)
        landed = [
            _object_rows(key, check.count(key, read.result()), codes, range_.runs.get(key, 0))
            for key, read in zip(data, reads, strict=True)
        ]
        if plain:
            landed = _in_order([*zip(data, landed, strict=True)], [*_rows_of(plain, pieces, codes)])
        left_out = range_.filtered + range_.lost + range_.dead_letters_expired
        mixed = [piece for piece in range_.pieces if piece.content is Content.MIXED]
        payloads = all(
            rows_.compares_mixed if mixed else rows_.hash_of is not None for rows_ in every
        )
        rules = RangeRules(payloads, left_out, audited.compacted)
        compared = _Comparison(records, [*lettered, *landed], rules, codes)
        for wrong_count in wrong_counts(range_, records, compared.objects):
            check.add_fault(Fault(FaultKind.LEDGER, f"slot {range_.slot}", wrong_count))
        if any(any(rows_.unchecked.values()) for rows_ in every) and payloads:
            check.result.add_unchecked(sum(len(o.hashes) for o in landed), Unchecked.COLUMNS)
        if mixed:
            self._compare_mixed(audited, compared, mixed, readers)
            return
        wrong = judge(records, compared.objects, rules, check.result)
        audited.add_wrong(wrong)
        if all(rows_.content_of is not None for rows_ in every):
            named = [int(offset) for offset in wrong.get("corrupted", ())]
            self._name_values(audited, range_, records, named, (data, readers))

    # ---------------------------------------------------------------------------- wrong values

    def _name_values(
        self,
        audited: AuditedPartition,
        range_: Range,
        records: ReferenceRecords,
        offsets: Sequence[int],
        by: tuple[Sequence[str], _RangeReaders],
    ) -> None:
        """Report the first wrong records one by one; their range is read again for it."""
        check, (keys, readers) = audited.check, by
        wrong = [*offsets[: wrong_values.MAX_NAMED - check.named]]
        if not wrong:
            return
        check.named += len(wrong)
        wanted, expected = set(wrong), set(records.hashes.tolist())
        landed: dict[int, object] = {}
        without_offset = iter(wrong)
        for key in keys:
            for offset, content in self._objects.contents(key, readers.rows_of(key)):
                if offset is not None and offset in wanted:
                    landed[offset] = content
                elif offset is None and hash(content) not in expected:
                    landed[next(without_offset, -1)] = content
        again = (
            record
            for record in audited.cursor.again(range_.start, range_.end)
            if record.offset() in wanted
        )
        for record in again:
            reader = readers.at(record.offset() or 0).rows
            assert reader is not None, "is_complete"
            for fault in wrong_values.faults(audited.name, reader, [record], landed):
                check.add_fault(fault)

    # ------------------------------------------------------------------------------ mixed rows

    def _compare_mixed(
        self,
        audited: AuditedPartition,
        compared: _Comparison,
        mixed: Sequence[CorrectedRows],
        readers: _RangeReaders,
    ) -> None:
        """Compare the remaining objects, and collect records that may be in the mixed ones."""
        records, rules, result = compared.records, compared.rules, audited.check.result
        has_offsets = all(
            self._merged.has_offsets(piece.key, readers.rows_of(piece.key)) for piece in mixed
        )
        is_only_counted = not rules.payloads and not (has_offsets and compared.has_offsets)
        if is_only_counted or rules.compacted:  # rows may be of records that Kafka has no more
            for piece in mixed:
                self._mixed.add_unchecked(piece.place, piece.rows)
        if is_only_counted:
            result.add_unchecked(len(records.offsets) - rules.filtered, Unchecked.COUNTED)
            return
        codes = {
            p.place: compared.codes.setdefault(_path(p.key), len(compared.codes)) for p in mixed
        }
        elsewhere = np.zeros(len(records.offsets), np.bool_)
        for piece in mixed:
            elsewhere |= _may_be_in(piece, codes[piece.place], records)
        # Rows of equal payload stand for each other, so that their order means nothing here.
        objects = [
            replace(o, is_sorted=o.is_sorted or (o.offsets is None and o.place in codes.values()))
            for o in compared.objects
        ]
        wrong = dict(judge(replace(records, elsewhere=elsewhere), objects, rules, result))
        at = np.searchsorted(records.offsets, wrong.pop(ELSEWHERE))
        audited.add_wrong(wrong)
        self._mixed.add_filtered(codes, rules.filtered)
        unplaced = int((records.places[at] == UNKNOWN).sum())
        result.add_unchecked(unplaced, Unchecked.PLACE)
        for place, code in codes.items():
            here = at[records.places[at] == code]
            partition = audited.source[1]
            self._mixed.add(place, partition, records.offsets[here], records.hashes[here])
            self._mixed.add_unchecked(place, unplaced)

    # ------------------------------------------------------------------------------ the source

    def _kafka_records(
        self,
        audited: AuditedPartition,
        range_: Range,
        lettered: list[ObjectRows],
        codes: dict[str, int],
        readers: _RangeReaders,
    ) -> ReferenceRecords:
        """The records of a range; ``codes`` gets a number for each output partition."""
        letters = {
            offset
            for read in lettered
            if read.offsets is not None
            for offset in read.offsets.tolist()
        }
        flat, undecided = array("q"), array("b")
        for message in audited.cursor.take(range_.start, range_.end):
            is_letter, own = message.offset() in letters, readers.at(message.offset() or 0)
            hash_of = own.rows.hash_of if own.rows else None
            row_hash, why = 0, ""
            try:
                if is_letter:
                    row_hash = rows.whole_hash(message)
                elif hash_of is not None:
                    row_hash = hash_of(message)
            except Undecided as found:
                why = str(found)
                audited.check.add_undecided(why)
            place = UNKNOWN if is_letter else _place(own.route, audited.source, message, codes)
            flat.extend((message.offset(), row_hash, place))
            undecided.append(bool(why))
        columns = np.frombuffer(flat, np.int64).reshape(-1, 3)
        is_undecided = np.frombuffer(undecided, np.bool_) if any(undecided) else None
        return ReferenceRecords(columns[:, 0], columns[:, 1], columns[:, 2], undecided=is_undecided)


def _is_data(key: str) -> bool:
    return not key.startswith("_landfall/")


def _place(
    route: RouteEvaluator | None, source: Source, message: MessageLike, codes: dict[str, int]
) -> int:
    """The number of the output partition in which the row of a record must be."""
    if route is None:
        return UNKNOWN
    headers = _headers(message) if route.headers else ()
    record = SourceRecord(message.value(), message.key(), headers, None)
    path = route.output_partition(source, record, message.timestamp()[1])
    return UNKNOWN if path is None else codes.setdefault(path, len(codes))


def _may_be_in(
    piece: CorrectedRows, place: int, records: ReferenceRecords
) -> npt.NDArray[np.bool_]:
    """Return which records may have a row among the mixed ones."""
    is_here = np.isin(records.places, [place, UNKNOWN])
    return is_here & (piece.first <= records.offsets) & (records.offsets <= piece.last)


def _rows_of(
    pieces: Iterable[CorrectedRows], reads: Iterable[Future[Read]], codes: dict[str, int]
) -> Iterator[tuple[int, ObjectRows]]:
    for piece, read in zip(pieces, reads, strict=True):
        yield piece.first, _object_rows(piece.key, read.result(), codes, piece.run)


def _in_order(
    objects: Sequence[tuple[str, ObjectRows]], pieces: Sequence[tuple[int, ObjectRows]]
) -> list[ObjectRows]:
    """The rows of objects and pieces by their first offsets; an object's name has its own."""
    named = [(basenames.named(key).start, object_rows) for key, object_rows in objects]
    return [object_rows for _, object_rows in sorted([*named, *pieces], key=lambda item: item[0])]


def _path(key: str) -> str:
    """The output partition of an object, with the folders above the topic's folder."""
    folders = key.split("/")[:-1]
    topic = next(i for i, folder in enumerate(folders) if "=" not in folder)
    above, below = "/".join(folders[:topic]), "/".join(folders[topic + 1 :])
    return f"{above}//{below}" if above else below


def _object_rows(key: str, read: Read, codes: dict[str, int], run: int) -> ObjectRows:
    place, order = codes.setdefault(_path(key), len(codes)), read.order
    return ObjectRows(
        place,
        read.offsets,
        read.hashes,
        run,
        order.schema,
        order.is_sorted,
        is_opaque=bool(order.why_opaque),
    )


def _headers(message: MessageLike) -> Headers:
    """The headers of a message; none if the client cannot read them, as names that are no UTF-8."""
    try:
        # Through map, or the interpreter may notice the client's error too late.
        return next(map(type(message).headers, [message])) or ()
    except SystemError:
        return ()
