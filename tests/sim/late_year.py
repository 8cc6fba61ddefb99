"""A year of late data: the whole driver lands, merges, deletes and rolls up, on a simulated clock.

The driver's loop, its planner, its clean-up of replaced objects and its ledger are the product's;
only Kafka, the tasks that land rows and the store are fakes in memory, and a wait of the driver
ends at once, at its end by the simulated clock. Every half hour each Kafka partition gets rows of
it; a profile says when rows of earlier hours come late. Every thirty days the driver ends and
another one starts, as with a release: what that costs is counted.
"""

import bisect
import heapq
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import parse_group
from landfall.driver.core.background import Notifier
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.http.status import DriverProgress
from landfall.driver.process.loop import Driver
from landfall.driver.replacing.compacting import planner_of
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import ObjectStat, Upload
from landfall.store import Store
from landfall.store.memory import MemoryStore, NoFaults, Operation, Plan
from landfall.task import Batch
from landfall.task.merging import Merged, MergeResult, MergeShare, merge_share
from tests.support.driver.fakes import FakeLog, FakeRunner
from tests.support.ledger.compaction_scene import Inline

BEGIN = datetime(2127, 1, 1, tzinfo=UTC)
"""In the future of the machine's clock, by which the store dates uploads."""
STEP = timedelta(minutes=15)
"""The longest wait of the driver."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONTH_DAYS = 30
"""After so many days the driver ends, and another one starts."""
TOPIC, PARTITIONS = "clicks", 2
ON_TIME_ROWS = 60
"""Rows of an hour in each Kafka partition."""
PRICES: Mapping[str, float] = {
    **dict.fromkeys(("create", "overwrite", "begin", "put-part", "put-copy", "complete"), 5e-6),
    **dict.fromkeys(("list", "open-uploads"), 5e-6),
    **dict.fromkeys(("read", "stat", "open"), 4e-7),
}
"""Dollars a request of S3 Standard in us-east-1; deletions cost nothing."""
SPEC: dict[str, Any] = {
    "source": {"kafka": {"bootstrapServers": "fake:9092", "topicPattern": ".*"}},
    "output": {"url": "s3://bucket/root", "format": "Json", "codec": "None"},
    "route": {"pattern": "dt={date}/hr={hour}"},
    "completeness": {"delay": "10m"},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "1ms"},
}
COMPACT: dict[str, Any] = {"below": "64Mi", "target": "256Mi"}

Late = Iterator[tuple[datetime, Sequence[datetime]]]
"""When rows come late, in order, and the hours of these."""


def trickle(every: timedelta, days: int) -> Late:
    """A late row each so often, of the day before."""
    for number in range(DAY * days // every):
        at = BEGIN + DAY + every * number
        yield at, [_hour(at - DAY)]


def into_one_hour(every: timedelta, days: int) -> Late:
    """A late row each so often, always of the same hour, as of a device whose clock has stopped."""
    for number in range(DAY * days // every):
        yield BEGIN + DAY + every * number, [BEGIN]


def daily(days: int) -> Late:
    """Once a day a row of each hour of the day before."""
    for day in range(1, days + 1):
        begin = BEGIN + DAY * day
        yield begin + 3 * HOUR, [begin - HOUR * back for back in range(24, 0, -1)]


def replayed_month(days: int) -> Late:
    """Once in the year a row of each hour of thirty days, all within an hour."""
    begin = BEGIN + DAY * max(days // 2, 31)
    hours = [begin - HOUR * back for back in range(30 * 24, 0, -1)]
    for at in range(0, len(hours), 12):
        yield begin + timedelta(minutes=at // 12), hours[at : at + 12]


PROFILES: Mapping[str, Callable[[int], Late]] = {
    "none late": lambda _: iter(()),
    "every 9 min": partial(trickle, timedelta(minutes=9)),
    "every 11 min": partial(trickle, timedelta(minutes=11)),
    "every 9 min, one hour": partial(into_one_hour, timedelta(minutes=9)),
    "a batch a day": daily,
    "a month replayed": replayed_month,
}


@dataclass(frozen=True, slots=True)
class Month:
    """What there is at the end of a month, and what the next driver's start costs.

    Attributes:
        objects: visible data objects.
        hours: output partitions that have some.
        most: objects of the output partition that has most.
        copies: of replaced objects.
        copied_bytes: the bytes of these.
        uploads: open ones.
        lists: of replaced objects, one for each REPLACE so far.
        ledger_objects: slots, segments, snapshots and hints.
        ledger_bytes: the bytes of these and of the lists.
        slots: records of the ledger so far.
        start_requests: of the store, until the first pass of the next driver is over.
        start_seconds: of CPU, likewise.
    """

    objects: int
    hours: int
    most: int
    copies: int
    copied_bytes: int
    uploads: int
    lists: int
    ledger_objects: int
    ledger_bytes: int
    slots: int
    start_requests: int
    start_seconds: float


@dataclass(frozen=True, slots=True)
class Year:
    """What a year of a profile has cost.

    Attributes:
        profile: its name.
        months: what there was at the end of each month.
        landed_bytes: of all objects that were landed.
        late_rows: rows that came late.
        merges: how many REPLACEs there were.
        merged_bytes: that were written by these.
        dollars: for requests.
        requests: by operation.
    """

    profile: str
    months: Sequence[Month]
    landed_bytes: int
    late_rows: int
    merges: int
    merged_bytes: int
    dollars: float
    requests: Mapping[str, int]

    @property
    def rewritten(self) -> float:
        """How often a landed byte was written again."""
        return self.merged_bytes / self.landed_bytes


class SortedKeys(dict[str, Any]):
    """A dict whose keys can be listed in order, from one on."""

    def __init__(self) -> None:
        super().__init__()
        self._ordered: list[str] = []

    def __setitem__(self, key: str, value: object) -> None:
        if key not in self:
            bisect.insort(self._ordered, key)
        super().__setitem__(key, value)

    def update(self, *others: Any, **_: Any) -> None:
        for other in others:
            for key, value in dict(other).items():
                self[key] = value

    def pop(self, key: str, *default: Any) -> Any:
        if key in self:
            del self._ordered[bisect.bisect_left(self._ordered, key)]
        return super().pop(key, *default)

    def between(self, prefix: str, after: str) -> list[str]:
        """The keys with a prefix after another one, in order."""
        begin = bisect.bisect_left(self._ordered, prefix)
        if after >= prefix:
            begin = bisect.bisect_right(self._ordered, after)
        end = bisect.bisect_left(self._ordered, prefix + "\U0010ffff")
        return self._ordered[begin:end]


class YearStore(MemoryStore):
    """A store in memory that lists quickly; each page of a thousand keys counts as a request."""

    def __init__(self, clock: Callable[[], datetime], plan: Plan | None = None) -> None:
        super().__init__(plan or NoFaults(), clock=clock)
        self.sorted = SortedKeys()
        self._objects = self.sorted

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """See ``MemoryStore``."""
        for number, key in enumerate(self.sorted.between(prefix, after)):
            if number % 1000 == 0:
                self.requests[Operation.LIST] += 1
            if (found := self._objects.get(key)) is not None:
                yield ObjectStat(key, len(found.body), found.etag)

    def bytes_of(self, prefix: str) -> list[int]:
        """The sizes of the objects with a prefix."""
        return [len(self._objects[key].body) for key in self.sorted.between(prefix, "")]


class YearRunner(FakeRunner):
    """Lands rows by the hours of their event times, and merges as tasks do."""

    def __init__(self, world: "World", store: Store | None = None) -> None:
        super().__init__(store or world.store, slots=8)
        self._world = world

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        """See ``Runner``."""
        results = [result for share in shares for result in merge_share(self.store, share)]
        for result in results:
            if isinstance(result, Merged):
                self._world.merges += 1
                self._world.merged_bytes += result.new.landed.upload.size
        return results

    def _landed(self, batch: Batch, slice_: Slice, bad: int) -> LandedSlice:
        assert not bad
        times = self._world.times[slice_.topic_partition]
        by_hour: dict[datetime, list[int]] = {}
        for offset in range(slice_.offsets.start, slice_.offsets.end):
            by_hour.setdefault(_hour(times[offset]), []).append(offset)
        objects = tuple(self._object(batch, slice_, *each) for each in sorted(by_hour.items()))
        size = sum(each.upload.size for each in objects)
        latest = max(times[slice_.offsets.start : slice_.offsets.end])
        self._world.landed_bytes += size
        return LandedSlice(
            slice_,
            objects,
            len(slice_.offsets),
            0,
            0,
            0,
            size,
            latest_ms=int(latest.timestamp() * 1000),
        )

    def _object(
        self, batch: Batch, slice_: Slice, hour: datetime, offsets: Sequence[int]
    ) -> LandedObject:
        folder, partition = f"{hour:dt=%Y-%m-%d/hr=%H}", slice_.topic_partition.partition
        name = object_names.ObjectName(TOPIC, folder, 1, partition, offsets[0], ".json")
        body = b"".join(b'{"o":"%d/%09d"}\n' % (partition, offset) for offset in offsets)
        upload_id = self.store.begin(name.key, batch.token)
        part = self.store.put_part(name.key, upload_id, 1, body)
        upload = Upload(name.key, upload_id, (part,), batch.token)
        crc32 = zlib.crc32(body)
        return LandedObject(upload, ObjectKind.DATA, len(offsets), offsets[0], offsets[-1], crc32)


class Waiter:
    """A ``Notifier`` that lets simulated time pass instead of waiting."""

    def __init__(self, world: "World") -> None:
        self._world, self._is_notified = world, False

    def notify(self) -> None:
        """See ``Notifier``."""
        self._is_notified = True

    def wait(self, timeout: timedelta) -> None:
        """See ``Notifier``; the log is looked at less often than in life."""
        if self._is_notified:
            self._is_notified = False
        else:
            self._world.pass_time(max(timeout, STEP))


class World:
    """A topic whose records arrive by a profile, and the drivers that land it.

    Attributes:
        now: the simulated time.
        times: the event time of each record, by offset.
        landed_bytes, merges, merged_bytes, late_rows: what was done so far.
    """

    def __init__(self, late: Late, days: int, compact: Mapping[str, Any] | None) -> None:
        self.now = BEGIN
        self.store = self.new_store()
        self.log = FakeLog()
        self.times = {TopicPartition(TOPIC, p): list[datetime]() for p in range(PARTITIONS)}
        self.landed_bytes = self.merges = self.merged_bytes = self.late_rows = 0
        self._arrivals = heapq.merge(_on_time(days), _late(late), key=itemgetter(0))
        self._next = next(self._arrivals)
        self._names, self._driver, self._stop_at = count(), None, BEGIN
        spec = SPEC if compact is None else {**SPEC, "compact": compact}
        metadata = {"name": "year"}
        kind = {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"}
        self.group = parse_group({**kind, "metadata": metadata, "spec": spec})
        self._write_log()

    def new_store(self) -> YearStore:
        """The store that everything is in."""
        return YearStore(lambda: self.now)

    def happen(self, driver: Driver) -> None:
        """What happens while a driver waits, beside the arrival of records: nothing here."""

    def pool(self, threads: int, name: str) -> Executor:
        """See ``Background``: everything is done at once, in the driver's thread."""
        assert threads, name
        return Inline()

    def notifier(self) -> Notifier:
        """See ``Background``."""
        return Waiter(self)

    def pass_time(self, longest: timedelta) -> None:
        """Let time pass up to the next arrival, or as long as this."""
        self.now = min(max(self.now, self._next[0]), self.now + longest)
        arrived = False
        while self._next[0] <= self.now:
            _, is_late, rows = self._next
            for tp, at in rows:
                self.times[tp].append(at)
            self.late_rows += len(rows) if is_late else 0
            self._next, arrived = next(self._arrivals), True
        if arrived:
            self._write_log()
        if self._driver is None:
            return
        if self.now >= self._stop_at:
            self._driver.stop("release")
        else:
            self.happen(self._driver)

    def _write_log(self) -> None:
        self.log.write(TOPIC, *(len(times) for times in self.times.values()))

    def run(self, until: datetime) -> tuple[int, float]:
        """Run a driver up to a time; returns the requests and CPU seconds of its start.

        The start ends with the driver's first pass, in which compaction reads the ledger, too.
        """
        self._stop_at = until
        before, began = self.store.requests.total(), time.process_time()
        name = f"w{next(self._names)}"
        lane = Lane(self.store, self.group.metadata.name, LANE, new_pool=lambda _: Inline())
        spec = store_spec(self.store, self.group, LANE)
        writer = LaneWriter.open(lane, OpenRequest(name, 1, "test", spec=spec), lambda: self.now)
        deps = DriverDeps(
            self.store,
            Observer(self.log, HOUR),
            YearRunner(self),
            lambda: self.now,
            lambda: f"{name}-{next(self._names)}",
            DriverCounters(self.now),
            self,
        )
        deps = replace(deps, new_planner=partial(planner_of, self.group, deps))
        cost: list[tuple[int, float]] = []

        def report(progress: DriverProgress) -> None:
            if (
                not cost
                and progress.compaction.waiting_folders >= 0
                and progress.phase == "Running"
            ):
                spent = self.store.requests.total() - before, time.process_time() - began
                cost.append(spent)

        self._driver = Driver(self.group, writer, deps, report)
        code = self._driver.run()
        assert code is ExitCode.OK, (code, deps.counters.message)
        self._driver = None
        return cost[0]

    def month(self) -> Month:
        """What there is now; another driver starts to see what that costs."""
        name = self.group.metadata.name
        data = self.store.sorted.between(f"{TOPIC}/", "")
        by_hour = Counter(key.rpartition("/")[0] for key in data)
        copies = self.store.bytes_of(object_names.retired_prefix(name, LANE))
        own = self.store.bytes_of(f"{object_names.SYSTEM}/")
        lists = len(self.store.bytes_of(f"{object_names.lane_prefix(name, LANE)}-replaced/"))
        slots = Lane(self.store, name, LANE, new_pool=lambda _: Inline()).read().seq + 1
        requests, seconds = self.run(self.now)
        return Month(
            objects=len(data),
            hours=len(by_hour),
            most=max(by_hour.values()),
            copies=len(copies),
            copied_bytes=sum(copies),
            uploads=sum(1 for _ in self.store.open_uploads("")),
            lists=lists,
            ledger_objects=len(own) - len(copies) - lists,
            ledger_bytes=sum(own) - sum(copies),
            slots=slots,
            start_requests=requests,
            start_seconds=seconds,
        )


def a_year(profile: str, days: int = 365, compact: Mapping[str, Any] | None = COMPACT) -> Year:
    """Play a profile for so many days, with another driver each month."""
    return played(profile, World(PROFILES[profile](days), days, compact), days)


def played(profile: str, world: World, days: int) -> Year:
    """Play a world for so many days, with another driver each month."""
    months = list[Month]()
    for end in [*range(MONTH_DAYS, days, MONTH_DAYS), days]:
        world.run(BEGIN + DAY * end)
        months.append(world.month())
    requests = {str(name): number for name, number in sorted(world.store.requests.items())}
    return Year(
        profile,
        months,
        world.landed_bytes,
        world.late_rows,
        world.merges,
        world.merged_bytes,
        sum(PRICES.get(name, 0) * number for name, number in requests.items()),
        requests,
    )


COLUMNS = "{:>6}{:>9}{:>8}{:>6}{:>8}{:>9}{:>8}{:>8}{:>7}{:>9}{:>8}{:>7}\n"
HEADINGS = (
    *("day", "objects", "an hour", "most", "copies", "uploads"),
    *("lists", "ledger", "MB", "slots", "start", "CPU s"),
)


def described(year: Year) -> str:
    """What a year has cost, and what there was in each month, in lines."""
    found = (
        f"{year.profile}: {year.late_rows:,} late rows, {year.merges:,} merged objects, "
        f"{year.rewritten:.2f} bytes rewritten for each landed, "
        f"${year.dollars:.2f} for {sum(year.requests.values()):,} requests\n"
    )
    found += COLUMNS.format(*HEADINGS)
    for number, month in enumerate(year.months, 1):
        found += COLUMNS.format(
            MONTH_DAYS * number,
            f"{month.objects:,}",
            f"{month.objects / month.hours:.2f}",
            month.most,
            f"{month.copies:,}",
            month.uploads,
            f"{month.lists:,}",
            f"{month.ledger_objects:,}",
            f"{month.ledger_bytes / 1e6:.1f}",
            f"{month.slots:,}",
            f"{month.start_requests:,}",
            f"{month.start_seconds:.2f}",
        )
    return found


Rows = Sequence[tuple[TopicPartition, datetime]]
Arrival = tuple[datetime, bool, Rows]


def _on_time(days: int) -> Iterator[Arrival]:
    """Half of an hour's rows of each Kafka partition, twice an hour."""
    tps = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    for minute in range(30, days * 24 * 60 + 30, 30):
        at = BEGIN + timedelta(minutes=minute)
        times = [at - timedelta(minutes=n + 1) for n in range(ON_TIME_ROWS // 2)]
        yield at, False, [(tp, time) for tp in tps for time in reversed(times)]
    while True:  # nothing more within the run
        yield BEGIN + DAY * (days + 365), False, ()


def _late(late: Late) -> Iterator[Arrival]:
    for at, hours in late:
        yield at, True, [(TopicPartition(TOPIC, 0), hour) for hour in hours]


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
