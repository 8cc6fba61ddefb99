"""The driver's Prometheus metrics, all made from one status.

Every metric has the labels ``namespace`` and ``group``; metrics by topic also have ``topic``. No
label holds a Kafka partition, a key or a message. The first ``TOPICS`` topics by name have a series
of their own, and the rest share ``topic="_other"``: their sum, or their maximum for ages.
``docs/reference/metrics.md`` lists every name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.contract import DriverPhase, PartitionStatus, PublisherStatus, Status, Workers
from landfall.api.feed_status import FeedStatus
from landfall.driver.core.counters import DriverCounters

TOPICS = 200
OTHER = "_other"
HAVE_LANE = frozenset({DriverPhase.RECOVERING, DriverPhase.RUNNING, DriverPhase.DRAINING})
_GROUP = ["namespace", "group"]
_TOPIC = [*_GROUP, "topic"]

Family = GaugeMetricFamily | CounterMetricFamily


class StatusCollector(Collector):
    """Turns the latest status into metric families when scraped."""

    def __init__(self, latest: Callable[[], tuple[Status, DriverCounters] | None]) -> None:
        """``latest`` is called at every scrape."""
        self._latest = latest

    def collect(self) -> Iterator[Family]:
        """Yield all metric families; none before the first pass."""
        latest = self._latest()
        if latest is None:
            return
        status, counters = latest
        names = [status.namespace, status.group]
        gauges = (*_lag(status), *_gauges(status), *_workers(status.workers))
        yield from (_gauge(name, text, names, value) for name, text, value in gauges)
        yield from (
            _counter(name, text, names, value) for name, text, value in _counters(status, counters)
        )
        yield _info(status, names)
        yield from _by_topic(status, counters, names)
        yield from _by_publisher(status.publishers, names)
        yield from _by_feed(status.feeds, names)
        yield from _compaction(status.compaction, names)
        yield from _replacing(status.replacing, names)
        yield from _by_store(counters, names)
        failures = CounterMetricFamily(
            "landfall_failures", "Failures by reason", labels=[*_GROUP, "reason"]
        )
        for reason, count in sorted(counters.failures_by_reason.items()):
            failures.add_metric([*names, reason], count)
        yield failures


def _info(status: Status, names: list[str]) -> GaugeMetricFamily:
    info = GaugeMetricFamily("landfall_driver_info", "1", labels=[*_GROUP, "version", "hot_path"])
    info.add_metric([*names, status.version, status.hot_path], 1)
    return info


def _by_store(counters: DriverCounters, names: list[str]) -> Iterator[Family]:
    calls = counters.store_calls.copy()
    ended = CounterMetricFamily(
        "landfall_store_calls",
        "Calls of the store by the driver",
        labels=[*_GROUP, "store", "operation", "outcome"],
    )
    for of, count in sorted(calls.counts.items()):
        ended.add_metric([*names, *of], count)
    yield ended
    waited = CounterMetricFamily(
        "landfall_store_call_seconds",
        "Time that calls of the store took",
        labels=[*_GROUP, "store", "operation"],
    )
    for call, seconds in sorted(calls.seconds.items()):
        waited.add_metric([*names, *call], seconds)
    yield waited


def _gauges(status: Status) -> Iterable[tuple[str, str, float]]:
    blocked = sum(1 for p in status.partitions if p.blocked)
    return (
        ("landfall_rounds", "Batches in flight", status.rounds),
        (
            "landfall_unapplied_commits",
            "Commits whose objects are not all visible yet",
            status.commits.unapplied,
        ),
        (
            "landfall_blocked_topic_partitions",
            "Topic partitions that need operator action",
            blocked,
        ),
        ("landfall_topic_partitions", "Topic partitions of the group", len(status.partitions)),
        ("landfall_epoch", "Epoch of this driver's OPEN in the ledger", status.epoch),
        ("landfall_generation", "Generation in the group's spec", status.generation),
        (
            "landfall_has_lane",
            "1 while this driver owns the lane, else 0",
            status.phase in HAVE_LANE,
        ),
        (
            "landfall_consecutive_failures",
            "Failures since the last commit",
            status.commits.consecutive_failures,
        ),
    )


def _lag(status: Status) -> Iterable[tuple[str, str, float]]:
    if not status.lag_known:
        return ()
    return (
        ("landfall_lag_records", "Offsets that are not landed yet", status.lag_records),
        ("landfall_lag_seconds", "Age of the oldest unlanded record", status.lag_seconds),
        (
            "landfall_overdue_seconds",
            "Longest wait of a record beyond its upload policy",
            status.overdue_seconds,
        ),
    )


def _workers(workers: Workers | None) -> Iterable[tuple[str, str, float]]:
    if workers is None:
        return ()
    return (
        (
            "landfall_executors_wanted",
            "Executors requested; 0 where tasks run in the driver",
            workers.wanted,
        ),
        ("landfall_executors", "Executors that are running", workers.registered),
        ("landfall_slots", "Tasks that can run at the same time", workers.slots),
    )


def _counters(status: Status, counters: DriverCounters) -> Iterable[tuple[str, str, float]]:
    return (
        ("landfall_commits", "Commits since this driver started", counters.commits),
        ("landfall_objects", "Data objects committed", counters.objects),
        (
            "landfall_input_bytes",
            "Payload bytes read from the source and committed",
            counters.input_bytes,
        ),
        ("landfall_invisible_offsets", "Committed offsets that hold no record", counters.invisible),
        ("landfall_filtered_records", "Records that the spec leaves out", counters.filtered),
        (
            "landfall_from_backup_records",
            "Records read from what another group has landed, as Kafka had lost them",
            counters.from_backup,
        ),
        (
            "landfall_arrived_records",
            "Offsets by which topics grew, as far as this driver saw",
            counters.arrived,
        ),
        (
            "landfall_task_seconds",
            "Wall-clock time of tasks for what is committed, summed",
            counters.task_seconds,
        ),
        (
            "landfall_busy_seconds",
            "Time from start to commit, summed over batches",
            counters.busy.total_seconds(),
        ),
        (
            "landfall_ledger_commits",
            "Commits in the ledger since its first slot",
            status.commits.total,
        ),
    )


def _by_topic(status: Status, counters: DriverCounters, names: list[str]) -> Iterator[Family]:
    lag = GaugeMetricFamily(
        "landfall_topic_lag_records", "Offsets of a topic that are not landed yet", labels=_TOPIC
    )
    age = GaugeMetricFamily(
        "landfall_topic_lag_seconds", "Age of a topic's oldest unlanded record", labels=_TOPIC
    )
    _fill(lag, names, _summed(status.partitions))
    _fill(age, names, _oldest(status.partitions), max)
    yield from (lag, age)
    yield _complete_until(status, names)
    yield from _held_back(status, names)
    for name, text, counts in (
        ("landfall_landed_records", "Records in committed data objects", counters.landed_by_topic),
        ("landfall_landed_bytes", "Bytes of committed data objects", counters.bytes_by_topic),
        (
            "landfall_dead_lettered_records",
            "Records in dead-letter objects",
            counters.dead_lettered_by_topic,
        ),
        (
            "landfall_unexpected_dead_letters",
            "Dead letters that a bug caused, in Landfall, a library or a plug-in",
            counters.unexpected_by_topic,
        ),
    ):
        family = CounterMetricFamily(name, text, labels=_TOPIC)
        _fill(family, names, counts)
        yield family


def _complete_until(status: Status, names: list[str]) -> Family:
    family = GaugeMetricFamily(
        "landfall_topic_complete_until_timestamp_seconds",
        "Event time before which everything of a topic has landed",
        labels=_TOPIC,
    )
    until = {t.topic: datetime.fromisoformat(t.until) for t in status.completeness if t.until}
    _fill(family, names, {topic: time.timestamp() for topic, time in until.items()}, min)
    return family


def _by_publisher(publishers: Iterable[PublisherStatus], names: list[str]) -> Iterator[Family]:
    labels = [*_GROUP, "publisher"]
    lag = GaugeMetricFamily(
        "landfall_publisher_lag_seconds",
        "Age of the oldest visible object that is not published",
        labels=labels,
    )
    slots = GaugeMetricFamily(
        "landfall_publisher_lag_slots", "Slots of the ledger that are not published", labels=labels
    )
    blocked = GaugeMetricFamily(
        "landfall_publisher_blocked",
        "1 while a user has to change something before it publishes again, else 0",
        labels=labels,
    )
    objects = CounterMetricFamily(
        "landfall_published_objects", "Objects that were published", labels=labels
    )
    failures = CounterMetricFamily(
        "landfall_publisher_failures", "Passes of a publisher that failed", labels=labels
    )
    for publisher in publishers:
        of_publisher = [*names, publisher.name]
        lag.add_metric(of_publisher, publisher.lag_seconds)
        slots.add_metric(of_publisher, publisher.lag_slots)
        blocked.add_metric(of_publisher, publisher.blocked is not None)
        objects.add_metric(of_publisher, publisher.published_objects)
        failures.add_metric(of_publisher, publisher.failures)
    yield from (lag, slots, blocked, objects, failures)


def _by_feed(feeds: Iterable[FeedStatus], names: list[str]) -> Iterator[Family]:
    # Without a feed the families have no sample, so that groups of Kafka have no such series.
    for name, text, value in (
        ("pending_files", "Files that are not landed, and not parked", attrgetter("pending_files")),
        ("pending_bytes", "Size of what is not landed of files", attrgetter("pending_bytes")),
        ("landed_parts", "Parts of files that are landed", attrgetter("landed_parts")),
        ("parked_parts", "Parts of files that could not be read", attrgetter("parked_parts")),
        ("ignored_parts", "Parts of files that are given up", attrgetter("ignored_parts")),
    ):
        family = GaugeMetricFamily(f"landfall_feed_{name}", text, labels=_TOPIC)
        _fill(family, names, {feed.topic: value(feed) for feed in feeds})
        yield family


def _compaction(status: CompactionStatus | None, names: list[str]) -> Iterator[Family]:
    # Without spec.compact the families have no sample.
    for name, text, value in (
        ("waiting_folders", "Folders with objects to merge", attrgetter("waiting_folders")),
        ("waiting_objects", "Objects to merge of complete folders", attrgetter("waiting_objects")),
        ("blocked", "1 if something was not merged last, else 0", lambda s: bool(s.problem)),
    ):
        gauge = GaugeMetricFamily(f"landfall_compaction_{name}", text, labels=_GROUP)
        if status:
            gauge.add_metric(names, value(status))
        yield gauge
    for name, text, value in (
        ("merged_objects", "Objects that merged ones replace", attrgetter("merged_objects")),
        ("new_objects", "Merged objects", attrgetter("new_objects")),
        ("bytes", "Bytes of merged objects", attrgetter("merged_bytes")),
        ("duplicates", "Rows that merges left out as duplicates", attrgetter("duplicates")),
        (
            "uncompared_rows",
            "Rows not compared with rows of another generation or spec",
            attrgetter("uncompared"),
        ),
        ("unmerged", "Times that a topic was complete before its merge", attrgetter("unmerged")),
        ("failures", "Times that something was not merged", attrgetter("failures")),
    ):
        counter = CounterMetricFamily(f"landfall_compaction_{name}", text, labels=_GROUP)
        if status:
            counter.add_metric(names, value(status))
        yield counter


def _replacing(status: ReplacingStatus, names: list[str]) -> Iterator[Family]:
    for name, text, value in (
        ("waiting", "REPLACEs whose new objects are not visible yet", status.waiting),
        ("refused", "REPLACEs whose new objects the store refuses", status.refused),
        (
            "undeleted_objects",
            "Replaced objects that are not deleted yet",
            status.undeleted_objects,
        ),
        (
            "undeletable_objects",
            "Replaced objects that are not deleted yet if the store refuses that, else 0",
            status.undeletable_objects,
        ),
    ):
        yield _gauge(f"landfall_replacing_{name}", text, names, value)


def _held_back(status: Status, names: list[str]) -> Iterator[Family]:
    """Only of topics with an open transaction at the moment: there are few, if any."""
    records = GaugeMetricFamily(
        "landfall_topic_held_back_records",
        "Records that open transactions keep from being read",
        labels=_TOPIC,
    )
    age = GaugeMetricFamily(
        "landfall_topic_held_back_seconds",
        "How long the longest open transaction has been seen",
        labels=_TOPIC,
    )
    held = [p for p in status.partitions if p.held_back_records]
    longest: dict[str, float] = {}
    held_records: dict[str, float] = {}
    for p in held:
        longest[p.topic] = max(longest.get(p.topic, 0.0), p.held_back_seconds)
        held_records[p.topic] = held_records.get(p.topic, 0) + p.held_back_records
    _fill(records, names, held_records)
    _fill(age, names, longest, max)
    yield from (records, age)


def _summed(partitions: Iterable[PartitionStatus]) -> dict[str, float]:
    lags: dict[str, float] = {}
    for p in partitions:
        lags[p.topic] = lags.get(p.topic, 0) + p.lag_records
    return lags


def _oldest(partitions: Iterable[PartitionStatus]) -> dict[str, float]:
    ages: dict[str, float] = {}
    for p in partitions:
        ages[p.topic] = max(ages.get(p.topic, 0.0), p.lag_seconds)
    return ages


def _fill(
    family: Family,
    names: list[str],
    values: Mapping[str, float],
    rest: Callable[[Iterable[float]], float] = sum,
) -> None:
    topics = sorted(values)
    for topic in topics[:TOPICS]:
        family.add_metric([*names, topic], values[topic])
    if topics[TOPICS:]:
        family.add_metric([*names, OTHER], rest(values[topic] for topic in topics[TOPICS:]))


def _gauge(name: str, text: str, names: list[str], value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=_GROUP)
    family.add_metric(names, value)
    return family


def _counter(name: str, text: str, names: list[str], value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=_GROUP)
    family.add_metric(names, value)
    return family
