"""A group between fakes, and a backfill of it that has landed the same offsets again."""

from dataclasses import dataclass, field
from itertools import count

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import SidePlan, side_plan, store_plan
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.backfill import SliceChoice, chosen, covering
from landfall.driver.requests.lane_session import LaneSession
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names import object_names, roots
from landfall.ledger.offsets import OffsetRange
from landfall.store.below import SlotsBelow
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group, ticking
from tests.support.ledger.merged import MergesOnce
from tests.support.waiting import wait_for

GROUP, NAME = group().metadata.name, "fix"


@dataclass
class BackfillScene:
    """Generation 1 has landed offsets, and generation 2 lands them again beside that.

    Attributes:
        store: everything is there.
        log: with what is landed.
        spec: fields of the spec of generation 2.
        slices: how many slices are landed again; 0 for all.
    """

    store: MemoryStore = field(default_factory=MemoryStore)
    log: FakeLog = field(default_factory=lambda: FakeLog().write("a", 25))
    spec: dict[str, object] = field(default_factory=dict)
    slices: int = 0

    def __post_init__(self) -> None:
        self.lane = Lane(self.store, GROUP, LANE)
        for revision in ("r0", "r1"):  # to the second one, all is known to be visible
            landing = DriverThread(self.store, self.log, revision).start()
            landing.until_landed()
            landing.stop()

    def merge(self) -> "BackfillScene":
        """Merge all that is landed into one object."""
        planner = MergesOnce(self.store, self.lane, may=True)
        driver = DriverThread(self.store, self.log, "r1", new_planner=lambda *_: planner).start()
        wait_for(lambda: planner.slot >= 0, "a REPLACE")
        self.until_done()
        driver.stop()
        return self

    @property
    def group(self) -> ConsumerGroup:
        """The group by corrected code."""
        return group(generation=2, **self.spec)

    @property
    def root(self) -> SlotsBelow:
        """What is below the root of the side lane."""
        return SlotsBelow(self.store, roots.side_root(GROUP, NAME))

    def start(self, revision: str = "r2") -> DriverThread:
        """A live driver of generation 2."""
        return DriverThread(self.store, self.log, revision, self.group).start()

    def plan(self) -> SidePlan:
        """Choose all that is landed, or the first slices of it."""
        landed = read_landed(self.lane)
        found = chosen(landed, SliceChoice())
        if self.slices:
            (tp,) = (each.topic_partition for each in found.slices)
            pieces = [each.piece.offsets for each in landed.present(tp)][: self.slices]
            found = covering(landed, {tp: OffsetRange(pieces[0].start, pieces[-1].end)})
        plan = side_plan(NAME, landed, found, 2, NOW)
        store_plan(self.root, plan)
        return plan

    def land(self) -> "BackfillScene":
        """Land the ranges of a plan again."""
        plan, beside = self.plan(), MemoryStore()
        spec = store_spec(beside, self.group, LANE)
        goal = plan.goal
        driver(self.group, beside, self.log, FakeRunner(beside), goal=goal, spec=spec).run()
        # Each store has its own root; here one is in the other.
        self.store._objects |= {
            f"{self.root.root}/{key}": found for key, found in beside._objects.items()
        }
        return self

    def state(self) -> State:
        return self.lane.read()

    def objects(self) -> list[str]:
        """The keys of live objects."""
        keys = (stat.key for stat in self.store.list_after(""))
        return [key for key in keys if not object_names.is_system_key(key)]

    def generations(self) -> set[int]:
        """Those of live objects."""
        return {object_names.parse_key(key).generation for key in self.objects()}

    def kept(self) -> list[str]:
        """The keys of copies of what has retired."""
        prefix = object_names.retired_prefix(GROUP, LANE)
        return [stat.key for stat in self.store.list_after(prefix)]

    def until_done(self) -> None:
        """Return once nothing is being replaced, and readers know it."""
        wait_for(
            lambda: not (s := self.state()).replacing and not s.retiring, "everything replaced"
        )

    def session(self) -> LaneSession:
        """What carries requests out without a driver."""
        names, runner = count(), FakeRunner(self.store)
        return LaneSession(
            self.group,
            self.store,
            self.lane,
            self.log,
            runner,
            ticking(),
            lambda: f"session-{next(names)}",
        )
