"""The summary of a driver's status: the sums, and only the topic partitions worth showing.

The operator asks every driver for its summary, ``/status?summary=true``, several times a minute: a
status with 10,000 topic partitions has three megabytes. A driver of an earlier release ignores the
query, so the operator summarizes its answer itself.

Every list and text of a summary has a bound, so that it fits into ``MAX_BYTES``. The operator reads
no longer answer, and summarizes even a summary again: a pod may answer anything (docs/adr/0045).
Pure.
"""

import heapq
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from landfall.api.contract import PartitionStatus, PartitionTotals, Status
from landfall.api.feed_status import FeedStatus

WORST = 5
"""Topic partitions with the greatest lag that a summary has."""
BLOCKED = 20
"""Blocked topic partitions that a summary has, besides the first one of each reason."""
MAX_BYTES = 256 * 1024
"""A longer answer to ``/status?summary=true`` is no summary."""
MAX_WORD = 300
"""Characters of a name or a single word. The longest is a topic partition."""
MAX_TEXTS: Mapping[str, int] = {
    **dict.fromkeys(("message", "problem", "details"), 800),
    **dict.fromkeys(("next_step", "error", "why"), 400),
}
"""Characters of other texts, by the name of their field."""
MAX_ITEMS: Mapping[str, int] = {
    "partitions": 40,
    "completeness": BLOCKED,
    "publishers": 16,
    "feeds": 100,
    "runs": 10,
    "left": 20,
}
"""Items of a list, by the name of its field; the spec allows no more publishers and feeds."""


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
    blocked, and the first that is read from another group. Of incomplete topics, it contains the
    first ``BLOCKED`` that are held. Of feeds with an error, ``BLOCKED`` keep its text: first the
    feeds that wait for a user.
    """
    blocked = [p for p in status.partitions if p.blocked]
    first_of_reason = {p.blocked: p for p in reversed(blocked)}
    worst = heapq.nlargest(WORST, status.partitions, key=how_bad)
    elsewhere = [p for p in status.partitions if p.read_from][:1]
    shown = (*worst, *blocked[:BLOCKED], *first_of_reason.values(), *elsewhere)
    kept = {(p.topic, p.partition) for p in shown}
    partitions = tuple(p for p in status.partitions if (p.topic, p.partition) in kept)
    held = tuple(topic for topic in status.completeness if topic.held_by)[:BLOCKED]
    totals = totals_of(status)
    summary = replace(status, totals=totals, partitions=partitions, completeness=held)
    if schedule := summary.schedule:
        runs = (replace(r, left_topics=r.left_topics or len(r.left)) for r in schedule.runs)
        summary = replace(summary, schedule=replace(schedule, runs=tuple(runs)))
    bounded: Status = _bounded(replace(summary, feeds=_few_errors(status.feeds)))
    return bounded


def _few_errors(feeds: tuple[FeedStatus, ...]) -> tuple[FeedStatus, ...]:
    """Return the feeds; only some keep their error texts."""
    wrong = sorted((f for f in feeds if f.error), key=lambda feed: not feed.undecided_parts)
    silent = {feed.topic for feed in wrong[BLOCKED:]}
    return tuple(replace(f, error="", next_step="") if f.topic in silent else f for f in feeds)


def how_bad(partition: PartitionStatus) -> tuple[float, float, int]:
    """The order of topic partitions by how bad they are."""
    return partition.overdue_seconds, partition.lag_seconds, partition.lag_records


def _bounded(value: Any, field: str = "") -> Any:
    """The value with all of its lists and texts cut to the limits of a summary."""
    if type(value) is str:
        most = MAX_TEXTS.get(field, MAX_WORD)
        return value if len(value) <= most else value[: most - 1] + "…"
    if isinstance(value, tuple):
        return tuple(_bounded(item, field) for item in value[: MAX_ITEMS[field]])
    if is_dataclass(value) and not isinstance(value, type):
        held = ((member.name, getattr(value, member.name)) for member in fields(value))
        changed = {
            name: new
            for name, old in held
            if (new := _bounded(old, name)) is not old and new != old
        }
        return replace(value, **changed) if changed else value
    return value
