"""Leases: parts of external feeds, processed by external workers. Pure.

A LEASE gives parts to a *holder*. Its slot's number is the lease: numbers only grow, so that
anything a worker writes elsewhere can be fenced by it. It is over once OUTCOMEs have recorded the
outcome of each part, and a worker's report of a lease that is over is refused.

=============  ======================================  =========================================
a number is    when                                    and may become
=============  ======================================  =========================================
numbered       from ``leased_to`` on, below ``end``    leased, in order
leased         it is in one open lease                 done; parked, failed or expired: one more
                                                       attempt; parked, returned: as before
parked         it is in ``FeedState.parked``                leased; taken out by a DISCOVER
done           else
=============  ======================================  =========================================

So no part is two workers' at a time, each is done at most once, and none is lost sight of. Time
decides nothing here: a lease that is too late is as good as any other until a record ends it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from landfall.ledger.entries import PartList
from landfall.ledger.feeds import MAX_PARKED
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import Extend, Lease, LeaseOutcome
from landfall.ledger.state import FeedState, LeasedPart, Leasing, OpenLease, ParkedPart, State

MAX_TAKEN = 1_000
"""How many parts a lease has at most."""
MAX_UNFINISHED = MAX_PARKED
"""How many parts of a feed may be leased or parked: they are in every snapshot."""
KEPT_REQUESTS = 1_000
"""How many ids of requests a feed remembers, the last ones."""


def apply(state: State, record: Lease | Extend | LeaseOutcome) -> State:
    """The state after a record about leases.

    Raises:
        ValueError: the feed is not external, a part is not free, or the lease is over.
    """
    match record:
        case Lease():
            return _lease(state, record)
        case Extend():
            return _extend(state, record)
        case LeaseOutcome():
            return _end(state, record)


def _lease(state: State, record: Lease) -> State:
    tp, numbers = record.topic_partition, record.numbers
    feed, leasing = _external(state, tp)
    if not 0 < len(numbers) <= MAX_TAKEN or list(numbers) != sorted({*numbers}):
        raise ValueError(f"{tp}: leases {len(numbers)} parts, which are not 1 to {MAX_TAKEN}")
    if not record.holder or record.until <= 0:
        raise ValueError(f"{tp}: leases to {record.holder!r} until {record.until}")
    fresh = [number for number in numbers if number not in feed.parked]
    leased_to = leasing.leased_to + len(fresh)
    if fresh != list(range(leasing.leased_to, leased_to)) or leased_to > feed.end:
        raise ValueError(
            f"{tp}: leases {fresh}, which are not free: the next one is {leasing.leased_to}, and "
            f"they end at {feed.end}"
        )
    if fresh and unfinished(feed) + len(fresh) > MAX_UNFINISHED:
        raise ValueError(f"{tp}: more than {MAX_UNFINISHED} parts would be leased or parked")
    parts = {number: part_to_lease(feed, number) for number in numbers}
    opened = OpenLease(record.holder, record.until, parts, record.request)
    rest = {number: part for number, part in feed.parked.items() if number not in parts}
    after = replace(
        _requested(tp, leasing, record.request),
        leased_to=leased_to,
        open={**leasing.open, record.header.seq: opened},
    )
    return _with(state, tp, replace(feed, parked=rest, leasing=after))


def _extend(state: State, record: Extend) -> State:
    tp = record.topic_partition
    feed, leasing = _external(state, tp)
    extended = _open(tp, leasing, record.lease)
    if record.until <= extended.until:
        raise ValueError(
            f"{tp}: extends lease {record.lease} until {record.until}, which is not after "
            f"{extended.until}"
        )
    opened = {**leasing.open, record.lease: replace(extended, until=record.until)}
    after = replace(_requested(tp, leasing, record.request), open=opened)
    return _with(state, tp, replace(feed, leasing=after))


def _end(state: State, record: LeaseOutcome) -> State:
    tp = record.topic_partition
    feed, leasing = _external(state, tp)
    ended = _open(tp, leasing, record.lease)
    _check_ended(record, ended)
    parked = {number: _parked(ended, number, record) for number in _not_done(record)}
    left = {n: part for n, part in ended.parts.items() if n not in {*parked, *record.done}}
    opened = {slot: lease for slot, lease in leasing.open.items() if slot != record.lease}
    if left:
        opened[record.lease] = replace(ended, parts=left)
    after = replace(
        _requested(tp, leasing, record.request),
        done=leasing.done + len(record.done),
        open=opened,
    )
    return _with(state, tp, replace(feed, parked={**feed.parked, **parked}, leasing=after))


def leased(leasing: Leasing) -> int:
    """How many parts are leased."""
    return sum(len(lease.parts) for lease in leasing.open.values())


def unfinished(feed: FeedState) -> int:
    """How many parts of an external feed are leased or parked."""
    return len(feed.parked) + (leased(feed.leasing) if feed.leasing else 0)


def part_to_lease(feed: FeedState, number: int) -> LeasedPart:
    """A part as a lease has it, that is parked or was never leased.

    Raises:
        ValueError: no list that the feed names has it.
    """
    if parked := feed.parked.get(number):
        return LeasedPart(parked.attempt, parked.listed)
    return LeasedPart(0, _list_of(feed.lists, number))


def find(feeds: Mapping[TopicPartition, FeedState], slot: int) -> TopicPartition | None:
    """The feed of a lease that is not over; None if there is none."""
    found = (tp for tp, feed in feeds.items() if feed.leasing and slot in feed.leasing.open)
    return next(found, None)


def _list_of(lists: Sequence[PartList], number: int) -> PartList:
    at = bisect_right(lists, number, key=lambda listed: listed.end)
    if at == len(lists) or not lists[at].first <= number:
        raise ValueError(f"no list has number {number}")
    return lists[at]


def _external(state: State, tp: TopicPartition) -> tuple[FeedState, Leasing]:
    feed = state.feeds.get(tp)
    if feed is None or feed.leasing is None:
        raise ValueError(f"{tp}: is no external feed of the lane")
    return feed, feed.leasing


def _open(tp: TopicPartition, leasing: Leasing, slot: int) -> OpenLease:
    if slot not in leasing.open:
        raise ValueError(f"{tp}: lease {slot} is over, or there never was one")
    return leasing.open[slot]


def _check_ended(record: LeaseOutcome, ended: OpenLease) -> None:
    """Raise ``ValueError`` unless each part is the lease's, and ends for one reason."""
    where = f"{record.topic_partition}: lease {record.lease}"
    numbers = (*record.done, *_not_done(record))
    if not numbers or len(numbers) != len({*numbers}) or not ended.parts.keys() >= {*numbers}:
        raise ValueError(f"{where} has the parts {sorted(ended.parts)}, not {sorted(numbers)}")
    if record.failed and not record.why:
        raise ValueError(f"{where}: parts failed without a reason")
    if record.expired and (len(record.expired) < len(ended.parts) or record.at < ended.until):
        raise ValueError(
            f"{where} expires at {record.at} with {len(record.expired)} of its "
            f"{len(ended.parts)} parts, but it holds until {ended.until}"
        )


def _not_done(record: LeaseOutcome) -> tuple[int, ...]:
    return (*record.failed, *record.returned, *record.expired)


def _parked(ended: OpenLease, number: int, record: LeaseOutcome) -> ParkedPart:
    part = ended.parts[number]
    if number in record.returned:
        # A worker that gives back what it has not begun costs nothing: neither an attempt nor a
        # wait.
        return ParkedPart(part.attempt, 0, f"given back by {ended.holder}", part.listed)
    # A lease that expired is an attempt: its file may be what killed the worker.
    expired = f"the lease of {ended.holder} expired"
    reason = expired if number in record.expired else record.why
    return ParkedPart(
        attempt=part.attempt + 1, skip=0, reason=reason, listed=part.listed, at=record.at
    )


def _requested(tp: TopicPartition, leasing: Leasing, request: str) -> Leasing:
    """The feed's requests with one more, which was not carried out before."""
    if not request:
        return leasing
    if request in leasing.requests:
        raise ValueError(f"{tp}: request {request} was carried out before")
    return replace(leasing, requests=(*leasing.requests, request)[-KEPT_REQUESTS:])


def _with(state: State, tp: TopicPartition, feed: FeedState) -> State:
    return replace(state, feeds={**state.feeds, tp: feed})
