"""A folder that is listed slowly, page by page, while objects are replaced: no row is missing."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import LANE
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.lane import Lane
from landfall.ledger.names import object_names
from landfall.store import Store
from tests.support.driver import fakes
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog
from tests.support.ledger.merged import MergesOnce, current, merged, planned
from tests.support.stores.every_store import s3_store
from tests.support.stores.s3 import Bucket
from tests.support.waiting import wait_for

OBJECTS = 110
PAGE = 100
"""Keys of a page that the server answers with; 1,000 if it is not asked for less."""
LONG = "9000d"
"""A grace period; the fakes' clock runs fast."""


class Moves(MergesOnce):
    """Merges, and puts the new object into another folder, as a backfill may."""

    def take(self) -> PlannedReplacement | None:
        if not self.may:
            return None
        self.may = False
        state, found = current(self.lane)
        by = state.applied_through
        new = merged(self.store, f"merge-{by}", by, found.values(), folder="a/0")
        return planned(self.lane.group, f"merge-{by}", by, [[*found.values()]], [new])


class Scene:
    """A driver that has landed many objects of one folder in a bucket.

    Attributes:
        keep: the grace period.
        kind: what replaces them.
    """

    def __init__(self, bucket: Bucket, store: Store, keep: str, kind: type[MergesOnce]) -> None:
        self.bucket, self.store, self.keep, self.kind = bucket, store, keep, kind
        self.log = FakeLog().write("a", *[1] * OBJECTS)
        self.planners: list[MergesOnce] = []
        tuning = {"pollInterval": "5ms", "keepReplaced": keep, "retainReplaced": "9001d"}
        self.group = fakes.group(tuning=tuning)
        self.lane = Lane(store, self.group.metadata.name, LANE)
        self.driver = self.start()
        self.driver.until_landed()
        self.driver.stop()  # then everything is known to be visible
        self.driver = self.start()
        self.driver.until_landed()

    def start(self) -> DriverThread:
        def planner(lane: Lane, _: Callable[[], object]) -> MergesOnce:
            self.planners.append(self.kind(self.store, lane))
            return self.planners[-1]

        name = f"r{len(self.planners)}"
        return DriverThread(self.store, self.log, name, self.group, new_planner=planner).start()

    def replace(self) -> None:
        """Return once the new objects count, and the driver has deleted what it may delete."""
        self.planners[-1].may = True
        wait_for(lambda: self.planners[-1].slot >= 0, "a REPLACE")
        slot = self.planners[-1].slot
        wait_for(lambda: self.lane.read().applied_through >= slot, "new objects that count")
        if self.keep != LONG:
            wait_for(lambda: not self.lane.read().retiring, "old objects that are deleted")

    def page(self, folder: str, token: str = "") -> tuple[list[str], str]:
        """A page of a listing, as any program asks for it, and where the next one begins."""
        more: dict[str, Any] = {"ContinuationToken": token} if token else {}
        answer: Any = self.bucket.server.client.list_objects_v2(
            Bucket=self.bucket.name, Prefix=folder, MaxKeys=PAGE, **more
        )
        keys = [found["Key"] for found in answer.get("Contents", ())]
        return keys, answer.get("NextContinuationToken", "")

    def opened(self, keys: list[str]) -> Counter[int]:
        """How often each row is in objects that were listed, all of which must be there.

        Each row is from a Kafka partition of its own.
        """
        there = set(self.bucket.keys("a/"))
        gone = [key for key in keys if key not in there]
        assert not gone, f"{len(gone)} of {len(keys)} listed objects are gone"
        return self.named(keys)

    def named(self, keys: list[str]) -> Counter[int]:
        """How often each row is in objects that were listed."""
        found = Counter[int]()
        for key in keys:
            is_new = object_names.origin(self.group.metadata.name, key).plan >= 0
            found.update(range(OBJECTS) if is_new else [object_names.parse_key(key).partition])
        return found


@pytest.fixture
def scene(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Scene]]:
    made = list[Scene]()

    def make(keep: str, kind: type[MergesOnce] = MergesOnce) -> Scene:
        made.append(Scene(bucket, s3_store(bucket, "", tmp_path, monkeypatch), keep, kind))
        return made[-1]

    yield make
    for each in made:
        each.driver.stop()


Make = Callable[..., Scene]
EVERY_ROW = {*range(OBJECTS)}


def test_a_page_before_a_merge_and_one_after_it_have_every_row(scene: Make) -> None:
    made = scene(LONG)
    first, token = made.page("a/all/")
    assert (len(first), bool(token)) == (PAGE, True)

    made.replace()
    second, _ = made.page("a/all/", token)

    assert made.opened([*first, *second]).keys() == EVERY_ROW


def test_a_folder_before_a_backfill_and_one_after_it_have_every_row(scene: Make) -> None:
    made = scene(LONG, Moves)
    first, _ = made.page("a/0/")
    assert first == []

    made.replace()
    second, token = made.page("a/all/")
    third, _ = made.page("a/all/", token)

    assert made.opened([*first, *second, *third]) == Counter(EVERY_ROW)
    assert made.page("a/0/")[0]
