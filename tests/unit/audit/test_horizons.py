"""The auditor works out again whether a horizon is proven by what was landed before it."""

from typing import Any

import msgspec
import pytest

from landfall.ledger import ClosedTopic, Finalize, Header, Horizon, Run, encode
from landfall.ledger.offsets import TopicPartition
from landfall_audit import FaultKind
from landfall_audit.ledger.horizons import Horizons
from tests.support.ledger.sample_ledger import SampleLedger, bodies

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def records(*entries: Horizon | Run) -> list[Any]:
    """A sound ledger, and then FINALIZEs and RUNs, which need not be."""
    sample = SampleLedger().open().add(A, B, start=2)
    sample.commit(sample.land(A, 2, 5, latest_ms=100))
    found = [msgspec.json.decode(body) for body in bodies(sample.store)]
    for entry in entries:
        made = entry if isinstance(entry, Run) else finalize(sample.next_header, entry)
        found.append(msgspec.json.decode(encode(made)))
    return found


def finalize(header: Header, entry: Horizon) -> Finalize:
    return Finalize(header=header, delay=10, looked=500, entries=(entry,))


def run(until: int, *ends: tuple[int, int], complete: int = -1, left: tuple[str, ...] = ()) -> Run:
    header = SampleLedger().open().next_header
    topics = (ClosedTopic("clicks", ends, complete),) if ends else ()
    return Run(header=header, until=until, began="t", topics=topics, left=left, delay=10)


def faults(*entries: Horizon | Run) -> list[str]:
    horizons = Horizons()
    found = [fault for record in records(*entries) for fault in horizons.add(record)]
    assert all(fault.kind is FaultKind.HORIZON for fault in found)
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


def test_a_run_that_has_reached_its_ends_is_no_fault() -> None:
    runs = (run(100, left=("clicks",)), run(200, (0, 4), (1, 2), complete=190))

    assert faults(*runs, run(210, (0, 5), (1, 2), complete=200)) == []


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            run(100, (0, 6), (1, 2)),
            "clicks/0 landed until 5, but a run until 100 ends at 6",
        ),
        (
            run(100, (0, 5)),
            "clicks/1 landed until 2, but a run until 100 ends at no offset",
        ),
        (
            run(100, (0, 5), (1, 2), complete=91),
            "clicks: complete until 91 by a run until 100, after 50",
        ),
        (
            run(100, (0, 5), (1, 2), complete=50),
            "clicks: complete until 50 by a run until 100, after 50",
        ),
    ],
)
def test_a_run_that_is_not_proven_is_found(run: Run, message: str) -> None:
    assert faults(Horizon("clicks", 50, ((1, 2),)), run) == [message]
