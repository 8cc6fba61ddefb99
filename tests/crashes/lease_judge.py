"""What must hold of a feed whose files takers process, after a schedule.

Each number is done once, was replaced by a newer version of its file, or is given up after as many
attempts as the spec allows; each answer that a taker got agrees with the ledger; nobody had a file
that somebody else had. All is counted by the records, apart from the fold of the product.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from landfall.api.verbs import (
    ExtendLeaseRequest,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseRequest,
    Outcome,
    ReturnFilesRequest,
    TakeFilesRequest,
)
from landfall.ledger import Discover, Extend, FeedState, Lease, LeaseOutcome, Record
from landfall.ledger.offsets import TopicPartition
from tests.crashes.feed_judge import Numbers, numbers_of, without_numbers
from tests.crashes.feed_world import EXTERNAL, MAX_ATTEMPTS
from tests.crashes.judge import folded_records
from tests.crashes.takers import Reply

if TYPE_CHECKING:
    from tests.crashes.feeds import FeedSchedule
    from tests.crashes.process import Process

TP = TopicPartition(EXTERNAL, 0)


@dataclass
class Leased:
    """What the records say of the numbers of a feed.

    Attributes:
        held: by which lease.
        waiting: those that came back, and how often they were tried.
        done: how often each was done.
        tried: how often a number was tried before, by the lease and the number.
        by_request: the record that carries a request out, by its id.
    """

    held: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    tried: dict[tuple[int, int], int] = field(default_factory=dict)
    by_request: dict[str, Lease | Extend | LeaseOutcome] = field(default_factory=dict)

    def count(self, record: Record) -> None:
        """Count the next record."""
        match record:
            case Lease(header=header, numbers=numbers):
                for n in numbers:
                    self.tried[header.seq, n] = self.waiting.pop(n, 0)
                    self.held[n] = header.seq
            case LeaseOutcome():
                self._end(record)
            case Discover(topic_partition=tp) if tp == TP:
                for n in (*record.replaced, *record.ignored):
                    self.waiting.pop(n, None)
            case _:
                pass
        if isinstance(record, Lease | Extend | LeaseOutcome) and record.request:
            self.by_request[record.request] = record

    def _end(self, record: LeaseOutcome) -> None:
        for n in (*record.failed, *record.expired):
            self.waiting[n] = self.tried[record.lease, n] + 1
        for n in record.returned:
            self.waiting[n] = self.tried[record.lease, n]
        for n in record.done:
            self.done[n] = self.done.get(n, 0) + 1
        for n in (*record.failed, *record.expired, *record.returned, *record.done):
            self.held.pop(n, None)


def findings(schedule: "FeedSchedule") -> Iterator[str]:
    """What is lost, done twice or not as the answers to takers say."""
    if not schedule.has_takers:
        return
    takers = schedule.takers
    yield from takers.wrong
    leased, numbers = _counted(schedule)
    wrong = (
        *_not_finished(leased, numbers, schedule.lane.read().feeds.get(TP)),
        *_accepted_twice(takers.replies),
        *without_numbers(schedule, numbers, schedule.folders[EXTERNAL]),
    )
    yield from (f"{TP}: {each}" for each in wrong)
    for reply in takers.replies:
        if problem := _problem_of(reply, leased, numbers):
            yield f"{reply.taker} asked {reply.request} and got {reply.answer}: {problem}"


def stuck(schedule: "FeedSchedule", process: "Process") -> Iterator[str]:
    """Files that a driver has not found, though it could, and whom it keeps waiting."""
    if not schedule.has_takers:
        return
    for taker, (driver, answer) in schedule.takers.asking.waits.items():
        if driver is process and not answer.done():
            yield f"{taker} waits for an answer of {process.name}"
    with schedule.judging():
        _, numbers = _counted(schedule)
    yield from without_numbers(schedule, numbers, schedule.folders[EXTERNAL])


def _counted(schedule: "FeedSchedule") -> tuple[Leased, Numbers]:
    records = [record for _, record in folded_records(schedule)]
    leased, numbers = Leased(), numbers_of(schedule, TP, records)
    for record in records:
        leased.count(record)
    numbers.holes = dict.fromkeys(leased.waiting, 0)
    return leased, numbers


def _not_finished(leased: Leased, numbers: Numbers, feed: FeedState | None) -> Iterator[str]:
    """Numbers that nobody will get any more, and nobody has processed."""
    given_up = {n for n, attempts in leased.waiting.items() if attempts >= MAX_ATTEMPTS}
    if rest := numbers.parts.keys() - leased.done.keys() - given_up - numbers.taken:
        yield f"{sorted(rest)} are neither done nor given up; takers have {leased.held}"
    if twice := sorted(n for n, times in leased.done.items() if times > 1):
        yield f"{twice} are done more than once"
    waiting = {n: part.attempt for n, part in feed.parked.items()} if feed else {}
    if waiting != leased.waiting:
        yield f"attempts by number are {waiting}, but should be {leased.waiting}"


def _accepted_twice(replies: Sequence[Reply]) -> Iterator[str]:
    """Numbers that answers to takers say are done, more than once."""
    first = dict[int, Reply]()
    for each in replies:
        if isinstance(each.request, FilesDoneRequest) and each.answer.outcome is Outcome.DONE:
            for n in each.numbers:
                if (before := first.setdefault(n, each)) is not each:
                    yield f"{n} is done by {before.taker} and by {each.taker}, by their answers"


def _problem_of(reply: Reply, leased: Leased, numbers: Numbers) -> str:
    """What is wrong with an answer to a taker; empty if nothing is."""
    request, record = reply.request, leased.by_request.get(reply.request.id)
    if isinstance(request, TakeFilesRequest):
        return _problem_of_take(reply, record, leased, numbers)
    if reply.answer.outcome is Outcome.REFUSED:
        return f"it was carried out by {record}" if record else ""
    if record is None:
        # Nothing is recorded of a lease that lasts as long as it should.
        is_long = isinstance(request, ExtendLeaseRequest) and reply.answer.until
        return "" if is_long else "nothing is recorded"
    is_so = _numbers_in(request, record) == (request.lease, {*reply.numbers})
    return "" if is_so else f"recorded is {record}"


def _numbers_in(request: LeaseRequest, record: Record) -> tuple[int, set[int]]:
    """The lease, and the numbers of which a record says what a request asks."""
    match request, record:
        case ExtendLeaseRequest(), Extend(lease=lease):
            return lease, set()
        case FilesDoneRequest(), LeaseOutcome(lease=lease, done=ended):
            return lease, {*ended}
        case FilesFailedRequest(), LeaseOutcome(lease=lease, failed=ended):
            return lease, {*ended}
        case ReturnFilesRequest(), LeaseOutcome(lease=lease, returned=ended):
            return lease, {*ended}
    return -1, set()


def _problem_of_take(reply: Reply, record: Record | None, leased: Leased, numbers: Numbers) -> str:
    lease = reply.answer.lease
    if reply.answer.outcome is Outcome.REFUSED:
        return "" if record else "there was no such lease"
    if lease is None:
        return ""
    if not isinstance(record, Lease) or (record.header.seq, record.holder) != (lease, reply.taker):
        return f"recorded is {record}"
    for file in reply.answer.files:
        part, tried = numbers.parts[file.number], leased.tried.get((lease, file.number))
        if (part.name, part.etag, part.size) != (file.name, file.etag, file.size):
            return f"number {file.number} is {part}"
        if tried is None or file.attempt != tried + 1 or tried >= MAX_ATTEMPTS:
            return f"number {file.number} was tried {tried} times before"
    return ""
