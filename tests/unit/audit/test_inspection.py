"""A whole audit of a folder: what it says of ledgers and objects, and what it holds in memory."""

import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from landfall import ledger
from landfall.api.spec import parse_group
from landfall.audit import PartitionResult, Unchecked
from landfall.audit.bucket import open_bucket
from landfall.audit.inspection import Findings, Scope, inspect
from landfall.errors import Reason, Stalled
from landfall.ledger import Hole
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.store.file import FileStore
from tests.support.auditor_fakes import MadeLog, Message
from tests.support.sample_ledger import GROUP, SampleLedger

TP = TopicPartition("clicks", 0)
DAY = 1_795_219_200_000
"""2026-11-21, where ``SampleLedger`` puts everything."""


def message(offset: int) -> Message:
    return Message(offset, b'{"o":%d}' % offset, stamp=DAY + offset % 1000)


class Landed:
    """A group in a folder, with a ledger and a log of its own."""

    def __init__(self, root: Path, **spec: Any) -> None:
        kafka = {"bootstrapServers": "localhost:1", "topics": ["clicks"]}
        output = {
            "url": f"file://{root}",
            "format": "Json",
            "codec": "None",
            **spec.pop("output", {}),
        }
        self.group = parse_group(
            {
                "apiVersion": "landfall.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": GROUP},
                "spec": {
                    "source": {"kafka": kafka},
                    "decode": {"format": "Json"},
                    "output": output,
                    **spec,
                },
            }
        )
        self.root = root
        self.book = SampleLedger(FileStore(root)).open().add(TP)

    def land(self, start: int, end: int, *, applied: bool = True, complete: bool = True) -> None:
        self.book.commit(self.book.land(TP, start, end), complete=complete)
        if applied:
            self.book.applied().open()

    def audit(self, log: MadeLog, **scope: Any) -> Findings:
        return inspect(self.group, open_bucket(self.group.spec.output), log, Scope(**scope))

    def told(self, log: MadeLog, **scope: Any) -> dict[str, Any]:
        """What of the topic partition is not nothing."""
        account = self.audit(log, **scope).accounts.get(("clicks", 0), PartitionResult())
        return {name: value for name, value in asdict(account).items() if value}


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    return Landed(tmp_path / "root")


def test_a_sound_group_is_sound(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 25)

    found = landed.audit(MadeLog(30, message))

    assert (found.is_whole, found.objects, found.waiting, found.strangers) == (True, 2, 0, 0)
    assert landed.told(MadeLog(30, message)) == {"expected": 25, "found": 25}


def test_what_is_decided_and_not_visible_yet_waits(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 25, applied=False, complete=False)

    found = landed.audit(MadeLog(30, message))

    assert (found.is_whole, found.waiting) == (True, 1)


def test_what_is_visible_is_audited_before_the_ledger_calls_it_applied(landed: Landed) -> None:
    landed.land(0, 10, applied=False)

    assert landed.told(MadeLog(30, message)) == {"expected": 10, "found": 10}


def test_what_should_be_visible_and_is_not_is_lost(landed: Landed) -> None:
    landed.land(0, 10, complete=False)

    (fault,) = landed.audit(MadeLog(30, message)).faults

    assert str(fault) == "lost object: clicks/dt=2026-11-21/1_0_00000000000000000000.json"


def test_offsets_that_the_ledger_steps_over_are_missing(landed: Landed) -> None:
    """No writer's ledger can: it is written past the fold that would refuse it."""
    late = landed.book.land(TP, 4, 10)
    for o in late.objects:
        landed.book.store.complete(o.upload)
    landed.book.write(ledger.encode(landed.book.committing(late)(landed.book.next_header)))

    assert landed.told(MadeLog(10, message)) == {
        "expected": 10,
        "found": 6,
        "missing": 4,
        "ranges": [(0, 4)],
    }


def test_a_hole_is_no_record_missing(landed: Landed) -> None:
    piece = Slice(TP, OffsetRange(0, 4))
    landed.book.append(lambda h: Hole(header=h, piece=piece, reason="expired"))
    landed.land(4, 10)

    assert landed.told(MadeLog(10, message, start=4)) == {"expected": 6, "found": 6}


@pytest.mark.parametrize(
    "log",
    [MadeLog(30, message, start=3), MadeLog(9, message), MadeLog(30, message, topic="another")],
)
def test_what_kafka_does_not_hold_is_unchecked(landed: Landed, log: MadeLog) -> None:
    """Expired, cut off at its end, or of a topic that was made anew."""
    landed.land(0, 10)

    assert landed.told(log) == {"unchecked": {Unchecked.GONE: 10}}


def test_a_record_that_kafka_holds_and_the_range_calls_invisible_is_missing(landed: Landed) -> None:
    without_object = landed.book.land(TP, 0, 10, objects=(), landed=0, invisible=10)
    landed.book.commit(without_object)

    found = landed.told(MadeLog(10, message))

    assert found == {"expected": 10, "missing": 10, "ranges": [(0, 10)]}


def test_another_group_file_than_it_was_landed_with_shows(tmp_path: Path) -> None:
    elsewhere = Landed(tmp_path / "root", route={"pattern": "day={date}"})
    elsewhere.land(0, 10)

    assert elsewhere.told(MadeLog(10, message)) == {"expected": 10, "found": 10, "misplaced": 10}


def test_one_generation_can_be_audited_alone(landed: Landed) -> None:
    landed.land(0, 10)
    landed.book.open(generation=2)
    landed.book.commit(landed.book.land(TP, 10, 15))

    told = landed.told(MadeLog(15, message), generation=2)

    assert told == {"expected": 5, "found": 5, "unchecked": {Unchecked.GENERATION: 10}}


def test_topics_that_are_not_asked_for_are_left_alone(landed: Landed) -> None:
    landed.land(0, 10)
    (landed.root / "clicks/dt=2026-11-21/1_0_00000000000000000500.json").write_bytes(b"")

    assert landed.audit(MadeLog(10, message), topics=frozenset({"orders"})) == Findings()
    assert len(landed.audit(MadeLog(10, message), topics=frozenset({"clicks"})).faults) == 1


def test_objects_of_others_are_counted_and_no_fault(landed: Landed) -> None:
    landed.land(0, 10)
    (landed.root / "clicks/dt=2026-11-21/_SUCCESS").write_bytes(b"")

    found = landed.audit(MadeLog(10, message))

    assert (found.is_whole, found.strangers) == (True, 1)


def test_a_missing_slot_ends_what_is_believed(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 20)
    (landed.root / f"_landfall/{GROUP}/0/{4:020d}.json").unlink()

    found = landed.audit(MadeLog(30, message))

    assert (
        str(found.faults[0])
        == f"broken ledger: slot 4: found {5:020d}.json, which says it is slot 5"
    )
    assert [fault.kind for fault in found.faults[1:]] == ["extra object"]


def test_a_store_of_ones_own_is_refused(landed: Landed) -> None:
    output = landed.group.spec.output.model_copy(update={"store": "my.stores:Store"})

    with pytest.raises(
        Stalled, match=r"output.store: audit reads s3:// and file:// itself"
    ) as stalled:
        open_bucket(output)

    assert stalled.value.reason is Reason.SPEC_INVALID


RANGE = 1000


def peak(folder: Path, ranges: int) -> int:
    landed = Landed(folder)
    for n in range(ranges):
        landed.land(n * RANGE, (n + 1) * RANGE)
    tracemalloc.start()
    try:
        assert landed.told(MadeLog(ranges * RANGE, message))["found"] == ranges * RANGE
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_that_of_a_range_however_many_there_are(tmp_path: Path) -> None:
    peak(tmp_path / "imports", 1)

    few, many = peak(tmp_path / "few", 3), peak(tmp_path / "many", 30)

    assert many < 2 * few, f"{few} bytes for 3 ranges, {many} for 30"
