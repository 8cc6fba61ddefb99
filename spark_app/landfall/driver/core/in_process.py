"""A runner without Spark: tasks run in this process, one after another."""

from collections.abc import Sequence

from landfall.api.contract import Workers
from landfall.driver.core.runner import Bin
from landfall.ledger.task_results import SliceResult
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare
from landfall.task.worker import land_bin, merge, read_back


class InProcessRunner:
    """Runs a batch where it is asked for: enough for what is small, such as a replay."""

    slots = 1

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """See ``Runner``."""
        return [result for slices in bins for result in land_bin(batch, slices)]

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        """See ``Runner``."""
        return [result for share in shares for result in read_back(share)]

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        """See ``Runner``."""
        return [result for share in shares for result in merge(share)]

    def warm_up(self) -> None:
        """There is nothing to start."""

    def want(self, executors: int) -> None:
        """Ignored: there is one process."""

    def settle(self) -> Workers:
        """One process, with one task at a time."""
        return Workers(1, 1, self.slots)
