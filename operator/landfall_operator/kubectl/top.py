"""``kubectl landfall top``: all groups of a cluster from their status, again and again.

Nothing but the API server is asked, so it needs the right to list groups and no more. A status is
read as the operator reads it: of another release, the parts that this one knows.
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from landfall.api.values import time_text
from landfall.logs import visible
from landfall_operator.api.reasons import Phase
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.status_values import readable
from landfall_operator.humanize import count_text
from landfall_operator.kubectl.client import Kubectl

_COLUMNS = (
    *("NAMESPACE", "GROUP", "STATE", "REASON", "LAG", "LAG-TIME", "RECORDS/S"),
    *("LAST-COMMIT", "FAILURES"),
)
_NUMBERS = {"LAG", "LAG-TIME", "RECORDS/S", "FAILURES"}
_FIRST = (Phase.STALLED, Phase.DEGRADED, Phase.ROLLING_BACK)
"""The states that are shown first."""
_CLEAR = "\x1b[H\x1b[J"


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group as ``-o json`` prints it; what its status lacks is None.

    Attributes:
        state: ``status.phase``.
        reason: why it has this state, or empty.
        lag_records: records that are not landed yet.
        lag_seconds: age of the oldest of them.
        lag_time: the same as text, with its age if no driver has answered since.
        records_per_second: records that were landed, over the last five minutes.
        last_commit: ISO 8601.
        failures: failed commits since the last successful one.
        blocked: topic partitions that wait for a decision.
    """

    namespace: str
    group: str
    state: str
    reason: str
    lag_records: int | None
    lag_seconds: int | None
    lag_time: str
    records_per_second: int | None
    last_commit: str | None
    failures: int | None
    blocked: int | None


def group_line(resource: Mapping[str, Any]) -> GroupLine:
    """Return the line that is shown of a ``ConsumerGroup``."""
    metadata = resource["metadata"]
    status = readable(GroupStatus, resource.get("status") or {})
    lag = status.lag
    commits = status.commits
    last = commits.last_time if commits else None
    return GroupLine(
        namespace=metadata["namespace"],
        group=metadata["name"],
        state=str(status.phase),
        reason=str(status.reason or ""),
        lag_records=lag.records if lag else None,
        lag_seconds=lag.seconds if lag else None,
        lag_time=lag.seconds_text if lag else "",
        records_per_second=status.rate.landing if status.rate else None,
        last_commit=last.isoformat() if last else None,
        failures=commits.consecutive_failures if commits else None,
        blocked=lag.blocked if lag else None,
    )


def in_order(lines: Iterable[GroupLine]) -> list[GroupLine]:
    """The groups that need a user first, then the groups with the most lag."""
    return sorted(
        lines,
        key=lambda line: (
            line.state not in _FIRST and not line.failures and not line.blocked,
            -(line.lag_seconds or 0),
            line.namespace,
            line.group,
        ),
    )


def table(lines: Sequence[GroupLine], now: datetime) -> str:
    """A line for each group, in columns, as kubectl prints them."""
    rows = [_COLUMNS, *(_cells(line, now) for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    return "\n".join(
        "   ".join(
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _cells(line: GroupLine, now: datetime) -> tuple[str, ...]:
    committed = datetime.fromisoformat(line.last_commit) if line.last_commit else None
    age = int((now - committed).total_seconds()) if committed else 0
    return (
        visible(line.namespace),
        visible(line.group),
        line.state,
        f"{line.blocked} blocked" if line.blocked else line.reason,
        "" if line.lag_records is None else count_text(line.lag_records),
        visible(line.lag_time),
        "" if line.records_per_second is None else count_text(line.records_per_second),
        f"{time_text(age)} ago" if committed else "never",
        "" if line.failures is None else str(line.failures),
    )


def top(
    kubectl: Kubectl, *, everywhere: bool, interval: timedelta, once: bool, as_json: bool
) -> None:
    """Print the groups until interrupted, on a terminal in place; or once.

    Raises:
        KubectlError: the API server does not answer, or refuses to list groups.
    """
    in_place = sys.stdout.isatty() and not (once or as_json)
    while True:
        lines = in_order(group_line(item) for item in kubectl.groups(everywhere=everywhere))
        shown = _as_json(lines) if as_json else _as_text(lines, everywhere=everywhere)
        print(f"{_CLEAR if in_place else ''}{shown}", flush=True)
        if once:
            return
        time.sleep(interval.total_seconds())


def _as_json(lines: Iterable[GroupLine]) -> str:
    return json.dumps([asdict(line) for line in lines])


def _as_text(lines: Sequence[GroupLine], *, everywhere: bool) -> str:
    if lines:
        return table(lines, datetime.now(UTC))
    return "no group in the cluster" if everywhere else "no group in this namespace; -A shows all"
