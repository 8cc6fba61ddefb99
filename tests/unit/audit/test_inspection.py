"""Audits of a folder: what they find in ledgers and objects, and how much memory they need."""

import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace

from landfall import ledger
from landfall.errors import Reason
from landfall.ledger import Blocked, Decision, Hole, Missing
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind, ReplayedSlice
from landfall_audit import FaultKind, Unchecked
from landfall_audit.buckets import open_bucket
from landfall_audit.errors import AuditReason, AuditStalled
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import GeneratedLog, Message
from tests.support.ledger.sample_ledger import GROUP

ASKED = Decision("skip", "kim", "it is gone", "2026-11-22T01:00:00Z")


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    return Landed(tmp_path / "root")


def test_a_sound_group_has_no_faults(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 25)

    found = landed.audit(GeneratedLog(30, message))

    assert (found.is_whole, found.objects, found.waiting, found.unrelated) == (True, 2, 0, 0)
    assert landed.found(GeneratedLog(30, message)) == {"expected": 25, "found": 25}


def test_a_commit_whose_objects_are_not_visible_yet_is_waiting(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 25, applied=False, complete=False)

    found = landed.audit(GeneratedLog(30, message))

    assert (found.is_whole, found.waiting) == (True, 1)


def test_visible_objects_are_audited_before_their_commit_is_applied(landed: Landed) -> None:
    landed.land(0, 10, applied=False)

    assert landed.found(GeneratedLog(30, message)) == {"expected": 10, "found": 10}


def test_an_object_that_should_be_visible_and_is_not_is_lost(landed: Landed) -> None:
    landed.land(0, 10, complete=False)

    (fault,) = landed.audit(GeneratedLog(30, message)).faults

    assert str(fault) == "lost object: clicks/dt=2026-11-21/1_0_00000000000000000000.json"


def test_offsets_that_the_ledger_does_not_cover_are_missing(landed: Landed) -> None:
    """The fold refuses such a COMMIT, so this test writes the slot without it."""
    late = landed.sample.land(TP, 4, 10)
    for o in late.objects:
        landed.sample.store.complete(o.upload)
    landed.sample.write(ledger.encode(landed.sample.committing(late)(landed.sample.next_header)))

    assert landed.found(GeneratedLog(10, message)) == {
        "expected": 10,
        "found": 6,
        "missing": 4,
        "ranges": [(0, 4)],
    }


def test_the_offsets_of_a_hole_are_not_missing(landed: Landed) -> None:
    piece = Slice(TP, OffsetRange(0, 4))
    landed.sample.append(lambda h: Hole(header=h, piece=piece, reason="expired"))
    landed.land(4, 10)

    assert landed.found(GeneratedLog(10, message, start=4)) == {
        "expected": 6,
        "found": 6,
        "skipped": 4,
    }


def lose(landed: Landed) -> LandedObject:
    """Commit offsets 4 to 9 in an object that is missing afterwards; a BLOCK says so."""
    landed.land(0, 4)
    slice_ = landed.sample.land(TP, 4, 10)
    landed.sample.commit(slice_, complete=False)
    slot, lost = landed.sample.state.seq, slice_.objects[0]
    entry = Blocked(TP, Reason.OBJECT_LOST, "gone", slice_.piece.offsets)
    missing = Missing(slot, (lost.upload.key,))
    landed.sample.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(missing,)))
    return lost


def test_the_records_of_a_missing_object_are_missing_until_they_are_given_up(
    landed: Landed,
) -> None:
    lost = lose(landed)
    landed.sample.applied().open()
    log = GeneratedLog(10, message)
    assert landed.found(log) == {"expected": 10, "found": 4, "missing": 6, "ranges": [(4, 10)]}

    slot = next(iter(landed.sample.state.missing))
    landed.sample.append(lambda h: ledger.Lost(header=h, commit=slot, objects=(lost,)))

    assert landed.found(log) == {"expected": 4, "found": 4, "lost": 6}


def test_a_lost_record_too_many_is_missing(landed: Landed) -> None:
    lost = lose(landed)
    first = landed.root / "clicks/dt=2026-11-21/1_0_00000000000000000000.json"
    first.write_bytes(b"".join(first.read_bytes().splitlines(keepends=True)[:3]))
    slot = next(iter(landed.sample.state.missing))
    landed.sample.append(lambda h: ledger.Lost(header=h, commit=slot, objects=(lost,)))
    landed.sample.applied()

    assert landed.found(GeneratedLog(10, message)) == {
        "expected": 4,
        "found": 3,
        "missing": 1,
        "lost": 6,
        "ranges": [(3, 4)],
    }


def test_an_object_that_was_given_up_must_not_be_visible(landed: Landed) -> None:
    lost = lose(landed)
    slot = next(iter(landed.sample.state.missing))
    landed.sample.append(lambda h: ledger.Lost(header=h, commit=slot, objects=(lost,)))
    landed.sample.applied()
    landed.sample.store.complete(landed.sample.upload(lost.upload.key, range(4, 10)).upload)

    found = landed.audit(GeneratedLog(10, message))

    assert [(fault.kind, fault.what) for fault in found.faults] == [
        (FaultKind.EXTRA, lost.upload.key)
    ]


def test_what_is_missing_of_a_topic_partition_that_leaves_is_lost(landed: Landed) -> None:
    lose(landed)
    landed.sample.append(
        lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="gone", decision=ASKED)
    )
    landed.sample.applied()

    assert landed.found(GeneratedLog(10, message)) == {"expected": 4, "found": 4, "lost": 6}


def replay(landed: Landed, rows: Sequence[int]) -> dict[str, Any]:
    """Land offsets 0 to 9, of which 3 and 4 are dead letters, then replay two ``rows``."""
    sample, key = landed.sample, object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0)
    good = sample.land(TP, 0, 10)
    data = sample.upload(good.objects[0].upload.key, [o for o in range(10) if o not in {3, 4}])
    letters = sample.upload(key, [3, 4], ObjectKind.DEAD_LETTERS)
    slice_ = replace(good, objects=(data, letters), landed=8, dead_lettered=2)
    sample.commit(slice_).open(generation=2)
    name = object_names.ObjectName("clicks", "dt=2026-11-21", 2, 0, 0, ".json").key
    again = sample.upload(name, rows)
    replayed = ReplayedSlice(key, good.piece, 2, (again,), 2, 0, 0)
    token = again.upload.token
    sample.append(
        lambda h: ledger.Replay(header=h, token=token, slices=(replayed,), decision=ASKED)
    )
    sample.store.complete(again.upload)
    sample.applied()
    return landed.found(GeneratedLog(10, message))


def test_replayed_dead_letters_are_found_in_the_new_object(landed: Landed) -> None:
    assert replay(landed, [3, 4]) == {"expected": 10, "found": 10}


def test_a_replay_that_lands_another_record_is_found(landed: Landed) -> None:
    assert replay(landed, [3, 5]) == {
        "expected": 10,
        "found": 9,
        "missing": 1,
        "duplicate": 1,
        "ranges": [(4, 5)],
    }


@pytest.mark.parametrize(
    "log",
    [
        GeneratedLog(30, message, start=3),
        GeneratedLog(9, message),
        GeneratedLog(30, message, topic="another"),
    ],
)
def test_what_kafka_no_longer_holds_is_unchecked(landed: Landed, log: GeneratedLog) -> None:
    """Records that expired, that lie after the end offset, or of a topic that was recreated."""
    landed.land(0, 10)

    assert landed.found(log) == {"unchecked": {Unchecked.GONE: 10}}


def test_a_visible_record_that_was_committed_as_invisible_is_missing(landed: Landed) -> None:
    without_object = landed.sample.land(TP, 0, 10, objects=(), landed=0, invisible=10)
    landed.sample.commit(without_object)

    found = landed.found(GeneratedLog(10, message))

    assert found == {"expected": 10, "missing": 10, "ranges": [(0, 10)]}


def test_a_group_file_with_another_route_makes_records_misplaced(tmp_path: Path) -> None:
    elsewhere = Landed(tmp_path / "root", route={"pattern": "day={date}"})
    elsewhere.land(0, 10)

    assert elsewhere.found(GeneratedLog(10, message)) == {
        "expected": 10,
        "found": 10,
        "misplaced": 10,
    }


def test_only_the_topics_in_scope_are_audited(landed: Landed) -> None:
    landed.land(0, 10)
    (landed.root / "clicks/dt=2026-11-21/1_0_00000000000000000500.json").write_bytes(b"")

    found = landed.audit(GeneratedLog(10, message), topics=frozenset({"orders"}))
    assert (found.results, found.faults, found.objects) == ({}, [], 0)
    assert len(landed.audit(GeneratedLog(10, message), topics=frozenset({"clicks"})).faults) == 1


def test_objects_that_do_not_belong_to_landfall_are_counted_and_no_fault(landed: Landed) -> None:
    landed.land(0, 10)
    (landed.root / "clicks/dt=2026-11-21/_SUCCESS").write_bytes(b"")
    (landed.root / "clicks/dt=2026-11-21/strange.txt").write_bytes(b"")

    found = landed.audit(GeneratedLog(10, message))

    assert (found.is_whole, found.unrelated, found.markers) == (True, 1, 1)


def test_slots_after_a_missing_one_are_not_used(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 20)
    (landed.root / f"_landfall/{GROUP}/0/{1:010d}/{3:010d}.json").unlink()

    found = landed.audit(GeneratedLog(30, message))

    assert (
        str(found.faults[0])
        == f"broken ledger: slot 4: found {2:010d}/{0:010d}.json, which claims to be slot 5"
    )
    assert [fault.kind for fault in found.faults[1:]] == ["extra object"]


def test_a_store_from_a_python_module_is_refused(landed: Landed) -> None:
    output = landed.group.spec.output.model_copy(update={"store": "my.stores:Store"})

    with pytest.raises(
        AuditStalled, match=r"output.store: audit reads Landfall's own stores"
    ) as stalled:
        open_bucket(for_auditor(output))

    assert stalled.value.reason is AuditReason.SPEC_INVALID


RANGE = 1000


def peak_memory(folder: Path, ranges: int) -> int:
    landed = Landed(folder)
    for n in range(ranges):
        landed.land(n * RANGE, (n + 1) * RANGE)
    tracemalloc.start()
    try:
        assert landed.found(GeneratedLog(ranges * RANGE, message))["found"] == ranges * RANGE
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_ranges(tmp_path: Path) -> None:
    peak_memory(tmp_path / "imports", 1)

    # The least of three: other threads of the process, such as a server's, are measured, too.
    few = min(peak_memory(tmp_path / f"few {n}", 3) for n in range(3))
    many = min(peak_memory(tmp_path / f"many {n}", 30) for n in range(3))

    # All of what is compared would be twenty times as much.
    assert many < 4 * few, f"{few} bytes for 3 ranges, {many} for 30"


def test_what_is_compared_with_nothing_is_not_counted_as_compared(landed: Landed) -> None:
    assert not landed.audit(GeneratedLog(30, message)).has_compared

    landed.land(0, 10)

    assert landed.audit(GeneratedLog(30, message)).has_compared
    assert not landed.audit(GeneratedLog(30, message), generation=7).has_compared
    assert landed.audit(GeneratedLog(30, message)).topics == {"clicks"}


def test_slots_in_a_segment_are_read_from_it(landed: Landed) -> None:
    landed.land(0, 10)
    landed.land(10, 20)
    landed.sample.add(TopicPartition("clicks", 1)).roll()
    landed.land(20, 30)

    found = landed.audit(GeneratedLog(30, message))

    assert (found.is_whole, found.slots, found.faults) == (True, landed.sample.state.seq + 1, [])


def test_a_damaged_segment_is_a_broken_ledger(landed: Landed) -> None:
    landed.land(0, 10)
    landed.sample.add(TopicPartition("clicks", 1)).roll()
    segment = landed.root / landed.sample.state.segments[0].key
    segment.write_bytes(segment.read_bytes()[:-1])

    assert "broken ledger: slot 0: not a segment" in map(
        str, landed.audit(GeneratedLog(10, message)).faults
    )


def test_topic_partitions_are_checked_at_the_same_time(landed: Landed) -> None:
    other, both = TopicPartition("clicks", 1), Barrier(2)
    landed.sample.add(other)
    landed.sample.commit(landed.sample.land(TP, 0, 10), landed.sample.land(other, 0, 10))

    class Log(GeneratedLog):
        def records(self, topic: str, partition: int, start: int) -> Iterator[Message]:
            both.wait(timeout=30)
            return super().records(topic, partition, start)

    found = landed.audit(Log(10, message))

    assert found.is_whole
    assert [result.found for result in found.results.values()] == [10, 10]


def expire(landed: Landed, through: int) -> None:
    """Say that dead letters up to a slot have expired, as a driver does before it deletes them."""
    key = f"_landfall/{GROUP}/0-expired/{through:020d}.json"
    body = b'{"through":%d,"after":-1,"before":"2026-12-21T05:00:00+00:00"}' % through
    landed.sample.store.create(key, body)


def lettered(landed: Landed) -> LandedObject:
    """Land offsets 0 to 9, of which 3 and 4 are dead letters; returns those."""
    sample, key = landed.sample, object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0)
    good = sample.land(TP, 0, 10)
    data = sample.upload(good.objects[0].upload.key, [o for o in range(10) if o not in {3, 4}])
    letters = sample.upload(key, [3, 4], ObjectKind.DEAD_LETTERS)
    sample.commit(replace(good, objects=(data, letters), landed=8, dead_lettered=2)).applied()
    return letters


def test_records_of_expired_dead_letters_are_not_missing(landed: Landed) -> None:
    letters = lettered(landed)
    expire(landed, landed.sample.state.seq)
    landed.sample.store.retire(letters.upload)

    found = landed.audit(GeneratedLog(10, message))

    assert (found.is_whole, [*map(str, found.faults)]) == (True, [])
    assert landed.found(GeneratedLog(10, message)) == {
        "expected": 8,
        "found": 8,
        "dead_letters_expired": 2,
    }


def test_expired_dead_letters_that_are_still_there_are_not_extra(landed: Landed) -> None:
    lettered(landed)
    expire(landed, landed.sample.state.seq)

    assert landed.audit(GeneratedLog(10, message)).is_whole


def test_dead_letters_of_later_slots_are_lost(landed: Landed) -> None:
    letters = lettered(landed)
    expire(landed, landed.sample.state.seq - 2)
    landed.sample.store.retire(letters.upload)

    faults = landed.audit(GeneratedLog(10, message)).faults

    assert [str(fault) for fault in faults] == [f"lost object: {letters.upload.key}"]


def test_dead_letters_that_expire_during_the_audit_are_unchecked(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = lettered(landed)
    landed.sample.store.retire(letters.upload)
    seen = Inventory.is_visible

    def expiring(inventory: Inventory, key: str) -> bool:
        expire(landed, landed.sample.state.seq)
        return seen(inventory, key)

    monkeypatch.setattr(Inventory, "is_visible", expiring)

    assert landed.found(GeneratedLog(10, message)) == {
        "unchecked": {Unchecked.DEAD_LETTERS_EXPIRED: 10}
    }


def test_replayed_dead_letters_may_expire(landed: Landed) -> None:
    replay(landed, [3, 4])
    key = object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0)
    expire(landed, landed.sample.state.seq)
    landed.sample.store.retire(landed.sample.landed[key].upload)

    assert landed.audit(GeneratedLog(10, message)).is_whole
