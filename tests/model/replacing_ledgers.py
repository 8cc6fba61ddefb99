"""Ledgers of ``tests.model.replacing``: what REPLACEs decide, and what counts after them."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

ROWS: Mapping[str, frozenset[int]] = {
    "old 1": frozenset({1}),
    "old 2": frozenset({2}),
    "merged 1": frozenset({1}),
    "merged 2": frozenset({2}),
    "corrected": frozenset({1, 2}),
    "back 1": frozenset({1}),
    "back 2": frozenset({2}),
    "late": frozenset({3}),
}
OLD, BACK = frozenset({"old 1", "old 2"}), frozenset({"back 1", "back 2"})
LOSABLE = "merged 2"
KEPT_AS = {"back 1": "old 1", "back 2": "old 2"}
"""From which kept object one is made that an undoing brings back."""


class Plan(NamedTuple):
    """What a REPLACE decides: the objects that retire, and those that take their place.

    A COMMIT is one that retires nothing.
    """

    name: str
    retire: frozenset[str]
    new: frozenset[str]


MERGE = Plan("REPLACE by merged", OLD, frozenset({"merged 1", "merged 2"}))
LATER = Plan("REPLACE by merged, decided again", MERGE.retire, MERGE.new)
GIVE_UP = Plan("REPLACE by nothing, instead of the merge", MERGE.new, frozenset())
CORRECT = Plan("REPLACE by corrected", OLD, frozenset({"corrected"}))
UNDO = Plan("REPLACE, undoing the merge", MERGE.new, BACK)
LATE = Plan("COMMIT of a late row", frozenset(), frozenset({"late"}))
PLANS = (MERGE, LATER, GIVE_UP, CORRECT, UNDO, LATE)
MERGES = frozenset({MERGE, LATER})
"""The merge, by whichever of its records is in force."""

Record = Plan | int
"""A REPLACE or COMMIT; or through how many records everything is applied. Each record says it, but
that matters only when nothing else is to be recorded. RETIRED is a record as well.
"""
RETIRED = -1
"""The record that nothing is left of what retires by the REPLACEs that are applied."""


class Folded(NamedTuple):
    """What the ledger says.

    Attributes:
        decided: the objects that count once all is applied.
        current: the objects that count for readers.
        pending: what is decided and not applied, in order.
        at: how many records come before each of these.
        plans: what was decided.
        retiring: what is applied, and of which something that retires may be left.
        applied: the REPLACEs that are applied, whatever is left.
    """

    decided: tuple[str, ...]
    current: tuple[str, ...]
    pending: tuple[Plan, ...]
    at: tuple[int, ...]
    plans: tuple[Plan, ...]
    retiring: tuple[Plan, ...]
    applied: tuple[Plan, ...]


COMMITS = Plan("COMMIT", frozenset(), OLD)


@cache
def folded(slots: tuple[Record, ...]) -> Folded:
    """What these slots say, after the two COMMITs."""
    decided, current = [*sorted(OLD)], [*sorted(OLD)]
    pending, plans = [(-1, COMMITS)], list[Plan]()
    retiring, applied = list[Plan](), list[Plan]()
    for index, record in enumerate(slots):
        if isinstance(record, Plan):
            if record in {LATER, GIVE_UP}:  # instead of the merge
                pending = [each for each in pending if each[1] not in MERGES]
            decided = _after(decided, record)
            if record is GIVE_UP:
                decided += sorted(MERGE.retire)
            pending.append((index, record))
            plans.append(record)
        elif record == RETIRED:
            retiring = []
        else:
            done = [plan for at, plan in pending if at < record]
            pending = [each for each in pending if each[0] >= record]
            for plan in done:
                current = _after(current, plan)
            replaced = [plan for plan in done if plan.retire]
            retiring, applied = retiring + replaced, applied + replaced
    left, at = tuple(plan for _, plan in pending), tuple(at for at, _ in pending)
    found = tuple(decided), tuple(current), left, at, tuple(plans)
    return Folded(*found, tuple(retiring), tuple(applied))


def _after(objects: list[str], plan: Plan) -> list[str]:
    """The objects that count after a plan."""
    kept = [each for each in objects if each not in plan.retire]
    return kept + sorted(plan.new.difference(kept))
