"""What startAt and skip leave out of tables stays out, also once it is merged or landed again."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.publish import DueObjects, Hold
from landfall.publish.choice import TableChoice
from landfall.publish.following import Follower
from landfall.publish.health import Question
from landfall.publish.replaced_files import PartlyLeftOut
from landfall.publish.tables import TablePublisher
from tests.support.driver.fakes import NOW
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.ledger.sample_replacing import Undo
from tests.support.publishers.keyed import Change, Changes, KeyedLake
from tests.support.publishers.keyed_delta import KeyedDeltaLake
from tests.support.publishers.keyed_iceberg import KeyedIcebergLake
from tests.support.publishers.lake import CLICKS, DAY

KINDS: dict[str, type[KeyedLake]] = {"Delta": KeyedDeltaLake, "Iceberg": KeyedIcebergLake}
Make = Callable[[], "Scene"]


class Scene:
    """Five objects of two rows each; a table gets the last three of them."""

    def __init__(self, lake: KeyedLake, option: str, *, is_keyed: bool) -> None:
        self.lake, self.is_keyed = lake, is_keyed
        for _ in range(5):
            lake.land(2)
        first, second, third = lake.live()[:3]
        choices = {
            "startAt": TableChoice(start=third.slot),
            "skip": TableChoice(skip=frozenset({first.key, second.key})),
        }
        self.choice = choices[option]

    def publisher(self) -> TablePublisher:
        tables = self.lake.tables() if self.is_keyed else self.lake.tables_of_all_rows()
        return replace(self.lake.publisher(tables), choice=self.choice)

    def publish(self) -> None:
        self.publisher().publish(self.lake.landed.follower())

    def rebuild(self) -> None:
        self.publisher().reset(self.lake.landed.follower())

    @property
    def offsets(self) -> list[int]:
        return sorted(row["_offset"] for row in self.lake.rows(["_offset"]))

    def land_again(self, numbers: Collection[int]) -> None:
        """Land the ranges of live objects again, in one object."""
        old = [self.lake.live()[number] for number in numbers]
        start = min(o.landed.first_offset for o in old)
        again = Again(CLICKS, start, max(o.landed.last_offset for o in old) + 1)
        sample = self.lake.landed.sample
        Backfill(sample, [(o.slot, o.landed) for o in old], again).record().complete()
        sample.shown()


@pytest.fixture(params=["startAt", "skip"])
def option(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=[False, True], ids=["all rows", "keyed"])
def is_keyed(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path, option: str, is_keyed: bool) -> Make:
    def made() -> Scene:
        lake = KINDS[request.param](tmp_path, Changes(lambda _, offset: Change(offset)))
        return Scene(lake, option, is_keyed=is_keyed)

    return made


WANTED = [*range(4, 10)]


def test_what_is_left_out_stays_out_once_it_is_merged(make: Make) -> None:
    scene = make()
    scene.publish()
    assert scene.offsets == WANTED
    for _ in range(2):
        scene.lake.merge(0, 1)
        scene.publish()
        assert scene.offsets == WANTED

        scene.rebuild()
        assert scene.offsets == WANTED


def test_a_table_that_begins_after_a_merge_gets_what_is_not_left_out(make: Make) -> None:
    scene = make()
    for _ in range(2):
        scene.lake.merge(0, 1)

    scene.publish()

    assert scene.offsets == WANTED


def test_a_table_of_nothing_is_not_looked_for_in_the_ledger_each_time(make: Make) -> None:
    scene = make()
    scene.choice = TableChoice(1000, frozenset(o.key for o in scene.lake.live()))
    scene.lake.merge(0, 1)
    scene.publish()

    def read_again() -> Follower:
        raise AssertionError("the ledger is read from its start")

    for _ in range(2):
        publisher = replace(scene.publisher(), new_follower=read_again)
        assert publisher.publish(scene.lake.landed.follower()).objects == 0


def test_what_is_left_out_is_waited_for_by_no_table(make: Make) -> None:
    scene = make()
    scene.publish()
    scene.lake.merge(0, 1)
    follower = scene.lake.landed.follower()

    [health] = scene.publisher().health(follower, Question(NOW, small_bytes=0))

    assert health.waiting_objects == 0
    assert [*scene.publisher().preview(follower)] == []

    scene.lake.land(2)
    assert len([*scene.publisher().preview(follower)]) == 1


def test_ranges_that_are_left_out_stay_out_once_they_are_landed_again(make: Make) -> None:
    scene = make()
    scene.publish()
    scene.land_again([0, 1])
    scene.lake.land(2)

    for bring in (scene.publish, scene.rebuild):
        bring()
        assert scene.offsets == [*WANTED, 10, 11]


def test_a_merge_across_the_line_stops_the_table_until_it_is_undone(make: Make) -> None:
    scene = make()
    scene.publish()
    merge = scene.lake.merge(1, 2)

    for bring in (scene.publish, scene.rebuild):
        with pytest.raises(PartlyLeftOut, match="rows that startAt or skip leaves out"):
            bring()
        assert scene.offsets == WANTED
    Undo(merge).record().complete().keep_copies().sample.shown()

    for bring in (scene.publish, scene.rebuild):
        bring()
        assert scene.offsets == WANTED


def test_what_a_table_may_have_from_before_is_held(make: Make) -> None:
    scene = make()
    first = scene.lake.live()[0]
    publisher = replace(scene.publisher(), hold_of=lambda *_: Hold(DAY, "a snapshot"))

    assert publisher.hold(DueObjects(99, DAY, (first,)), DAY) == Hold(DAY, "a snapshot")


def test_a_table_that_has_it_already_follows(make: Make) -> None:
    scene = make()
    chosen, scene.choice = scene.choice, TableChoice()
    scene.publish()
    scene.choice = chosen
    scene.lake.merge(0, 1)
    scene.lake.merge(1, 2)

    scene.publish()
    scene.lake.delete_retired()

    assert scene.offsets == [*range(10)]
