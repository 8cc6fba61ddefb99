"""Reads what another group has landed, by the index of its ledger's segments.

Slots that no segment holds yet are read once, and of each only what it is about is kept. So
following it costs one listing, and a range of a topic partition a few requests, however long the
ledger is.

What is committed and not confirmed is looked for in the store: see ``landfall.lane.seen``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from landfall import ledger
from landfall.errors import Retry
from landfall.lane import Lane, StoredSegment
from landfall.lane.seen import SeenObjects, Stat
from landfall.ledger import Record, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.effects import (
    LettersReplayed,
    LifetimeBegan,
    LifetimeEnded,
    ObjectsReplaced,
    RangeLanded,
    RangeSkipped,
    effects,
)
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.segments import GROUP_SIZE, SegmentEntry, entries_of
from landfall.ledger.task_results import LandedObject

_ABOUT = RangeLanded | RangeSkipped | LettersReplayed | ObjectsReplaced
PARALLEL_READS = 16
"""Slots read at the same time."""


@dataclass(frozen=True, slots=True)
class Life:
    """A topic partition since it entered the ledger last.

    Attributes:
        topic_id: of its topic.
        start: the offset at which landing began.
        end: the next offset that is not landed, or not visible.
        committed: the next offset that is not landed. What is from ``end`` up to here is not
            lost: it becomes visible later.
        began: the slot of its ADD.
        ended: the slot of its DROP; -1 if it is a member.
    """

    topic_id: str
    start: int
    end: int
    committed: int
    began: int
    ended: int = -1


_ByTopicPartition = Mapping[TopicPartition, Sequence[LandedObject]]


class History:
    """A lane's landed ranges, by its ledger as of the last call of ``follow``. For one thread."""

    def __init__(
        self, lane: Lane, stat: Stat, selects: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Read nothing yet.

        Args:
            lane: whose ledger is read.
            stat: looks an object of the lane up.
            selects: of topics that are not selected, nothing is kept.
        """
        self.lane = lane
        self._selects = selects
        self.state = State()
        self._seen = SeenObjects(stat)
        self._read_through = -1
        self._replays = set[int]()
        self._due: dict[int, tuple[Sequence[LandedObject], _ByTopicPartition]] = {}
        self._live: dict[TopicPartition, list[SegmentEntry]] = {}
        self._segments: dict[str, StoredSegment] = {}
        self._catalogs: dict[TopicPartition, tuple[int, list[SegmentEntry]]] = {}
        self._begun: dict[TopicPartition, Life] = {}

    def follow(self) -> None:
        """Read what is new.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
            Retry: the store does not answer, or slots were rolled up meanwhile.
        """
        state = self.lane.follow(self.state) if self.state.seq >= 0 else self.lane.read()
        first = max(state.epochs[0], self._read_through + 1)
        if first > self._read_through + 1:
            self._begun = {}  # what was rolled up meanwhile may have ended any of them
        found = list(self._new_entries(state, range(first, state.seq + 1)))
        self._forget_rolled(state)
        for entry in found:
            tp = TopicPartition(entry.topic, entry.partition)
            self._live.setdefault(tp, []).append(entry)
            if entry.begins:
                self._begun.pop(tp, None)
        self.state = state
        self._read_through = state.seq
        self._replays &= state.unapplied.keys()
        self._due = {seq: due for seq, due in self._due.items() if seq in state.unapplied}
        self._seen.forget_all_but(chain.from_iterable(state.unapplied.values()))

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """The selected topics' partitions that are, or were, in the ledger."""
        known = (*self.state.members, *self.state.retired)
        return frozenset(tp for tp in known if self._selects(tp.topic))

    def life(self, tp: TopicPartition) -> Life | None:
        """The last life of a topic partition; None if it never had one.

        Raises:
            Stalled: LEDGER_BROKEN, a segment is gone or damaged.
            Retry: the store does not answer.
        """
        return self.lives((tp,)).get(tp)

    def lives(self, tps: Iterable[TopicPartition]) -> Mapping[TopicPartition, Life]:
        """The last life of each of these topic partitions that ever had one.

        Raises:
            Stalled, Retry: as ``life``.
        """
        begun = {tp: life for tp in tps if (life := self._begun_life(tp))}
        members = [tp for tp, life in begun.items() if life.ended < 0]
        self._seen.look(o for tp in members for _, due in self._unconfirmed(tp) for o in due)
        return begun | {tp: self._present(tp, begun[tp]) for tp in members}

    def _present(self, tp: TopicPartition, life: Life) -> Life:
        """The life of a member, as far as it is landed and visible now."""
        checkpoint = self.state.checkpoint[tp]
        invisible = (
            start for start, due in self._unconfirmed(tp) if not all(map(self._seen.has, due))
        )
        end = min([checkpoint, *invisible])
        return Life(
            topic_id=life.topic_id,
            start=life.start,
            end=end,
            committed=checkpoint,
            began=life.began,
        )

    def _begun_life(self, tp: TopicPartition) -> Life | None:
        if tp not in self._begun:
            found = self._last_life(tp)
            if found is None:
                return None
            self._begun[tp] = found
        return self._begun[tp]

    def records(self, tp: TopicPartition, life: Life, offsets: OffsetRange) -> list[Record]:
        """The COMMITs, HOLEs, REPLAYs and REPLACEs about these offsets in this life, in order.

        Raises:
            Stalled, Retry: as ``life``.
        """
        found: list[Record] = []
        for segment, entries in self._stored(tp, life, offsets):
            seqs = sorted({e.at for e in entries if _concerns(e, life, offsets)})
            found += _decoded(segment, seqs)
        live = {e.at for e in self._live.get(tp, ()) if _concerns(e, life, offsets)}
        found += [self.record(seq) for seq in sorted(live)]
        return [record for record in found if any(isinstance(e, _ABOUT) for e in effects(record))]

    def record(self, seq: int) -> Record:
        """The record in a slot.

        Raises:
            Stalled, Retry: as ``life``.
        """
        return ledger.decode(seq, self._body(self.state, seq))

    def opened(self, seq: int) -> int:
        """The slot of the OPEN of the driver that wrote a slot.

        Raises:
            Stalled, Retry: as ``life``.
        """
        epochs = self.state.epochs
        if seq < epochs[0]:
            rolled = next(r for r in self.state.segments if r.first <= seq <= r.last)
            epochs = self._segment(rolled.key).directory.epochs
        return max(first for first in epochs if first <= seq) - 1

    # -------------------------------------------------------------------------------------- reading

    def _body(self, state: State, seq: int) -> bytes:
        body = self.lane.read_slot(state, seq)
        if body is None:
            raise Retry(f"{self.lane.group}: slot {seq} of its ledger was rolled up meanwhile")
        return body

    def _new_entries(self, state: State, seqs: range) -> Iterator[SegmentEntry]:
        """Index entries of slots that no segment holds, as far as they are selected."""
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            bodies = pool.map(lambda seq: self._body(state, seq), seqs)
            for seq, body in zip(seqs, bodies, strict=True):
                record = ledger.decode(seq, body)
                if any(isinstance(effect, LettersReplayed) for effect in effects(record)):
                    self._replays.add(seq)
                entries = entries_of(self.lane.group, record)
                yield from (entry for entry in entries if self._selects(entry.topic))

    def _forget_rolled(self, state: State) -> None:
        """Forget slots that a segment holds now."""
        if state.epochs[0] != self.state.epochs[0]:
            live = {
                tp: [entry for entry in entries if entry.at >= state.epochs[0]]
                for tp, entries in self._live.items()
            }
            self._live = {tp: entries for tp, entries in live.items() if entries}

    def _unconfirmed(self, tp: TopicPartition) -> Iterator[tuple[int, Sequence[LandedObject]]]:
        """Where ranges begin that no record calls visible yet, and the objects that hold them.

        What a REPLAY has decided is of ranges that were visible before.
        """
        for entry in self._live.get(tp, ()) if self.state.unapplied else ():
            if entry.at in self.state.unapplied and entry.at not in self._replays:
                yield entry.start, self._due_of(entry.at).get(tp, ())

    def _due_of(self, seq: int) -> _ByTopicPartition:
        """The objects that are due under the COMMIT in a slot, with REPAIRs and LOSTs in effect."""
        due = self.state.unapplied[seq]
        known = self._due.get(seq)
        if known is None or known[0] is not due:
            found: dict[TopicPartition, list[LandedObject]] = {}
            for landed in due:
                found.setdefault(topic_partition(landed.key), []).append(landed)
            self._due[seq] = known = due, found
        return known[1]

    def _segment(self, key: str) -> StoredSegment:
        if key not in self._segments:
            self._segments[key] = StoredSegment(self.lane.slots, key)
        return self._segments[key]

    def _catalog(self, tp: TopicPartition) -> list[SegmentEntry]:
        """Return the segments with entries of a topic partition, in order."""
        segments = self.state.segments
        known, found = self._catalogs.get(tp, (-1, []))
        if known != len(segments):
            # The last segment of each group has the catalog of its group.
            newest = [*segments[GROUP_SIZE - 1 :: GROUP_SIZE]]
            newest += segments[-1:] if len(segments) % GROUP_SIZE else ()
            keys = [rolled.key for rolled in newest]
            found = [entry for key in keys for entry in self._segment(key).catalog(tp)]
            self._catalogs[tp] = len(segments), found
        return found

    def _stored(
        self, tp: TopicPartition, life: Life, offsets: OffsetRange
    ) -> Iterator[tuple[StoredSegment, list[SegmentEntry]]]:
        """The segments with something about these offsets, each with what it is about."""
        by_first = {rolled.first: rolled for rolled in self.state.segments}
        wanted = dict.fromkeys(e.at for e in self._catalog(tp) if _overlaps(e, offsets))
        for first in wanted:
            if by_first[first].last > life.began:
                segment = self._segment(by_first[first].key)
                yield segment, segment.index(tp)

    # ---------------------------------------------------------------------------------------- lives

    def _last_life(self, tp: TopicPartition) -> Life | None:
        ended = -1
        for seq in self._begins(tp):
            for effect in effects(self.record(seq)):
                match effect:
                    case LifetimeEnded():
                        ended = seq if ended < 0 else ended
                    case LifetimeBegan(entry=entry) if entry.topic_partition == tp:
                        end = entry.start if ended < 0 else self._end(tp, seq, ended)
                        end = max(end, entry.start)
                        return Life(
                            topic_id=entry.topic_id,
                            start=entry.start,
                            end=end,
                            committed=end,
                            began=seq,
                            ended=ended,
                        )
                    case _:
                        pass
        return None

    def _begins(self, tp: TopicPartition) -> Iterator[int]:
        """The slots in which a topic partition has entered or left, the last one first."""
        yield from (e.at for e in reversed(self._live.get(tp, ())) if e.begins)
        by_first = {rolled.first: rolled.key for rolled in self.state.segments}
        for first in dict.fromkeys(e.at for e in reversed(self._catalog(tp)) if e.begins):
            index = self._segment(by_first[first]).index(tp)
            yield from (e.at for e in reversed(index) if e.begins)

    def _end(self, tp: TopicPartition, began: int, ended: int) -> int:
        """Where a life ended that is over: the end of the last range that it landed or skipped."""
        life = Life(topic_id="", start=0, end=0, committed=0, began=began, ended=ended)
        end = self._last_end(tp, life, self._live.get(tp, ()))
        by_first = {rolled.first: rolled for rolled in self.state.segments}
        for entry in sorted(self._catalog(tp), key=_end_of, reverse=True):
            rolled = by_first[entry.at]
            if entry.end > end and rolled.last > began and rolled.first < ended:
                index = self._segment(rolled.key).index(tp)
                end = max(end, self._last_end(tp, life, index))
        return end

    def _last_end(self, tp: TopicPartition, life: Life, entries: Iterable[SegmentEntry]) -> int:
        """The end of the last range among these that was landed or skipped in a life; or 0.

        What is replaced meanwhile may be of a former life, whose offsets were greater.
        """
        own = (entry for entry in entries if _is_within(entry, life))
        for entry in sorted(own, key=_end_of, reverse=True):
            said = effects(self.record(entry.at), tp)
            passed = (effect for effect in said if isinstance(effect, RangeLanded | RangeSkipped))
            pieces = [effect.piece for effect in passed if effect.piece.topic_partition == tp]
            if entry.end in (piece.offsets.end for piece in pieces):
                return entry.end
        return 0


def _end_of(entry: SegmentEntry) -> int:
    return entry.end


def _is_within(entry: SegmentEntry, life: Life) -> bool:
    return life.began < entry.at and (life.ended < 0 or entry.at < life.ended)


def _concerns(entry: SegmentEntry, life: Life, offsets: OffsetRange) -> bool:
    return _is_within(entry, life) and _overlaps(entry, offsets)


def _overlaps(entry: SegmentEntry, offsets: OffsetRange) -> bool:
    return entry.start < offsets.end and offsets.start < entry.end


def _decoded(segment: StoredSegment, seqs: list[int]) -> Iterator[Record]:
    """The records in some slots of a segment, in order."""
    wanted = set(seqs)
    if len(wanted) == 1:
        yield ledger.decode(seqs[0], segment.body(seqs[0]))
        return
    for seq, body in segment.bodies(seqs[0]) if seqs else ():
        if seq in wanted:
            yield ledger.decode(seq, body)
        if seq >= seqs[-1]:
            return
