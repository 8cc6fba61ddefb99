"""A load of numbered records, and a ledger of what became of each of them.

    python -m tests.chaos.load --bootstrap 127.0.0.1:9092 --prefix chaos --rate 1000 --seed 7
        --ledger producer-ledger.jsonl

The topics and their shares are ``records.TOPICS``; ``writers`` has the producers. The ledger is
written by ``producer_ledger`` and compared with what landed by ``compare_landed``. The load runs
in a process of its own and takes commands as lines of JSON on standard input; it ends when that
input ends. ``Load`` is the parent's side of it.
"""

import argparse
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.child_process import Child, send_answer, serve_commands
from tests.chaos.producer_ledger import ProducerLedger
from tests.chaos.records import TOPICS
from tests.chaos.writers import Pace, PlainWriter, TransactionalWriter, Writer
from tests.support.kafka.broker import Broker

FLUSH_SECONDS = 0.5
"""Seconds between two writes to the ledger's file."""
FINISH_SECONDS = 300
"""Seconds that all writers have to finish."""


class Progress(msgspec.Struct, kw_only=True):
    """What the load has done so far.

    Attributes:
        sent: records given to a producer.
        bytes: payload bytes of these.
        acknowledged, aborted: records of these whose fate is known.
        in_doubt: records of these whose fate will never be known.
        ends: number of transactions by how they ended.
        rate: the records a second that the load tries to hold now.
    """

    sent: int
    bytes: int
    acknowledged: int
    aborted: int
    in_doubt: int
    ends: dict[str, int]
    rate: float


class Load:
    """A load that runs in a process of its own.

    Attributes:
        ledger: the file of the producers' ledger.
        topics: the topics in full, with the prefix.
    """

    def __init__(
        self, bootstrap: str, prefix: str, *, rate: float, seed: int, folder: Path
    ) -> None:
        """Create the topics and begin to write.

        ``folder`` gets ``producer-ledger.jsonl``, which must not exist yet, and a log.

        Raises:
            Refused: the load could not begin.
        """
        self.ledger = folder / "producer-ledger.jsonl"
        arguments = [
            "--bootstrap",
            bootstrap,
            "--prefix",
            prefix,
            "--rate",
            str(rate),
            "--seed",
            str(seed),
            "--ledger",
            str(self.ledger),
        ]
        self._child = Child("load", *arguments, log=folder / "load.log")
        self.topics = self._child.read_answer(list[str])

    def rate(self, records: float) -> None:
        """Hold this rate, in records a second."""
        self._child.request("rate", Progress, rate=records)

    def burst(self, records: float, seconds: float) -> None:
        """Hold at least this rate, in records a second, for so many seconds."""
        self._child.request("burst", Progress, rate=records, seconds=seconds)

    def progress(self) -> Progress:
        """Return what the load has done so far.

        Raises:
            Refused: a writer failed; the message is its error.
        """
        return self._child.request("progress", Progress)

    def finish(self) -> Progress:
        """Stop writing, end all transactions, and wait until all records are delivered.

        The ledger is complete afterwards.

        Raises:
            Refused: a writer failed, or did not finish within ``FINISH_SECONDS``.
        """
        progress = self._child.request("finish", Progress)
        self._child.stop()
        return progress

    def stop(self) -> int:
        """Stop the process, and return its exit code."""
        return self._child.stop()


class Producers:
    """All writers of a load, and the thread that flushes the ledger."""

    def __init__(
        self, bootstrap: str, prefix: str, pace: Pace, seed: int, ledger: ProducerLedger
    ) -> None:
        """Start all threads."""
        self._ledger, self._pace = ledger, pace
        self._writers = list(_writers(bootstrap, prefix, pace, seed, ledger))
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=writer.run, daemon=True) for writer in self._writers
        ]
        self._flusher = threading.Thread(target=self._flush_regularly, daemon=True)
        for thread in (*self._threads, self._flusher):
            thread.start()

    def execute(self, command: dict[str, Any]) -> Progress:
        """Execute a command of the parent, and return the progress after it.

        Raises:
            ValueError: there is no such command.
        """
        match command["command"]:
            case "rate":
                self._pace.rate = command["rate"]
            case "burst":
                self._pace.burst(command["rate"], command["seconds"])
            case "finish":
                self.finish()
            case "progress":
                pass
            case unknown:
                raise ValueError(f"no such command: {unknown}")
        return self._progress()

    def finish(self) -> None:
        """Let every writer finish, then flush the ledger a last time; may be called twice.

        Raises:
            TimeoutError: a writer did not finish, most likely because the broker is away.
        """
        for writer in self._writers:
            writer.stopping.set()
        deadline = time.monotonic() + FINISH_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._stopped.set()
        self._flusher.join()
        unfinished = [
            writer.topic_name
            for writer, thread in zip(self._writers, self._threads, strict=True)
            if thread.is_alive()
        ]
        if unfinished:
            raise TimeoutError(f"writers did not end within {FINISH_SECONDS} s: {unfinished}")

    def _flush_regularly(self) -> None:
        while not self._stopped.wait(FLUSH_SECONDS):
            self._ledger.flush()
        self._ledger.flush()

    def _progress(self) -> Progress:
        for writer in self._writers:
            if writer.error:
                raise writer.error
        counts = [writer.counts for writer in self._writers]
        ends = {end for count in counts for end in count.ends}
        return Progress(
            sent=sum(count.sent for count in counts),
            bytes=sum(count.bytes for count in counts),
            acknowledged=sum(count.acknowledged for count in counts),
            aborted=sum(count.aborted for count in counts),
            in_doubt=sum(count.failed for count in counts),
            ends={end: sum(count.ends.get(end, 0) for count in counts) for end in sorted(ends)},
            rate=self._pace.now(),
        )


def _writers(
    bootstrap: str, prefix: str, pace: Pace, seed: int, ledger: ProducerLedger
) -> Iterator[Writer]:
    # Each writer has a generator of its own: its draws do not depend on the others' progress.
    for topic in TOPICS:
        name = f"{prefix}.{topic.name}"
        share = topic.share / (topic.plain + topic.transactional)
        if topic.plain:
            rng = random.Random(f"{seed}/{name}")
            yield PlainWriter(bootstrap, topic, name, share, ledger, pace, rng)
        for number in range(topic.transactional):
            transactional_id = f"{name}-{number}"
            rng = random.Random(f"{seed}/{transactional_id}")
            yield TransactionalWriter(
                bootstrap,
                topic,
                name,
                share,
                ledger,
                pace,
                rng,
                transactional_id=transactional_id,
            )


def _make_topics(broker: Broker, prefix: str) -> list[str]:
    """Create the topics, and return their names in full.

    ``create_topic`` turns retention by time off: event times lie days back.
    """
    return [broker.create_topic(f"{prefix}.{topic.name}", topic.partitions) for topic in TOPICS]


def main() -> int:
    """Produce until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--prefix", required=True, help="prefix of the topics' names")
    parser.add_argument(
        "--rate", type=float, required=True, help="records a second, until a command changes it"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of all random choices (default: 0)"
    )
    parser.add_argument(
        "--ledger", type=Path, required=True, help="file to create for the producers' ledger"
    )
    options = parser.parse_args()
    ledger = ProducerLedger(options.ledger)
    topics = _make_topics(Broker(options.bootstrap), options.prefix)
    producers = Producers(
        options.bootstrap, options.prefix, Pace(options.rate), options.seed, ledger
    )
    send_answer(topics)
    serve_commands(producers.execute)
    producers.finish()
    ledger.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
