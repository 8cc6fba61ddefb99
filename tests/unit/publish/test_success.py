"""``_SUCCESS`` in the directories of complete hours and days, and nowhere else."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from landfall.api.spec import ConsumerGroup
from landfall.api.spec.publish import PublisherEntry
from landfall.lane import Lane
from landfall.ledger import Applied, Finalize, Horizon
from landfall.ledger.names.object_names import ObjectName
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.publish.context import Context
from landfall.publish.following import Follower
from landfall.publish.success import KEPT_PERIODS, Success, SuccessPublisher
from landfall.store import Store
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import group
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, replace_header

CLICKS = TopicPartition("clicks", 0)
NOW = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)
HOURLY, DAILY = "dt={date}/hr={hour}", "dt={date}"
HOUR = timedelta(hours=1)


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def group_of(pattern: str = HOURLY, zone: str = "UTC", **route: str) -> ConsumerGroup:
    return group(route={"pattern": pattern, "timezone": zone, **route}, completeness={})


@dataclass
class Landing:
    """A ledger to which tests land records of some time, and the publisher that follows it."""

    of: ConsumerGroup = field(default_factory=group_of)
    options: Mapping[str, object] = field(default_factory=dict)
    ledger: SampleLedger = field(default_factory=lambda: SampleLedger().open().add(CLICKS))
    generation: int = 1

    def land(self, *folders: str, destination: str = "") -> "Landing":
        """A COMMIT with an object of one record in each output partition."""
        start = self.ledger.state.checkpoint[CLICKS]
        objects = tuple(
            self.ledger.upload(
                ObjectName(
                    "clicks", folder, self.generation, 0, start + i, ".json", destination
                ).key,
                [start + i],
            )
            for i, folder in enumerate(folders)
        )
        piece = Slice(CLICKS, OffsetRange(start, start + len(folders)))
        ordered = tuple(sorted(objects, key=lambda o: o.upload.key))
        landed = LandedSlice(piece, ordered, len(folders), 0, 0, 0, 0, latest_ms=2**50)
        self.ledger.commit(landed)
        return self

    def at(self, *times: datetime) -> "Landing":
        return self.land(*(f"dt={t:%Y-%m-%d}/hr={t:%H}" for t in times))

    def visible(self) -> "Landing":
        applied = self.ledger.state.seq
        self.ledger.append(lambda h: Applied(header=replace_header(h, applied)))
        return self

    def complete(self, until: datetime) -> "Landing":
        """All that is landed is visible, and the topic is complete up to a time."""
        applied = self.ledger.state.seq
        self.ledger.append(
            lambda h: Finalize(
                header=replace_header(h, applied),
                delay=0,
                looked=2**50,
                entries=(Horizon("clicks", ms(until)),),
            )
        )
        return self

    def publisher(self, store: Store | None = None) -> SuccessPublisher:
        entry = PublisherEntry(name="done", type="Success", options=dict(self.options))
        return Success.of(self.options, Context(self.of, entry, LANE, store or self.ledger.store))

    def follower(self) -> Follower:
        return Follower(Lane(self.ledger.store, GROUP, LANE))

    def publish(self) -> list[str]:
        """Publish, and return all markers there are."""
        self.publisher().publish(self.follower())
        return self.markers

    @property
    def markers(self) -> list[str]:
        keys = [stat.key for stat in self.ledger.store.list_after("")]
        return [key for key in keys if key.rpartition("/")[2].startswith("_")]


def test_what_secor_expects_by_hour_and_by_day() -> None:
    times = [NOW, NOW - 2 * HOUR, NOW - 25 * HOUR]
    hourly = Landing(options={"lookback": 30}).at(*times).complete(NOW - HOUR)
    daily = Landing(group_of(DAILY)).land(*{f"dt={t:%Y-%m-%d}" for t in times})

    assert hourly.publish() == [
        "clicks/dt=2026-11-21/_SUCCESS",
        "clicks/dt=2026-11-21/hr=14/_SUCCESS",
        "clicks/dt=2026-11-22/hr=13/_SUCCESS",
    ]
    assert daily.complete(NOW - HOUR).publish() == ["clicks/dt=2026-11-21/_SUCCESS"]


def test_lookback_bounds_what_is_marked_at_first_and_nothing_later() -> None:
    landing = Landing(options={"lookback": 3}).at(*(NOW - n * HOUR for n in range(8)))
    landing.complete(NOW - HOUR)

    first = landing.publish()
    landing.at(*(NOW + n * HOUR for n in range(1, 30))).complete(NOW + 24 * HOUR)

    assert [key[-11:-9] for key in first] == ["11", "12", "13"]
    assert len(landing.publish()) == 3 + 25 + 1  # 14 to 14 of the next day, and the day


def test_nothing_is_marked_before_it_is_visible_and_complete() -> None:
    landing = Landing().at(NOW - 2 * HOUR)

    assert landing.publish() == []
    assert landing.complete(NOW - 2 * HOUR).publish() == []
    assert landing.complete(NOW - HOUR).publish() == ["clicks/dt=2026-11-22/hr=13/_SUCCESS"]


@pytest.mark.parametrize("on_late", ["Count", "Marker"])
def test_a_directory_that_a_backfill_is_the_first_to_fill_is_marked(on_late: str) -> None:
    landing = Landing(options={"onLate": on_late}).at(NOW - 2 * HOUR).complete(NOW)
    marked = landing.publish()
    ledger = landing.ledger
    (stretch,) = landing.follower().stretches(-1)
    old = [(object_.decided, object_.landed) for object_ in stretch.objects]
    again = Again(CLICKS, 0, 1, directory="dt=2026-11-22/hr=09")

    Backfill(ledger, old, again).record().complete()
    ledger.shown()

    assert landing.publish() == sorted([*marked, "clicks/dt=2026-11-22/hr=09/_SUCCESS"])


@pytest.mark.parametrize("on_late", ["Count", "Marker"])
def test_late_objects_are_counted_and_may_be_marked(on_late: str) -> None:
    landing = Landing(options={"onLate": on_late}).at(NOW - 2 * HOUR).complete(NOW)
    landing.publish()
    landing.at(NOW - 2 * HOUR, NOW - 3 * HOUR, NOW + HOUR).complete(NOW + timedelta(minutes=1))
    publisher, slot = landing.publisher(), landing.ledger.state.seq

    publisher.publish(landing.follower())

    markers = [key.removeprefix("clicks/dt=2026-11-22/hr=") for key in landing.markers]
    late = [f"12/_LATE-{slot:010d}", f"13/_LATE-{slot:010d}"] if on_late == "Marker" else []
    assert publisher.late == 2
    assert publisher.details == "2 objects came late since this driver started"
    assert markers == sorted(["12/_SUCCESS", "13/_SUCCESS", *late])


def test_four_hundred_days_of_data() -> None:
    days = [NOW - timedelta(days=n) for n in range(400)]
    landing = Landing(options={"lookback": 10_000}).at(*days).visible()
    before = landing.publisher()
    before.publish(landing.follower())

    landing.complete(NOW)

    assert len(before.cursor.read().tables) == 400 + 400
    assert len(landing.publish()) == 399 + 399
    assert len(landing.publisher().cursor.read().tables) == 2


def test_what_is_remembered_before_anything_is_complete_is_bounded() -> None:
    landing = Landing(group_of(DAILY)).land(
        *(f"dt={NOW - timedelta(days=n):%Y-%m-%d}" for n in range(KEPT_PERIODS + 50))
    )

    landing.visible().publish()

    kept = landing.publisher().cursor.read().tables
    assert len(kept) == KEPT_PERIODS
    assert max(kept) == "clicks/dt=2026-11-22"


def test_time_zones_destinations_and_fields() -> None:
    berlin = Landing(group_of(HOURLY, "Europe/Berlin")).land(
        "dt=2026-10-25/hr=01", "dt=2026-10-25/hr=02"
    )
    fields = Landing(group_of("c={field:c}/dt={date}", topicPath="db={field:d}/{topic}"))
    fields.land("c=a%20b/dt=2026-11-21", "c=x/dt=2026-11-22", destination="db=shop")

    berlin.complete(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))  # 02:30, for the first time
    assert berlin.publish() == ["clicks/dt=2026-10-25/hr=01/_SUCCESS"]
    berlin.complete(datetime(2026, 10, 25, 2, tzinfo=UTC))
    assert berlin.publish()[1:] == ["clicks/dt=2026-10-25/hr=02/_SUCCESS"]
    assert fields.complete(NOW).publish() == ["db=shop/clicks/c=a%20b/dt=2026-11-21/_SUCCESS"]


def test_preview_says_what_publish_does_and_reset_does_it_again() -> None:
    landing = Landing().at(NOW - 2 * HOUR).complete(NOW)
    publisher = landing.publisher()

    lines = list(publisher.preview(landing.follower()))
    assert landing.markers == []
    assert lines == ["create clicks/dt=2026-11-22/hr=13/_SUCCESS if it is absent"]
    publisher.publish(landing.follower())
    publisher.reset(landing.follower())

    assert list(publisher.preview(landing.follower())) == lines
    assert publisher.position() == -1


class Killed(Exception):  # noqa: N818  # no error
    """The process ends here."""


class KillingStore(MemoryStore):
    """Ends the process at the n-th write, before or after its effect."""

    def __init__(self, store: MemoryStore, at: int, *, after: bool) -> None:
        self.__dict__ = store.__dict__
        self.left, self.after = at, after

    def create(self, key: str, body: bytes) -> Any:
        return self._write(lambda: MemoryStore.create(self, key, body))

    def overwrite(self, key: str, body: bytes) -> None:
        self._write(lambda: MemoryStore.overwrite(self, key, body))

    def _write(self, effect: Any) -> Any:
        self.left -= 1
        if self.left < 0 and not self.after:
            raise Killed
        made = effect()
        if self.left < 0:
            raise Killed
        return made


def rounds() -> Iterator[Landing]:
    """Landings that go on between passes."""
    options = {"onLate": "Marker", "lookback": 5}
    yield (landing := Landing(options=options).at(NOW - 2 * HOUR, NOW - 26 * HOUR))
    yield landing.complete(NOW - HOUR)
    yield landing.at(NOW, NOW - 2 * HOUR).complete(NOW + HOUR)
    yield landing.at(NOW - 30 * HOUR).complete(NOW + 10 * HOUR)


EXPECTED: list[str] = []
for last in rounds():
    EXPECTED = last.publish()


@pytest.mark.parametrize("after", [False, True])
def test_a_publisher_may_be_killed_at_every_call(after: bool) -> None:
    kills = 0
    for at in range(8):
        for landing in rounds():
            store = landing.ledger.store
            assert isinstance(store, MemoryStore)
            killing = KillingStore.__new__(KillingStore)
            killing.__dict__ = {**store.__dict__, "left": at, "after": after}
            try:
                landing.publisher(killing).publish(landing.follower())
            except Killed:
                kills += 1
            landing.publish()
        assert landing.markers == EXPECTED, at
    assert kills > 10
    assert len(EXPECTED) > 5


def test_several_publishers_at_once_mark_the_same() -> None:
    for landing in rounds():
        with ThreadPoolExecutor(4) as pool:
            passes = [
                pool.submit(landing.publisher().publish, landing.follower()) for _ in range(4)
            ]
        assert all(each.exception() is None for each in passes)

    assert landing.markers == EXPECTED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"onLate": "Rewrite"}, "option onLate: Rewrite would have to replace objects"),
        ({"lookback": 0}, "option lookback: at least 1, got 0"),
        ({"marker": "done"}, "option marker: a name"),
        ({"marker": "_LATE-1"}, "option marker: a name"),
        ({"markers": "_x"}, "unknown option"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Landing(options=options).publisher()


def test_a_group_without_completeness_is_refused() -> None:
    with pytest.raises(ValueError, match=r"spec\.completeness is not set"):
        Landing(group()).publisher()
