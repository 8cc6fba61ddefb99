"""The producers of the load: each a thread that holds its share of the rate, and tells the book
what
it knows.

``Plain`` writes with an idempotent producer: a number is acknowledged when its delivery is
reported. ``Transactional`` writes one transaction after the other, and each has its fate
beforehand: it is committed, aborted, held open for a while, or its producer, a process of its own,
is killed in the middle; then the next producer of the same transactional id fences what is left of
it. While a broker is away both wait, and what librdkafka holds it delivers in order when the broker
is back.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.chaos.producer_ledger import Fate, ProducerLedger
from tests.chaos.records import Identity, Record, Topic, record

T = TypeVar("T")
TICK = 0.05
"""Seconds between two looks at how many records are due."""
_ROOT = Path(__file__).resolve().parents[2]
_DOOMED_SECONDS = 120
_DOOMED_MOST = 1000
"""Numbers that a producer that is to be killed gets on its command line."""
_CALL_SECONDS = 5
_QUEUED_KBYTES = 64 * 1024


class End(StrEnum):
    """What becomes of a transaction."""

    COMMIT = "Commit"
    ABORT = "Abort"
    HELD_COMMIT = "HeldCommit"
    HELD_ABORT = "HeldAbort"
    KILL = "Kill"


ENDS = {End.COMMIT: 70, End.ABORT: 15, End.HELD_COMMIT: 6, End.HELD_ABORT: 4, End.KILL: 5}
"""How many of a hundred transactions."""


class Pace:
    """How many records a second, of all writers together; a burst goes on top for a while."""

    def __init__(self, rate: float) -> None:
        """To begin with."""
        self.rate = rate
        self._burst, self._until = 0.0, 0.0

    def burst(self, rate: float, seconds: float) -> None:
        """So many, for so long."""
        self._burst, self._until = rate, time.monotonic() + seconds

    def now(self) -> float:
        """Records a second."""
        return max(self.rate, self._burst) if time.monotonic() < self._until else self.rate


@dataclass
class Count:
    """What a writer has done so far."""

    sent: int = 0
    bytes: int = 0
    acknowledged: int = 0
    aborted: int = 0
    failed: int = 0
    ends: dict[str, int] = field(default_factory=dict)


def producer(bootstrap: str, settings: Mapping[str, object]) -> Producer:
    """A producer that repeats nothing."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "message.max.bytes": 4_000_000,
            "queue.buffering.max.kbytes": _QUEUED_KBYTES,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
            **settings,
        }
    )


@dataclass
class Writer:
    """A thread that writes its share."""

    bootstrap: str
    topic: Topic
    name: str
    """The topic's, in full."""
    share: float
    book: ProducerLedger
    pace: Pace
    dice: random.Random
    count: Count = field(default_factory=Count)
    over: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    _owed: float = 0.0
    _at: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Until it is over."""
        try:
            self.write()
        except BaseException as error:  # noqa: BLE001  # whoever asks for the load's state is told
            self.error = error

    def write(self) -> None:
        """Write until it is over, and finish what was begun."""
        raise NotImplementedError

    def due(self) -> int:
        """How many records to send now; what a stall of more than a second kept back is let go."""
        now = time.monotonic()
        rate = self.pace.now() * self.share
        self._owed = min(self._owed + (now - self._at) * rate, max(rate, 1))
        self._at = now
        count = int(self._owed)
        self._owed -= count
        return count

    def wait(self, made: Producer) -> None:
        """Until the next look; by ``poll`` it would end at each delivery."""
        made.poll(0)
        self.over.wait(TICK)

    def send(
        self, producer: Producer, on_delivery: Callable[[int, Any], None] | None = None
    ) -> int:
        """Hand the next record to a producer, waiting while its queue is full; its number."""
        number = self.book.number(self.name)
        made = record(
            Identity(self.name, number), self.topic, self.dice, time.time_ns() // 1_000_000
        )
        told = partial(_told, number, on_delivery) if on_delivery else None
        put(producer, self.name, made, told)
        self.count.sent += 1
        self.count.bytes += made.size
        return number


def put(
    producer: Producer, topic: str, made: Record, on_delivery: Callable[..., None] | None
) -> None:
    """Hand a record to a producer, waiting while its queue is full."""
    while not _taken(producer, topic, made, on_delivery):
        producer.poll(TICK)


def _taken(
    producer: Producer, topic: str, made: Record, on_delivery: Callable[..., None] | None
) -> bool:
    try:
        producer.produce(topic, on_delivery=on_delivery, **made.arguments())
    except BufferError:
        return False
    return True


def _told(number: int, tell: Callable[[int, Any], None], error: Any, _: Any) -> None:
    tell(number, error)


class Plain(Writer):
    """Without transactions."""

    def write(self) -> None:
        """See the module."""
        while not self.over.is_set():
            self._with(producer(self.bootstrap, {"message.timeout.ms": 0, "error_cb": self._fatal}))

    def _with(self, made: Producer) -> None:
        """Write until it is over, or this producer is of no more use."""
        self._broken = False
        while not self.over.is_set() and not self._broken:
            for _ in range(self.due()):
                try:
                    self.send(made, self._delivered)
                except KafkaException:
                    self._broken = True  # the number is in doubt
                    break
            self.wait(made)
        deadline = time.monotonic() + _DOOMED_SECONDS
        while made.flush(1) and not self._broken and time.monotonic() < deadline:
            """What is still on its way."""

    def _delivered(self, number: int, error: KafkaError | None) -> None:
        if error is None:
            self.count.acknowledged += 1
            self.book.tell(self.name, Fate.ACKNOWLEDGED, (number,))
        else:
            self.count.failed += 1

    def _fatal(self, error: KafkaError) -> None:
        self._broken = self._broken or error.fatal()


@dataclass
class Transactional(Writer):
    """One transaction after the other."""

    id: str = ""

    def write(self) -> None:
        """See the module."""
        made: Producer | None = None
        # Each end once, so that a short run has seen them all; then as the dice fall.
        first = self.dice.sample(list(End), len(End))
        while not self.over.is_set():
            if made is None:
                made = self._next_producer()
            end = first.pop() if first else self.dice.choices([*ENDS], [*ENDS.values()])[0]
            try:
                alive = self._killed() if end is End.KILL else self._transaction(made, end)
            except KafkaException:
                alive = False  # it was about to begin
            made = made if alive else None

    def _next_producer(self) -> Producer:
        """It fences whoever had the id before, and aborts what that one left open."""
        made = producer(self.bootstrap, {"transactional.id": self.id})
        _insist(made.init_transactions)
        return made

    def _transaction(self, made: Producer, end: End) -> bool:
        """Whether the producer can go on."""
        made.begin_transaction()
        numbers: list[int] = []
        try:
            self._fill(made, numbers)
            if end in (End.HELD_COMMIT, End.HELD_ABORT):
                self.over.wait(self.dice.uniform(2, 10))
        except KafkaException:
            return self._abort(made, numbers)
        if end in (End.ABORT, End.HELD_ABORT):
            return self._abort(made, numbers, end)
        return self._commit(made, numbers, end)

    def _fill(self, made: Producer, numbers: list[int]) -> None:
        until = time.monotonic() + self.dice.uniform(0.2, 2)
        while time.monotonic() < until and not self.over.is_set():
            for _ in range(self.due()):
                numbers.append(self.send(made))  # noqa: PERF401  # those before an error are in the transaction, too
            self.wait(made)

    def _commit(self, made: Producer, numbers: Sequence[int], end: End) -> bool:
        try:
            _insist(made.commit_transaction)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                return self._abort(made, numbers)
            self.count.failed += len(numbers)
            return False  # committed or not: in doubt
        self._end(Fate.ACKNOWLEDGED, numbers, end)
        return True

    def _abort(self, made: Producer, numbers: Sequence[int], end: End = End.ABORT) -> bool:
        """No commit was asked for, or it was refused: nobody can commit it any more."""
        try:
            _insist(made.abort_transaction)
        except KafkaException:
            self._end(Fate.ABORTED, numbers, end)
            return False
        self._end(Fate.ABORTED, numbers, end)
        return True

    def _killed(self) -> bool:
        """A transaction of a producer that is killed in the middle: nobody will ever commit it."""
        due = min(_DOOMED_MOST, int(self.pace.now() * self.share * self.dice.uniform(0.2, 2)))
        numbers = [self.book.number(self.name) for _ in range(max(1, due))]
        # Whatever becomes of the process, it knows no commit.
        self._end(Fate.ABORTED, numbers, End.KILL)
        told = [self.bootstrap, self.id, self.name, self.topic.name, str(self.dice.getrandbits(32))]
        command = [sys.executable, "-m", "tests.chaos.kill_group", *told, *map(str, numbers)]
        process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            process.wait(_DOOMED_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.count.sent += len(numbers)
        return False

    def _end(self, fate: Fate, numbers: Sequence[int], end: End) -> None:
        self.book.tell(self.name, fate, numbers)
        self.count.ends[end] = self.count.ends.get(end, 0) + 1
        if fate is Fate.ACKNOWLEDGED:
            self.count.acknowledged += len(numbers)
        else:
            self.count.aborted += len(numbers)


def _insist(call: Callable[[float], T]) -> T:
    """Repeat while there is no answer."""
    while True:
        try:
            return call(_CALL_SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            time.sleep(TICK)
