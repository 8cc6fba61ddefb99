"""The producers of the load: threads that share its rate and note each number's fate.

``PlainWriter`` uses an idempotent producer: a number is acknowledged when its delivery is reported.
``TransactionalWriter`` writes one transaction after the other and draws the end of each beforehand:
it is committed or aborted, at once or after a while, or its producer, a process of its own, is
killed in the middle; then the next producer with the same transactional id fences the killed one
and aborts what it left open. While a broker is away both wait, and librdkafka delivers what it has
queued in order when the broker is back. After some restarts of a broker librdkafka delivers nothing
any more: it waits for answers that never come. A producer that is stuck for so long is replaced,
and the numbers that it has queued stay in doubt.
"""

import math
import random
import signal
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
from tests.chaos.records import Identity, Record, Topic, event_now, record

T = TypeVar("T")
TICK = 0.05
"""Seconds between two checks of how many records are due."""
_ROOT = Path(__file__).resolve().parents[2]
_END_TIMEOUT = 120
"""Seconds that a producer has to deliver its queue, or to reach the point where it kills itself."""
_MAX_KILLED_NUMBERS = 1000
"""Numbers that a producer to be killed gets on its command line."""
_CALL_TIMEOUT = 5
"""Seconds of one attempt of a transactional call."""
STUCK_SECONDS = 120
"""A producer that can do nothing for so long is replaced; brokers are away for less."""
_QUEUED_KBYTES = 64 * 1024


class TransactionEnd(StrEnum):
    """How a transaction ends; with ``Held`` it first stays open for a while."""

    COMMIT = "Commit"
    ABORT = "Abort"
    HELD_COMMIT = "HeldCommit"
    HELD_ABORT = "HeldAbort"
    KILL = "Kill"


WEIGHTS = {
    TransactionEnd.COMMIT: 70,
    TransactionEnd.ABORT: 15,
    TransactionEnd.HELD_COMMIT: 6,
    TransactionEnd.HELD_ABORT: 4,
    TransactionEnd.KILL: 5,
}
"""Percent of the transactions that end this way."""


class Pace:
    """The rate of all writers together, in records a second, with bursts on top."""

    def __init__(self, rate: float) -> None:
        """Begin with this rate and no burst."""
        self.rate = rate
        self._burst, self._until = 0.0, 0.0
        self._began = time.time()

    def burst(self, rate: float, seconds: float) -> None:
        """Hold at least this rate for so many seconds."""
        self._burst, self._until = rate, time.monotonic() + seconds

    def now(self) -> float:
        """The rate at this moment."""
        return max(self.rate, self._burst) if time.monotonic() < self._until else self.rate

    @property
    def event_time(self) -> int:
        """The event time of records at this moment, in milliseconds."""
        return event_now(self._began, time.time())


@dataclass
class WriterCounts:
    """What a writer has done so far, in records, payload bytes and ended transactions."""

    sent: int = 0
    bytes: int = 0
    acknowledged: int = 0
    aborted: int = 0
    failed: int = 0
    ends: dict[str, int] = field(default_factory=dict)


def create_producer(bootstrap: str, settings: Mapping[str, object]) -> Producer:
    """Create an idempotent producer, with further settings of librdkafka."""
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
    """A thread that writes its share of the load to one topic.

    Attributes:
        topic_name: the topic's name in full, with the load's prefix.
        share: of the load's rate.
        patience: seconds after which a producer that can do nothing is replaced.
        stopping: set when the writer is to finish.
        error: what ended the thread, if it failed.
    """

    bootstrap: str
    topic: Topic
    topic_name: str
    share: float
    ledger: ProducerLedger
    pace: Pace
    rng: random.Random
    patience: float = STUCK_SECONDS
    counts: WriterCounts = field(default_factory=WriterCounts)
    stopping: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    _due: float = 0.0
    _checked_at: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Write, and keep the error if that fails."""
        try:
            self.write()
        except BaseException as error:  # noqa: BLE001  # the load's next answer raises it
            self.error = error

    def write(self) -> None:
        """Write until ``stopping`` is set, then finish what was begun."""
        raise NotImplementedError

    def take_due(self) -> int:
        """How many records to send now; what a stall of over a second left due is dropped."""
        now = time.monotonic()
        rate = self.pace.now() * self.share
        self._due = min(self._due + (now - self._checked_at) * rate, max(rate, 1))
        self._checked_at = now
        count = int(self._due)
        self._due -= count
        return count

    def wait(self, producer: Producer) -> None:
        """Serve delivery reports and wait a tick; ``poll(TICK)`` would return at each report."""
        producer.poll(0)
        self.stopping.wait(TICK)

    def send(
        self, producer: Producer, on_delivery: Callable[[int, Any], None] | None = None
    ) -> int:
        """Queue the next record, waiting while the queue is full, and return its number.

        Raises:
            KafkaException: the producer cannot be used any more, or is stuck.
        """
        number = self.ledger.next_number(self.topic_name)
        identity = Identity(self.topic_name, number)
        made = record(identity, self.topic, self.rng, self.pace.event_time)
        report = partial(_report, number, on_delivery) if on_delivery else None
        produce(producer, self.topic_name, made, report, self.patience)
        self.counts.sent += 1
        self.counts.bytes += made.size
        return number


def produce(
    producer: Producer,
    topic: str,
    record: Record,
    on_delivery: Callable[..., None] | None,
    patience: float = math.inf,
) -> None:
    """Queue a record at a producer, waiting while its queue is full.

    Raises:
        KafkaException: it was full for so many seconds.
    """
    until = time.monotonic() + patience
    while not _try_produce(producer, topic, record, on_delivery):
        if time.monotonic() > until:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the queue stays full"))
        producer.poll(TICK)


def _try_produce(
    producer: Producer, topic: str, record: Record, on_delivery: Callable[..., None] | None
) -> bool:
    try:
        producer.produce(topic, on_delivery=on_delivery, **record.arguments())
    except BufferError:
        return False
    return True


def _report(number: int, on_delivery: Callable[[int, Any], None], error: Any, _: Any) -> None:
    on_delivery(number, error)


class PlainWriter(Writer):
    """Writes without transactions."""

    def write(self) -> None:
        """Write with one producer after the other; a fatal error ends a producer."""
        while not self.stopping.is_set():
            # A message timeout of 0 is none: records wait for the broker as long as it takes.
            settings = {"message.timeout.ms": 0, "error_cb": self._on_error}
            self._write_with(create_producer(self.bootstrap, settings))

    def _write_with(self, producer: Producer) -> None:
        """Write until ``stopping`` is set or the producer cannot be used any more."""
        self._failed = False
        while not self.stopping.is_set() and not self._failed:
            for _ in range(self.take_due()):
                try:
                    self.send(producer, self._on_delivery)
                except KafkaException:
                    self._failed = True  # the number stays in doubt
                    break
            self.wait(producer)
        deadline = time.monotonic() + _END_TIMEOUT
        while producer.flush(1) and not self._failed and time.monotonic() < deadline:
            """Deliver what is still queued."""

    def _on_delivery(self, number: int, error: KafkaError | None) -> None:
        if error is None:
            self.counts.acknowledged += 1
            self.ledger.record_fate(self.topic_name, Fate.ACKNOWLEDGED, (number,))
        else:
            self.counts.failed += 1

    def _on_error(self, error: KafkaError) -> None:
        self._failed = self._failed or error.fatal()


@dataclass
class TransactionalWriter(Writer):
    """Writes one transaction after the other."""

    transactional_id: str = ""

    def write(self) -> None:
        """Draw the end of each transaction, then write it."""
        producer: Producer | None = None
        # Every end comes once first, so that a short run has them all; later ones are drawn.
        first = self.rng.sample(list(TransactionEnd), len(TransactionEnd))
        while not self.stopping.is_set():
            if producer is None and (producer := self._next_producer()) is None:
                continue
            end = first.pop() if first else self.rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
            try:
                if end is TransactionEnd.KILL:
                    self._write_and_kill()
                    usable = False
                else:
                    usable = self._write_transaction(producer, end)
            except KafkaException:
                usable = False  # the transaction could not begin
            producer = producer if usable else None

    def _next_producer(self) -> Producer | None:
        """Create a producer; it fences the former one of its id and aborts what that left open.

        None if it is stuck.
        """
        producer = create_producer(self.bootstrap, {"transactional.id": self.transactional_id})
        try:
            retry(producer.init_transactions, self.patience)
        except KafkaException:
            return None
        return producer

    def _write_transaction(self, producer: Producer, end: TransactionEnd) -> bool:
        """Write one transaction; returns whether the producer can begin another."""
        producer.begin_transaction()
        numbers: list[int] = []
        try:
            self._fill(producer, numbers)
            if end in (TransactionEnd.HELD_COMMIT, TransactionEnd.HELD_ABORT):
                self.stopping.wait(self.rng.uniform(2, 10))
        except KafkaException:
            return self._abort(producer, numbers)
        if end in (TransactionEnd.ABORT, TransactionEnd.HELD_ABORT):
            return self._abort(producer, numbers, end)
        return self._commit(producer, numbers, end)

    def _fill(self, producer: Producer, numbers: list[int]) -> None:
        until = time.monotonic() + self.rng.uniform(0.2, 2)
        while time.monotonic() < until and not self.stopping.is_set():
            for _ in range(self.take_due()):
                # Not extend(): numbers sent before an error belong to the transaction, too.
                numbers.append(self.send(producer))  # noqa: PERF401  # see above
            self.wait(producer)

    def _commit(self, producer: Producer, numbers: Sequence[int], end: TransactionEnd) -> bool:
        try:
            retry(producer.commit_transaction, self.patience)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                return self._abort(producer, numbers)
            # The broker may have committed or not. No fate is recorded: the numbers stay in doubt.
            self.counts.failed += len(numbers)
            return False
        self._record_end(Fate.ACKNOWLEDGED, numbers, end)
        return True

    def _abort(
        self, producer: Producer, numbers: Sequence[int], end: TransactionEnd = TransactionEnd.ABORT
    ) -> bool:
        """Abort a transaction; the numbers count as aborted even if that call fails.

        No commit was requested, or it was refused, so the transaction can never be committed.
        """
        try:
            retry(producer.abort_transaction, self.patience)
        except KafkaException:
            self._record_end(Fate.ABORTED, numbers, end)
            return False
        self._record_end(Fate.ABORTED, numbers, end)
        return True

    def _write_and_kill(self) -> None:
        """Have a process write a transaction and kill itself in the middle of it."""
        rate = self.pace.now() * self.share
        count = max(1, min(_MAX_KILLED_NUMBERS, int(rate * self.rng.uniform(0.2, 2))))
        numbers = [self.ledger.next_number(self.topic_name) for _ in range(count)]
        # Before the process starts: it never commits, whatever happens to it or to this thread.
        self._record_end(Fate.ABORTED, numbers, TransactionEnd.KILL)
        seed = str(self.rng.getrandbits(32))
        arguments = [
            self.bootstrap,
            self.transactional_id,
            self.topic_name,
            self.topic.name,
            seed,
            str(self.pace.event_time),
            *map(str, numbers),
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.killed_producer", *arguments],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            code = process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code != -signal.SIGKILL:
            # It ended before it could kill itself: nothing shows that a transaction was left open.
            raise RuntimeError(f"the producer to be killed ended with exit code {code}")
        self.counts.sent += len(numbers)

    def _record_end(self, fate: Fate, numbers: Sequence[int], end: TransactionEnd) -> None:
        self.ledger.record_fate(self.topic_name, fate, numbers)
        self.counts.ends[end] = self.counts.ends.get(end, 0) + 1
        if fate is Fate.ACKNOWLEDGED:
            self.counts.acknowledged += len(numbers)
        else:
            self.counts.aborted += len(numbers)


def retry(call: Callable[[float], T], patience: float = math.inf) -> T:
    """Repeat a transactional call while its error is retriable, as while the broker is away.

    Raises:
        KafkaException: another error, or a retriable one after so many seconds.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return call(_CALL_TIMEOUT)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
            time.sleep(TICK)
