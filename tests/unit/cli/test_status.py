from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from landfall.cli.group_store import GroupStore
from landfall.cli.status import PartitionProgress, read_progress
from landfall.errors import LandfallError, Retry, SourceAway
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets, Watermarks
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]


@dataclass
class FixedLog:
    """Returns these watermarks; None stands for a broker that cannot be reached."""

    marks: Mapping[TopicPartition, Watermarks] | None
    high: int = 0
    unavailable: Mapping[TopicPartition, LandfallError] = field(default_factory=dict)

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        if self.marks is None:
            raise Retry("broker away")
        here = {tp: self.marks[tp] for tp in tps if tp in self.marks}
        found = {
            tp: self.high if bound is Bound.HIGH_WATERMARK else m.end for tp, m in here.items()
        }
        return FoundOffsets(found, self.unavailable)


@pytest.fixture
def opened(landed: Make) -> GroupStore:
    return GroupStore.of(Path(landed("Json").file))


def test_lag_is_the_end_offset_minus_the_checkpoint(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 17)}))  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, 17, 7, 0),)
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


def test_records_of_an_open_transaction_are_no_lag(opened: GroupStore) -> None:
    log = FixedLog({TP: Watermarks(0, 17)}, high=40)

    progress = read_progress(opened, log)  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, 17, 7, 23),)


def test_a_topic_partition_without_a_leader_says_so(opened: GroupStore) -> None:
    log = FixedLog({}, unavailable={TP: SourceAway("clicks/0: no leader")})

    progress = read_progress(opened, log)  # type: ignore[arg-type]

    assert progress.partitions[0].unavailable == "clicks/0: no leader"
    assert progress.source_error is None
