"""Undoes a REPLACE: what retired comes back, and what took its place retires.

A generator, as ``landfall.driver.replay``: it yields what it waits for, and the thread that appends
to the lane sends it the result.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from landfall.api.values import plural
from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.driver.planned_replacement import PlannedReplacement
from landfall.driver.replay import Steps
from landfall.driver.restoring import Restoring, read_list
from landfall.ledger import Decision, Replace, State, retired_names
from landfall.ledger.replacement_lists import Replaced, RetiringObject
from landfall.ledger.replacing import changes_rows
from landfall.ledger.rewriting import of_slot
from landfall.store.probe import probe_replacing


@dataclass(frozen=True)
class ReplacingEffects:
    """What an undoing or a promotion does to the lane, on the thread that appends.

    Attributes:
        why_not: why a plan must not be recorded now; empty if it may be.
        record: appends the REPLACE of a plan, and returns the state after it.
        pool: runs the rest beside that thread.
        copiers: make the copies.
    """

    why_not: Callable[[PlannedReplacement], str]
    record: Callable[[PlannedReplacement, Decision], State]
    pool: Executor
    copiers: Executor


def undo(
    request: UndoRequest, restoring: Restoring, decision: Decision, effects: ReplacingEffects
) -> Steps:
    """Bring back what the REPLACE in a slot has retired.

    Raises:
        Fenced: another driver has opened the lane.
        LandfallError: the store does not answer, or what was kept has expired. Nothing is recorded.
    """
    slot = request.slot
    found: tuple[Replace, Replaced] | str = yield effects.pool.submit(_found, restoring, slot)
    if isinstance(found, str):
        return Answer(Outcome.REFUSED, message=found)
    record, listed = found
    if refusal := _refusal(restoring.state, record, listed):
        return Answer(Outcome.REFUSED, message=refusal)
    text = (
        f"REPLACE: {plural(len(listed.retire), 'object')} back, instead of "
        f"{plural(len(listed.objects), 'object')}"
    )
    if request.dry_run:
        return Answer(Outcome.DRY_RUN, (text,))
    yield effects.pool.submit(probe_replacing, restoring.store, restoring.token)
    retire = [RetiringObject(slot, new.landed) for new in listed.objects]
    group, lane = restoring.lane.group, restoring.lane.name
    plan: PlannedReplacement = yield effects.pool.submit(
        restoring.planned,
        retire,
        listed.retire,
        lambda key: retired_names.retired_key(group, lane, slot, key),
        effects.copiers,
    )
    if changes_rows(record.purpose, record.undoes):
        plan = replace(plan, undoes=slot, slices=record.slices)
    if refusal := effects.why_not(plan):
        for upload in plan.uploads:
            restoring.store.abort(upload.key, upload.upload_id)
        return Answer(Outcome.FAILED, message=f"{refusal}: try again")
    after = effects.record(plan, decision)
    return Answer(Outcome.DONE, (text,), f"recorded in slot {after.seq}")


def _found(restoring: Restoring, slot: int) -> tuple[Replace, Replaced] | str:
    """The REPLACE in a slot and its list, or why there is none."""
    try:
        return read_list(restoring.lane, restoring.state, slot)
    except ValueError as error:
        return str(error)


def _refusal(state: State, record: Replace, listed: Replaced) -> str:
    slot = record.header.seq
    if record.instead != -1:
        return (
            f"the REPLACE in slot {slot} took the place of the one in slot {record.instead}, whose "
            "uploads were lost, and changed nothing: there is nothing to undo"
        )
    if slot > state.applied_through:
        return f"the REPLACE in slot {slot} is not done yet: try again"
    for folder in sorted(listed.folders):
        last = state.replaced.get(folder, -1)
        if last > slot:
            return f"objects in {folder} were replaced again in slot {last}: undo that first"
        if last < slot:
            return (
                f"the ledger has replaced objects in too many folders since slot {slot} to tell "
                "whether any of these were replaced again"
            )
    return _why_rows_differ(state, record, listed)


def _why_rows_differ(state: State, record: Replace, listed: Replaced) -> str:
    """Why the rows of a backfill are not those any more that it has landed."""
    if not changes_rows(record.purpose, record.undoes):
        return ""
    if of_slot(state.rewritten, record.header.seq) != [*record.slices]:
        return (
            "since then, some of the ranges were landed again, or have left the lane: undo the "
            "later backfill first, or land them again by another one"
        )
    replayed = {new.landed.upload.key for new in listed.objects} & state.replayed
    if replayed:
        return (
            f"dead letters of {min(replayed)} were replayed since, and both would have their "
            "records: land the ranges again by another backfill"
        )
    return ""
