"""The summary of a driver's status: the sums, and only the topic partitions that somebody looks at.

The operator asks every driver for its summary, ``/status?summary=true``, several times a minute: a
status with 10,000 topic partitions has three megabytes. A driver of an earlier release ignores the
query, so the operator summarizes its answer itself. Pure.
"""

import heapq
from dataclasses import replace

from landfall.api.contract import PartitionStatus, PartitionTotals, Status

WORST = 5
"""Topic partitions with the greatest lag that a summary has."""
BLOCKED = 20
"""Blocked topic partitions that a summary has, besides the first one of each reason."""


def totals_of(status: Status) -> PartitionTotals:
    """The sums over all topic partitions, whether or not the status lists them all."""
    if status.totals:
        return status.totals
    landable = [p for p in status.partitions if not p.blocked]
    return PartitionTotals(
        count=len(status.partitions),
        blocked=len(status.partitions) - len(landable),
        lag_records=sum(p.lag_records for p in landable),
        lag_seconds=max((p.lag_seconds for p in landable), default=0.0),
        overdue_seconds=max((p.overdue_seconds for p in landable), default=0.0),
    )


def summarize(status: Status) -> Status:
    """The status with its ``totals`` and few of its topic partitions, in their order.

    These are the ``WORST``, the first ``BLOCKED``, the first of each reason for which any is
    blocked, and the first that is read from another group. Of topics that are not complete there
    are the first ``BLOCKED`` that are held.
    """
    if status.totals:
        return status
    blocked = [p for p in status.partitions if p.blocked]
    first_of_reason = {p.blocked: p for p in reversed(blocked)}
    worst = heapq.nlargest(WORST, status.partitions, key=how_bad)
    elsewhere = [p for p in status.partitions if p.read_from][:1]
    shown = (*worst, *blocked[:BLOCKED], *first_of_reason.values(), *elsewhere)
    kept = {(p.topic, p.partition) for p in shown}
    partitions = tuple(p for p in status.partitions if (p.topic, p.partition) in kept)
    held = tuple(topic for topic in status.completeness if topic.held_by)[:BLOCKED]
    totals = totals_of(status)
    return replace(status, totals=totals, partitions=partitions, completeness=held)


def how_bad(partition: PartitionStatus) -> tuple[float, float, int]:
    """The order by which topic partitions are the worst ones."""
    return partition.overdue_seconds, partition.lag_seconds, partition.lag_records
