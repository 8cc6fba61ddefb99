"""``landfall status``: how far a group is, from its ledger and Kafka, with or without a driver."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.cli import console
from landfall.cli.group_store import GroupStore
from landfall.errors import Retry
from landfall.ledger import State, Totals
from landfall.ledger.offsets import TopicPartition
from landfall.source import Log, Watermarks


@dataclass(frozen=True, slots=True)
class Line:
    """One topic partition; what Kafka did not tell is None."""

    topic: str
    partition: int
    checkpoint: int
    end_offset: int | None
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group is.

    Attributes:
        holding: who may write to the ledger next.
        lag_records: not landed yet, over all topic partitions; None when Kafka did not answer.
        unapplied_commits: not known to have all their objects visible; the newest always are.
        last_commit: when, as the driver's clock had it.
        totals: over all COMMITs.
        source_error: why Kafka did not answer.
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
    partitions: tuple[Line, ...]
    source_error: str | None = None


def status(arguments: argparse.Namespace) -> ExitCode:
    """The command."""
    from landfall.source.kafka import KafkaLog  # noqa: PLC0415  # other commands need no Kafka client

    opened = GroupStore.of(arguments.group)
    standing = look(opened, KafkaLog(opened.group))
    if arguments.json:
        console.out().print(msgspec.json.encode(asdict(standing)).decode(), markup=False)
    else:
        _show(standing, by_topic_partition=arguments.partitions)
    return ExitCode.UNAVAILABLE if standing.source_error else ExitCode.OK


def look(opened: GroupStore, log: Log) -> GroupProgress:
    """Read the ledger, then ask the log where it ends."""
    state = opened.lane.read()
    try:
        return standing_of(opened, state, log.watermarks(tuple(state.checkpoint)), None)
    except Retry as error:
        return standing_of(opened, state, {}, str(error))


def standing_of(
    opened: GroupStore,
    state: State,
    watermarks: Mapping[TopicPartition, Watermarks],
    source_error: str | None,
) -> GroupProgress:
    """Put both together."""
    lines = tuple(
        _line(tp, state.checkpoint[tp], watermarks.get(tp)) for tp in sorted(state.checkpoint)
    )
    lags = [line.lag_records for line in lines if line.lag_records is not None]
    return GroupProgress(
        group=opened.name,
        namespace=opened.group.metadata.namespace,
        url=opened.group.spec.output.url,
        generation=state.generation,
        epoch=state.epoch,
        holding=state.holding,
        slots=state.seq + 1,
        lag_records=None if source_error else sum(lags),
        last_commit=state.last_commit_time,
        unapplied_commits=len(state.unapplied),
        totals=state.totals,
        partitions=lines,
        source_error=source_error,
    )


def _line(tp: TopicPartition, checkpoint: int, marks: Watermarks | None) -> Line:
    if marks is None:
        return Line(tp.topic, tp.partition, checkpoint, None, None)
    return Line(tp.topic, tp.partition, checkpoint, marks.end, max(marks.end - checkpoint, 0))


def _show(standing: GroupProgress, *, by_topic_partition: bool) -> None:
    out, totals = console.out(), standing.totals
    out.print(
        console.facts(
            {
                "group": f"{standing.namespace}/{standing.group}",
                "output": standing.url,
                "generation": standing.generation,
                "epoch": f"{standing.epoch} ({standing.holding})",
                "ledger slots": console.count(standing.slots),
            }
        )
    )
    out.print(
        console.facts(
            {
                "commits": console.count(totals.commits),
                "last": standing.last_commit or "never",
                "unapplied": standing.unapplied_commits,
                "objects": console.count(totals.objects),
                "landed": f"{console.count(totals.landed)} records, {console.size(totals.landed_bytes)}",
                "dead letters": console.count(totals.dead_lettered),
                "left out": console.count(totals.filtered),
                "invisible": console.count(totals.invisible),
                "skipped": console.count(totals.skipped),
            }
        )
    )
    if standing.partitions:
        out.print(_by_topic_partition(standing) if by_topic_partition else _by_topic(standing))
    else:
        out.print("no topic has entered yet")
    if standing.source_error:
        console.complain("Unavailable", f"Kafka did not answer: {standing.source_error}")


def _by_topic_partition(standing: GroupProgress) -> object:
    shown = console.table("topic partition", ">checkpoint", ">end offset", ">lag records")
    for line in standing.partitions:
        name = f"{line.topic}/{line.partition}"
        shown.add_row(
            escape(name), str(line.checkpoint), _known(line.end_offset), _known(line.lag_records)
        )
    return shown


def _by_topic(standing: GroupProgress) -> object:
    shown = console.table("topic", ">partitions", ">lag records", ">most in one")
    by_topic: dict[str, list[Line]] = {}
    for line in standing.partitions:
        by_topic.setdefault(line.topic, []).append(line)
    for topic, lines in by_topic.items():
        lags = [line.lag_records for line in lines if line.lag_records is not None]
        lag, most = (sum(lags), max(lags)) if lags else (None, None)
        shown.add_row(escape(topic), str(len(lines)), _known(lag), _known(most))
    return shown


def _known(number: int | None) -> str:
    return "?" if number is None else console.count(number)
