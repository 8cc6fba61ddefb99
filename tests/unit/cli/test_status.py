from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from landfall.cli.group_store import GroupStore
from landfall.cli.status import PartitionProgress, read_progress
from landfall.errors import Retry
from landfall.ledger.offsets import TopicPartition
from landfall.source import Watermarks
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]


@dataclass
class FixedLog:
    """Returns these watermarks; None stands for a broker that cannot be reached."""

    marks: Mapping[TopicPartition, Watermarks] | None

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        if self.marks is None:
            raise Retry("broker away")
        return {tp: self.marks[tp] for tp in tps if tp in self.marks}


@pytest.fixture
def opened(landed: Make) -> GroupStore:
    return GroupStore.of(Path(landed("Json").file))


def test_lag_is_the_end_offset_minus_the_checkpoint(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 17)}))  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, 17, 7),)
    assert (progress.lag_records, progress.totals.landed, progress.epoch, progress.slots) == (
        7,
        10,
        1,
        3,
    )


def test_a_deleted_topic_has_no_known_lag(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog({}))  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, None, None),)


def test_without_kafka_the_ledger_still_has_its_totals(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog(None))  # type: ignore[arg-type]

    assert (progress.lag_records, progress.source_error, progress.totals.commits) == (
        None,
        "broker away",
        1,
    )
