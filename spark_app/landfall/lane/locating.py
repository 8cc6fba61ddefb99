"""Finds what the ledger contains about one offset with few requests, however long it is.

Segments have an index; what is in none yet is read backwards.
"""

from collections.abc import Callable
from contextlib import closing

from landfall import ledger
from landfall.lane.reading import Lane
from landfall.lane.segments import StoredSegment
from landfall.ledger import Record, State
from landfall.ledger.effects import Effect, LifetimeBegan, RangeLanded, RangeSkipped, effects
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.segments import GROUP_SIZE, SegmentEntry


def records_in_segments(lane: Lane, tp: TopicPartition, offset: int) -> list[Record] | None:
    """The records in segments that record the outcome of an offset, by the last snapshot.

    None if the whole ledger has to be read for that: the offset is not landed in a segment, or
    since the last segment a topic partition entered or left, objects were lost, or dead letters
    were replayed. What was recorded since the last snapshot is not seen.

    Raises:
        Stalled: LEDGER_BROKEN, a segment is gone or damaged.
        Retry: the store failed.
    """
    state = lane.last_snapshot()
    if state is None or not state.segments or tp not in state.checkpoint:
        return None
    if offset >= state.checkpoint[tp] or state.changed_seq > state.segments[-1].last:
        return None
    found: list[Record] = []
    for segment, is_last_life in _candidates(lane, state, tp, offset):
        about = segment.index(tp)
        if is_last_life:  # what the segment contains about the topic before it was created again
            about = about[_last_begin(about) :]
        seqs = sorted({e.at for e in about if e.start <= offset < e.end})
        found += [ledger.decode(seq, segment.body(seq)) for seq in seqs]
    return sorted(found, key=lambda record: record.header.seq) or None


def _candidates(
    lane: Lane, state: State, tp: TopicPartition, offset: int
) -> list[tuple[StoredSegment, bool]]:
    """The segments that concern the offset, and whether the topic began there."""
    by_first = {rolled.first: StoredSegment(lane.slots, rolled.key) for rolled in state.segments}
    newest, found = len(state.segments) - 1, list[tuple[StoredSegment, bool]]()
    while newest >= 0:
        entries = by_first[state.segments[newest].first].catalog(tp)
        for entry in reversed(entries):
            if entry.start <= offset < entry.end:
                found.append((by_first[entry.at], entry.begins))
            if entry.begins:
                return found
        newest = newest // GROUP_SIZE * GROUP_SIZE - 1
    return found


def _last_begin(about: list[SegmentEntry]) -> int:
    return max((i for i, entry in enumerate(about) if entry.begins), default=0)


def last_records(
    lane: Lane,
    state: State,
    tp: TopicPartition,
    offset: int,
    may_continue: Callable[[int], bool],
) -> list[Record] | None:
    """The last records through ``state``, from the one that decided the outcome of an offset on.

    They are read backwards, so what has landed a short time ago takes few requests.

    Args:
        lane: the lane.
        state: of its ledger.
        tp: the topic partition.
        offset: in it.
        may_continue: called with the number of records that were read, before the next is.

    Returns:
        The records in order, as ``find_offset`` takes them; None if ``may_continue`` ended the
        search, or the ledger never had the topic partition.

    Raises:
        Stalled: LEDGER_BROKEN, a slot is missing.
        Retry: the store failed.
    """
    found: list[Record] = []
    with closing(lane.records_back(state)) as records:
        while may_continue(len(found)):
            record = next(records, None)
            if record is None:
                return None
            found.append(record)
            if any(_decides(effect, tp, offset) for effect in effects(record, tp)):
                return found[::-1]
    return None


def _decides(effect: Effect, tp: TopicPartition, offset: int) -> bool:
    match effect:
        case LifetimeBegan(entry=entry):
            return entry.topic_partition == tp
        case RangeLanded(landed=landed):
            return landed.piece.topic_partition == tp and offset in landed.piece.offsets
        case RangeSkipped(piece=piece):
            return piece.topic_partition == tp and offset in piece.offsets
        case _:
            return False
