"""Where the bins of a batch run: on Spark (``landfall.driver.spark``), or on a fake in tests."""

from collections.abc import Sequence
from typing import Protocol

from landfall.api.contract import Workers
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import SliceResult
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare

Bin = tuple[Slice, ...]
"""Slices that one task reads one after another."""


class BinRunner(Protocol):
    """Runs bins in parallel; called from several threads at once."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """Return a result for every slice; a task's error is a ``FailedSlice``, never raised."""
        ...

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        """Read objects back, and return the ones that do not hold their rows.

        Raises:
            Retry: the store does not answer, or a task died.
        """
        ...

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        """Merge objects, a task for each share, and return the result of each merge.

        Raises:
            Retry: a task died, or none can run.
        """
        ...

    def warm_up(self) -> None:
        """Return when a batch could start at once.

        Raises:
            Retry: no task can run.
        """
        ...

    def want(self, executors: int) -> None:
        """Set the desired number of executors; ``settle`` brings it about."""
        ...

    def settle(self) -> Workers:
        """Bring the executors closer to the desired number, and return how many there are.

        Cheap, and never raises: it is called once in every pass.
        """
        ...
