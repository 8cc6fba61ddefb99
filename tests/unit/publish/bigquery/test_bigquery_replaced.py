"""Tables of BigQuery where objects were replaced: no row is in them twice, and none comes back."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from landfall.errors import Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.task_results import DecidedObject
from landfall.publish.bigquery.loads import LoadLimits
from landfall.publish.following import Follower
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.bigquery import Warehoused
from tests.support.publishers.lake import CLICKS, Killed
from tests.unit.publish.test_replacing import ParquetMerge


@pytest.fixture
def made(tmp_path: Path) -> Warehoused:
    return Warehoused.at(tmp_path)


def landed_objects(made: Warehoused) -> list[DecidedObject]:
    """The objects that COMMITs landed, by their slots."""
    lane = Lane(made.landed.store, GROUP, LANE)
    return [
        DecidedObject(slot, landed)
        for _, visible in lane.folded(State())
        for landed, slot in zip(visible.objects, visible.due, strict=True)
    ]


def merge(made: Warehoused, retire: Sequence[DecidedObject]) -> None:
    """Replace objects by one with the same rows; the old ones are deleted."""
    sample = made.landed.sample
    ParquetMerge(sample, (*retire,), sample.state.applied_through).record().complete().retired()
    sample.shown()


def publish(made: Warehoused) -> None:
    """Publish, and read the ledger in one stretch."""
    follower = Follower(Lane(made.landed.store, GROUP, LANE))
    made.landed.publisher(made.tables()).publish(follower)


def kill_after_the_first_load(made: Warehoused) -> None:
    """Publish, and die when the second job is to be submitted."""
    loads = list[str]()

    def fault(call: str) -> None:
        if call.startswith("submit "):
            loads.append(call)
            if len(loads) == 2:
                raise Killed

    made.warehouse.fault = fault
    with pytest.raises(Killed):
        publish(made)
    made.warehouse.fault = lambda _: None


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_what_was_loaded_ahead_and_was_replaced_is_not_loaded_again(
    made: Warehoused, *, is_rebuilt: bool
) -> None:
    made.limits = LoadLimits(1, 2**40)
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).settle()
    if is_rebuilt:
        made.publish()
        made.landed.publisher(made.tables()).reset(made.landed.follower())
    kill_after_the_first_load(made)
    assert made.offsets() == [*range(10)]
    merge(made, landed_objects(made)[:1])

    with pytest.raises(Stalled, match=r"may have 1 objects that have retired.*--rebuild"):
        publish(made)
    assert len(made.offsets()) == len({*made.offsets()})

    made.landed.publisher(made.tables()).reset(made.landed.follower())
    made.publish()
    assert made.is_whole
