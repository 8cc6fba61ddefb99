"""Tables of BigQuery where objects were replaced: no row is in them twice, and none comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from landfall.errors import Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.task_results import DecidedObject
from landfall.publish.bigquery import BigQuery, Services
from landfall.publish.bigquery.loads import LoadLimits
from landfall.publish.bigquery.options import checked
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


OPTIONS = {"project": "shop-prod", "dataset": "raw", "staging": "gs://stage/x"}
TABLE = "shop-prod.raw.clicks"
WANTED = [*range(4, 10)]


@dataclass
class Scene:
    """Five objects of two rows each; a table gets the last three of them."""

    made: Warehoused
    option: str
    table: str = "{topic}"

    def __post_init__(self) -> None:
        for _ in range(5):
            self.made.landed.land(CLICKS, rows=2)
        self.made.landed.settle()
        first, second, third = landed_objects(self.made)[:3]
        values = {"startAt": third.slot, "skip": [first.landed.key, second.landed.key]}
        self.value: object = values[self.option]

    def publisher(self) -> BigQuery:
        """A publisher as a process has that has just started."""
        context = self.made.landed.context(
            "BigQuery",
            OPTIONS | {self.option: self.value, "table": self.table},
            output={"options": {"envelope": False}},
        )
        runner = self.made.tables().runner
        services = Services(runner.warehouse, runner.staging, runner.schedule)
        options = checked(context.entry.options, context.group, context.entry.min_interval)
        return BigQuery(options, context, services)

    def publish(self) -> None:
        self.publisher().publish(self.made.landed.follower())

    def rebuild(self) -> None:
        self.publisher().reset(self.made.landed.follower())
        self.publish()

    @property
    def offsets(self) -> list[int]:
        return self.made.offsets(TABLE)


@pytest.fixture(params=["startAt", "skip"])
def scene(request: pytest.FixtureRequest, made: Warehoused) -> Scene:
    return Scene(made, request.param)


def test_a_new_table_does_not_get_what_is_left_out_once_it_is_replaced(scene: Scene) -> None:
    merge(scene.made, landed_objects(scene.made)[:2])

    scene.rebuild()

    assert scene.offsets == WANTED


def test_a_table_does_not_get_what_is_left_out_once_it_is_replaced(scene: Scene) -> None:
    scene.publish()
    merge(scene.made, landed_objects(scene.made)[:2])
    scene.made.landed.land(CLICKS, rows=2).settle()

    scene.publish()
    assert scene.offsets == [*WANTED, 10, 11]

    scene.rebuild()
    scene.publish()
    assert scene.offsets == [*WANTED, 10, 11]


def test_an_object_with_rows_that_are_left_out_and_others_is_not_loaded(scene: Scene) -> None:
    scene.publish()
    merge(scene.made, landed_objects(scene.made)[1:3])

    for bring in (scene.publish, scene.rebuild):
        with pytest.raises(Stalled, match=r"may have|has rows that startAt or skip leaves out"):
            bring()
        assert scene.offsets == WANTED


def test_what_is_left_out_is_not_decided_by_a_pass_that_loads_nothing(made: Warehoused) -> None:
    scene = Scene(made, "startAt")
    value, scene.value, scene.table = scene.value, "Beginning", "{db}"
    with pytest.raises(Stalled, match="has no folder db="):
        scene.publish()
    scene.value, scene.table = value, "{topic}"

    scene.publish()

    assert scene.offsets == WANTED


def test_a_preview_of_a_table_that_has_nothing_asks_for_no_rebuild(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).settle()
    merge(made, landed_objects(made)[:2])

    lines = [*made.landed.publisher(made.tables()).preview(made.landed.follower())]

    assert lines == ["table lake.clicks: append 1 objects, 20 rows, slots 6-6"]
    publish(made)
    assert made.is_whole


def test_now_is_the_first_pass(made: Warehoused) -> None:
    scene = Scene(made, "startAt")
    scene.value = "Now"
    for _ in range(2):
        scene.publish()
        assert scene.offsets == []

    made.landed.land(CLICKS, rows=2).settle()
    scene.publish()

    assert scene.offsets == [10, 11]
