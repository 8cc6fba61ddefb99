"""A folder is listed page by page while its objects are merged, landed again, moved and brought
back: no row is missing, and within the grace period everything that was listed can be opened.

The pages are those of a real S3 server. The steps happen between them, so no test depends on how
fast anything is; the driver's clock is driven by its own calls.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Outcome, PromoteRequest, Request, UndoRequest
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import side_plan, store_plan
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.backfill import SliceChoice, chosen
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names import roots
from landfall.store import Store
from landfall.store.below import SlotsBelow
from tests.support.driver import fakes
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner
from tests.support.ledger.merged import MergesOnce
from tests.support.stores.every_store import s3_store
from tests.support.stores.s3 import Bucket
from tests.support.waiting import wait_for

GROUP, BACKFILL = fakes.group().metadata.name, "fix"
ROWS = 13
EVERY_ROW = {*range(ROWS)}
PAGE = 4
"""Keys of a page, of which the folder has four when it was landed."""
LONG, AT_ONCE = "9000d", "0s"
"""Grace periods; the fakes' clock runs fast."""
BY = {"who": "kim", "why": "INC-12"}


@dataclass
class Scene:
    """A driver of a bucket with many small objects, and a backfill of all of them beside that.

    Attributes:
        bucket: on a real server.
        open_store: makes a store with this root in it.
        keep: the grace period.
        moves_to: the folder that the backfill lands in.
    """

    bucket: Bucket
    open_store: Callable[[str], Store]
    keep: str = LONG
    moves_to: str = "all"
    log: FakeLog = field(default_factory=lambda: FakeLog().write("a", ROWS))
    bodies: dict[str, bytes] = field(default_factory=dict)
    """What each object had that was ever visible between two steps."""
    last: int = -1
    """The slot of the last REPLACE."""

    def __post_init__(self) -> None:
        self.store = self.open_store("")
        self.lane = Lane(self.store, GROUP, LANE)
        for revision in ("r0", "r1"):  # to the second one, all is known to be visible
            before = DriverThread(self.store, self.log, revision, self.group(1)).start()
            before.until_landed()
            before.stop()
        self._land_again()
        self.planner = MergesOnce(self.store, self.lane)
        self.driver = DriverThread(
            self.store, self.log, "r2", self.group(2), new_planner=lambda *_: self.planner
        ).start()
        self.driver.until_landed()
        self._remember()

    def group(self, generation: int) -> ConsumerGroup:
        tuning = {"pollInterval": "5ms", "keepReplaced": self.keep, "retainReplaced": "9001d"}
        policy = {"maxBytes": "1k", "maxAge": "1ms"}
        return fakes.group(generation=generation, tuning=tuning, uploadPolicy=policy)

    def do(self, step: str) -> None:
        """Merge, promote the backfill, or take the last of both back; return once it counts."""
        if step == "merge":
            self.planner.slot, self.planner.may = -1, True
            wait_for(lambda: self.planner.slot >= 0, "a REPLACE")
            self.last = self.planner.slot
        elif step == "promote":
            self.last = self._ask(PromoteRequest(**BY, name=BACKFILL))
        else:
            self.last = self._ask(UndoRequest(**BY, slot=self.last))
        self._until_applied(self.last)
        self._remember()

    def state(self) -> State:
        return self.lane.read()

    def pages(self, prefix: str) -> Iterator[list[str]]:
        """The pages of a listing, each asked for when it is wanted, as any program does."""
        token: dict[str, Any] = {}
        while True:
            answer: Any = self.bucket.server.client.list_objects_v2(
                Bucket=self.bucket.name, Prefix=prefix, MaxKeys=PAGE, **token
            )
            yield [found["Key"] for found in answer.get("Contents", ())]
            if not answer.get("NextContinuationToken"):
                return
            token = {"ContinuationToken": answer["NextContinuationToken"]}

    def listed(self, prefix: str, steps: Mapping[int, str]) -> list[str]:
        """All keys of a listing between the pages of which something happens."""
        found, left = list[str](), dict(steps)
        for number, page in enumerate(self.pages(prefix), start=1):
            found += page
            if number in left:
                self.do(left.pop(number))
        assert not left, "the listing ended before"
        return found

    def opened(self, keys: list[str]) -> set[int]:
        """The rows of all that was listed, which must be there."""
        return {row for key in keys for row in _rows(self.bucket.read(key))}

    def named(self, keys: list[str]) -> set[int]:
        """The rows of all that was listed, perhaps deleted since."""
        return {row for key in keys for row in _rows(self.bodies[key])}

    def _ask(self, request: Request) -> int:
        """The slot in which a request is recorded."""
        answer = self.driver.contender.decide(request)
        assert answer.outcome is Outcome.DONE, answer.message
        return int(answer.message.partition("slot ")[2].partition(";")[0])

    def _until_applied(self, slot: int) -> None:
        wait_for(lambda: self.state().applied_through >= slot, "new objects that count")
        if self.keep == AT_ONCE:
            wait_for(lambda: not self.state().retiring, "old objects that are deleted")

    def _remember(self) -> None:
        keys = self.bucket.keys("a/")
        self.bodies |= {key: self.bucket.read(key) for key in keys if key not in self.bodies}

    def _land_again(self) -> None:
        """Land all that is there again, by other code, below the root of a side lane."""
        root, group = roots.side_root(GROUP, BACKFILL), self.group(2)
        landed = read_landed(self.lane)
        plan = side_plan(BACKFILL, landed, chosen(landed, SliceChoice()), 2, NOW)
        store_plan(SlotsBelow(self.store, root), plan)
        beside = self.open_store(root)
        runner = FakeRunner(beside, output_partition=self.moves_to)
        stored = store_spec(beside, group, LANE)
        fakes.driver(group, beside, self.log, runner, goal=plan.goal, spec=stored).run()


def _rows(body: bytes) -> Iterator[int]:
    return map(int, body.split())


@pytest.fixture
def make(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Scene]]:
    made = list[Scene]()

    def scene(keep: str, moves_to: str = "all") -> Scene:
        def open_store(prefix: str) -> Store:
            return s3_store(bucket, prefix, tmp_path, monkeypatch)

        made.append(Scene(bucket, open_store, keep, moves_to))
        return made[-1]

    yield scene
    for each in made:
        each.driver.stop()


Make = Callable[..., Scene]
STEPS = pytest.mark.parametrize(
    "steps",
    [
        {1: "merge"},
        {1: "merge", 3: "undo"},
        {1: "promote", 2: "undo"},
        {1: "merge", 2: "promote", 3: "undo"},
        {1: "promote", 2: "undo", 3: "merge"},
    ],
    ids=lambda steps: "-".join(f"{page}-{step}" for page, step in steps.items()),
)


@STEPS
def test_every_row_is_in_an_object_that_was_listed_and_is_still_there(
    make: Make, steps: Mapping[int, str]
) -> None:
    scene = make(LONG)

    keys = scene.listed("a/", steps)

    assert scene.opened(keys) == EVERY_ROW


@pytest.mark.parametrize(
    "steps",
    [{1: "merge"}, {1: "promote", 2: "undo", 3: "merge"}],
    ids=lambda steps: "-".join(steps.values()),
)
def test_no_row_is_missing_without_a_word_when_old_objects_are_deleted_at_once(
    make: Make, steps: Mapping[int, str]
) -> None:
    """Some of what was listed may be gone, which an error says that a job notices."""
    scene = make(AT_ONCE)

    keys = scene.listed("a/", steps)

    assert scene.named(keys) == EVERY_ROW


@pytest.mark.parametrize("folder", ["Before", "zz-after"])
@pytest.mark.parametrize(
    "steps",
    [{1: "promote"}, {1: "merge", 2: "promote", 3: "undo"}],
    ids=lambda steps: "-".join(steps.values()),
)
def test_rows_that_move_to_another_folder_are_in_the_old_one_or_in_both(
    make: Make, folder: str, steps: Mapping[int, str]
) -> None:
    scene = make(LONG, folder)

    keys = scene.listed("a/", steps)

    assert scene.opened(keys) == EVERY_ROW


def test_folders_that_are_listed_one_after_the_other_have_every_row(make: Make) -> None:
    """Who lists the new folder before rows move there finds them in the old one."""
    scene = make(LONG, "Before")
    new = [*chain.from_iterable(scene.pages("a/Before/"))]

    scene.do("promote")
    old = [*chain.from_iterable(scene.pages("a/all/"))]

    assert new == []
    assert scene.opened(old) == EVERY_ROW


def test_names_of_a_folder_sort_in_the_order_in_which_they_replace_each_other(make: Make) -> None:
    scene = make(LONG)
    appeared = [{*scene.bodies}]

    for step in ("merge", "promote", "undo", "undo"):
        before = {*scene.bodies}
        scene.do(step)
        appeared.append({*scene.bodies} - before)

    assert all(max(old) < min(new) for old, new in pairwise(appeared))
