"""A load of numbered records, held for as long as the runner likes, and a book of what became of
each.

    python -m tests.chaos.load --bootstrap 127.0.0.1:9092 --prefix chaos --rate 1000 --seed 7 --book
    book.jsonl

Topics and their shares are in ``records.TOPICS``, their producers in ``writers``, the book and its
check in ``book`` and ``landed``. It takes orders as lines of JSON on standard input and ends with
it; ``Load`` is the other end.
"""

import argparse
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.child_process import Child, listen, say
from tests.chaos.producer_ledger import ProducerLedger
from tests.chaos.records import TOPICS
from tests.chaos.writers import Pace, Plain, Transactional, Writer
from tests.support.kafka import Broker

FLUSH_SECONDS = 0.5
"""Between two looks at what is to be put down in the book."""
FINISH_SECONDS = 180


class Progress(msgspec.Struct, kw_only=True):
    """What the load did so far.

    Attributes:
        sent: records handed to a producer.
        bytes: of their payloads.
        acknowledged, aborted: of these.
        in_doubt: of these, for good.
        ends: transactions, by what became of them.
        rate: records a second that it tries to hold now.
    """

    sent: int
    bytes: int
    acknowledged: int
    aborted: int
    in_doubt: int
    ends: dict[str, int]
    rate: float


class Load:
    """A load in a process of its own."""

    def __init__(
        self, bootstrap: str, prefix: str, *, rate: float, seed: int, folder: Path
    ) -> None:
        """Make its topics, and begin; ``folder`` gets ``book.jsonl`` and its log."""
        self.book = folder / "book.jsonl"
        arguments = [
            "--bootstrap",
            bootstrap,
            "--prefix",
            prefix,
            "--rate",
            str(rate),
            "--seed",
            str(seed),
        ]
        self._child = Child("load", *arguments, "--book", str(self.book), log=folder / "load.log")
        self.topics = self._child.told(list[str])

    def rate(self, records: float) -> None:
        """Hold so many a second."""
        self._child.ask("rate", Progress, rate=records)

    def burst(self, records: float, seconds: float) -> None:
        """Hold so many a second, for so long."""
        self._child.ask("burst", Progress, rate=records, seconds=seconds)

    def progress(self) -> Progress:
        """How far it is.

        Raises:
            Refused: a producer's thread failed; says how.
        """
        return self._child.ask("progress", Progress)

    def finish(self) -> Progress:
        """Let it end its transactions and wait for what is on its way, a few minutes at most; the
        book is complete then.
        """
        told = self._child.ask("finish", Progress)
        self._child.end()
        return told

    def stop(self) -> int:
        """End it, and return its exit code."""
        return self._child.end()


class Producers:
    """All writers of a load."""

    def __init__(
        self, bootstrap: str, prefix: str, pace: Pace, seed: int, book: ProducerLedger
    ) -> None:
        """Begin to write."""
        self._book, self._pace = book, pace
        self._writers = list(_writers(bootstrap, prefix, pace, seed, book))
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=writer.run, daemon=True) for writer in self._writers
        ]
        self._scribe = threading.Thread(target=self._write_down, daemon=True)
        for thread in (*self._threads, self._scribe):
            thread.start()

    def obey(self, order: dict[str, Any]) -> Progress:
        """Do what the runner says."""
        match order["do"]:
            case "rate":
                self._pace.rate = order["rate"]
            case "burst":
                self._pace.burst(order["rate"], order["seconds"])
            case "finish":
                self.finish()
            case "progress":
                pass
            case unknown:
                raise ValueError(f"no such order: {unknown}")
        return self._progress()

    def finish(self) -> None:
        """Come to an end, in order.

        Raises:
            TimeoutError: the broker is away.
        """
        for writer in self._writers:
            writer.over.set()
        deadline = time.monotonic() + FINISH_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._over.set()
        self._scribe.join()
        late = [
            writer.name
            for writer, thread in zip(self._writers, self._threads, strict=True)
            if thread.is_alive()
        ]
        if late:
            raise TimeoutError(f"not ended within {FINISH_SECONDS} s: {late}")

    def _write_down(self) -> None:
        while not self._over.wait(FLUSH_SECONDS):
            self._book.flush()
        self._book.flush()

    def _progress(self) -> Progress:
        for writer in self._writers:
            if writer.error:
                raise writer.error
        counts = [writer.count for writer in self._writers]
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
    bootstrap: str, prefix: str, pace: Pace, seed: int, book: ProducerLedger
) -> Iterator[Writer]:
    for topic in TOPICS:
        name = f"{prefix}.{topic.name}"
        share = topic.share / (topic.plain + topic.transactional)
        if topic.plain:
            yield Plain(bootstrap, topic, name, share, book, pace, random.Random(f"{seed}/{name}"))
        for number in range(topic.transactional):
            own = f"{name}-{number}"
            yield Transactional(
                bootstrap, topic, name, share, book, pace, random.Random(f"{seed}/{own}"), id=own
            )


def _make_topics(broker: Broker, prefix: str) -> list[str]:
    """They keep everything, however old its events are."""
    return [broker.create_topic(f"{prefix}.{topic.name}", topic.partitions) for topic in TOPICS]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.load", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="of the broker")
    parser.add_argument("--prefix", required=True, help="of its topics")
    parser.add_argument("--rate", type=float, required=True, help="records a second to begin with")
    parser.add_argument("--seed", type=int, default=0, help="of its dice")
    parser.add_argument("--book", type=Path, required=True, help="file to make")
    chosen = parser.parse_args()
    book = ProducerLedger(chosen.book)
    topics = _make_topics(Broker(chosen.bootstrap), chosen.prefix)
    producers = Producers(chosen.bootstrap, chosen.prefix, Pace(chosen.rate), chosen.seed, book)
    say(topics)
    listen(producers.obey)
    producers.finish()
    book.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
