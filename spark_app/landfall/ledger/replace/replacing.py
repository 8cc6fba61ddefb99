"""How REPLACE changes a lane's state: objects replace other objects. Pure.

What the objects are is in a list next to the ledger, so that a state stays small. The list was made
when everything up to a slot was applied, and may be out of date. A COMMIT since then conflicts
with nothing, as what it decides is not among what retires. Another REPLACE conflicts if it concerns
the same folder: it may have retired the same objects, and their rows would count twice. So a state
remembers the last folders that were replaced, and refuses lists that do not know these REPLACEs as
applied. To have read them is not enough: what they retire counts until they are applied.

A REPLACE *instead* of one that is not applied gives that one up: with an empty list, the old
objects count as before. It is made by that one's slot, so until it is applied, no other REPLACE may
touch anything in its folders. Or it is that one decided *again*, with the same list: what came in
between is applied without it, and it counts once it is applied itself.

A backfill, and what undoes it, change which rows whole ranges have. Two of them may have no folder
in common, and still land the same records twice: ``landfall.ledger.replace.rewriting``. Whether
what an undoing takes away is still all there, the ledger up to its plan shows, which a state does
not have (``landfall.driver.decide.undoing``): the fold sees to it that nothing has changed since
the plan.

That also keeps names apart. A new object's name has the slot that its list was made by
(``object_names.Origin.plan``), and of two REPLACEs in a folder the later one was made when the
earlier was applied.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from landfall.ledger.decisions import start_of, topic_partition
from landfall.ledger.entries import Purpose
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.records import Replace, Retired
from landfall.ledger.replace import rewriting
from landfall.ledger.replace.rewriting import Rewritten
from landfall.ledger.state import PendingReplacement, State

MAX_FOLDERS = 10_000
"""How many folders a REPLACE concerns at most, and how many a state remembers."""
MAX_OBJECTS = 100_000
"""How many objects a REPLACE names at most."""


def replace_objects(state: State, record: Replace) -> State:
    """The state in which the objects of a list are decided, and the old objects are to retire.

    Raises:
        ValueError: the list is older than another REPLACE of the same folder, or too large, or rows
            are lost or made up.
    """
    _check_size(record)
    _check_rows(record)
    slot, before = record.header.seq, state.replacing.get(record.instead)
    if record.again and before is None:
        raise ValueError(f"decides slot {record.instead} again, which is no REPLACE to be applied")
    if record.instead != -1 and before is None:
        raise ValueError(f"is instead of slot {record.instead}, which is no REPLACE to be applied")
    if record.instead != -1 and record.instead <= record.header.applied_through:
        raise ValueError(f"is instead of the REPLACE of slot {record.instead}, which is applied")
    if before and record.again:
        _check_again(state, record, before)
    else:
        _check_plan(state, record)
    pending = {s: replacement for s, replacement in state.replacing.items() if s != record.instead}
    after = replace(
        state,
        replacing={**pending, slot: _pending(state, record, before)},
        replaced={**state.replaced, **dict.fromkeys(record.folders, slot)},
        rewritten=_rewritten(state, record, before),
    )
    return _forgotten(after)


def _pending(
    state: State, record: Replace, before: PendingReplacement | None
) -> PendingReplacement:
    if before and record.again:
        return before
    given_up = (*before.given_up, before.listed) if before else ()
    ranges = record.slices if _rewrites(record) else ()
    known = tuple(sorted(rewriting.known_of(state.rewritten, ranges).items()))
    return PendingReplacement(
        listed=record.listed,
        given_up=given_up,
        retires_later=record.retires_later,
        duplicates=record.duplicates,
        before=before.before if before else known,
    )


def forget_retired(state: State, record: Retired) -> State:
    """The state in which nothing is left of what retires by some REPLACEs.

    Raises:
        ValueError: one of them is not applied, or nothing was left of it before.
    """
    slots = [*record.slots]
    if not slots or sorted({*slots}) != slots:
        raise ValueError("slots of REPLACEs are not sorted, or there are none")
    if unknown := {*slots} - state.retiring.keys():
        raise ValueError(f"names what has retired by slot {min(unknown)}, which retires nothing")
    left = {
        slot: replacement
        for slot, replacement in state.retiring.items()
        if slot not in record.slots
    }
    return replace(state, retiring=left)


def _rewrites(record: Replace) -> bool:
    """Return whether ranges have other rows because of it, and not because of another slot."""
    return record.instead == -1 and changes_rows(record.purpose, record.undoes)


def _rewritten(
    state: State, record: Replace, before: PendingReplacement | None
) -> rewriting.ByTopicPartition:
    slot, plan = record.header.seq, record.read_through
    if record.again:
        return rewriting.decided_again(state.rewritten, record.instead, slot)
    if before and not record.listed.objects:  # the old objects stay, with their names
        return rewriting.restored(state.rewritten, record.instead, dict(before.before))
    if before:  # former software: copies of them, under names of this plan
        none = Rewritten(OffsetRange(0, 0), slot, plan, 0)
        return rewriting.given_up(state.rewritten, record.instead, none)
    if not _rewrites(record):
        return state.rewritten
    new = {
        slice_.topic_partition: Rewritten(
            slice_.offsets, slot, plan, state.members[slice_.topic_partition].generation
        )
        for slice_ in record.slices
    }
    return rewriting.rewrite(state.rewritten, new)


def changes_rows(purpose: Purpose, undoes: int) -> bool:
    """Return whether a REPLACE changes the rows of its ranges, and not only their objects."""
    return purpose is Purpose.BACKFILL or undoes != -1


def _check_again(state: State, record: Replace, before: PendingReplacement) -> None:
    """Raise ``ValueError`` if a REPLACE is not the one that it decides again."""
    same = record.listed == before.listed and record.duplicates == before.duplicates
    if not (same and record.retires_later and before.retires_later):
        raise ValueError(f"decides slot {record.instead} again, and is another one")
    concerned = {folder for folder, slot in state.replaced.items() if slot == record.instead}
    if not concerned <= {*record.folders}:
        raise ValueError(f"decides slot {record.instead} again, and not in {min(concerned)}")


def _check_plan(state: State, record: Replace) -> None:
    _check_undone(record)
    if record.instead != -1 and record.purpose is Purpose.BACKFILL:
        raise ValueError(f"is a backfill instead of slot {record.instead}")
    read, applied = record.read_through, max(state.applied_through, record.header.applied_through)
    if record.instead != -1:
        if read != record.instead:
            raise ValueError(f"is instead of slot {record.instead}, and made by slot {read}")
        return
    if read > applied:
        raise ValueError(f"made by slot {read}, and everything is applied up to slot {applied}")
    if stale := why_out_of_date(state, read, record.folders):
        raise ValueError(stale)
    if changes_rows(record.purpose, record.undoes) and (
        stale := why_rows_changed(state, read, record.slices)
    ):
        raise ValueError(stale)


def _check_undone(record: Replace) -> None:
    undone = max(record.undoes, record.unmerges)
    if undone != -1 and (record.purpose is not Purpose.UNDO or record.instead != -1):
        raise ValueError(f"undoes slot {undone}, and is for {record.purpose}")
    if undone >= record.header.seq or min(record.undoes, record.unmerges) != -1:
        raise ValueError(f"undoes slot {record.undoes} and slot {record.unmerges}")


def _check_size(record: Replace) -> None:
    if len(record.folders) > MAX_FOLDERS:
        raise ValueError(f"replaces objects in {len(record.folders)} folders, over {MAX_FOLDERS}")
    least = 0 if record.instead != -1 else 1
    if not least <= record.listed.retired + record.listed.objects <= MAX_OBJECTS:
        raise ValueError(f"replaces {record.listed.retired} objects by {record.listed.objects}")


def _check_rows(record: Replace) -> None:
    """Raise ``ValueError`` if a merge loses rows, or has some that were not there."""
    listed = record.listed
    is_merge = record.purpose is Purpose.COMPACT
    if record.duplicates < 0 or (record.duplicates and not is_merge):
        raise ValueError(f"leaves out {record.duplicates} duplicates")
    if is_merge and listed.rows + record.duplicates != listed.retired_rows:
        raise ValueError(
            f"merges objects of {listed.retired_rows} rows into such of {listed.rows}, and leaves "
            f"out {record.duplicates} duplicates"
        )


def why_out_of_date(state: State, read_through: int, folders: Iterable[str]) -> str:
    """Why a plan is too old that was made by what was applied up to a slot; empty if it is not."""
    if read_through < state.replaced_known_from:
        return (
            f"replaces what was applied by slot {read_through}, and before slot "
            f"{state.replaced_known_from} it is not known what was replaced since"
        )
    for folder in folders:
        last = state.replaced.get(folder, -1)
        if last > read_through:
            return (
                f"replaces what was applied by slot {read_through}, but objects in {folder} were "
                f"replaced in slot {last}"
            )
    return ""


def why_rows_changed(state: State, read_through: int, slices: Sequence[Slice]) -> str:
    """Why ranges must not be landed again, or be as before; empty if they may.

    Args:
        state: of the lane.
        read_through: the slot up to which everything was applied for who planned it.
        slices: the ranges, sorted.
    """
    for slice_ in slices:
        tp, end = slice_.topic_partition, slice_.offsets.end
        if tp not in state.checkpoint or end > state.checkpoint[tp]:
            return f"{slice_} is not landed, or {tp} has left the lane"
    for slice_, last in rewriting.touched(state.rewritten, slices):
        if last.slot > read_through:
            return f"of {slice_}, {last.offsets} was landed again in slot {last.slot}"
    # Other moves of rows between objects are rare, but for records that no list retires.
    if state.changed_seq > read_through and _may_have_moved(state, slices):
        return (
            f"replaces what was applied by slot {read_through}, and in slot {state.changed_seq} a "
            "topic partition entered or left, or dead letters were replayed"
        )
    return ""


def _may_have_moved(state: State, slices: Sequence[Slice]) -> bool:
    """Return whether a range entered before, or has dead letters that were replayed."""
    offsets = {slice_.topic_partition: slice_.offsets for slice_ in slices}
    if offsets.keys() & state.retired.keys():
        return True
    replayed = ((topic_partition(key), start_of(key)) for key in state.replayed)
    return any(tp in offsets and start in offsets[tp] for tp, start in replayed)


def _forgotten(state: State) -> State:
    """The state without the folders that were replaced first, if there are too many."""
    if (extra := len(state.replaced) - MAX_FOLDERS) <= 0:
        return state
    known_from = sorted(state.replaced.values())[extra - 1]
    kept = {folder: slot for folder, slot in state.replaced.items() if slot > known_from}
    return replace(state, replaced=kept, replaced_known_from=known_from)
