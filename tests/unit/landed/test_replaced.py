"""Objects that took the place of others are read in their place, and copies until they do."""

import pytest

from landfall.errors import Reason, Stalled
from landfall.landed.backup import LandedBackup
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import CoveredPrefix, EndsEarly
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import (
    PARQUET,
    SEQUENCE_FILES,
    Backup,
    backfill_of,
    backup_group,
    carry_out,
    merge_of,
    together,
    within,
)
from tests.support.ledger.sample_backfill import Backfill, UndoneBackfill
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge, Undo

OTHER = TopicPartition("clicks", 4)
LOG = {TP: [click(o) for o in range(100, 160)], OTHER: [click(o) for o in range(30, 90)]}
SLICES = (Slice(TP, OffsetRange(0, 140)), Slice(OTHER, OffsetRange(0, 80)))


def backup(**output: object) -> Backup:
    """Two Kafka partitions, whose first ranges are in one output partition, three objects each."""
    landed = Backup(dict(LOG), {**SEQUENCE_FILES, **output})
    landed.land(0, 110, 125, 140).land(0, 40, 50, 80, tp=OTHER)
    return landed.settle()


def retire(landed: Backup, merge: Merge, slot: int) -> None:
    """Keep copies, and delete what retires."""
    for each in merge.retire:
        key = each.landed.upload.key
        copy = object_names.retired_key(GROUP, LANE, slot, key)
        landed.store.overwrite(copy, landed.store.read(key) or b"")
        landed.store.delete(key)


@pytest.mark.parametrize("output", [SEQUENCE_FILES, PARQUET])
def test_a_merged_object_is_read_by_its_sections(output: dict[str, object]) -> None:
    landed = backup(**{"options": {}, **output})
    merge = merge_of(landed).record(slices=SLICES)
    merge.complete()
    for each in merge.retire:
        landed.store.delete(each.landed.upload.key)
    landed.settle()

    for start, end in ((0, 140), (105, 131), (127, 140)):
        assert landed.read(start, end) == within(LOG[TP], start, end)
    assert landed.read(33, 77, OTHER) == within(LOG[OTHER], 33, 77)


def test_until_it_is_applied_the_old_objects_are_read_wherever_they_are() -> None:
    landed = backup()
    merge = merge_of(landed).record(slices=SLICES)
    slot = landed.sample.state.seq

    assert landed.read(0, 140) == within(LOG[TP], 0, 140)
    retire(landed, merge.complete(), slot)
    assert landed.read(0, 140) == within(LOG[TP], 0, 140)


def test_a_reader_that_goes_on_finds_what_has_retired_meanwhile() -> None:
    landed = backup()
    reader = landed.reader
    merge = merge_of(landed).record(slices=SLICES)
    slot = landed.sample.state.seq
    retire(landed, merge.complete(), slot)
    landed.settle()

    (records,) = reader.read(Slice(TP, OffsetRange(0, 140)))

    assert records.values.to_pylist() == [value for _, value in within(LOG[TP], 0, 140)]


def test_rows_that_were_sorted_or_left_out_are_refused() -> None:
    landed = backup()
    merge_of(landed, mixed=True).record(slices=SLICES).complete()
    landed.settle()
    landed.land(140, 150).settle()

    with pytest.raises(Stalled, match="shop has sorted its rows, or left duplicates out") as e:
        landed.read(100, 140)
    with pytest.raises(EndsEarly):
        landed.read(0, 150)

    assert e.value.reason is Reason.SPEC_INVALID
    assert landed.read(140, 150) == within(LOG[TP], 140, 150)


def test_what_was_given_up_never_counts() -> None:
    landed = backup()
    lost = merge_of(landed).record(slices=SLICES)
    merge = merge_of(landed, read_through=lost.slot).record(slices=SLICES, instead=lost.slot)
    retire(landed, merge.complete(), merge.slot)
    landed.settle()

    assert landed.read(0, 140) == within(LOG[TP], 0, 140)


FILTER: dict[str, object] = {
    "transforms": [{"use": "Filter", "options": {"where": "n < 8"}}],
}
TEN = [(o, b'{"ts": 1763683200000, "n": %d}' % o) for o in range(10)]
WHOLE = Slice(TP, OffsetRange(0, 10))


def ask(landed: Backup) -> CoveredPrefix:
    of_group = LandedBackup(GROUP, "readFrom", lambda: landed.history)
    return of_group.first_stretch(TP, "id", WHOLE.offsets)


def corrected() -> tuple[Backup, Backfill]:
    """A filter had left two of ten records out; a backfill without it has landed all ten."""
    landed = Backup({TP: TEN}, SEQUENCE_FILES, FILTER).land(0, 10).settle()
    landed.spec = {}
    landed.open(generation=2)
    return landed, backfill_of(landed, landed.group, WHOLE)


def test_a_range_that_a_backfill_corrected_is_read_and_is_a_backup() -> None:
    landed, _ = corrected()

    assert landed.read(0, 10) == TEN
    assert ask(landed) == CoveredPrefix(WHOLE.offsets)


def test_a_range_whose_correction_was_undone_is_refused_until_that_is_undone() -> None:
    landed, backfill = corrected()
    undone = UndoneBackfill(backfill)
    carry_out(landed, undone)

    with pytest.raises(Stalled, match="has left out 2 of its records"):
        landed.read(0, 10)
    assert "has left out 2 of its records" in str(ask(landed).why)
    carry_out(landed, UndoneBackfill(undone))
    assert landed.read(0, 10) == TEN
    assert ask(landed) == CoveredPrefix(WHOLE.offsets)


def test_driver_and_task_agree_by_which_spec_a_backfill_has_landed() -> None:
    landed = Backup({TP: TEN}).land(0, 10).settle()
    transforms = [{"use": "Set", "options": {"n": 1}}]
    spec = backup_group(SEQUENCE_FILES, generation=2, transforms=transforms)
    landed.open(generation=2)
    backfill_of(landed, spec, WHOLE)

    with pytest.raises(Stalled, match="transforms change or leave out what Kafka held"):
        landed.read(0, 10)
    found = ask(landed)
    assert (found.offsets, found.why and found.why.reason) == (WHOLE.offsets, Reason.SPEC_INVALID)
    assert "transforms change or leave out what Kafka held" in str(found.why)


def test_a_merge_by_a_driver_with_another_format_is_read_by_the_spec_of_its_rows() -> None:
    landed = backup()
    merge = merge_of(landed)
    landed.open(output=PARQUET)
    carry_out(landed, merge, slices=SLICES)

    assert landed.read(0, 140) == within(LOG[TP], 0, 140)


def test_what_a_merge_had_sorted_is_read_again_once_that_is_undone() -> None:
    landed = backup()
    merge = merge_of(landed, mixed=True)
    carry_out(landed, merge, slices=SLICES)
    with pytest.raises(Stalled, match="has sorted its rows"):
        landed.read(100, 140)

    carry_out(landed, Undo(merge))

    assert landed.read(0, 140) == within(LOG[TP], 0, 140)


@pytest.mark.parametrize("is_undone", [False, True])
def test_rows_of_both_lives_that_are_merged_by_one_replace_are_kept_apart(
    *, is_undone: bool
) -> None:
    landed = Backup(dict(LOG)).land(0, 110, 125, 140).settle()
    landed.sample.drop(TP)
    landed.open(generation=2).sample.add(TP)
    landed.log[TP] = again = [(o, b'{"ts": 1763683200000, "again": %d}' % o) for o, _ in LOG[TP]]
    landed.land(0, 110, 125, 140).settle()
    merge = together(merge_of(landed, generation=1), merge_of(landed, generation=2))

    carry_out(landed, merge, slices=SLICES[:1])
    if is_undone:
        carry_out(landed, Undo(merge), slices=SLICES[:1])

    assert landed.read(0, 140) == within(again, 0, 140)
