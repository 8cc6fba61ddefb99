"""From when on replaced objects are deleted: not while somebody may still need them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Outcome
from landfall.lane import Lane
from landfall.publish.building import publisher
from landfall.publish.cursor import Position, PublisherCursor
from landfall.store.memory import MemoryStore
from tests.support.driver import fakes
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import NOW
from tests.support.ledger.merged import MergesOnce
from tests.support.waiting import wait_for
from tests.unit.driver.test_replacements import GROUP, Scene, asked

DAY = timedelta(days=1)
SOON = "9000d"
"""Longer than the fakes' clock, which runs fast, gets in a test."""


class Kept(Scene):
    """A driver whose group has a grace period."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.drivers: list[DriverThread] = []

    def begin(self, later: timedelta = timedelta(0), **spec: Any) -> DriverThread:
        def planner(lane: Lane, _: Callable[[], object]) -> MergesOnce:
            self.planners.append(MergesOnce(self.store, lane))
            return self.planners[-1]

        group = kept(**spec)
        name, at = f"k{len(self.drivers)}", NOW + later
        driver = DriverThread(
            self.store, self.log, name, group, new_planner=planner, start_time=at
        ).start()
        self.drivers.append(driver)
        return driver

    def merged(self, **spec: Any) -> tuple[DriverThread, list[str]]:
        """A driver whose merge is applied, and the old objects."""
        before = self.begin(**spec)
        before.until_landed()
        before.stop()
        driver = self.begin(**spec)
        driver.until_landed()
        old = self.objects()
        self.planners[-1].may = True
        wait_for(lambda: bool(self.state().retiring), "a REPLACE that is applied")
        return driver, old

    def settle(self, driver: DriverThread) -> None:
        """Let a driver land once more, so that it has looked at what has retired."""
        ((_, marks),) = self.log.partitions.items()
        for n in range(1, 6):
            self.log.write("a", marks[0].end + n)
            driver.until_landed()


def kept(keep: str = SOON, retain: str = "9001d", **spec: Any) -> ConsumerGroup:
    tuning = {"pollInterval": "5ms", "keepReplaced": keep, "retainReplaced": retain}
    return fakes.group(tuning=tuning, **spec)


@pytest.fixture
def scene() -> Iterator[Kept]:
    scene = Kept()
    yield scene
    for driver in scene.drivers:
        driver.stop()


def test_old_objects_stay_for_the_grace_period(scene: Kept) -> None:
    driver, old = scene.merged()

    scene.settle(driver)

    assert {*old} < {*scene.objects()}
    assert scene.kept() == []
    assert scene.state().retiring
    assert "not deleted" not in driver.contender.deps.counters.message


def test_after_the_grace_period_old_objects_are_deleted_and_copies_are_kept(scene: Kept) -> None:
    driver, old = scene.merged(keep="8d", retain="90d")
    driver.stop()
    assert {*old} <= {*scene.objects()}

    scene.begin(8 * DAY + DAY / 2, keep="8d", retain="90d")
    scene.until_done()

    assert not {*old} & {*scene.objects()}
    assert len(scene.kept()) == len(old)
    assert scene.is_whole()


def test_no_copy_is_kept_once_the_way_back_has_expired(scene: Kept) -> None:
    driver, old = scene.merged(keep="7d", retain="7d")
    driver.stop()

    scene.begin(7 * DAY + DAY / 2, keep="7d", retain="7d")
    scene.until_done()

    assert not {*old} & {*scene.objects()}
    assert scene.kept() == []
    assert scene.is_whole()


def test_what_is_kept_in_its_place_can_be_brought_back(scene: Kept) -> None:
    driver, old = scene.merged(keep="7d", retain="7d")

    answer = driver.decide(asked(scene.planners[-1].slot))
    driver.stop()
    scene.begin(8 * DAY, keep="7d", retain="7d")
    scene.until_done()

    assert answer.outcome is Outcome.DONE
    assert not {*old} & {*scene.objects()}
    assert scene.is_whole()


def test_a_driver_whose_clock_is_ahead_deletes_early_and_takes_no_row(scene: Kept) -> None:
    """What docs/adr/0090 leaves as it is: the next driver's clock is days ahead."""
    driver, old = scene.merged(keep="8d", retain="90d")
    slot = scene.planners[-1].slot
    driver.stop()

    ahead = scene.begin(8 * DAY + DAY / 2, keep="8d", retain="90d")
    scene.until_done()

    assert not {*old} & {*scene.objects()}
    assert len(scene.kept()) == len(old)  # for readers of the ledger, and for the way back
    assert scene.is_whole()
    assert ahead.decide(asked(slot)).outcome is Outcome.DONE
    wait_for(lambda: not scene.state().replacing, "the old objects back")
    assert len(scene.objects()) == len(old) + 1  # what was merged has a grace period, too


def test_a_driver_that_ends_does_not_wait_for_the_grace_period(scene: Kept) -> None:
    driver, _ = scene.merged()

    assert driver.stop() is ExitCode.OK


def published(store: MemoryStore, through: int, destination: str) -> None:
    PublisherCursor.of(store, (GROUP, LANE), "marks", destination).write(Position(through))


@pytest.mark.parametrize("keep", ["0s", "1s"])
def test_old_objects_stay_until_every_publisher_has_followed(scene: Kept, keep: str) -> None:
    spec = {
        "publish": [{"name": "marks", "type": "Success"}],
        "completeness": {"delay": "1h"},
        "keep": keep,
    }
    driver, old = scene.merged(**spec)
    wait_for(
        lambda: "publisher marks is at slot -1" in driver.contender.deps.counters.message,
        "what old objects are kept for",
    )
    assert {*old} < {*scene.objects()}

    destination = destination_of(driver)
    published(
        scene.store, scene.planners[-1].slot, destination
    )  # before the record that applies it
    scene.settle(driver)
    assert {*old} < {*scene.objects()}
    published(scene.store, scene.state().seq, destination)
    scene.until_done()

    assert not {*old} & {*scene.objects()}
    assert "publisher" not in driver.contender.deps.counters.message


def destination_of(driver: DriverThread) -> str:
    group = driver.group
    built: Any = publisher(group, group.spec.publish[0], driver.store)
    destination: str = built.cursor._destination
    return destination


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({}, timedelta(minutes=10)),
        ({"tuning": {"keepReplaced": "0s"}}, timedelta(0)),
        ({"compact": {}, "completeness": {}}, timedelta(minutes=10)),
        ({"compact": {"readers": "Tables"}, "completeness": {}}, timedelta(days=7)),
        (
            {
                "compact": {"readers": "Tables"},
                "completeness": {},
                "tuning": {"retainReplaced": "2d"},
            },
            timedelta(days=2),
        ),
        (
            {
                "compact": {"readers": "Tables"},
                "completeness": {},
                "tuning": {"keepReplaced": "3h"},
            },
            timedelta(hours=3),
        ),
    ],
)
def test_readers_say_how_long_replaced_objects_stay(
    fields: dict[str, Any], days: timedelta
) -> None:
    group = fakes.group(**{"tuning": {}, **fields})

    assert group.spec.keeps_replaced == days
