"""What another group has landed of offsets that Kafka has lost, by its ledger alone."""

from typing import Any

import pytest

from landfall import ledger
from landfall.errors import LandfallError, Reason, Stalled
from landfall.landed.backup import LandedBackup
from landfall.landed.reader import LandedReader
from landfall.ledger import Drop, Hole
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.source import CoveredPrefix
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import SEQUENCE_FILES, Backup, merge_of, within
from tests.support.ledger.sample_ledger import GROUP

FIELD = "spec.source.kafka.onDataLoss.readFrom"
ROWS = [click(o) for o in range(200)]


def backup(output: dict[str, Any] = SEQUENCE_FILES) -> Backup:
    return Backup({TP: ROWS}, output)


def ask(landed: Backup, start: int, end: int, topic_id: str = "id") -> CoveredPrefix:
    of_group = LandedBackup(GROUP, FIELD, lambda: landed.history)
    return of_group.first_stretch(TP, topic_id, OffsetRange(start, end))


def answer(stretch: CoveredPrefix) -> tuple[int, int, str, bool]:
    return stretch.offsets.start, stretch.offsets.end, str(stretch.why or ""), stretch.is_final


def test_what_is_visible_can_be_read_and_what_follows_may_still_come() -> None:
    landed = backup().land(0, 40, 80).settle().land(80, 100, 120)

    assert answer(ask(landed, 30, 200)) == (30, 120, "", False)
    assert answer(ask(landed, 120, 200)) == (
        120, 200, "clicks/3: shop has landed it up to offset 120", False,
    )  # fmt: skip


def test_what_is_committed_and_not_visible_yet_is_not_lacking() -> None:
    landed = backup().land(0, 40, 80).settle().land(80, 100, complete=False).land(100, 120)

    assert answer(ask(landed, 30, 200)) == (30, 80, "", False)
    found = ask(landed, 80, 200)
    why = (
        "clicks/3: shop has committed it up to offset 120, but its objects from offset 80 on are "
        "not visible yet; the driver of shop makes them visible: see that it runs and that its "
        "store answers"
    )
    assert answer(found) == (80, 120, why, False)
    assert found.is_committed
    assert found.why
    assert found.why.reason is Reason.SOURCE_UNAVAILABLE
    assert not ask(landed, 120, 200).is_committed
    landed.complete()
    assert answer(ask(landed, 30, 200)) == (30, 120, "", False)


def test_what_landed_since_a_replace_that_is_being_done_can_be_read() -> None:
    landed = backup().land(0, 40, 80).settle()
    merge_of(landed).record(slices=(Slice(TP, OffsetRange(0, 80)),))
    landed.land(80, 100, 120)

    assert answer(ask(landed, 30, 200)) == (30, 120, "", False)
    assert landed.read(30, 120) == within(ROWS, 30, 120)


def test_what_is_in_segments_can_be_read_too() -> None:
    landed = backup().land(0, 40, 80).settle().roll().land(80, 100).settle()

    assert answer(ask(landed, 10, 90)) == (10, 90, "", False)


def test_a_hole_is_lacking_for_ever_and_no_more_than_that() -> None:
    landed = backup().land(0, 40)
    piece = Slice(TP, OffsetRange(40, 50))
    landed.sample.append(lambda h: Hole(header=h, piece=piece, reason="expired"))
    landed.land(50, 90).settle()

    assert answer(ask(landed, 0, 90)) == (0, 40, "", False)
    start, end, why, is_final = answer(ask(landed, 40, 90))
    assert (start, end, is_final) == (40, 50, True)
    assert "shop has skipped it in slot 3 of its ledger: expired" in why
    assert answer(ask(landed, 50, 90)) == (50, 90, "", False)


def test_what_came_before_its_first_offset_is_lacking() -> None:
    landed = backup()
    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="again"))
    landed.open(generation=2).sample.add(TP, start=60)
    landed.land(60, 90).settle()

    assert answer(ask(landed, 0, 90)) == (0, 60, "clicks/3: shop began at offset 60", True)
    assert answer(ask(landed, 0, 20)) == (0, 20, "clicks/3: shop began at offset 60", True)
    assert answer(ask(landed, 70, 90)) == (70, 90, "", False)


def test_another_topic_of_the_name_has_nothing() -> None:
    landed = backup().land(0, 90).settle()

    start, end, why, is_final = answer(ask(landed, 0, 90, "another"))

    assert (start, end, is_final) == (0, 90, True)
    assert why == "clicks/3: shop has landed another topic of this name: its id is id, not another"


def test_what_has_left_that_group_will_not_get_further() -> None:
    landed = backup().land(0, 40, 80).settle()
    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="gone"))

    assert answer(ask(landed, 0, 100)) == (0, 80, "", False)
    assert answer(ask(landed, 80, 100))[3] is True


def test_what_was_landed_in_another_form_is_known_and_cannot_be_read() -> None:
    landed = backup().land(0, 40).settle()
    landed.open(output={"format": "Json"}).land(40, 80).settle()
    landed.open(output=SEQUENCE_FILES).land(80, 100).settle()

    assert answer(ask(landed, 0, 100)) == (0, 40, "", False)
    found = ask(landed, 40, 100)
    assert (found.offsets, found.why and found.why.reason) == (
        OffsetRange(40, 80), Reason.SPEC_INVALID,
    )  # fmt: skip
    assert f"{FIELD}: clicks as shop has landed it" in str(found.why)
    assert answer(ask(landed, 80, 100)) == (80, 100, "", False)


def test_rows_that_were_merged_in_another_order_cannot_be_read() -> None:
    landed = backup().land(0, 40, 80).settle()
    merge_of(landed, mixed=True).record(slices=(Slice(TP, OffsetRange(0, 80)),)).complete()
    landed.settle().land(80, 100).settle()

    found = ask(landed, 0, 100)

    assert found.why
    assert found.why.reason is Reason.SPEC_INVALID
    assert answer(ask(landed, 80, 100)) == (80, 100, "", False)


def test_what_can_be_read_is_read_by_the_task() -> None:
    landed = backup().land(0, 40)
    piece = Slice(TP, OffsetRange(40, 50))
    landed.sample.append(lambda h: Hole(header=h, piece=piece, reason="expired"))
    landed.land(50, 90, 120).settle().land(120, 130)

    at = 0
    while at < 130:
        stretch = ask(landed, at, 130)
        if stretch.why is None:
            whole = stretch.offsets.start, stretch.offsets.end
            assert landed.read(*whole) == within(ROWS, *whole)
        else:
            with pytest.raises(LandfallError):
                landed.read(stretch.offsets.start, stretch.offsets.start + 1)
        at = stretch.offsets.end


def test_a_task_reads_no_other_topic() -> None:
    landed = backup().land(0, 40).settle()
    reader = LandedReader(landed.store, landed.history, FIELD)
    reader.topic_ids = {TP: "id"}
    assert [len(records) for records in reader.read(Slice(TP, OffsetRange(0, 40)))] == [40]

    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    landed.open(generation=2)
    entry = ledger.Entry(TP, "new", 0)
    landed.sample.append(lambda h: ledger.Add(header=h, entries=(entry,)))
    late = LandedReader(landed.store, landed.history, FIELD)
    late.topic_ids = {TP: "id"}

    with pytest.raises(Stalled, match="its id is new, not id") as stalled:
        list(late.read(Slice(TP, OffsetRange(0, 40))))
    assert stalled.value.reason is Reason.DATA_LOSS
