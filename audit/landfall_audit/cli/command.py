"""``landfall audit``: compares everything landed with Kafka or files, without the writer's code."""

import argparse
import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict
from difflib import get_close_matches
from enum import IntEnum

import msgspec
from rich.console import Console
from rich.markup import escape

from landfall_audit import PartitionResult, Unchecked, group_file
from landfall_audit.buckets import open_buckets
from landfall_audit.checks.inspection import AuditScope, Findings, inspect
from landfall_audit.cli import console
from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled, AuditStoreDenied
from landfall_audit.feeds.log import FeedFiles
from landfall_audit.kafka_log import ClusterLog
from landfall_audit.spec import AuditedGroup


class AuditExitCode(IntEnum):
    """How the command ends; ``arguments.EXIT_CODES`` explains each."""

    OK = 0
    USAGE = 2
    STALLED = 4
    UNAVAILABLE = 5
    FAULT = 6
    NOTHING = 7
    UNCHECKED = 8
    INTERRUPTED = 130


MAX_SHOWN = 20
"""How many faults, and missing ranges per topic partition, are printed; ``--json`` has more."""
_COUNTS = (
    "expected",
    "found",
    "missing",
    "duplicate",
    "misplaced",
    "corrupted",
    "disordered",
    "foreign",
)
_UNCHECKED_TEXTS = {
    Unchecked.GONE: "no longer in Kafka",
    Unchecked.TRUNCATED: "of a log that was truncated in Kafka since they were landed",
    Unchecked.PAYLOAD: "landed with other bytes than Kafka holds, so payloads were not compared",
    Unchecked.COLUMNS: "compared without some of their columns",
    Unchecked.PLACE: "the auditor cannot compute the output partition",
    Unchecked.COUNTED: "only counted, because neither offsets nor payloads identify the rows",
    Unchecked.UNREADABLE: "in objects whose format the auditor cannot read",
    Unchecked.GENERATION: "landed by another generation than the one asked for",
    Unchecked.COMPACTED: "landed, and perhaps removed from Kafka by compaction since",
    Unchecked.VERSION: "of objects with rows of a file that is gone, or has another version now",
    Unchecked.DEAD_LETTERS_EXPIRED: "of objects with dead letters that expired during the audit",
    Unchecked.LETTERS_UNREACHABLE: (
        "of objects with dead letters in a place that badRecords of the spec does not name"
    ),
    Unchecked.FILE: "of objects with rows of a file that the auditor cannot read",
}
"""The text after ``unchecked: 3 records: ``; the JSON output has the values of ``Unchecked``."""
_RECORDED = {
    "lost": ("lost for good, with their objects", "record"),
    "dead_letters_expired": ("in dead letters that have expired", "record"),
    "left_out": ("duplicates that a merge left out", "record"),
    "skipped": ("skipped", "offset"),
}
"""The text after ``recorded as ``, by the counts that the ledger records."""


class _NothingToCheck(Exception):  # noqa: N818  # states a fact, like StopIteration
    """There is nothing that could be checked, which must never pass for a good result."""


def audit(arguments: argparse.Namespace) -> AuditExitCode:  # noqa: PLR0911  # one per way to end
    """Audit a group, print the findings or why there are none, and return the exit code."""
    try:
        return _audit(arguments)
    except AuditStalled as stalled:
        console.print_error(stalled.reason, str(stalled))
        return (
            AuditExitCode.USAGE
            if stalled.reason is AuditReason.SPEC_INVALID
            else AuditExitCode.STALLED
        )
    except _NothingToCheck as nothing:
        console.print_error("NothingToCheck", str(nothing))
        return AuditExitCode.NOTHING
    except AuditStoreDenied as denied:
        console.print_error(AuditReason.STORE_DENIED, str(denied))
        return AuditExitCode.STALLED
    except AuditRetry as error:
        console.print_error("Unavailable", str(error))
        return AuditExitCode.UNAVAILABLE
    except KeyboardInterrupt:
        return AuditExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe; Python flushes standard output once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return AuditExitCode.OK


def _audit(arguments: argparse.Namespace) -> AuditExitCode:
    """The exit code is FAULT if anything is wrong, and UNCHECKED if something was not compared."""
    group = group_file.load(arguments.group, os.environ)
    if arguments.tables:
        return _audit_tables(group, arguments)
    _require_own_source(group)
    bucket, log = open_buckets(group.spec), ClusterLog(group) if group.spec.source.kafka else None
    scope = AuditScope(frozenset(arguments.topics), arguments.generation)
    try:
        with console.progress() as progress:
            findings = inspect(group, bucket, log, scope, progress)
    finally:
        if log:
            log.close()
    if not findings.faults:
        name, url = group.metadata.name, group.spec.ledger_root.url
        if not findings.slots:
            raise _NothingToCheck(
                f"there is no ledger of the group {name} in {url}: "
                "it has never run there, or metadata.name or output.url is misspelt"
            )
        _require_topics(name, arguments.topics, findings.topics)
    if arguments.json:
        console.out().print(_json(findings), markup=False)
    else:
        _show(console.out(), findings, by_topic_partition=arguments.partitions)
    return _exit_code(findings, arguments)


def _audit_tables(group: AuditedGroup, arguments: argparse.Namespace) -> AuditExitCode:
    # What opens tables takes 0.2 s to import.
    from landfall_audit.cli.tables import FaultyTables, NoTables, compare  # noqa: PLC0415

    try:
        is_complete = compare(arguments, group)
    except NoTables as error:
        raise _NothingToCheck(str(error)) from None
    except FaultyTables:
        return AuditExitCode.FAULT
    is_enough = is_complete or arguments.allow_unchecked
    return AuditExitCode.OK if is_enough else AuditExitCode.UNCHECKED


def _require_topics(group: str, wanted: Collection[str], known: Collection[str]) -> None:
    for topic in wanted:
        if topic not in known:
            near = get_close_matches(topic, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise _NothingToCheck(f"the ledger of the group {group} has no topic {topic}{hint}")


def _exit_code(findings: Findings, arguments: argparse.Namespace) -> AuditExitCode:
    if not findings.is_whole:
        return AuditExitCode.FAULT
    if not findings.has_compared:
        return AuditExitCode.NOTHING
    is_unchecked = findings.unchecked_topics and not arguments.allow_unchecked
    if is_unchecked or (findings.gone_from_source and arguments.require_all):
        return AuditExitCode.UNCHECKED
    return AuditExitCode.OK


def _show(out: Console, findings: Findings, *, by_topic_partition: bool) -> None:
    _show_counts(out, findings, by_topic_partition=by_topic_partition)
    for (topic, partition), result in sorted(findings.results.items()):
        _show_missing_ranges(out, f"{topic}/{partition}", result)
    for fault in findings.faults[:MAX_SHOWN]:
        out.print(f"[red]{escape(str(fault))}[/red]")
    if (more := len(findings.faults) + findings.faults_more - MAX_SHOWN) > 0:
        out.print(f"and {console.count(more)} more")
    _show_other_counts(out, findings)
    out.print(_last_line(findings))


def _last_line(findings: Findings) -> str:
    """Return what is printed last: whether all is right, and what was not checked."""
    topics = len(findings.unchecked_topics)
    if not findings.is_whole:
        outcome = "[red]FAULTS were found[/red]"
    elif not findings.has_compared:
        outcome = "[red]nothing was compared[/red]"
    elif topics:
        outcome = "[yellow]no fault found in what was checked[/yellow]"
    else:
        outcome = "[green]no fault found[/green]"
    left_out = f"; records of {console.counted(topics, 'topic')} are unchecked" if topics else ""
    if gone := findings.gone_from_source:
        left_out += f"; the source no longer has {console.counted(gone, 'record')}"
    return f"{outcome} in {console.counted(findings.objects, 'object')}{left_out}"


def _show_counts(out: Console, findings: Findings, *, by_topic_partition: bool) -> None:
    rows: dict[str, list[PartitionResult]] = {}
    for (topic, partition), result in sorted(findings.results.items()):
        name = f"{topic}/{partition}" if by_topic_partition else topic
        rows.setdefault(name, []).append(result)
    shown = console.table(
        "topic partition" if by_topic_partition else "topic",
        *(f">{name}" for name in _COUNTS),
        ">unchecked",
    )
    for name, results in [*rows.items(), ("total", list(findings.results.values()))]:
        style = "" if all(result.is_whole for result in results) else "red"
        shown.add_row(escape(name), *map(console.count, _sums(results)), style=style)
    out.print(shown)


def _sums(results: Iterable[PartitionResult]) -> list[int]:
    """The sums of all counts, and of what was unchecked, in the order of the columns."""
    listed = list(results)
    unchecked = sum(sum(result.unchecked.values()) for result in listed)
    return [*(sum(getattr(result, name) for result in listed) for name in _COUNTS), unchecked]


def _show_missing_ranges(out: Console, name: str, result: PartitionResult) -> None:
    if not result.ranges:
        return
    ranges = " ".join(f"[{start}, {end})" for start, end in result.ranges[:MAX_SHOWN])
    more = len(result.ranges) + result.ranges_more - MAX_SHOWN
    suffix = f" and {console.count(more)} more" if more > 0 else ""
    out.print(f"[red]missing in {escape(name)}: offsets {escape(ranges)}{suffix}[/red]")


def _show_other_counts(out: Console, findings: Findings) -> None:
    for reason in Unchecked:
        number = sum(result.unchecked.get(reason, 0) for result in findings.results.values())
        if number:
            records = console.counted(number, "record")
            out.print(f"[yellow]unchecked: {records}: {_UNCHECKED_TEXTS[reason]}[/yellow]")
    _show_reasons(out, findings)
    for name, (text, word) in _RECORDED.items():
        if number := sum(getattr(result, name) for result in findings.results.values()):
            out.print(f"[yellow]recorded as {text}: {console.counted(number, word)}[/yellow]")
    for topic, feed in sorted(findings.feeds.items()):
        _show_unlanded(out, topic, feed)
    if findings.waiting:
        commits = console.counted(findings.waiting, "COMMIT was", "COMMITs were")
        out.print(f"{commits} not checked: not all objects are visible yet")
    _show_other_objects(out, findings)


def _show_other_objects(out: Console, findings: Findings) -> None:
    if findings.markers:
        markers = console.counted(findings.markers, "object is a marker", "objects are markers")
        out.print(f"{markers}, such as _SUCCESS")
    if findings.unrelated:
        objects = console.counted(findings.unrelated, "object does", "objects do")
        out.print(f"{objects} not belong to Landfall")


def _show_reasons(out: Console, findings: Findings) -> None:
    """Print the columns and rows of each topic that were not compared, and why."""
    for topic, columns in sorted(findings.reasons.items()):
        for column, why in columns.items():
            what = f"column {column}" if column else "payloads"
            out.print(f"[yellow]unchecked: {escape(topic)}: {escape(what)}: {escape(why)}[/yellow]")
    for topic, counts in sorted(findings.undecided.items()):
        for why, number in counts.items():
            records = console.counted(number, "record")
            out.print(f"[yellow]unchecked: {escape(topic)}: {records}: {escape(why)}[/yellow]")


def _show_unlanded(out: Console, topic: str, feed: FeedFiles) -> None:
    name = escape(topic)
    if feed.parked:
        parts = console.counted(feed.parked, "part")
        out.print(f"[yellow]parked: {parts} of files of {name} that could not be read[/yellow]")
    if feed.changed:
        files = console.counted(feed.changed, "file was", "files were")
        out.print(f"[yellow]{files} of {name} rewritten, and not landed again[/yellow]")
    if feed.pending:
        files = console.counted(feed.pending, "file has", "files have")
        out.print(f"pending: {files} of {name} no number yet")


def _require_own_source(group: AuditedGroup) -> None:
    """Raise SPEC_INVALID for a group that lands what another has landed, which is no evidence."""
    if landed := group.spec.source.landed:
        raise AuditStalled(
            AuditReason.SPEC_INVALID,
            f"audit: {group.metadata.name} lands what {landed.group} has landed: audit that group, "
            "whose source is Kafka, and use `landfall verify` and `landfall scan` here",
        )


def _json(findings: Findings) -> str:
    totals = zip((*_COUNTS, "unchecked"), _sums(findings.results.values()), strict=True)
    return msgspec.json.encode(
        {
            "whole": findings.is_whole and findings.has_compared,
            **dict(totals),
            "unchecked_topics": sorted(findings.unchecked_topics),
            "gone_from_source": findings.gone_from_source,
            "expired": findings.gone_from_source,  # its former name
            "unchecked_columns": [
                {"topic": topic, "column": column, "why": why}
                for topic, columns in sorted(findings.reasons.items())
                for column, why in columns.items()
            ],
            "undecided": [
                {"topic": topic, "why": why, "records": records}
                for topic, counts in sorted(findings.undecided.items())
                for why, records in counts.items()
            ],
            "objects": findings.objects,
            "waiting_commits": findings.waiting,
            "feeds": [{"topic": t, **asdict(f)} for t, f in sorted(findings.feeds.items())],
            "faults": [asdict(fault) for fault in findings.faults],
            "faults_more": findings.faults_more,
            "partitions": [
                {"topic": topic, "partition": partition, **asdict(result)}
                for (topic, partition), result in sorted(findings.results.items())
            ],
        }
    ).decode()
