"""Ledgers of ``tests.model.replacing``: what REPLACEs decide, and what counts after them."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

ROWS: Mapping[str, frozenset[int]] = {
    "old 1": frozenset({1}),
    "old 2": frozenset({2}),
    "merged 1": frozenset({1}),
    "merged 2": frozenset({2}),
    "again": frozenset({1, 2}),
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
AGAIN = Plan("REPLACE again, instead of the merge", OLD | MERGE.new, frozenset({"again"}))
CORRECT = Plan("REPLACE by corrected", OLD, frozenset({"corrected"}))
UNDO = Plan("REPLACE, undoing the merge", MERGE.new, BACK)
LATE = Plan("COMMIT of a late row", frozenset(), frozenset({"late"}))
PLANS = (MERGE, AGAIN, CORRECT, UNDO, LATE)

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
        pending: what is decided and not applied.
        plans: what was decided.
        retiring: what is applied, and of which something that retires may be left.
        applied: the REPLACEs that are applied, whatever is left.
    """

    decided: tuple[str, ...]
    current: tuple[str, ...]
    pending: tuple[Plan, ...]
    plans: tuple[Plan, ...]
    retiring: tuple[Plan, ...]
    applied: tuple[Plan, ...]


COMMITS = Plan("COMMIT", frozenset(), OLD)


@cache
def folded(slots: tuple[Record, ...]) -> Folded:
    """What these slots say, after the two COMMITs."""
    decided, current = [*sorted(OLD)], [*sorted(OLD)]
    pending, plans = [COMMITS], list[Plan]()
    retiring, applied = list[Plan](), list[Plan]()
    for record in slots:
        if isinstance(record, Plan):
            decided = [each for each in decided if each not in record.retire] + sorted(record.new)
            if record is AGAIN:
                pending.remove(MERGE)
            pending.append(record)
            plans.append(record)
        elif record == RETIRED:
            retiring = []
        else:
            replaced = [plan for plan in pending if plan.retire]
            retiring, applied = retiring + replaced, applied + replaced
            pending, current = [], [*decided]
    found = tuple(decided), tuple(current), tuple(pending), tuple(plans)
    return Folded(*found, tuple(retiring), tuple(applied))
