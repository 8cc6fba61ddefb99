"""The auditor works out again whether a horizon is proven by what was landed before it."""

from typing import Any

import msgspec
import pytest

from landfall.audit import Kind
from landfall.audit.horizons import Horizons
from landfall.ledger import Finalize, Horizon, encode
from landfall.ledger.offsets import TopicPartition
from tests.support.sample_ledger import SampleLedger, bodies

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def records(*entries: Horizon) -> list[Any]:
    """A sound ledger, and then FINALIZEs, which need not be."""
    sample = SampleLedger().open().add(A, B, start=2)
    sample.commit(sample.land(A, 2, 5, latest_ms=100))
    found = [msgspec.json.decode(body) for body in bodies(sample.store)]
    for entry in entries:
        made = Finalize(header=sample.next_header, delay=10, looked=500, entries=(entry,))
        found.append(msgspec.json.decode(encode(made)))
    return found


def faults(*entries: Horizon) -> list[str]:
    horizons = Horizons()
    found = [fault for record in records(*entries) for fault in horizons.add(record)]
    assert all(fault.kind is Kind.HORIZON for fault in found)
    return [fault.message for fault in found]


def test_a_proven_horizon_is_no_fault() -> None:
    later = Horizon("clicks", 490, ((0, 5), (1, 2)))

    assert faults(Horizon("clicks", 90, ((1, 2),)), later) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Horizon("clicks", 90), "clicks/1 had landed only until -1"),
        (Horizon("clicks", 91, ((1, 2),)), "clicks/0 had landed only until 100"),
        (Horizon("clicks", 90, ((1, 3),)), "clicks/1 had landed only until -1"),
        (Horizon("clicks", 491, ((0, 5), (1, 2))), "though the log was looked at in 500"),
    ],
)
def test_a_horizon_that_is_not_proven_is_found(entry: Horizon, message: str) -> None:
    (found,) = faults(entry)

    assert message in found


def test_a_horizon_that_moves_back_is_found() -> None:
    drained = ((0, 5), (1, 2))

    assert faults(Horizon("clicks", 90, drained), Horizon("clicks", 80, drained)) == [
        "clicks: complete until 80, after 90"
    ]
