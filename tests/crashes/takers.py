"""Takers of an external feed beside the drivers of a schedule: killed, frozen and late like these.

A taker takes files, reads them, and says what became of them: done, if it could read the version
that it was given, else failed. Now and then it gives files back, or asks for more time. What got no
answer it asks again, under the same id, perhaps of somebody else (``tests.crashes.asking``). It
looks at no clock, so it may be late. One that is killed leaves its leases open.

Each answer is compared with those that others got, and a refusal with the ledger, at once.
The rest is for ``tests.crashes.lease_judge``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from landfall.api.verbs import (
    ExtendLeaseRequest,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseAnswer,
    LeasedFile,
    LeaseRequest,
    Outcome,
    ReturnFilesRequest,
    TakeFilesRequest,
)
from landfall.errors import Stalled
from landfall.lane import Lane
from landfall.ledger import Lease, decode
from landfall.ledger.offsets import TopicPartition
from tests.crashes.asking import Asking, is_final
from tests.crashes.feed_world import DAMAGE, EXTERNAL
from tests.crashes.scheduler import Owner

if TYPE_CHECKING:
    from tests.crashes.feeds import FeedSchedule

MAX_TAKERS = 2
"""Takers that are alive and not frozen at the same time."""
LEASE_SECONDS = (20, 60, 600)
"""How long leases last; the clock goes on by a second when somebody looks at it."""
JUMPS = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=20))
"""By how much the clock goes on at once."""
IDLE_PAUSES = 5
"""For how many pauses a taker rests that has nothing to do."""


@dataclass
class Held:
    """What a taker has of a lease, as far as it knows."""

    until: datetime
    files: dict[int, LeasedFile]


class Taker(Owner):
    """A taker's process.

    Attributes:
        leases: what it has, by the lease.
        ended: it found nothing to take once nothing failed any more.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.leases: dict[int, Held] = {}
        self.ended = False


@dataclass(frozen=True)
class Reply:
    """A request of a taker, and the last answer to it.

    Attributes:
        taker: its name.
        request: what it had asked.
        numbers: the files that the request was about; none of a take.
        answer: the last one.
    """

    taker: str
    request: LeaseRequest
    numbers: tuple[int, ...]
    answer: LeaseAnswer


class Takers:
    """The takers of a schedule, if it has any.

    Attributes:
        replies: the last word about each request of theirs.
        wrong: what is wrong with answers that they got.
        asking: how they ask.
    """

    def __init__(self, schedule: "FeedSchedule") -> None:
        self._schedule, self._numbers = schedule, count(1)
        self._all: list[Taker] = []
        self.replies: list[Reply] = []
        self.wrong: list[str] = []
        self.asking = Asking(schedule)

    def events(self) -> Iterator[Callable[[], object]]:
        """What may happen to takers, and to the time of their leases, between two steps."""
        if not self._schedule.has_takers:
            return
        going = [one for one in self._all if not (one.dead or one.ended)]
        if sum(not one.frozen for one in going) < MAX_TAKERS:
            yield self.start
            yield self.start
        if any(one.leases for one in going):
            yield lambda: self._schedule.let_pass(self._schedule.dice.choice(JUMPS))
        if going:
            one = self._schedule.dice.choice(going)
            yield lambda: self._set_frozen(one, not one.frozen)
            yield lambda: self._schedule.kill(one)

    def start(self) -> None:
        """Start a taker, if the schedule has any."""
        if not self._schedule.has_takers:
            return
        me = Taker(f"T{next(self._numbers)}")
        self._all.append(me)
        self._schedule.say(f"{me.name} starts to take files")
        self._schedule.scheduler.spawn(me, "taker", lambda: self._work(me))

    def wake(self) -> bool:
        """Wake up those that are frozen; whether there are any."""
        frozen = [one for one in self._all if one.frozen and not one.dead]
        for one in frozen:
            self._set_frozen(one, False)
        return bool(frozen)

    # --------------------------------------------------------------------------- what a taker does

    def _work(self, me: Taker) -> None:
        try:
            while not me.ended:
                request, numbers = self._next(me)
                if answer := self._until_answered(me, request):
                    self._take_in(me, Reply(me.name, request, numbers, answer))
                for _ in range(1 if me.leases else IDLE_PAUSES):
                    self._schedule.pause()
        except Stalled as stalled:
            self.wrong.append(f"{me.name}: {stalled.reason}: {stalled}")

    def _next(self, me: Taker) -> tuple[LeaseRequest, tuple[int, ...]]:
        """What a taker asks next, and which files that is about."""
        calm, dice = self._schedule.calm, self._schedule.dice
        who, id_ = me.name, f"{me.name}-{next(self._schedule.names)}"
        seconds = dice.choice(LEASE_SECONDS)
        if not me.leases or (not calm and dice.random() < 0.2):
            limit = dice.choice((1, 2, 5))
            return TakeFilesRequest(
                who=who, id=id_, topic=EXTERNAL, limit=limit, lease_seconds=seconds
            ), ()
        lease = dice.choice(sorted(me.leases))
        chance = 1.0 if calm else dice.random()
        if chance < 0.2:
            return ExtendLeaseRequest(who=who, id=id_, lease=lease, lease_seconds=seconds), ()
        held = me.leases[lease]
        is_whole = dice.random() < 0.5
        chosen = [n for n in sorted(held.files) if is_whole or dice.random() < 0.5]
        numbers = tuple(chosen or [min(held.files)])
        if chance < 0.4:
            _let_go(held, numbers)
            return ReturnFilesRequest(who=who, id=id_, lease=lease, numbers=numbers), numbers
        if unreadable := tuple(n for n in numbers if not self._can_read(held.files[n])):
            _let_go(held, unreadable)
            return FilesFailedRequest(
                who=who, id=id_, why="cannot be read", lease=lease, numbers=unreadable
            ), unreadable
        return self._done(FilesDoneRequest(who=who, id=id_, lease=lease), held, numbers), numbers

    def _done(
        self, done: FilesDoneRequest, held: Held, numbers: tuple[int, ...]
    ) -> FilesDoneRequest:
        """The request, which names the files in one of the ways that there are."""
        if len(numbers) == len(held.files):
            return done
        names = tuple(held.files[n].name for n in numbers)
        is_clear = len({file.name for file in held.files.values()}) == len(held.files)
        if is_clear and self._schedule.dice.random() < 0.5:
            return msgspec.structs.replace(done, names=names)
        return msgspec.structs.replace(done, numbers=numbers)

    def _can_read(self, file: LeasedFile) -> bool:
        folder = self._schedule.folders[EXTERNAL]
        rows = folder.versions[file.name, file.etag].splitlines()
        is_there = folder.current(file.name) == file.etag
        return is_there and not any(row.startswith(DAMAGE) for row in rows)

    def _until_answered(self, me: Taker, request: LeaseRequest) -> LeaseAnswer | None:
        """The answer, which is asked for again until it comes; None if there is no ledger."""
        schedule = self._schedule
        while True:
            answer = self.asking.ask(me, request)
            is_lost = not schedule.calm and schedule.dice.random() < 3 * schedule.luck.fault
            schedule.say(f"{me.name} {'loses the answer' if is_lost else 'gets'} {answer}")
            if answer and not is_lost and is_final(answer):
                assert isinstance(answer, LeaseAnswer)
                return answer
            if schedule.calm and answer and "has no ledger" in answer.message:
                me.ended = True
                return None
            schedule.pause()

    # ---------------------------------------------------------------------------- answers to takers

    def _take_in(self, me: Taker, reply: Reply) -> None:
        self.replies.append(reply)
        request, answer = reply.request, reply.answer
        is_refused = answer.outcome is Outcome.REFUSED
        if is_refused:
            self._check_refusal(reply)
        if isinstance(request, TakeFilesRequest):
            if answer.lease is not None:
                self._check_free(me, answer)
                files = {file.number: file for file in answer.files}
                me.leases[answer.lease] = Held(datetime.fromisoformat(answer.until), files)
            elif self._schedule.calm and not (is_refused or me.leases):
                me.ended = True
            return
        if is_refused:
            del me.leases[request.lease]
        elif isinstance(request, ExtendLeaseRequest):
            if answer.until:
                me.leases[request.lease].until = datetime.fromisoformat(answer.until)
        else:
            _let_go(me.leases[request.lease], reply.numbers)
        me.leases = {lease: held for lease, held in me.leases.items() if held.files}

    def _check_free(self, me: Taker, answer: LeaseAnswer) -> None:
        """Note files that somebody else has, too, whose time is not over."""
        now, numbers = self._schedule.clock(), {file.number for file in answer.files}
        for other in self._all:
            for lease, held in other.leases.items() if not other.dead else ():
                both = sorted(numbers & held.files.keys())
                if lease != answer.lease and both and now < held.until:
                    self.wrong.append(
                        f"{me.name} gets {both} by lease {answer.lease}, which {other.name} has "
                        f"by lease {lease} until {held.until}"
                    )

    def _check_refusal(self, reply: Reply) -> None:
        """Note a refusal that does not hold: a lease that is over never is one again."""
        with self._schedule.judging():
            leasing = self._schedule.lane.read().feeds[TopicPartition(EXTERNAL, 0)].leasing
            lease = _lease_of(self._schedule.lane, reply.request)
        assert leasing
        opened = leasing.open.get(lease)
        if opened and opened.parts.keys() >= {*reply.numbers}:
            self.wrong.append(f"{reply.taker} is refused a lease that is open: {reply.answer}")

    def _set_frozen(self, one: Taker, frozen: bool) -> None:
        one.frozen = frozen
        self._schedule.say(f"{one.name} {'freezes' if frozen else 'wakes up'}")


def _lease_of(lane: Lane, request: LeaseRequest) -> int:
    """The lease that a request is about, by the records; -1 if none was taken under its id."""
    if not isinstance(request, TakeFilesRequest):
        return request.lease
    records = (decode(seq, body) for seq, body in lane.bodies())
    taken = (record for record in records if isinstance(record, Lease))
    return next((lease.header.seq for lease in taken if lease.request == request.id), -1)


def _let_go(held: Held, numbers: tuple[int, ...]) -> None:
    """Let a taker have these files no more."""
    held.files = {n: file for n, file in held.files.items() if n not in numbers}
