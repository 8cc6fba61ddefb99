from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from landfall.cli.group_store import GroupStore
from landfall.cli.status import Line, look
from landfall.errors import Retry
from landfall.ledger.offsets import TopicPartition
from landfall.source import Watermarks
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]


@dataclass
class FixedLog:
    """Tells these watermarks, or cannot be reached."""

    marks: Mapping[TopicPartition, Watermarks] | None

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        if self.marks is None:
            raise Retry("broker away")
        return {tp: self.marks[tp] for tp in tps if tp in self.marks}


@pytest.fixture
def opened(landed: Make) -> GroupStore:
    return GroupStore.of(Path(landed("Json").file))


def test_lag_is_what_the_log_has_beyond_the_checkpoint(opened: GroupStore) -> None:
    standing = look(opened, FixedLog({TP: Watermarks(0, 17)}))  # type: ignore[arg-type]

    assert standing.partitions == (Line("clicks", 0, 10, 17, 7),)
    assert (standing.lag_records, standing.totals.landed, standing.epoch, standing.slots) == (
        7,
        10,
        1,
        3,
    )


def test_a_topic_that_is_gone_has_no_known_lag(opened: GroupStore) -> None:
    standing = look(opened, FixedLog({}))  # type: ignore[arg-type]

    assert standing.partitions == (Line("clicks", 0, 10, None, None),)


def test_without_kafka_the_ledger_still_tells_its_part(opened: GroupStore) -> None:
    standing = look(opened, FixedLog(None))  # type: ignore[arg-type]

    assert (standing.lag_records, standing.source_error, standing.totals.commits) == (
        None,
        "broker away",
        1,
    )
