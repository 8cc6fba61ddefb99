"""Checks the results of a batch: which slices are committed, which uploads are aborted. Pure.

Of each topic partition the slices are committed that adjoin from the start of its plan. A task may
end a slice before its planned end, and a slice may fail: then the slices after it leave the batch
before COMMIT with everything they uploaded, and are planned again. A topic partition with too many
bad records, or whose topic is another one now, leaves the batch as a whole. The other topic
partitions of the batch are committed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from landfall.errors import LandfallError, NotTried, Retry, cause
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.objects import Upload

Refusal = Callable[[TopicPartition, Sequence[LandedSlice]], LandfallError | None]


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The decision on a batch's results.

    Attributes:
        commit: slices to commit, sorted; each of their topic partitions is covered without a gap.
        discard: uploads to abort.
        failed: topic partitions that were not committed in full because of an error, and why.
    """

    commit: tuple[LandedSlice, ...]
    discard: tuple[Upload, ...]
    failed: Mapping[TopicPartition, LandfallError]


def check_results(
    planned: Iterable[Slice],
    results: Sequence[SliceResult],
    refuse: Refusal = lambda *_: None,
    excluded: Mapping[TopicPartition, LandfallError] = MappingProxyType({}),
) -> CommitDecision:
    """Compare the results with the plan.

    Args:
        planned: the batch's slices.
        results: what the tasks returned, in any order.
        refuse: returns why slices of a topic partition that could be committed must not be.
        excluded: topic partitions that must leave the batch regardless of their results, and why.
    """
    planned_by_tp, results_by_tp = (
        _by_topic_partition(planned),
        defaultdict[TopicPartition, list[SliceResult]](list),
    )
    for result in results:
        results_by_tp[result.piece.topic_partition].append(result)
    commit: list[LandedSlice] = []
    failed: dict[TopicPartition, LandfallError] = {}
    for tp, slices in planned_by_tp.items():
        prefix, error = _prefix(tp, slices, results_by_tp[tp])
        if refusal := excluded.get(tp) or refuse(tp, prefix):
            prefix, error = [], refusal
        commit += prefix
        if error:
            failed[tp] = error
    kept = {id(landed) for landed in commit}
    # Also a result of a topic partition that was not planned: it is never committed.
    discard = (r for r in results if isinstance(r, LandedSlice) and id(r) not in kept)
    return CommitDecision(
        tuple(sorted(commit, key=lambda landed: landed.piece)),
        tuple(o.upload for r in discard for o in r.objects),
        failed,
    )


def _by_topic_partition(planned: Iterable[Slice]) -> dict[TopicPartition, list[Slice]]:
    by_tp: dict[TopicPartition, list[Slice]] = {}
    for slice_ in sorted(planned):
        by_tp.setdefault(slice_.topic_partition, []).append(slice_)
    return by_tp


def _prefix(
    tp: TopicPartition, slices: list[Slice], results: list[SliceResult]
) -> tuple[list[LandedSlice], LandfallError | None]:
    """Return the landed slices that adjoin from the plan's start, and what ended them, if any."""
    by_start = {result.piece.offsets.start: result for result in results}
    planned_starts = {slice_.offsets.start for slice_ in slices}
    if len(by_start) < len(results) or not by_start.keys() <= planned_starts:
        return [], _contradiction(tp, slices, results)
    prefix: list[LandedSlice] = []
    for slice_ in slices:
        result = by_start.get(slice_.offsets.start)
        if isinstance(result, FailedSlice):
            return prefix, _worst(results)
        if result is None or not 0 < len(result.piece.offsets) <= len(slice_.offsets):
            return prefix, _contradiction(tp, slices, results)
        prefix.append(result)
        if result.piece != slice_:
            return prefix, None
    return prefix, None


def _worst(results: list[SliceResult]) -> LandfallError:
    """Stalled before Retry: no retry helps until a user acts. NotTried last: it explains little."""
    errors = [r.error for r in results if isinstance(r, FailedSlice)]
    return min(errors, key=lambda e: (isinstance(e, Retry), isinstance(e, NotTried)))


def _contradiction(tp: TopicPartition, slices: list[Slice], results: list[SliceResult]) -> Retry:
    returned = _list([result.piece for result in results])
    return Retry(f"{tp}: planned {_list(slices)}, but the tasks returned {returned}")


def failure_messages(failed: Mapping[TopicPartition, LandfallError]) -> dict[str, str]:
    """Return a message for each reason why topic partitions of one batch failed, by metric label.

    A slice that was not tried is left out if other slices were: their errors explain what happened.
    """
    tried = {tp: e for tp, e in failed.items() if not isinstance(e, NotTried)} or failed
    by_reason: dict[str, list[LandfallError]] = defaultdict(list)
    for _, error in sorted(tried.items()):
        by_reason[cause(error, "RoundFailed")].append(error)
    return {
        reason: str(errors[0])
        if len(errors) == 1
        else f"{len(errors)} topic partitions of a batch failed, the first: {errors[0]}"
        for reason, errors in by_reason.items()
    }


def _list(slices: Sequence[Slice]) -> str:
    return ", ".join(str(s) for s in sorted(slices)) or "nothing"
