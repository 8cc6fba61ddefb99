"""Decide whether a driver has landed what it was asked to land. Pure."""

from collections.abc import Collection, Mapping

from landfall.ledger.offsets import Checkpoint, TopicPartition


def reached(
    checkpoint: Checkpoint, targets: Mapping[TopicPartition, int]
) -> frozenset[TopicPartition]:
    """Topic partitions of ``targets`` whose records below the target offset are all landed."""
    return frozenset(
        tp for tp, end in targets.items() if tp in checkpoint and checkpoint[tp] >= end
    )


def has_caught_up(
    checkpoint: Checkpoint,
    targets: Mapping[TopicPartition, int] | None,
    stalled: Collection[TopicPartition],
) -> bool:
    """Return whether everything below ``targets`` is landed, except stalled topic partitions.

    ``targets`` is None until the first look at the log; nothing has caught up then.
    """
    if targets is None:
        return False
    landed = reached(checkpoint, targets)
    return all(tp in landed or tp in stalled for tp in targets)
