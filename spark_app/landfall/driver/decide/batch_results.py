"""Checks the results of a batch: which slices are committed, which uploads are aborted. Pure.

A topic partition is committed as a whole or not at all. If one of its slices failed, has no result,
or has too many bad records, the topic partition leaves the batch before COMMIT with everything it
uploaded. The other topic partitions of the batch are committed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from landfall.errors import LandfallError, NotTried, Reason, Retry, Stalled, cause
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.objects import Upload


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What to do with a batch's results.

    Attributes:
        commit: slices to commit, sorted; each of their topic partitions is covered without a gap.
        discard: uploads to abort.
        failed: topic partitions that left the batch, and why.
    """

    commit: tuple[LandedSlice, ...]
    discard: tuple[Upload, ...]
    failed: Mapping[TopicPartition, LandfallError]


def check_results(
    planned: Iterable[Slice],
    results: Sequence[SliceResult],
    max_ratio: float,
    excluded: Mapping[TopicPartition, LandfallError] = MappingProxyType({}),
) -> CommitDecision:
    """Compare the results with the plan.

    Args:
        planned: the batch's slices.
        results: what the tasks returned, in any order.
        max_ratio: the largest share of dead-lettered records among a topic partition's records of
            this batch.
        excluded: topic partitions that must leave the batch whatever their results are, and why.
    """
    slices_by_tp: dict[TopicPartition, list[Slice]] = defaultdict(list)
    for planned_slice in planned:
        slices_by_tp[planned_slice.topic_partition].append(planned_slice)
    results_by_tp: dict[TopicPartition, list[SliceResult]] = defaultdict(list)
    for result in results:
        results_by_tp[result.piece.topic_partition].append(result)

    errors = {
        tp: excluded.get(tp) or _error(tp, slices, results_by_tp[tp], max_ratio)
        for tp, slices in slices_by_tp.items()
    }
    failed = {tp: error for tp, error in errors.items() if error}
    landed = [result for result in results if isinstance(result, LandedSlice)]
    # A result of a topic partition that nobody planned counts as failed: it is never committed.
    commit = sorted(
        (r for r in landed if not errors.get(r.piece.topic_partition, True)), key=lambda r: r.piece
    )
    discard = (r for r in landed if errors.get(r.piece.topic_partition, True))
    return CommitDecision(
        tuple(commit), tuple(o.upload for r in discard for o in r.objects), failed
    )


def failure_messages(failed: Mapping[TopicPartition, LandfallError]) -> dict[str, str]:
    """A message for each reason why topic partitions of one batch failed, by metric label.

    A slice that was not tried is left out if others were: these say what happened.
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


def _error(
    tp: TopicPartition, slices: list[Slice], results: list[SliceResult], max_ratio: float
) -> LandfallError | None:
    failures = sorted(
        (r for r in results if isinstance(r, FailedSlice)), key=lambda r: isinstance(r.error, Retry)
    )
    if failures:
        return failures[0].error  # Stalled before Retry: no retry helps until somebody acts
    returned = [r.piece for r in results]
    if sorted(slices) != sorted(returned):
        return Retry(f"{tp}: planned {_list(slices)}, but the tasks returned {_list(returned)}")
    landed = [r for r in results if isinstance(r, LandedSlice)]
    bad = sum(r.dead_lettered for r in landed)
    records = bad + sum(r.landed + r.filtered for r in landed)
    if bad > max_ratio * records:
        first = next((error for r in landed for error in r.errors), "")
        offsets = f"[{min(slices).offsets.start}, {max(slices).offsets.end})"
        return Stalled(
            Reason.BAD_RECORDS,
            f"{tp}: {bad} of {records} records in {offsets} are bad, "
            f"more than maxRatio {max_ratio:g} allows; first: {first}",
        )
    return None


def _list(slices: Sequence[Slice]) -> str:
    return ", ".join(str(s) for s in sorted(slices)) or "nothing"
