"""The driver's ``Status``, computed from the loop's progress and the process's counters.

``/status``, the metrics and the command line all show the same ``Status``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import attrgetter

from landfall import __version__
from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.contract import (
    VERSION,
    CommitStatus,
    DriverPhase,
    PartitionStatus,
    Status,
    TopicCompleteness,
    Workers,
)
from landfall.api.feed_status import FeedStatus
from landfall.api.next_steps import next_step
from landfall.api.run_status import RunStatus, ScheduleStatus
from landfall.api.spec import ConsumerGroup, Source
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.observer import LogView
from landfall.driver.decide.catch_up import has_caught_up
from landfall.driver.decide.completeness import HeldTopic
from landfall.driver.landing.goals import WHATEVER_COMES, Due
from landfall.errors import Stalled
from landfall.ledger import EndedRun, State
from landfall.ledger.feeds import unlanded
from landfall.ledger.offsets import TopicPartition
from landfall.native import hot_path
from landfall.plan import Backlog, Policy, overdue

SHOWN_RUNS = 10
"""Ranges that ended last, in the status."""


@dataclass(frozen=True, slots=True)
class LaneView:
    """The knowledge of a process about the lane, whether it owns it or not.

    Attributes:
        group: the resource.
        lane: the lane's name.
        revision: of this process; of the lane's last OPEN while this process owns the lane.
        phase: what this process is doing.
        state: the ledger's state, as far as this process has read it.
        epoch: of this process's own last OPEN; 0 before the first.
    """

    group: ConsumerGroup
    lane: str
    revision: str
    phase: DriverPhase
    state: State
    epoch: int


@dataclass(frozen=True, slots=True)
class DriverProgress:
    """How far a driver is, as of ``time``: the loop hands it out after each pass.

    Making one costs little however many topic partitions there are; what follows from it is
    computed on request. It never changes, so that any thread may ask.

    Attributes:
        time: when this was true.
        phase: what the driver is doing.
        state: the ledger's state after the driver's last record.
        log: what the last look at the log saw.
        stalled: topic partitions that wait for operator action, and why.
        in_flight: topic partitions that are being landed.
        batches: how many batches are in flight.
        unapplied: COMMITs whose objects are not all visible yet.
        targets: the end offsets at the first look at the log; None before it.
        is_at_rest: nothing is in flight, unapplied or about to leave.
        repairing: lost objects that are being made again.
        held: topics that are not complete though their time has come, and why.
        due: what is to be landed now.
        feeds: the status of the files of feeds.
        compaction: what is to be merged, and what was; None for a group that merges nothing.
        replacing: what is left to do of REPLACEs.
        read_from: topic partitions that are read from what another group has landed, and its name.
        requests: how many requests of users wait, or are carried out.
    """

    time: datetime
    phase: DriverPhase
    state: State
    log: LogView
    stalled: Mapping[TopicPartition, Stalled]
    in_flight: frozenset[TopicPartition]
    batches: int
    unapplied: int
    targets: Mapping[TopicPartition, int] | None
    is_at_rest: bool
    repairing: int = 0
    held: tuple[HeldTopic, ...] = ()
    due: Due = WHATEVER_COMES
    feeds: tuple[FeedStatus, ...] = ()
    compaction: CompactionStatus | None = None
    replacing: ReplacingStatus = field(default_factory=ReplacingStatus)
    read_from: Mapping[TopicPartition, str] = field(default_factory=dict)
    requests: int = 0

    @property
    def backlogs(self) -> tuple[Backlog, ...]:
        """The unlanded offsets of each topic partition that has a checkpoint, sorted.

        Only those are here that are either in the log or stalled.
        """
        checkpoint, in_log = self.state.checkpoint, self.log.watermarks
        known = (tp for tp in checkpoint if tp in in_log or tp in self.stalled)
        in_order = sorted(known, key=attrgetter("topic", "partition"))
        return tuple(self.log.backlog(tp, checkpoint[tp], self.time) for tp in in_order)

    @property
    def caught_up(self) -> bool:
        """True if all that the log held at the first look is visible, except what is stalled."""
        return self.is_at_rest and has_caught_up(self.state.checkpoint, self.targets, self.stalled)

    @property
    def offsets_known(self) -> bool:
        """True if the driver has seen the log, so that the backlogs mean something."""
        return self.targets is not None


@dataclass(frozen=True)
class StatusReport:
    """The report of a process: a summary now, and the whole status on request.

    Attributes:
        summary: the status without lag and topic partitions.
        complete: adds what the summary lacks.
    """

    summary: Status
    complete: Callable[[Status], Status] = lambda summary: summary

    @cached_property
    def status(self) -> Status:
        """The whole status, as of the summary's time; from any thread."""
        return self.complete(self.summary)


def driver_report(
    group: ConsumerGroup,
    lane: str,
    progress: DriverProgress,
    counters: DriverCounters,
    workers: Workers | None = None,
) -> StatusReport:
    """Return the report of a process whose driver owns the lane.

    Making it takes the same time for any number of topic partitions.
    """
    state = progress.state
    view = LaneView(
        group=group,
        lane=lane,
        revision=state.revision,
        phase=progress.phase,
        state=state,
        epoch=state.epoch,
    )
    status = standby_status(view, counters, progress.time, workers)
    summary = replace(
        status,
        rounds=progress.batches,
        commits=replace(status.commits, unapplied=progress.unapplied),
        lag_known=progress.offsets_known,
        repairing=progress.repairing,
        schedule=schedule_status(group, progress),
        feeds=progress.feeds,
        compaction=progress.compaction,
        replacing=progress.replacing,
        requests=progress.requests,
    )
    return StatusReport(summary, partial(_with_partitions, group, progress))


def _with_partitions(group: ConsumerGroup, progress: DriverProgress, summary: Status) -> Status:
    partitions = partition_statuses(group, progress)
    return replace(
        summary,
        lag_records=sum(p.lag_records for p in partitions),
        lag_seconds=max((p.lag_seconds for p in partitions), default=0.0),
        overdue_seconds=max((p.overdue_seconds for p in partitions), default=0.0),
        partitions=partitions,
        caught_up=progress.caught_up,
        completeness=tuple(_completeness(progress)),
    )


def schedule_status(group: ConsumerGroup, progress: DriverProgress) -> ScheduleStatus | None:
    """Return where a driver is that lands closed ranges; None for a group that never has."""
    runs, due = progress.state.runs, progress.due
    if not (group.spec.schedule or runs):
        return None
    until = due.until.astimezone(UTC).isoformat() if due.until else None
    shown = (_run_status(run, group.spec.source) for run in runs[: -SHOWN_RUNS - 1 : -1])
    return ScheduleStatus(until, due.waits, tuple(shown))


def _run_status(run: EndedRun, source: Source) -> RunStatus:
    totals = run.totals
    return RunStatus(
        until=datetime.fromtimestamp(run.until / 1000, UTC).isoformat(),
        began=run.began,
        ended=run.ended,
        records=totals.landed,
        bad_records=totals.dead_lettered,
        objects=totals.objects,
        bytes=totals.landed_bytes,
        left=tuple(filter(source.selects, run.left)),
        slot=run.slot,
        batches=totals.commits,
        slices=run.work.slices,
        task_seconds=run.work.task_ms / 1000,
        longest_seconds=run.work.longest_ms / 1000,
    )


def _completeness(progress: DriverProgress) -> Iterator[TopicCompleteness]:
    held, horizons = (
        {held_topic.topic: held_topic for held_topic in progress.held},
        progress.state.horizons,
    )
    for topic in sorted({*held, *horizons}):
        until = horizons.get(topic)
        time = None if until is None else datetime.fromtimestamp(until / 1000, UTC).isoformat()
        holder = held.get(topic)
        tp, why = (str(holder.topic_partition), holder.why) if holder else ("", "")
        yield TopicCompleteness(topic, time, tp, why)


def standby_status(
    view: LaneView, counters: DriverCounters, now: datetime, workers: Workers | None
) -> Status:
    """The status of a process that does not own the lane: it reads the ledger but not the log.

    So it knows no lag; the process that owns the lane reports it.
    """
    group, state = view.group, view.state
    commits = CommitStatus(
        total=state.totals.commits,
        failures=counters.failures,
        consecutive_failures=counters.consecutive_failures,
        last_time=state.last_commit_time,
        last_failure=counters.last_failure,
        unapplied=0,
    )
    return Status(
        contract=VERSION,
        slot=state.seq,
        tip=state.tip,
        version=__version__,
        group=group.metadata.name,
        namespace=group.metadata.namespace,
        generation=group.spec.generation,
        epoch=view.epoch,
        lane=view.lane,
        phase=view.phase,
        time=now.isoformat(),
        started=counters.started.isoformat(),
        lag_records=0,
        lag_seconds=0.0,
        overdue_seconds=0.0,
        rounds=0,
        commits=commits,
        rates=counters.rates,
        partitions=(),
        message=counters.message,
        revision=view.revision,
        workers=workers,
        lag_known=False,
        hot_path=hot_path().name,
    )


def partition_statuses(
    group: ConsumerGroup, progress: DriverProgress
) -> tuple[PartitionStatus, ...]:
    """The status of every topic partition that has a checkpoint and is in the log or stalled."""
    policy = Policy.of(group.spec.upload_policy)
    return tuple(_partition_status(backlog, policy, progress) for backlog in progress.backlogs)


def _partition_status(
    backlog: Backlog, policy: Policy, progress: DriverProgress
) -> PartitionStatus:
    tp = backlog.topic_partition
    end = backlog.offsets.end
    backlog = progress.due.of(backlog)
    offsets = backlog.offsets
    stalled = progress.stalled.get(tp)
    held = progress.log.held_back.get(tp)
    # A topic partition that is gone from the log cannot be landed, so no policy makes it overdue.
    late = overdue(backlog, policy).total_seconds() if tp in progress.log.watermarks else 0.0
    if progress.due.since:
        late = min(late, max(0.0, (progress.time - progress.due.since).total_seconds()))
    return PartitionStatus(
        topic=tp.topic,
        partition=tp.partition,
        checkpoint=offsets.start,
        end_offset=end,
        lag_records=unlanded(progress.state.feeds, tp, offsets),
        lag_seconds=backlog.age.total_seconds(),
        overdue_seconds=late,
        in_round=tp in progress.in_flight,
        blocked=stalled.reason.value if stalled else None,
        message=str(stalled) if stalled else "",
        held_back_records=held.records if held else 0,
        held_back_seconds=(progress.time - held.since).total_seconds() if held else 0.0,
        next_step=_next_step(progress.state, tp, stalled) if stalled else "",
        read_from=progress.read_from.get(tp, ""),
    )


def _next_step(state: State, tp: TopicPartition, stalled: Stalled) -> str:
    # The ledger keeps a DATA_LOSS only of a truncated log; what has expired is seen again each
    # time.
    return next_step(stalled.reason, str(tp), truncated=tp in state.blocked)
