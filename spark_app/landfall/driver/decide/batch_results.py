"""Judging what came back from a round: what may be committed, what is given up. Pure.

A topic partition is committed whole or not at all: one failed slice, one missing answer, too many
bad records, and it leaves the round before COMMIT with everything it uploaded, while the others go
on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.objects import Upload


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What to do with a round's results.

    Attributes:
        commit: slices to commit, sorted; each of their topic partitions is covered without a gap.
        discard: uploads to abort.
        failed: why a topic partition left the round.
    """

    commit: tuple[LandedSlice, ...]
    discard: tuple[Upload, ...]
    failed: Mapping[TopicPartition, LandfallError]


def check_results(
    planned: Iterable[Slice],
    results: Sequence[SliceResult],
    max_ratio: float,
    strangers: Mapping[TopicPartition, LandfallError] = MappingProxyType({}),
) -> CommitDecision:
    """Hold the results against the plan.

    Args:
        planned: the round's slices.
        results: what the tasks returned, in any order.
        max_ratio: of dead-lettered records among a topic partition's records of this round.
        strangers: topic partitions that must leave the round whatever came back, and why.
    """
    wanted: dict[TopicPartition, list[Slice]] = defaultdict(list)
    for piece in planned:
        wanted[piece.topic_partition].append(piece)
    answers: dict[TopicPartition, list[SliceResult]] = defaultdict(list)
    for result in results:
        answers[result.piece.topic_partition].append(result)

    faults = {
        tp: strangers.get(tp) or _fault(tp, pieces, answers[tp], max_ratio)
        for tp, pieces in wanted.items()
    }
    failed = {tp: fault for tp, fault in faults.items() if fault}
    landed = [result for result in results if isinstance(result, LandedSlice)]
    commit = sorted(
        (r for r in landed if not faults.get(r.piece.topic_partition, True)), key=lambda r: r.piece
    )
    discard = (r for r in landed if faults.get(r.piece.topic_partition, True))
    return CommitDecision(
        tuple(commit), tuple(o.upload for r in discard for o in r.objects), failed
    )


def _fault(
    tp: TopicPartition, pieces: list[Slice], answers: list[SliceResult], max_ratio: float
) -> LandfallError | None:
    failures = sorted(
        (a for a in answers if isinstance(a, FailedSlice)), key=lambda a: isinstance(a.error, Retry)
    )
    if failures:
        return failures[0].error  # a person's business comes before what may come right by itself
    if sorted(pieces) != sorted(a.piece for a in answers):
        return Retry(
            f"{tp}: planned {_list(pieces)}, but {_list([a.piece for a in answers])} came back"
        )
    landed = [a for a in answers if isinstance(a, LandedSlice)]
    bad = sum(a.dead_lettered for a in landed)
    records = bad + sum(a.landed + a.filtered for a in landed)
    if bad > max_ratio * records:
        first = next((error for a in landed for error in a.errors), "")
        offsets = f"[{min(pieces).offsets.start}, {max(pieces).offsets.end})"
        return Stalled(
            Reason.BAD_RECORDS,
            f"{tp}: {bad} of {records} records in {offsets} are bad, more than maxRatio {max_ratio:g} allows; first: {first}",
        )
    return None


def _list(pieces: Sequence[Slice]) -> str:
    return ", ".join(str(piece) for piece in sorted(pieces)) or "nothing"
