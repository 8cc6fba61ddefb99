from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from msgspec import structs

from landfall import ledger
from landfall.checks import Finding, Invariant
from landfall.checks.chain import Chain
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import encode_state
from landfall.ledger.task_results import LandedSlice, PartRows
from tests.support.ledger.sample_ledger import GROUP, LANE, WRITER, SampleLedger, bodies

TP = TopicPartition("clicks", 0)


@pytest.fixture
def sample() -> SampleLedger:
    sample = SampleLedger().open().add(TP)
    return sample.commit(sample.land(TP, 0, 10))


def check(slots: list[bytes]) -> tuple[Chain, Finding | None]:
    chain = Chain(GROUP)
    for body in slots:
        if isinstance(finding := chain.append(body), Finding):
            return chain, finding
    return chain, None


def finding_of(sample: SampleLedger, body: bytes) -> Finding:
    """What is wrong with these bytes as the next slot."""
    chain, finding = check([*bodies(sample.store), body])
    assert finding is not None
    assert (finding.slot, chain.state) == (sample.state.seq + 1, sample.state)
    return finding


def commit_body(sample: SampleLedger, *slices: object) -> bytes:
    return ledger.encode(sample.committing(*slices)(sample.next_header))  # type: ignore[arg-type]


def with_field(body: bytes, **fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(body) | fields)


def test_a_sound_ledger_has_no_finding(sample: SampleLedger) -> None:
    sample.commit(sample.land(TP, 10, 25)).applied()

    chain, finding = check(bodies(sample.store))

    assert (finding, chain.check_end(head_slot=-1)) == (None, None)
    assert (chain.slots, chain.commits, chain.slices, chain.state) == (5, 2, 2, sample.state)


def test_a_missing_slot_breaks_i1(sample: SampleLedger) -> None:
    slots = bodies(sample.store)

    _, finding = check([slots[0], slots[2]])

    assert finding == Finding(Invariant.I1, "slot 1", "a record whose header names slot 2", slot=1)


def test_a_changed_slot_breaks_the_hash_of_the_next(sample: SampleLedger) -> None:
    slots = bodies(sample.store)
    slots[1] = slots[1].replace(b'"id"', b'"xx"')

    _, finding = check(slots)

    assert finding is not None
    assert (finding.invariant, finding.slot) == (Invariant.I1, 2)
    assert finding.expected == f"hash {ledger.digest(slots[1])[:12]} of the slot before"


def test_bytes_that_are_not_a_record_break_i1(sample: SampleLedger) -> None:
    assert finding_of(sample, b"oops").invariant is Invariant.I1


def test_a_slot_of_a_million_brackets_breaks_i1(sample: SampleLedger) -> None:
    deep = (
        b'{"header":{"seq":3,"prev":"' + sample.state.tip.encode() + b'"},"x":' + b"[" * 1_000_000
    )

    assert finding_of(sample, deep).invariant is Invariant.I1


def test_a_ledger_that_ends_before_the_slot_in_its_head_breaks_i1(sample: SampleLedger) -> None:
    chain, _ = check(bodies(sample.store))

    assert chain.check_end(head_slot=7) == Finding(
        Invariant.I1, "slot 7, which the head names", "no such slot", slot=3
    )


def test_a_checkpoint_that_does_not_follow_from_the_counters_breaks_i8(
    sample: SampleLedger,
) -> None:
    chain, _ = check(bodies(sample.store))
    chain.state = replace(chain.state, checkpoint=Checkpoint({TP: 11}))

    expected = "checkpoint 10, from start 0 and 10 counted"
    assert chain.check_end(head_slot=-1) == Finding(
        Invariant.I8, expected, "checkpoint 11", topic_partition=TP
    )


@pytest.mark.parametrize(("start", "kind"), [(11, "11, a gap"), (9, "9, an overlap")])
def test_a_range_that_does_not_start_at_the_checkpoint_breaks_i2(
    sample: SampleLedger, start: int, kind: str
) -> None:
    finding = finding_of(sample, commit_body(sample, sample.land(TP, start, 20)))

    assert finding == Finding(Invariant.I2, "start 10", kind, 3, TP, OffsetRange(start, 20))


def test_a_hole_that_does_not_start_at_the_checkpoint_breaks_i2(sample: SampleLedger) -> None:
    hole = ledger.Hole(
        header=sample.next_header, piece=Slice(TP, OffsetRange(12, 14)), reason="expired"
    )

    assert finding_of(sample, ledger.encode(hole)).invariant is Invariant.I2


def test_a_topic_partition_that_was_never_added_breaks_i2(sample: SampleLedger) -> None:
    other = TopicPartition("orders", 1)

    assert finding_of(sample, commit_body(sample, sample.land(other, 0, 5))).got == "orders/1"


def test_an_object_of_another_batch_breaks_i3(sample: SampleLedger) -> None:
    landed = sample.land(TP, 10, 20)
    foreign = structs.replace(
        landed.objects[0], upload=structs.replace(landed.objects[0].upload, token="other")
    )

    assert (
        finding_of(
            sample, commit_body(sample, structs.replace(landed, objects=(foreign,)))
        ).invariant
        is Invariant.I3
    )


def test_a_key_named_twice_breaks_i4(sample: SampleLedger) -> None:
    landed = sample.land(TP, 10, 20)
    half = structs.replace(landed.objects[0], rows=5)

    finding = finding_of(sample, commit_body(sample, structs.replace(landed, objects=(half, half))))

    assert (finding.invariant, finding.key) == (Invariant.I4, half.upload.key)


def test_a_key_that_names_another_range_breaks_i4(sample: SampleLedger) -> None:
    landed = sample.land(TP, 10, 20)
    old = structs.replace(
        landed.objects[0],
        upload=structs.replace(
            landed.objects[0].upload, key="clicks/dt=2026-11-21/1_0_" + "0" * 20
        ),
    )

    assert (
        finding_of(sample, commit_body(sample, structs.replace(landed, objects=(old,)))).invariant
        is Invariant.I4
    )


def rotated(sample: SampleLedger, start: int, *ends: int, first: int | None = None) -> LandedSlice:
    """A slice of several objects by rotation: the first is named by the start of the slice.

    Later ones are named by their first offset; the last one says that it is ``first``, if given.
    """
    objects = []
    for at, end in pairwise((start, *ends)):
        key = object_names.ObjectName("clicks", "dt=2026-11-21", 1, 0, at, ".json").key
        objects.append(sample.upload(key, range(at, end)))
    if first is not None:
        objects[-1] = structs.replace(objects[-1], first_offset=first)
    return sample.land(TP, start, ends[-1], objects=tuple(objects))


def test_a_rotated_slice_and_one_that_ended_early_break_nothing(sample: SampleLedger) -> None:
    sample.commit(rotated(sample, 10, 14, 18, 20))
    sample.commit(rotated(sample, 20, 24, 27))  # its task was to read on to offset 30
    sample.commit(rotated(sample, 27, 30, 40))

    chain, finding = check(bodies(sample.store))

    assert (finding, chain.state.checkpoint[TP]) == (None, 40)


@pytest.mark.parametrize("first", [13, 15, 20])
def test_a_rotated_object_that_is_not_named_by_its_first_offset_breaks_i4(
    sample: SampleLedger, first: int
) -> None:
    finding = finding_of(sample, commit_body(sample, rotated(sample, 10, 14, 20, first=first)))

    assert (finding.invariant, finding.key) == (
        Invariant.I4,
        "clicks/dt=2026-11-21/1_0_00000000000000000014.json",
    )


def test_an_object_of_what_a_task_that_ended_early_did_not_read_breaks_i4(
    sample: SampleLedger,
) -> None:
    landed = rotated(sample, 10, 14, 20)
    early = Slice(TP, OffsetRange(10, 14))
    committed = structs.replace(landed, piece=early, landed=4, objects=landed.objects[:1])
    beyond = structs.replace(landed.objects[1], rows=0)

    finding = finding_of(
        sample,
        commit_body(sample, structs.replace(committed, objects=(*committed.objects, beyond))),
    )

    assert (finding.invariant, finding.key) == (Invariant.I4, beyond.upload.key)


def test_a_recreated_topic_under_its_old_generation_breaks_i4(sample: SampleLedger) -> None:
    sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    again = ledger.Add(header=sample.next_header, entries=(ledger.Entry(TP, "new id", 0),))

    assert finding_of(sample, ledger.encode(again)) == Finding(
        Invariant.I4, "a generation above 1", "generation 1", 4, TP
    )


def test_a_fenced_writer_breaks_i7(sample: SampleLedger) -> None:
    old = sample.next_header
    sample.open()
    late = msgspec.structs.replace(sample.next_header, epoch=old.epoch)

    finding = finding_of(sample, ledger.encode(ledger.Yield(header=late, reason="late")))

    assert finding == Finding(Invariant.I7, f"epoch 2 by {WRITER}", f"epoch 1 by {WRITER}", slot=4)


def test_an_epoch_that_skips_breaks_i7(sample: SampleLedger) -> None:
    header = msgspec.structs.replace(sample.next_header, epoch=5)

    opened = ledger.Open(header=header, group=GROUP, lane=LANE, generation=1, software="0")

    assert finding_of(sample, ledger.encode(opened)).expected == "epoch 2"


def test_a_commit_after_a_yield_breaks_i7(sample: SampleLedger) -> None:
    sample.applied()

    assert (
        finding_of(sample, commit_body(sample, sample.land(TP, 10, 20))).invariant is Invariant.I7
    )


def test_counters_that_do_not_add_up_break_i8(sample: SampleLedger) -> None:
    body = commit_body(sample, sample.land(TP, 10, 20))
    changed = msgspec.json.decode(body)
    changed["slices"][0]["landed"] = 9

    finding = finding_of(sample, msgspec.json.encode(changed))

    assert finding == Finding(Invariant.I8, "10 offsets counted", "9", 3, TP, OffsetRange(10, 20))


def test_counters_of_parts_that_do_not_add_up_break_i8(sample: SampleLedger) -> None:
    changed = msgspec.json.decode(commit_body(sample, sample.land(TP, 10, 20)))
    changed["slices"][0]["parts"] = [[0, 9, 0, 0]]

    finding = finding_of(sample, msgspec.json.encode(changed))

    assert (finding.invariant, finding.expected) == (Invariant.I8, "counters by part that add up")
    assert finding.got == "landed, filtered and dead-lettered are (10, 0, 0), but (9, 0, 0) by part"


def test_parts_of_files_in_a_topic_of_kafka_break_i8(sample: SampleLedger) -> None:
    counted = structs.replace(sample.land(TP, 10, 20), parts=(PartRows(0, 10, 0, 0),))

    finding = finding_of(sample, commit_body(sample, counted))

    assert finding.got == "counts parts of files, but it is no feed"
    assert finding.invariant is Invariant.I8


def test_rows_outside_the_range_break_i8(sample: SampleLedger) -> None:
    landed = sample.land(TP, 10, 20)
    astray = structs.replace(landed.objects[0], last_offset=20)

    assert (
        finding_of(
            sample, commit_body(sample, structs.replace(landed, objects=(astray,)))
        ).invariant
        is Invariant.I8
    )


def test_dead_letters_without_an_object_break_i8(sample: SampleLedger) -> None:
    landed = sample.land(TP, 10, 20)
    fewer = structs.replace(landed.objects[0], rows=9)

    finding = finding_of(
        sample,
        commit_body(sample, structs.replace(landed, objects=(fewer,), landed=9, dead_lettered=1)),
    )

    assert (finding.expected, finding.got) == ("1 rows in dead-letter objects", "0")


def test_a_snapshot_of_another_state_breaks_i8_and_of_other_bytes_i1(sample: SampleLedger) -> None:
    chain, _ = check(bodies(sample.store))
    right, wrong = (encode_state(state) for state in (sample.state, replace(sample.state, epoch=9)))

    def stored(body: bytes) -> ledger.Snapshot:
        return ledger.Snapshot(header=sample.next_header, key="k", sha256=ledger.digest(body))

    assert chain.check_snapshot(sample.state, stored(right), right) is None
    assert chain.check_snapshot(sample.state, stored(wrong), wrong).invariant is Invariant.I8  # type: ignore[union-attr]
    assert chain.check_snapshot(sample.state, stored(right), wrong).invariant is Invariant.I1  # type: ignore[union-attr]
    # Only the last few are kept, so that only the end of the ledger shows that one is missing.
    assert chain.check_snapshot(sample.state, stored(right), None) is None
    assert chain.check_end(-1).got == "nothing"  # type: ignore[union-attr]
    assert chain.check_snapshot(sample.state, stored(right), right) is None
    assert chain.check_end(-1) is None
