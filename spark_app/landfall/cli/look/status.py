"""``landfall status``: a group's checkpoints and lag, from its ledger and Kafka, driver or not."""

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter

import msgspec
from rich.markup import escape
from rich.table import Table

from landfall.api.contract import LANE, ExitCode, LedgerAnchor, LedgerPosition
from landfall.api.feed_status import FeedStatus
from landfall.api.next_steps import next_step
from landfall.api.spec.publish import PublisherEntry
from landfall.cli.group_store import GroupStore, explain_kafka
from landfall.cli.text import console
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.driver.feeds.feed_status import feed_status
from landfall.errors import LandfallError, Reason, Retry
from landfall.ledger import State, Totals
from landfall.ledger.feeds import unlanded
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.source import Bound, Log


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One topic partition; values that Kafka did not report are None.

    Attributes:
        checkpoint: next offset to land.
        end_offset: the last stable offset.
        lag_records: offsets from the checkpoint to the end offset; of files, parts of them.
        held_back_records: offsets from the end offset upwards that an open transaction hides from
            readers.
        unavailable: why Kafka did not report the end offset, if it gave a reason.
        blocked: the reason, if by the ledger it waits for a decision; ``message`` has the details.
        next_step: the command that lets it land again.
    """

    topic: str
    partition: int
    checkpoint: int
    end_offset: int | None
    lag_records: int | None
    held_back_records: int | None = None
    unavailable: str | None = None
    blocked: str | None = None
    message: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class PublisherProgress:
    """One publisher of ``spec.publish``.

    Attributes:
        slot: the last slot of the ledger whose effects are in the destination, as far as is known
            here; -1 for none.
        lag_slots: slots of the ledger after it.
        error: why that is not known; empty if it is.
    """

    name: str
    type: str
    slot: int
    lag_slots: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has landed its topics. It has the fields of ``status --json``.

    Attributes:
        holding: whether a driver holds the ledger's lane.
        lag_records: records not landed yet, in all topic partitions; None if Kafka did not answer.
        unapplied_commits: COMMITs whose objects are not known to be visible; this includes the
            newest one even while nothing is wrong, because only a later record confirms it.
        last_commit: the time of the last COMMIT by its driver's clock.
        totals: sums over all COMMITs.
        source_error: why Kafka did not answer, or None.
        publishers: how far each publisher is.
        complete_until: by topic, the event time before which everything has landed, ISO 8601.
        feeds: the state of the files of each feed, as far as the ledger records it.
        unapplied_replacements: REPLACEs that are not known to be done.
        missing_topics: topics that the spec names and Kafka does not have, of a group that has
            landed nothing yet.
        anchor: the last slot and its hash, for ``landfall fsck --anchor``; empty without a ledger.
    """

    group: str
    namespace: str
    url: str
    generation: int
    epoch: int
    holding: str
    slots: int
    lag_records: int | None
    last_commit: str | None
    unapplied_commits: int
    totals: Totals
    partitions: tuple[PartitionProgress, ...]
    source_error: str | None = None
    publishers: tuple[PublisherProgress, ...] = ()
    complete_until: Mapping[str, str] = field(default_factory=dict)
    feeds: tuple[FeedStatus, ...] = ()
    unapplied_replacements: int = 0
    missing_topics: tuple[str, ...] = ()
    anchor: str = ""


def status(arguments: argparse.Namespace) -> ExitCode:
    """Print how far a group is.

    Returns:
        UNAVAILABLE if Kafka does not answer, STALLED if a new group names topics that are absent.
    """
    from landfall.landed.opening import open_log  # noqa: PLC0415  # other commands need no Kafka client

    opened = GroupStore.of(arguments.group)
    explain_kafka(opened.group)
    log = open_log(opened.group, opened.lane.read())
    progress = read_progress(opened, log, str(arguments.group))
    if arguments.json:
        console.out().print(msgspec.json.encode(asdict(progress)).decode(), markup=False)
    else:
        _show(progress, by_topic_partition=arguments.partitions)
    if progress.source_error:
        return ExitCode.UNAVAILABLE
    return ExitCode.STALLED if progress.missing_topics else ExitCode.OK


def read_progress(opened: GroupStore, log: Log, file: str = "GROUP.yaml") -> GroupProgress:
    """Read the ledger, then the end offsets; without Kafka, the ledger alone.

    ``file`` is the group's file in the commands that are shown as next steps.
    """
    state = opened.lane.read()
    try:
        missing = () if state.members else _missing_topics(opened, log)
        ends = _end_offsets(log, tuple(state.checkpoint))
        found = replace(_progress(opened, state, ends, None), missing_topics=missing)
    except Retry as error:
        found = _progress(opened, state, EndOffsets(), str(error))
    return replace(
        found,
        partitions=tuple(_with_block(p, state, file) for p in found.partitions),
        publishers=tuple(_publisher(opened, e, state.seq) for e in opened.group.spec.publish),
        feeds=read_feeds(opened, state, file),
    )


def _missing_topics(opened: GroupStore, log: Log) -> tuple[str, ...]:
    """Topics that the spec names and Kafka lacks; so a new group asks Kafka, too."""
    kafka = opened.group.spec.source.kafka
    if kafka is None:
        return ()
    found = log.topics()
    return tuple(sorted({*kafka.topics} - {*found.ids} - {*found.denied}))


def _anchor(state: State) -> str:
    position = LedgerPosition(state.epoch, state.seq)
    return str(LedgerAnchor(position, state.tip)) if state.seq >= 0 else ""


def _publisher(opened: GroupStore, entry: PublisherEntry, slot: int) -> PublisherProgress:
    # Other commands, and groups without publishers, need none of their libraries.
    from landfall.publish.building import publisher  # noqa: PLC0415

    try:
        at = publisher(opened.group, entry, opened.store).position()
    except LandfallError as error:
        return PublisherProgress(
            name=entry.name, type=entry.type, slot=-1, lag_slots=slot + 1, error=str(error)
        )
    return PublisherProgress(entry.name, entry.type, at, slot - at)


def _with_block(progress: PartitionProgress, state: State, file: str) -> PartitionProgress:
    tp = TopicPartition(progress.topic, progress.partition)
    entry = state.blocked.get(tp)
    if entry is None:
        return progress
    # The ledger keeps a DATA_LOSS only of a truncated log.
    step = next_step(entry.reason, str(tp), file, truncated=True)
    return replace(progress, blocked=entry.reason, message=entry.message, next_step=step)


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """Kafka's end offsets of topic partitions; missing partitions are in none of the mappings.

    Attributes:
        stable: last stable offsets.
        high: high watermarks.
        unavailable: why the remaining ones have none.
    """

    stable: Mapping[TopicPartition, int] = field(default_factory=dict)
    high: Mapping[TopicPartition, int] = field(default_factory=dict)
    unavailable: Mapping[TopicPartition, LandfallError] = field(default_factory=dict)


def _end_offsets(log: Log, tps: Collection[TopicPartition]) -> EndOffsets:
    # In this order, so that records arriving in between do not seem to be held back.
    high = log.offsets(tps, Bound.HIGH_WATERMARK)
    stable = log.offsets(tps, Bound.END)
    return EndOffsets(stable.offsets, high.offsets, stable.unavailable)


def _progress(
    opened: GroupStore, state: State, ends: EndOffsets, source_error: str | None
) -> GroupProgress:
    in_order = sorted(state.checkpoint, key=attrgetter("topic", "partition"))
    partitions = tuple(_partition(tp, state, ends) for tp in in_order)
    lags = [p.lag_records for p in partitions if p.lag_records is not None]
    return GroupProgress(
        group=opened.name,
        namespace=opened.group.metadata.namespace,
        url=opened.group.spec.output.url,
        generation=state.generation,
        epoch=state.epoch,
        holding=state.holding,
        slots=state.seq + 1,
        anchor=_anchor(state),
        lag_records=None if source_error else sum(lags),
        last_commit=state.last_commit_time,
        unapplied_commits=len(state.unapplied),
        unapplied_replacements=len(state.replacing),
        totals=state.totals,
        partitions=partitions,
        source_error=source_error,
        complete_until={
            topic: datetime.fromtimestamp(until / 1000, UTC).isoformat()
            for topic, until in sorted(state.horizons.items())
        },
    )


def _partition(tp: TopicPartition, state: State, ends: EndOffsets) -> PartitionProgress:
    checkpoint, feeds = state.checkpoint[tp], state.feeds
    end = ends.stable.get(tp)
    if end is None:
        why = ends.unavailable.get(tp)
        known = PartitionProgress(
            topic=tp.topic,
            partition=tp.partition,
            checkpoint=checkpoint,
            end_offset=None,
            lag_records=None,
        )
        return replace(known, unavailable=str(why)) if why else known
    # The log of a recreated topic may end below the checkpoint; the lag is not negative.
    left = OffsetRange(checkpoint, max(end, checkpoint))
    lag, held_back = unlanded(feeds, tp, left), max(ends.high.get(tp, end) - end, 0)
    return PartitionProgress(
        topic=tp.topic,
        partition=tp.partition,
        checkpoint=checkpoint,
        end_offset=end,
        lag_records=lag,
        held_back_records=held_back,
    )


def summary(progress: GroupProgress, now: datetime) -> str:
    """Summarize the group in one line."""
    totals, lag = progress.totals, progress.lag_records
    if lag is None or any(p.lag_records is None for p in progress.partitions):
        state = "lag unknown"
    elif lag:
        state = f"{console.counted(lag, 'record')} to land"
    else:
        state = "caught up" if progress.partitions else "nothing landed yet"
    blocked = sum(p.blocked is not None for p in progress.partitions)
    objects = console.counted(totals.present_objects, "object")
    parts = (
        state,
        f"{console.counted(blocked, 'topic partition')} blocked" if blocked else "",
        f"{console.counted(totals.landed, 'record')} in {objects}",
        f"last commit {console.ago(progress.last_commit, now)}",
    )
    return f"{progress.group}: {', '.join(part for part in parts if part)}"


def _show(progress: GroupProgress, *, by_topic_partition: bool) -> None:
    out, totals = console.out(), progress.totals
    out.print(escape(summary(progress, datetime.now(UTC))))
    out.print(
        console.facts(
            {
                "group": f"{progress.namespace}/{progress.group}",
                "output": progress.url,
                "generation": progress.generation,
                "epoch": f"{progress.epoch} (lane: {progress.holding})",
                "ledger slots": console.count(progress.slots),
            }
        )
    )
    landed = console.counted(totals.landed, "record")
    out.print(
        console.facts(
            {
                "commits": console.count(totals.commits),
                "last commit": progress.last_commit or "none",
                "unapplied": progress.unapplied_commits,
                "objects": console.count(totals.objects),
                "landed": f"{landed}, {console.size(totals.landed_bytes)}",
                "dead letters": console.count(totals.dead_lettered),
                "filtered": console.count(totals.filtered),
                **({} if progress.feeds else _without_record(totals)),
                **_replaced(progress),
            }
        )
    )
    if progress.partitions:
        out.print(_by_topic_partition(progress) if by_topic_partition else _by_topic(progress))
    else:
        out.print("the ledger has no topic partition yet")
    if progress.complete_until:
        out.print(_by_horizon(progress.complete_until))
    if progress.publishers:
        out.print(_by_publisher(progress.publishers))
    if progress.feeds:
        show_feeds(progress.feeds)
    _show_problems(progress)


def _without_record(totals: Totals) -> dict[str, str]:
    """Return counts meaningful for Kafka only: a part of a file has far more offsets than rows."""
    return {
        "invisible": console.count(totals.invisible),
        "skipped": console.count(totals.skipped),
    }


def _replaced(progress: GroupProgress) -> dict[str, str]:
    """Return the counts of merged or replaced objects, if there are any."""
    totals = progress.totals
    under_way = progress.unapplied_replacements
    if not (totals.retired or under_way):
        return {}
    by = f"{console.count(totals.retired)} by {console.count(totals.replacing)}"
    busy = f"{console.count(under_way)} under way"
    shown = f"{by} ({busy})" if under_way else by
    return {
        "replaced objects": shown if totals.retired else busy,
        **({"duplicates": console.count(totals.duplicates)} if totals.duplicates else {}),
    }


def _show_problems(progress: GroupProgress) -> None:
    out = console.out()
    for p in progress.partitions:
        if p.held_back_records:
            records = console.counted(p.held_back_records, "record")
            out.print(
                f"an open transaction holds back {records} of {escape(f'{p.topic}/{p.partition}')}"
            )
        if p.unavailable:
            console.print_error("Unavailable", p.unavailable)
        if p.blocked:
            console.print_error(p.blocked, f"{p.message}; next: {p.next_step}")
    for name, message in _errors(progress):
        console.print_error(name, message)


def _errors(progress: GroupProgress) -> Iterator[tuple[str, str]]:
    """Yield the problems of the group as a whole."""
    yield from (
        (publisher.name, publisher.error) for publisher in progress.publishers if publisher.error
    )
    for topic in progress.missing_topics:
        yield Reason.TOPIC_MISSING, f"there is no topic {topic}"
    if progress.source_error:
        yield "Unavailable", f"Kafka did not answer: {progress.source_error}"


def _by_topic_partition(progress: GroupProgress) -> object:
    shown = console.table("topic partition", ">checkpoint", ">end offset", ">lag records")
    for p in progress.partitions:
        name = escape(f"{p.topic}/{p.partition}")
        shown.add_row(name, str(p.checkpoint), _number(p.end_offset), _number(p.lag_records))
    return shown


def _by_topic(progress: GroupProgress) -> object:
    shown = console.table("topic", ">partitions", ">lag records", ">max per partition")
    by_topic: dict[str, list[PartitionProgress]] = {}
    for p in progress.partitions:
        by_topic.setdefault(p.topic, []).append(p)
    for topic, partitions in by_topic.items():
        lags = [p.lag_records for p in partitions if p.lag_records is not None]
        lag, largest = (sum(lags), max(lags)) if lags else (None, None)
        shown.add_row(escape(topic), str(len(partitions)), _number(lag), _number(largest))
    return shown


def _by_horizon(complete_until: Mapping[str, str]) -> object:
    shown = console.table("topic", "complete until (event time)")
    for topic, until in complete_until.items():
        shown.add_row(escape(topic), until)
    return shown


def _by_publisher(publishers: Collection[PublisherProgress]) -> object:
    shown = console.table("publisher", "type", ">slot", ">slots behind")
    for publisher in publishers:
        slot, lag = (None, None) if publisher.error else (publisher.slot, publisher.lag_slots)
        names = (escape(publisher.name), escape(publisher.type))
        shown.add_row(*names, _number(slot), _number(lag))
    return shown


def _number(number: int | None) -> str:
    return "?" if number is None else console.count(number)


# ------------------------------------------------------------------------------------------ files


def read_feeds(opened: GroupStore, state: State, file: str) -> tuple[FeedStatus, ...]:
    """Return the files of each feed as far as the ledger records them; the bucket is not read.

    Raises:
        Stalled: LEDGER_BROKEN, a list that the ledger names is missing or damaged.
        Retry: the store does not answer.
    """
    return tuple(
        feed_status(
            feed,
            state.feeds[tp],
            state.checkpoint[tp],
            partial(part_lists.read, opened.store, FeedKeys(opened.name, LANE, feed.topic)),
            file=file,
        )
        for feed in opened.group.spec.source.files
        if (tp := TopicPartition(feed.topic, 0)) in state.feeds
    )


def show_feeds(feeds: Sequence[FeedStatus]) -> None:
    """Print a line for each feed, and the errors of its files."""
    console.out().print(_table(feeds))
    for feed in feeds:
        if feed.error:
            console.print_error(feed.topic, f"{feed.error}; next: {feed.next_step}")


def _table(feeds: Sequence[FeedStatus]) -> Table:
    columns = (
        ">pending files",
        ">pending bytes",
        ">taken",
        ">landed parts",
        ">parked parts",
        ">ignored",
    )
    shown = console.table("feed", *columns)
    for feed in feeds:
        shown.add_row(
            escape(feed.topic),
            console.count(feed.pending_files),
            console.size(feed.pending_bytes),
            console.count(feed.taken_parts),
            console.count(feed.landed_parts),
            console.count(feed.parked_parts),
            console.count(feed.ignored_parts),
        )
    return shown
