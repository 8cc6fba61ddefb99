"""``landfall verify``: read the landed objects back and hold them against what was committed."""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.checks.coverage import Coverage, ReadBack, cover
from landfall.checks.payloads import Compared, compare
from landfall.cli import console, read_back
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.errors import Reason, Stalled
from landfall.formats import Format
from landfall.ledger import Commit
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice
from landfall.registry import output_format
from landfall.source import Reader

SHOWN = 20


@dataclass
class Verified:
    """What was read, by topic partition, and what was wrong with single objects."""

    coverage: dict[TopicPartition, Coverage] = field(default_factory=dict)
    compared: Compared | None = None
    """With Kafka, if that was asked for."""
    faults: list[str] = field(default_factory=list)
    unapplied: int = 0

    @property
    def is_whole(self) -> bool:
        """Every record once, and nothing else."""
        same = self.compared is None or self.compared.is_same
        return same and not self.faults and all(c.is_whole for c in self.coverage.values())


def verify(arguments: argparse.Namespace) -> ExitCode:
    """The command."""
    opened = GroupStore.of(arguments.group)
    verified = examine(opened, arguments.topics, _reader(opened.group) if arguments.kafka else None)
    if arguments.json:
        console.out().print(_json(verified), markup=False)
    else:
        _show(verified, by_topic_partition=arguments.partitions)
    return ExitCode.OK if verified.is_whole else ExitCode.FAULT


def _reader(group: ConsumerGroup) -> Reader:
    """Of the group's Kafka; refuses a group whose objects do not hold the payloads that Kafka holds."""
    from landfall.source.properties import kafka_properties  # noqa: PLC0415  # only --kafka needs the client
    from landfall.source.reader import KafkaReader  # noqa: PLC0415

    if group.spec.transforms or group.spec.decode.columns:
        raise Stalled(
            Reason.SPEC_INVALID,
            "verify --kafka: transforms and typed columns land other bytes than Kafka holds",
        )
    return KafkaReader(kafka_properties(group), group.spec.tuning.read_timeout)


def examine(
    opened: GroupStore, topics: Iterable[str] = (), reader: Reader | None = None
) -> Verified:
    """Read everything that is committed and applied, of these topics or of all; with a reader, compare it with Kafka."""
    verified, format_ = Verified(), output_format(opened.group.spec.output)

    def read(landed: LandedSlice) -> tuple[LandedSlice, list[ReadBack | str]]:
        return landed, [_read(opened, format_, o) for o in landed.objects]

    for landed, answers in map_concurrently(read, _applied(opened, frozenset(topics), verified)):
        tp = landed.piece.topic_partition
        verified.faults += [answer for answer in answers if isinstance(answer, str)]
        back = [answer for answer in answers if isinstance(answer, ReadBack)]
        verified.coverage[tp] = verified.coverage.get(tp, Coverage()) + cover(landed, back)
        if reader:
            verified.compared = (verified.compared or Compared()) + _compare(
                opened, reader, landed, back
            )
    return verified


def _compare(
    opened: GroupStore, reader: Reader, landed: LandedSlice, back: list[ReadBack]
) -> Compared:
    try:
        return compare(read_back.logged(opened, reader, landed.piece), back)
    except Stalled as gone:
        if gone.reason not in {Reason.DATA_LOSS, Reason.TOPIC_MISSING}:
            raise
        return Compared(slices_gone=1)


def _applied(
    opened: GroupStore, wanted: frozenset[str], verified: Verified
) -> Iterator[LandedSlice]:
    applied_through = opened.lane.read().applied_through
    for record in opened.records():
        if not isinstance(record, Commit):
            continue
        if record.header.seq > applied_through:
            verified.unapplied += 1
            continue
        yield from (
            s for s in record.slices if not wanted or s.piece.topic_partition.topic in wanted
        )


def _read(opened: GroupStore, format_: Format, landed: LandedObject) -> ReadBack | str:
    try:
        return read_back.read_back(opened, format_, landed)
    except FileNotFoundError:
        return f"{landed.upload.key}: not there"
    except (ValueError, EOFError, OSError) as error:
        return f"{landed.upload.key}: {error}"


def _show(verified: Verified, *, by_topic_partition: bool) -> None:
    out = console.out()
    rows: dict[str, Coverage] = {}
    for tp, coverage in sorted(verified.coverage.items()):
        name = str(tp) if by_topic_partition else tp.topic
        rows[name] = rows.get(name, Coverage()) + coverage
    shown = console.table(
        "topic partition" if by_topic_partition else "topic",
        *(">expected", ">found", ">missing", ">twice", ">foreign", ">objects"),
        "checked by",
    )
    total = sum(verified.coverage.values(), Coverage())
    for name, c in [*rows.items(), ("total", total)]:
        numbers = (c.expected, c.found, c.missing, c.duplicate, c.foreign, c.objects)
        shown.add_row(
            escape(name),
            *map(console.count, numbers),
            "offset" if c.exact else "row",
            style=_style(c),
        )
    out.print(shown)
    if verified.compared:
        out.print(_told(verified.compared))
    for fault in verified.faults[:SHOWN]:
        out.print(f"[red]{escape(fault)}[/red]")
    if len(verified.faults) > SHOWN:
        out.print(f"and {console.count(len(verified.faults) - SHOWN)} more objects")
    if verified.unapplied:
        out.print(
            f"COMMITs left out, as the ledger does not say yet that their objects are visible: {verified.unapplied}"
        )
    out.print(
        "[green]every record is there once[/green]"
        if verified.is_whole
        else "[red]NOT every record is there once[/red]"
    )


def _told(c: Compared) -> str:
    gone = (
        f", {console.count(c.slices_gone)} ranges are not in Kafka any more"
        if c.slices_gone
        else ""
    )
    if c.is_same:
        return f"payloads: the same {console.count(c.records)} as in Kafka{gone}"
    wrong = f"{console.count(c.missing)} missing, {console.count(c.foreign)} foreign"
    return f"[red]payloads: {wrong}, {console.count(c.slices_out_of_order)} ranges out of order[/red]{gone}"


def _style(coverage: Coverage) -> str:
    return "" if coverage.is_whole else "red"


def _json(verified: Verified) -> str:
    total = sum(verified.coverage.values(), Coverage())
    return msgspec.json.encode(
        {
            "whole": verified.is_whole,
            **asdict(total),
            "kafka": asdict(verified.compared) if verified.compared else None,
            "unapplied_commits": verified.unapplied,
            "faults": verified.faults,
            "partitions": [
                {"topic": tp.topic, "partition": tp.partition, **asdict(c)}
                for tp, c in sorted(verified.coverage.items())
            ],
        }
    ).decode()
