"""The document of all groups at ``/groups`` of an operator's port, for its page.

The port is open to all pods of the cluster, and groups belong to tenants. So a group has here what
the metrics on the same port have of it, and nothing else: no text of a condition, no name of a
topic, no message of a driver. A test compares both.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from landfall_operator.api.reasons import ConditionType
from landfall_operator.api.status import GroupStatus, PublisherState
from landfall_operator.runtime.group_metrics import GroupSnapshot

_PROGRESS = frozenset({ConditionType.UPGRADING, ConditionType.RECONCILING})
"""Conditions that show work, and nothing wrong."""
_KEEPS_UP = frozenset({PublisherState.STARTING, PublisherState.CURRENT})


def group_list(
    snapshots: Mapping[tuple[str, str], GroupSnapshot], *, is_leader: bool
) -> dict[str, Any]:
    """Return the document of these groups, by namespace and name."""
    groups = [_group(snapshot) for _, snapshot in sorted(snapshots.items())]
    return {"is_leader": is_leader, "groups": groups}


def _group(snapshot: GroupSnapshot) -> dict[str, Any]:
    status = snapshot.status
    lag, executors = status.lag, status.executors
    publishers = status.publishers or ()
    lagging = [publisher for publisher in publishers if publisher.state not in _KEEPS_UP]
    return {
        "namespace": snapshot.namespace,
        "name": snapshot.name,
        "phase": str(status.phase),
        "reason": str(status.reason or ""),
        "phase_since": snapshot.phase_since.isoformat(),
        "paused": snapshot.is_paused,
        "driver_up": snapshot.answers,
        "restarts": snapshot.restarts,
        "generation": status.active_generation,
        "lag_records": lag.records if lag else None,
        "lag_seconds": lag.seconds if lag else None,
        "overdue_seconds": lag.overdue_seconds if lag else None,
        "blocked": lag.blocked if lag else None,
        "executors_wanted": executors.wanted if executors else None,
        "executors_ready": executors.ready if executors else None,
        "commits": status.commits.total if status.commits else None,
        "publishers": len(publishers),
        "publishers_lagging": [publisher.name for publisher in lagging],
        "wrong": [*_wrong(status)],
    }


def _wrong(status: GroupStatus) -> Iterator[str]:
    """The types of the conditions that show something wrong."""
    for condition in status.conditions:
        bad = "True" if condition.type is ConditionType.STALLED else "False"
        if condition.type not in _PROGRESS and condition.status == bad:
            yield str(condition.type)
