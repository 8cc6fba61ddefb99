"""A ledger whose small objects are merged, by what a driver does beside landing, in one thread."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, cast

from msgspec import structs

from landfall import ledger
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.core.background import Notifier, QueueNotifier
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.replacing.compacting import Compacting, planner_of
from landfall.driver.replacing.giving_up import given_up
from landfall.lane import Lane
from landfall.ledger.names.object_names import renamed
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList, encode_list
from landfall.ledger.task_results import DecidedObject
from landfall.task.merging import MergeResult, MergeShare, merge_share
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner
from tests.support.kubernetes.groups import document
from tests.support.ledger.event_ledger import EventLedger
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

CLICKS = TopicPartition("clicks", 0)
SPEC: dict[str, Any] = {
    "output": {"url": "s3://bucket/root", "format": "Json", "codec": "None"},
    "completeness": {"delay": "1h"},
    "compact": {"below": "1Ki", "target": "4Ki"},
}


class Inline(Executor):
    """Does everything at once."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # the caller's
            future.set_exception(error)
        return future

    def map(self, fn: Any, *iterables: Any, **_: Any) -> Any:
        return map(fn, *iterables)


class InlineBackground:
    """A ``Background`` without threads."""

    def pool(self, threads: int, name: str) -> Executor:
        assert threads, name
        return Inline()

    def notifier(self) -> Notifier:
        return QueueNotifier()


@dataclass
class MergingRunner(FakeRunner):
    """Merges as a task does, and remembers what it was given."""

    slots: int = 8
    given: list[Sequence[MergeShare]] = field(default_factory=list)
    error: Exception | None = None

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        if self.error:
            raise self.error
        self.given.append(shares)
        return [result for share in shares for result in merge_share(self.store, share)]


@dataclass
class CompactionScene:
    """A lane with one topic, and what merges its objects.

    Attributes:
        spec: fields of the spec.
        events: the ledger.
        now: the current time.
        retires_later: whether old objects are left once a REPLACE is applied.
    """

    spec: dict[str, Any] = field(default_factory=lambda: dict(SPEC))
    events: EventLedger = field(default_factory=lambda: EventLedger("Success", {}))
    now: datetime = NOW
    retires_later: bool = False

    def __post_init__(self) -> None:
        self.names = count()
        self.runner = MergingRunner(self.sample.store)
        self.restart()
        self.observe()

    @property
    def sample(self) -> SampleLedger:
        return self.events.sample

    @property
    def group(self) -> ConsumerGroup:
        return parse_group(document(GROUP, **self.spec))

    def restart(self) -> "CompactionScene":
        """Another process."""
        deps = DriverDeps(
            self.sample.store,
            Observer(FakeLog(), timedelta(0)),
            self.runner,
            lambda: self.now,
            lambda: f"token-{next(self.names)}",
            DriverCounters(self.now),
            InlineBackground(),
        )
        lane = Lane(self.sample.store, GROUP, LANE)
        self.compacting = cast("Compacting", planner_of(self.group, deps, lane, lambda: None))
        return self

    def land(self, hour: int, *rows: int) -> "CompactionScene":
        """Land objects of an hour with so many rows each, and call them visible."""
        self.sample.directory = f"dt=2026-11-21/hr={hour:02d}"
        for each in rows:
            self.events.land(CLICKS, rows=each)
        self.events.settle()
        return self

    def finish(self, hour: int) -> "CompactionScene":
        """Call the topic complete up to the end of an hour."""
        self.events.finish("clicks", f"2026-11-21T{hour + 1:02d}:00:00+00:00").settle()
        return self

    def observe(self, later: timedelta = timedelta(minutes=2)) -> PlannedReplacement | None:
        """What is ready after some time."""
        self.now += later
        self.compacting.observe(self.sample.state)
        return self.compacting.take()

    def plan(self) -> PlannedReplacement:
        """The plan that is ready now."""
        found = self.observe()
        assert found is not None, self.compacting.status
        return found

    def record(self, plan: PlannedReplacement) -> int:
        """Append the REPLACE and say so; it is not applied."""
        named, body = encode_list(GROUP, LANE, plan.listed)
        self.sample.store.create(named.key, body)
        self.sample.append(
            lambda header: ledger.Replace(
                header=header,
                token=plan.token,
                purpose=plan.purpose,
                listed=named,
                read_through=plan.read_through,
                folders=plan.folders,
                slices=plan.slices,
                duplicates=plan.duplicates,
                retires_later=self.retires_later,
            )
        )
        slot = self.sample.state.seq
        self.compacting.recorded(plan, slot)
        return slot

    def apply(self, plan: PlannedReplacement) -> "CompactionScene":
        """Record a plan, complete what is new, and call it applied."""
        self.record(plan)
        for upload in plan.uploads:
            self.sample.store.complete(upload)
        self.events.settle()
        return self

    def give_up(self, slot: int, decision: ledger.Decision | None = None) -> "CompactionScene":
        """A REPLACE that is not applied is given up, and that is applied."""
        lane = Lane(self.sample.store, GROUP, LANE)
        body = lane.read_slot(self.sample.state, slot)
        record = ledger.decode(slot, body or b"")
        assert isinstance(record, ledger.Replace)
        make = given_up(self.sample.store, lane, record, "given-up", decision)
        self.sample.append(lambda header: make(header=header))
        self.events.settle()
        return self

    def undo(self, plan: PlannedReplacement) -> "CompactionScene":
        """What was merged comes back under other names, as another REPLACE says."""
        read, store = self.sample.state.applied_through, self.sample.store
        objects = []
        for each in plan.listed.retire:
            key = renamed(each.landed.upload.key, read)
            upload_id = store.begin(key, "undo")
            part = store.put_part(key, upload_id, 1, store.read(each.landed.upload.key) or b"")
            upload = structs.replace(
                each.landed.upload, key=key, upload_id=upload_id, parts=(part,)
            )
            landed = structs.replace(each.landed, upload=structs.replace(upload, token="undo"))
            objects.append(NewObject(landed, Mergeable(0, landed).own_sections))
        retire = tuple(DecidedObject(0, new.landed) for new in plan.listed.objects)
        listed = ReplacementList(retire, tuple(sorted(objects, key=lambda o: o.landed.upload.key)))
        undone = replace(
            plan, token="undo", purpose=ledger.Purpose.UNDO, listed=listed, read_through=read
        )
        return self.apply(undone)
