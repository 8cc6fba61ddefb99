"""Slices that Kafka has lost are read from another group's objects, all others from Kafka."""

import pytest

from landfall.errors import Reason, Retry, Stalled, StoreAway
from landfall.landed.reader import LandedReader
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.task import Batch, FromBackup
from landfall.task.landing import land
from landfall.task.lost_ranges import LostRangeReader
from tests.support.driver.slice_landing import TP, FakeReader, click, content, group
from tests.support.ledger.landed_group import PARQUET, Backup
from tests.support.ledger.sample_ledger import GROUP

LOG = [click(o, hour=o % 3) for o in range(60)]
LOST, KEPT = Slice(TP, OffsetRange(10, 40)), Slice(TP, OffsetRange(40, 60))


def from_backup(topic_id: str = "id", named: str = GROUP) -> Batch:
    return Batch(group(), "token", from_backup=((LOST, FromBackup(named, topic_id)),))


def reader(batch: Batch, landed: Backup) -> LostRangeReader:
    """Reads a log that begins at offset 40, and what a backup has of the rest."""
    log = FakeReader({TP: [row for row in LOG if row[0] >= 40]})
    return LostRangeReader(log, lambda: landed.reader, dict(batch.from_backup))


@pytest.fixture
def backup() -> Backup:
    return Backup({TP: LOG}, PARQUET).land(0, 25, 45).settle()


def test_a_slice_gives_the_same_objects_wherever_it_is_read_from(backup: Backup) -> None:
    batch, from_log = from_backup(), type(backup.store)()

    results = land(batch, [LOST, KEPT], reader(batch, backup), backup.store)
    as_from_log = land(Batch(group(), "token"), [LOST, KEPT], FakeReader({TP: LOG}), from_log)

    assert [result.read_from or "" for result in results if isinstance(result, LandedSlice)] == [
        GROUP, "",
    ]  # fmt: skip
    for here, there in zip(results, as_from_log, strict=True):
        assert content(here, backup.store) == content(there, from_log)


def test_another_topic_is_not_read(backup: Backup) -> None:
    batch = from_backup(topic_id="another")

    lost, kept = land(batch, [LOST, KEPT], reader(batch, backup), backup.store)

    assert isinstance(lost, FailedSlice)
    assert isinstance(lost.error, Stalled)
    assert lost.error.reason is Reason.DATA_LOSS
    assert isinstance(kept, LandedSlice)


def test_a_group_that_the_spec_does_not_name_any_more_is_not_read(backup: Backup) -> None:
    batch = from_backup(named="former")

    (lost,) = land(batch, [LOST], reader(batch, backup), backup.store)

    assert isinstance(lost, FailedSlice)
    assert "it was read from what former has landed, and" in str(lost.error)


def test_a_backup_that_cannot_be_opened_fails_its_slices_alone() -> None:
    def open_backup() -> LandedReader:
        raise Stalled(Reason.SPEC_INVALID, "no such bucket")

    batch, store = from_backup(), Backup({TP: LOG}).store
    of_log = FakeReader({TP: [row for row in LOG if row[0] >= 40]})
    both = LostRangeReader(of_log, open_backup, dict(batch.from_backup))

    lost, kept = land(batch, [LOST, KEPT], both, store)

    assert (type(lost), type(kept)) == (FailedSlice, LandedSlice)


def test_a_store_that_is_away_is_no_outage_of_kafka() -> None:
    def open_backup() -> LandedReader:
        raise StoreAway("the store of the backup does not answer")

    batch, store = from_backup(), Backup({TP: LOG}).store
    of_log = FakeReader({TP: [row for row in LOG if row[0] >= 40]})
    both = LostRangeReader(of_log, open_backup, dict(batch.from_backup))

    lost, kept = land(batch, [LOST, KEPT], both, store)

    assert isinstance(lost, FailedSlice)
    assert isinstance(lost.error, Retry)
    assert isinstance(kept, LandedSlice)
