"""Many groups as an operator shows them, some with something wrong."""

from datetime import UTC, datetime

from landfall_operator.api.reasons import ConditionReason, ConditionType, Phase
from landfall_operator.api.status import CommitsStatus, Condition, GroupStatus, LagStatus
from landfall_operator.runtime.group_metrics import GroupSnapshot

NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)


def fleet(number: int) -> dict[tuple[str, str], GroupSnapshot]:
    """So many groups in namespaces of ten; each fiftieth is stalled."""
    found = {}
    for at in range(number):
        key = f"team-{at // 10:03}", f"group-{at:04}"
        found[key] = GroupSnapshot(*key, _status(at), NOW, answers=True, restarts=0)
    return found


def _status(at: int) -> GroupStatus:
    is_stalled = at % 50 == 49
    return GroupStatus(
        phase=Phase.STALLED if is_stalled else Phase.RUNNING,
        active_generation=1 + at % 5,
        lag=LagStatus(
            records=at * 10,
            seconds=at % 300,
            overdue_seconds=60 if is_stalled else 0,
            records_text=str(at * 10),
            seconds_text=f"{at % 300}s",
            time=NOW,
            blocked=int(is_stalled),
        ),
        commits=CommitsStatus(total=at * 7, failures=0, consecutive_failures=0, last_time=NOW),
        conditions=tuple(_condition(type_, is_stalled) for type_ in ConditionType),
    )


def _condition(type_: ConditionType, is_stalled: bool) -> Condition:  # by position
    is_bad = is_stalled and type_ in {ConditionType.READY, ConditionType.STALLED}
    is_true = (type_ is ConditionType.STALLED) == is_bad
    return Condition(
        type=type_,
        status="True" if is_true else "False",
        reason=next(iter(ConditionReason)),
        message="a text that is not shown",
        last_transition_time=NOW,
        observed_generation=1,
    )
