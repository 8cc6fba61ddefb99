"""Decide what a request about taken files records, or why it is refused. Pure.

A running driver and the command line without one decide by the same functions. ``now`` is the time
of the process that decides: it determines what is offered again, and when a lease may be ended for
being too late, but never whose a file is. Only the ledger determines that (docs/adr/0028).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from landfall import ledger
from landfall.api import spec
from landfall.api.values import plural
from landfall.api.verbs import (
    ExtendLeaseRequest,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseRequest,
    ReturnFilesRequest,
    TakeFilesRequest,
)
from landfall.driver.decide.requests import PlannedRecord, Refusal
from landfall.ledger import FeedState, OpenLease, State
from landfall.ledger.feeds.leases import MAX_TAKEN, MAX_UNFINISHED, find, unfinished
from landfall.ledger.offsets import TopicPartition

OfLease = FilesDoneRequest | FilesFailedRequest | ReturnFilesRequest
Numbers = Callable[[TopicPartition, OpenLease, tuple[str, ...]], tuple[int, ...]]
"""The numbers of the files with these names in a lease; it raises ``ValueError`` for one that is
not there, or there twice.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A request that needs no record: what it asks for is so, and why."""

    message: str
    lease: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedLease(PlannedRecord):
    """The LEASE of these numbers."""

    numbers: tuple[int, ...]


Plan = PlannedRecord | Refusal | Known


def decide(
    state: State,
    feeds: Mapping[TopicPartition, spec.Feed],
    request: LeaseRequest,
    now: datetime,
    numbers: Numbers,
) -> Plan:
    """Return the record that carries a request out; why it needs none; or why it is refused."""
    match request:
        case TakeFilesRequest():
            return _take(state, feeds, request, now)
        case ExtendLeaseRequest():
            return _extend(state, request, now)
    return _end(state, request, now, numbers)


def expirations(state: State, now: datetime) -> Iterator[PlannedRecord]:
    """Yield the records that end leases whose time is over."""
    for tp, feed in sorted(state.feeds.items()):
        for slot, lease in (feed.leasing.open if feed.leasing else {}).items():
            if lease.until <= millis(now):
                parts = tuple(sorted(lease.parts))
                make = partial(
                    ledger.LeaseOutcome,
                    topic_partition=tp,
                    lease=slot,
                    at=millis(now),
                    expired=parts,
                )
                text = f"OUTCOME: lease {slot} of {lease.holder} expires, {_files(len(parts))}"
                yield PlannedRecord(text, make)


def millis(time: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def iso(millis_: int) -> str:
    """Return a time in milliseconds as ISO 8601."""
    return (_EPOCH + timedelta(milliseconds=millis_)).isoformat()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _take(  # noqa: PLR0911  # one per answer
    state: State,
    feeds: Mapping[TopicPartition, spec.Feed],
    request: TakeFilesRequest,
    now: datetime,
) -> Plan:
    tp = TopicPartition(request.topic, 0)
    own, feed = feeds.get(tp), state.feeds.get(tp)
    if own is None or not own.is_external:
        return Refusal(f"the group has no feed {request.topic} with process: External")
    if feed is None:
        return Known(f"{tp}: no file is found yet")
    if feed.leasing is None:
        return Refusal(f"{tp}: entered the ledger as a feed that is landed")
    for slot, lease in feed.leasing.open.items():
        if request.id and lease.request == request.id:
            return Known(f"taken before, under the id {request.id}", slot)
    if request.id in feed.leasing.requests:
        return Refusal(f"the lease that was asked for under the id {request.id} is over")
    offered = _offered(feed, own, min(request.limit, MAX_TAKEN), now)
    if not offered:
        return Known(f"{tp}: there is nothing to take")
    until = millis(now + timedelta(seconds=request.lease_seconds))
    make = partial(
        ledger.Lease,
        topic_partition=tp,
        numbers=offered,
        holder=request.who,
        until=until,
        request=request.id,
    )
    text = f"LEASE: {_files(len(offered))} of {tp} to {request.who} until {iso(until)}"
    return PlannedLease(text, make, offered)


def _offered(feed: FeedState, own: spec.Feed, limit: int, now: datetime) -> tuple[int, ...]:
    """Return the files for a taker who asks for so many: returned files first, then new ones."""
    assert feed.leasing
    latest = millis(now - own.retry_interval)
    again = [
        number
        for number, part in sorted(feed.parked.items())
        if part.attempt < own.max_attempts and part.at <= latest
    ][:limit]
    room = min(limit - len(again), MAX_UNFINISHED - unfinished(feed))
    first = feed.leasing.leased_to
    new = range(first, min(first + max(room, 0), feed.end))
    return tuple(sorted((*again, *new)))


def _extend(state: State, request: ExtendLeaseRequest, now: datetime) -> Plan:
    found = _lease(state, request.lease, request.id)
    if not isinstance(found, TopicPartition):
        return found
    lease = _open(state, found, request.lease)
    until = millis(now + timedelta(seconds=request.lease_seconds))
    if until <= lease.until:
        return Known(f"lease {request.lease} lasts until {iso(lease.until)}", request.lease)
    make = partial(
        ledger.Extend,
        topic_partition=found,
        lease=request.lease,
        until=until,
        request=request.id,
    )
    return PlannedRecord(f"EXTEND: lease {request.lease} until {iso(until)}", make)


def _end(state: State, request: OfLease, now: datetime, numbers: Numbers) -> Plan:
    found = _lease(state, request.lease, request.id)
    if not isinstance(found, TopicPartition):
        return found
    lease = _open(state, found, request.lease)
    try:
        named = (*request.numbers, *numbers(found, lease, request.names))
    except ValueError as error:
        return Refusal(f"lease {request.lease}: {error}")
    if absent := {*named} - lease.parts.keys():
        return Refusal(
            f"lease {request.lease} has no file {min(absent)}, or not any more: it has "
            f"{_files(len(lease.parts))}"
        )
    parts = tuple(sorted({*named} or lease.parts))
    of = partial(
        ledger.LeaseOutcome,
        topic_partition=found,
        lease=request.lease,
        at=millis(now),
        request=request.id,
    )
    text = f"OUTCOME: {_files(len(parts))} of lease {request.lease}"
    match request:
        case FilesDoneRequest():
            return PlannedRecord(f"{text} done", partial(of, done=parts))
        case FilesFailedRequest(why=why):
            return PlannedRecord(f"{text} failed: {why}", partial(of, failed=parts, why=why))
        case ReturnFilesRequest():
            return PlannedRecord(f"{text} given back", partial(of, returned=parts))


def _lease(state: State, slot: int, request: str) -> TopicPartition | Known | Refusal:
    """Return the feed of a lease that is not over; or what to answer."""
    if request and any(f.leasing and request in f.leasing.requests for f in state.feeds.values()):
        return Known(f"recorded before, under the id {request}")
    found = find(state.feeds, slot)
    if found is None:
        return Refusal(
            f"lease {slot} is over, or there never was one: its files may have another holder now"
        )
    return found


def _open(state: State, tp: TopicPartition, slot: int) -> OpenLease:
    leasing = state.feeds[tp].leasing
    assert leasing
    return leasing.open[slot]


def _files(count: int) -> str:
    return plural(count, "file")
