"""The producers of the load, without a broker."""

import random
import sys
from pathlib import Path

import pytest

from tests.chaos.producer_ledger import ProducerLedger
from tests.chaos.records import TOPICS
from tests.chaos.writers import Pace, TransactionalWriter


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
