"""Audits of a group whose topics have entries of their own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import Records
from landfall.store.file import FileStore
from landfall.task import Batch
from landfall.task.landing import land
from landfall_audit import Fault, FaultKind
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.auditor_fakes import GeneratedLog, Message, of_messages


def test_a_topic_is_audited_by_its_own_entry(tmp_path: Path) -> None:
    """The group's own fields are of another format and route: they are those of other topics."""
    entry = {
        "pattern": "clicks",
        "decode": {"format": "Json"},
        "route": {"pattern": "dt={date}"},
        "output": {"format": "Json", "codec": "None"},
    }
    landed = Landed(
        tmp_path / "root",
        decode={"format": "Raw"},
        route={"pattern": "other={kafka_partition}"},
        output={"format": "SequenceFile"},
        topics=[entry],
    )
    landed.land(0, 10)

    assert landed.found(GeneratedLog(10, message)) == {"expected": 10, "found": 10}


def destined(offset: int) -> Message:
    return replace(message(offset), header_pairs=[("k", b"a" if offset % 2 else b"b")])


class Reader:
    """Reads the messages that the auditor's log has."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        found = range(slice_.offsets.start, slice_.offsets.end)
        yield of_messages(slice_.topic_partition, [destined(offset) for offset in found])


def test_objects_are_audited_in_their_destinations(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root", route={"topicPath": "k={header:k}/{topic}"})
    piece = Slice(TP, OffsetRange(0, 10))
    (slice_,) = land(Batch(landed.group, "token-2"), [piece], Reader(), FileStore(landed.root))
    assert isinstance(slice_, LandedSlice)
    landed.sample.commit(slice_).applied().open()

    found = landed.found(GeneratedLog(10, destined))
    exchanged = landed.found(GeneratedLog(10, lambda o: replace(destined(o), header_pairs=[])))

    folders = {path.relative_to(landed.root).parts[:2] for path in landed.root.rglob("*.json")}
    assert {("k=a", "clicks"), ("k=b", "clicks")} <= folders
    assert found == {"expected": 10, "found": 10}
    assert exchanged == {"expected": 10, "found": 10, "misplaced": 10}


@pytest.mark.parametrize("destination", ["k=a/", "k=a/l==b/", ""])
def test_an_object_that_nobody_decided_is_found_in_destinations(
    tmp_path: Path, destination: str
) -> None:
    landed = Landed(tmp_path / "root", route={"topicPath": "k={header:k}/{topic}"})
    key = f"{destination}clicks/dt=2026-11-21/1_7_{0:020d}.json"
    landed.sample.store.create(key, b"{}")

    (fault,) = landed.audit(GeneratedLog(0, message)).faults

    assert fault == Fault(FaultKind.EXTRA, key, "2 bytes that no COMMIT names")


def test_a_moved_object_is_found_in_its_destination(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root")
    landed.land(0, 10)
    (path,) = landed.root.glob("clicks/*/*.json")
    other = landed.root / "k=a" / path.relative_to(landed.root)
    other.parent.mkdir(parents=True)
    path.rename(other)

    (fault,) = landed.audit(GeneratedLog(10, message)).faults

    assert fault.kind is FaultKind.MOVED
