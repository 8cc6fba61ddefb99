"""Feeds: files of other programs as a topic partition whose offsets DISCOVER hands out. Pure.

A reader cuts a file into parts, and a DISCOVER gives each new part the next *number* of its feed.
Row ``r`` of part ``n`` has offset ``n * SPAN + r``. So the offsets of a feed are unique and in
order as Kafka's are, and what the ledger states about offsets holds for files: ranges adjoin, no
row is landed twice. What a part does not use of its span is invisible.

A DISCOVER names a list of parts that is stored before, under the SHA-256 of its bytes. Numbers
begin where the last list ended, so of two drivers that found the same file at once, the second one
is refused.

A part that cannot be read is *parked* by a HOLE that covers what is left of it. A later DISCOVER
gives a parked part another number, at the end of the feed, or takes it out because its file has
another version now.

A decision *gives a part up*: a DISCOVER with a parked one, or a HOLE with the part that is next. It
is remembered with the number it had, for a part after the checkpoint that is neither parked nor
given up is landed, and nothing else records it. Another decision lands it after all, by ``again``,
and another version of its file takes it out. So what was given up is never mistaken for landed.

Of an *external* feed nothing is landed: its checkpoint stays, and external workers get its numbers
by LEASEs (``landfall.ledger.feeds.leases``).
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from msgspec import UNSET, UnsetType

from landfall.ledger.decisions import topic_partition
from landfall.ledger.entries import Entry, PartList
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.records import Discover, Hole
from landfall.ledger.state import FeedState, Leasing, ParkedPart, State
from landfall.ledger.task_results import LandedSlice, PartRows, ReplayedSlice

SPAN = 1_000_000_000
"""How many offsets a part has: more rows than that it cannot have."""
MAX_LISTED = 10_000
"""How many parts a DISCOVER names at most, so that its list fits into memory many times."""
MAX_PARKED = 10_000
"""How many parts of a feed may be parked; with more of them the feed itself is wrong."""
MAX_IGNORED = 10_000
"""How many parts of a feed may be given up: they are in every snapshot."""
MAX_PARTS = (2**63 - 1) // SPAN
"""How many parts a feed has at most, by the largest offset."""


def number_of(offset: int) -> int:
    """The number of the part that an offset is in."""
    return offset // SPAN


def part_offsets(number: int) -> OffsetRange:
    """The offsets of a part."""
    return OffsetRange(number * SPAN, (number + 1) * SPAN)


def begun_to(feed: FeedState, checkpoint: int) -> int:
    """The number below which every part was landed, parked, given up, or leased at least once."""
    return feed.leasing.leased_to if feed.leasing else number_of(checkpoint)


def landed_end(feed: FeedState) -> int:
    """The checkpoint with which all numbers are landed: 0 of an external feed, which lands none."""
    return 0 if feed.leasing else feed.end * SPAN


def unlanded(
    feeds: Mapping[TopicPartition, FeedState], tp: TopicPartition, offsets: OffsetRange
) -> int:
    """How many offsets these are, or of a feed, of how many parts they are."""
    if tp not in feeds or not len(offsets):
        return len(offsets)
    return number_of(offsets.end - 1) - number_of(offsets.start) + 1


def enter(state: State, entries: Iterable[Entry]) -> State:
    """The state after these topic partitions entered the lane."""
    added = dict[TopicPartition, FeedState]()
    for entry in entries:
        tp = entry.topic_partition
        if entry.external and not entry.feed:
            raise ValueError(f"{tp}: is external, but no feed")
        if entry.feed and entry.start:
            raise ValueError(f"{tp}: the feed enters at offset {entry.start}, not at 0")
        if entry.feed:
            added[tp] = FeedState(leasing=Leasing() if entry.external else None)
    return replace(state, feeds={**state.feeds, **added}) if added else state


def leave(state: State, tps: Iterable[TopicPartition]) -> State:
    """The state after these topic partitions left the lane."""
    left = state.feeds.keys() & set(tps)
    feeds = {tp: feed for tp, feed in state.feeds.items() if tp not in left}
    return replace(state, feeds=feeds) if left else state


def check_discovered(state: State, tps: Iterable[TopicPartition]) -> None:
    """Raise ``ValueError`` if one of these is landed past what DISCOVERs have handed out."""
    for tp in state.feeds.keys() & set(tps):
        if state.feeds[tp].leasing:
            raise ValueError(f"{tp}: its files are processed externally, and not landed")
        end = state.feeds[tp].end * SPAN
        if state.checkpoint[tp] > end:
            raise ValueError(
                f"{tp}: landed up to {state.checkpoint[tp]}, but its files end at {end}"
            )


def park(state: State, hole: Hole) -> State:
    """The state after a HOLE, whose checkpoint has moved already."""
    tp, offsets = hole.piece.topic_partition, hole.piece.offsets
    if tp not in state.feeds:
        if hole.attempt:
            raise ValueError(f"{tp}: counts attempts, but it is no feed")
        return state
    feed, number = state.feeds[tp], number_of(offsets.start)
    if not len(offsets) or offsets.end != part_offsets(number).end:
        raise ValueError(f"{hole.piece}: not what is left of one part, which ends at a full span")
    if not hole.decision and hole.attempt < 1:
        raise ValueError(f"{hole.piece}: parked without an attempt")
    skip = offsets.start - part_offsets(number).start
    left = ParkedPart(hole.attempt, skip, hole.reason, list_of(feed, number))
    passed = replace(feed, holes=feed.holes + 1)
    if hole.decision:
        _check_ignored(tp, len(feed.ignored) + 1)
        return _with(state, tp, replace(passed, ignored={**feed.ignored, number: left}))
    if len(feed.parked) >= MAX_PARKED:
        raise ValueError(f"{tp}: more than {MAX_PARKED} parts would be parked")
    return _with(state, tp, replace(passed, parked={**feed.parked, number: left}))


def discover(state: State, record: Discover) -> State:
    """The state after a DISCOVER."""
    tp = record.topic_partition
    feed = state.feeds.get(tp)
    if feed is None:
        raise ValueError(f"{tp}: is no feed of the lane")
    _check_taken(feed, record)
    end = _check_listed(tp, feed, record.listed) if record.listed else feed.end
    taken = {*record.again, *record.replaced, *record.ignored}
    through = feed.known.through if feed.known else 0
    if record.known and not through < record.known.through <= end:
        raise ValueError(
            f"{tp}: knows the files below {record.known.through}, not above {through} and up to "
            f"{end}"
        )
    if not (record.listed or record.known or taken):
        raise ValueError(f"{tp}: discovers nothing")
    known = record.known or feed.known
    # Leases name the lists of their parts, as parked parts do.
    needed = min(known.through if known else 0, begun_to(feed, state.checkpoint[tp]))
    if _is_any_invisible(state, tp):
        needed = 0  # what is lost of it may have to be made again, by its list
    lists = (*feed.lists, *((record.listed,) if record.listed else ()))
    given_up = {number: feed.parked[number] for number in record.ignored}
    after = replace(
        feed,
        end=end,
        lists=tuple(list_ for list_ in lists if list_.end > needed),
        known=known,
        parked=_without(feed.parked, taken),
        ignored={**_without(feed.ignored, taken), **given_up},
    )
    _check_ignored(tp, len(after.ignored))
    return _with(state, tp, after)


def _is_any_invisible(state: State, tp: TopicPartition) -> bool:
    """Return whether objects of a feed are committed that are not certain to be visible."""
    waiting = chain.from_iterable((*state.unapplied.values(), *state.missing.values()))
    return any(topic_partition(object_.upload.key) == tp for object_ in waiting)


def check_counted(state: State, slices: Iterable[LandedSlice] | Iterable[ReplayedSlice]) -> None:
    """Raise ``ValueError`` if a slice counts records of parts that it does not have."""
    for landed in slices:
        if why := miscounted(state.feeds, landed.piece, landed.parts):
            raise ValueError(f"{landed.piece}: {why}")


def miscounted(
    feeds: Container[TopicPartition], slice_: Slice, parts: tuple[PartRows, ...] | UnsetType
) -> str | None:
    """Describe which part has more records in a slice than offsets; None if none has."""
    if parts is UNSET:
        return None
    if slice_.topic_partition not in feeds:
        return "counts parts of files, but it is no feed"
    for part in parts:
        own = part_offsets(part.number)
        room = min(own.end, slice_.offsets.end) - max(own.start, slice_.offsets.start)
        if part.rows > max(0, room):
            return f"counts {part.rows} records of part {part.number}, which has {max(0, room)}"
    return None


def lists_of(
    feeds: Mapping[TopicPartition, FeedState], slices: Iterable[Slice]
) -> tuple[tuple[TopicPartition, PartList], ...]:
    """The lists that have the parts of these slices, as far as they are of feeds."""
    found: dict[tuple[TopicPartition, PartList], None] = {}
    for slice_ in slices:
        tp, offsets = slice_.topic_partition, slice_.offsets
        lists = feeds[tp].lists if tp in feeds else ()
        for listed in lists:
            if listed.first * SPAN < offsets.end and offsets.start < listed.end * SPAN:
                found[tp, listed] = None
    return tuple(found)


def list_of(feed: FeedState, number: int) -> PartList:
    """The list with a part that is not landed.

    Raises:
        ValueError: none of the lists that the feed still names has it.
    """
    for listed in feed.lists:
        if listed.first <= number < listed.end:
            return listed
    raise ValueError(f"no list has number {number}, they end at {feed.end}")


def landed_parts(feed: FeedState, checkpoint: int) -> int:
    """How many parts are landed as a whole under the numbers that they have.

    Of an external feed, how many are done.
    """
    return feed.leasing.done if feed.leasing else number_of(checkpoint) - feed.holes


def _without(parts: Mapping[int, ParkedPart], taken: Container[int]) -> dict[int, ParkedPart]:
    return {number: part for number, part in parts.items() if number not in taken}


def _with(state: State, tp: TopicPartition, feed: FeedState) -> State:
    return replace(state, feeds={**state.feeds, tp: feed})


def _check_listed(tp: TopicPartition, feed: FeedState, listed: PartList) -> int:
    """The number after the last one of a list that may follow."""
    if listed.first != feed.end:
        raise ValueError(f"{tp}: numbers parts from {listed.first}, expected {feed.end}")
    count = listed.end - listed.first
    if not (0 < count <= MAX_LISTED and listed.end <= MAX_PARTS):
        raise ValueError(f"{tp}: numbers {count} parts up to {listed.end}")
    if not 0 < listed.files <= count or listed.bytes < 0:
        raise ValueError(f"{tp}: lists {count} parts of {listed.files} files, {listed.bytes} bytes")
    return listed.end


def _check_taken(feed: FeedState, record: Discover) -> None:
    """Raise ``ValueError`` if a part is taken out that is not parked, or for no good reason."""
    tp, taken = record.topic_partition, (*record.again, *record.replaced, *record.ignored)
    if len(taken) != len({*taken}) or not feed.parked.keys() | feed.ignored.keys() >= {*taken}:
        raise ValueError(f"{tp}: takes parts that are not parked: {sorted(taken)}")
    if not feed.parked.keys() >= {*record.ignored}:
        raise ValueError(f"{tp}: gives up what is given up: {sorted(record.ignored)}")
    if feed.ignored.keys() & {*record.again} and record.decision is None:
        raise ValueError(f"{tp}: lands what was given up without a decision: {record.again}")
    listed = record.listed.end - record.listed.first if record.listed else 0
    if len(record.again) > listed:
        raise ValueError(f"{tp}: {len(record.again)} parts get other numbers in a list of {listed}")
    if record.ignored and record.decision is None:
        raise ValueError(f"{tp}: gives parts up without a decision: {sorted(record.ignored)}")


def _check_ignored(tp: TopicPartition, count: int) -> None:
    if count > MAX_IGNORED:
        raise ValueError(f"{tp}: more than {MAX_IGNORED} parts would be given up")
