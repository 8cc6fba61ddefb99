"""Whether a driver has landed what it was asked to land. Pure."""

from collections.abc import Mapping

from landfall.ledger.offsets import Checkpoint, TopicPartition


def reached(
    checkpoint: Checkpoint, targets: Mapping[TopicPartition, int]
) -> frozenset[TopicPartition]:
    """Topic partitions of ``targets`` whose records below the target offset are all landed."""
    return frozenset(
        tp for tp, end in targets.items() if tp in checkpoint and checkpoint[tp] >= end
    )
