"""What Kafka's own log says of records that their producer's book calls aborted.

A producer may abort a transaction and still have its records committed: if a late write of it
arrives after the marker that ended it, the write begins a new transaction that nobody ends, and the
next marker of that producer takes it in. Such transactions are called hanging (KIP-890). Every
reader of committed records gets these records then, so landing them is right.

The log is read with Kafka's ``DumpLogSegments``, which shows markers, and with a plain consumer,
which shows where each record is. A record is committed if the first marker of its producer after
it, in its Kafka partition, says COMMIT.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message

from dev.servers.kafka import KAFKA
from tests.chaos.producer_ledger import Ranges
from tests.chaos.records import identity
from tests.support.audit.independent_audit import kafka_messages
from tests.support.kafka.broker import Broker

_BATCH = re.compile(
    r"baseOffset: (?P<first>\d+) lastOffset: (?P<last>\d+) .*producerId: (?P<producer>-?\d+) "
    r"producerEpoch: (?P<epoch>-?\d+) .*isTransactional: (?P<transactional>\w+) "
    r"isControl: (?P<control>\w+)"
)
_MARKER = re.compile(r"offset: (?P<offset>\d+) .*endTxnMarker: (?P<end>COMMIT|ABORT)")
_DUMP = "org.apache.kafka.tools.DumpLogSegments"


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """A batch of a transaction in a Kafka partition, and the marker that ended it.

    Attributes:
        first: its first offset.
        last: its last offset.
        producer: id of its producer.
        epoch: the producer's epoch when it wrote the batch.
        marker: offset of the marker.
        marker_epoch: the producer's epoch when the marker was written.
        committed: whether the marker says COMMIT.
    """

    first: int
    last: int
    producer: int
    epoch: int
    marker: int
    marker_epoch: int
    committed: bool

    def __str__(self) -> str:
        """The batch and its marker, for the outcome of a run."""
        return (
            f"offsets {self.first} to {self.last} of producer {self.producer}, epoch {self.epoch}, "
            f"by the marker of epoch {self.marker_epoch} at {self.marker}"
        )


def ended_batches(dump: Iterable[str]) -> Iterator[EndedBatch]:
    """The batches that a marker ended, from the lines of ``DumpLogSegments --print-data-log``."""
    unended: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    producer = epoch = -1
    for line in dump:
        if batch := _BATCH.match(line):
            producer, epoch = int(batch["producer"]), int(batch["epoch"])
            if (batch["transactional"], batch["control"]) == ("true", "false"):
                unended[producer].append((int(batch["first"]), int(batch["last"]), epoch))
        elif marker := _MARKER.search(line):
            for first, last, written in unended.pop(producer, ()):
                is_commit = marker["end"] == "COMMIT"
                yield EndedBatch(
                    first, last, producer, written, int(marker["offset"]), epoch, is_commit
                )


def dump(programs: Path, folder: Path) -> list[str]:
    """The lines of ``DumpLogSegments`` for all segments of a Kafka partition, in order."""
    files = ",".join(str(path) for path in sorted(folder.glob("*.log")))
    argv = ["java", "-cp", f"{programs}/lib/*", _DUMP, "--files", files, "--print-data-log"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


@dataclass(frozen=True, slots=True)
class Markers:
    """What Kafka's log says of numbers of one topic that landed and that their producer aborted.

    Attributes:
        committed: how many of them Kafka committed.
        batches: the batches that they are in.
        unexplained: how many Kafka did not commit, so that they must not have landed.
    """

    committed: int
    batches: tuple[str, ...]
    unexplained: int


def decide(
    numbers: Ranges,
    found: Mapping[int, tuple[int, int]],
    ended: Mapping[int, Iterable[EndedBatch]],
) -> Markers:
    """Decide which numbers Kafka committed.

    Args:
        numbers: those that landed although their producer aborted them.
        found: Kafka partition and offset of each number that a reader of committed records gets.
        ended: the batches of transactions in each Kafka partition.
    """
    committed, batches = 0, dict[str, None]()
    wanted = [number for start, end in numbers for number in range(start, end)]
    for number in wanted:
        partition, offset = found.get(number, (-1, -1))
        for batch in ended.get(partition, ()):
            if batch.first <= offset <= batch.last and batch.committed:
                committed += 1
                batches[f"partition {partition}: {batch}"] = None
    return Markers(committed, tuple(batches), len(wanted) - committed)


def ask(broker: Broker, data: Path, aborted_landed: Mapping[str, Ranges]) -> dict[str, Markers]:
    """Ask the log of a broker of this machine, whose data folder is given, about each topic."""
    programs, answers = KAFKA.build(), {}
    for topic, numbers in aborted_landed.items():
        found = dict(_positions(kafka_messages(broker, topic), numbers))
        partitions = {partition for partition, _ in found.values()}
        ended = {p: list(ended_batches(dump(programs, data / f"{topic}-{p}"))) for p in partitions}
        answers[topic] = decide(numbers, found, ended)
    return answers


def _positions(
    messages: Iterable[Message], numbers: Ranges
) -> Iterator[tuple[int, tuple[int, int]]]:
    for message in messages:
        found = identity(message.value(), message.key())
        if found and any(start <= found.number < end for start, end in numbers):
            yield found.number, (message.partition() or 0, message.offset() or 0)
