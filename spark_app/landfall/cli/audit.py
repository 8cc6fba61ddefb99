"""``landfall audit``: what landed, held against Kafka by readers of other people's making."""

import argparse
import os
from collections.abc import Iterable
from dataclasses import asdict

import msgspec
from rich.console import Console
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.audit import PartitionResult, Unchecked
from landfall.audit.bucket import open_bucket
from landfall.audit.inspection import Findings, Scope, inspect
from landfall.audit.kafka_log import KafkaLog
from landfall.cli import console, group_file

SHOWN = 20
"""Faults, and missing ranges of a topic partition, shown to people; ``--json`` has more."""
_NUMBERS = (
    "expected",
    "found",
    "missing",
    "duplicate",
    "misplaced",
    "corrupted",
    "disordered",
    "foreign",
)


def audit(arguments: argparse.Namespace) -> ExitCode:
    """The command."""
    group = group_file.load(arguments.group, os.environ)
    bucket, log = open_bucket(group.spec.output), KafkaLog(group)
    scope = Scope(frozenset(arguments.topics), arguments.generation)
    err = console.err()
    try:
        if err.is_terminal and not arguments.json:
            with err.status("reading the ledger") as status:
                findings = inspect(
                    group,
                    bucket,
                    log,
                    scope,
                    lambda t, p, o: status.update(f"{t}/{p} up to offset {console.count(o)}"),
                )
        else:
            findings = inspect(group, bucket, log, scope)
    finally:
        log.close()
    if arguments.json:
        console.out().print(_json(findings), markup=False)
    else:
        _show(console.out(), findings, by_topic_partition=arguments.partitions)
    return ExitCode.OK if findings.is_whole else ExitCode.FAULT


def _show(out: Console, findings: Findings, *, by_topic_partition: bool) -> None:
    accounts = sorted(findings.accounts.items())
    by_name: dict[str, list[PartitionResult]] = {}
    for (topic, partition), account in accounts:
        by_name.setdefault(f"{topic}/{partition}" if by_topic_partition else topic, []).append(
            account
        )
    shown = console.table(
        "topic partition" if by_topic_partition else "topic",
        *(f">{n}" for n in _NUMBERS),
        ">unchecked",
    )
    for name, some in [*by_name.items(), ("total", [account for _, account in accounts])]:
        style = "" if all(account.is_whole for account in some) else "red"
        shown.add_row(escape(name), *map(console.count, _sums(some)), style=style)
    out.print(shown)
    for (topic, partition), account in accounts:
        _ranges(out, f"{topic}/{partition}", account)
    for fault in findings.faults[:SHOWN]:
        out.print(f"[red]{escape(str(fault))}[/red]")
    if (more := len(findings.faults) + findings.faults_more - SHOWN) > 0:
        out.print(f"and {console.count(more)} more")
    _asides(out, findings)
    verdict = (
        "[green]nothing is wrong[/green]"
        if findings.is_whole
        else "[red]NOT everything is as it must be[/red]"
    )
    out.print(f"{verdict} with {console.count(findings.objects)} objects")


def _sums(accounts: Iterable[PartitionResult]) -> list[int]:
    listed = list(accounts)
    unchecked = sum(sum(account.unchecked.values()) for account in listed)
    return [*(sum(getattr(account, name) for account in listed) for name in _NUMBERS), unchecked]


def _ranges(out: Console, name: str, account: PartitionResult) -> None:
    if not account.ranges:
        return
    told = " ".join(f"[{start}, {end})" for start, end in account.ranges[:SHOWN])
    more = len(account.ranges) + account.ranges_more - SHOWN
    out.print(
        f"[red]missing in {escape(name)}: {escape(told)}{f' and {more} more' if more > 0 else ''}[/red]"
    )


def _asides(out: Console, findings: Findings) -> None:
    for reason in Unchecked:
        if number := sum(
            account.unchecked.get(reason, 0) for account in findings.accounts.values()
        ):
            out.print(f"[yellow]unchecked: {console.count(number)} {reason}[/yellow]")
    if findings.waiting:
        out.print(f"COMMITs left out, as their objects are not visible yet: {findings.waiting}")
    if findings.strangers:
        out.print(f"{console.count(findings.strangers)} objects are not Landfall's")


def _json(findings: Findings) -> str:
    accounts = [account for _, account in sorted(findings.accounts.items())]
    return msgspec.json.encode(
        {
            "whole": findings.is_whole,
            **dict(zip((*_NUMBERS, "unchecked"), _sums(accounts), strict=True)),
            "objects": findings.objects,
            "waiting_commits": findings.waiting,
            "faults": [asdict(fault) for fault in findings.faults],
            "faults_more": findings.faults_more,
            "partitions": [
                {"topic": topic, "partition": partition, **asdict(account)}
                for (topic, partition), account in sorted(findings.accounts.items())
            ],
        }
    ).decode()
