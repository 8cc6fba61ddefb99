"""The producers of the load, without a broker."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.chaos import writers
from tests.chaos.producer_ledger import ProducerLedger
from tests.chaos.records import TOPICS
from tests.chaos.writers import Pace, PlainWriter, TransactionalWriter, retry


class Stuck:
    """A producer after a restart of the broker that librdkafka does not get over."""

    made = 0

    def __init__(self, *_: object) -> None:
        type(self).made += 1

    def produce(self, *_: object, **__: object) -> None:
        raise BufferError

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        return 1


class Writing(PlainWriter):
    """A writer that ends once its second producer is stuck, too."""

    def take_due(self) -> int:
        if Stuck.made > 1:
            self.stopping.set()
        return 1


def test_a_producer_that_is_stuck_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ProducerLedger(tmp_path / "ledger.jsonl")
    monkeypatch.setattr(writers, "create_producer", Stuck)
    writer = Writing("localhost:1", TOPICS[0], "t", 1.0, ledger, Pace(1), random.Random(1), 0)

    writer.run()

    assert writer.error is None
    assert (Stuck.made, writer.counts.sent) == (2, 0)


def test_a_call_that_never_succeeds_is_repeated_for_a_while_only() -> None:
    calls = 0

    def away(_: float) -> Any:
        nonlocal calls
        calls += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "away", retriable=True))

    with pytest.raises(KafkaException, match="away"):
        retry(away, 0.2)

    assert calls > 1


def test_a_producer_that_ends_before_it_is_killed_fails_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ProducerLedger(tmp_path / "ledger.jsonl")
    writer = TransactionalWriter(
        "localhost:1", TOPICS[0], "t", 1.0, ledger, Pace(1), random.Random(1)
    )
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(RuntimeError, match="ended with exit code 1"):
        writer._write_and_kill()
