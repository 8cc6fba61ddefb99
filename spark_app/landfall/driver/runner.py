"""Where a round's bins run: on Spark (``app.spark``), or on a twin in tests."""

from collections.abc import Sequence
from typing import Protocol

from landfall.api.contract import Workers
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import SliceResult
from landfall.task import Batch

Bin = tuple[Slice, ...]
"""Slices that one task reads one after another."""


class Runner(Protocol):
    """Runs bins side by side; called from several threads at once."""

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        ...

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """A result for every slice; never raises for what a task met."""
        ...

    def warm_up(self) -> None:
        """Return when a round could run at once.

        Raises:
            Retry: it could not.
        """
        ...

    def want(self, executors: int) -> None:
        """From now on there should be so many; ``settle`` sees to it."""
        ...

    def settle(self) -> Workers:
        """Come closer to what is wanted, and tell what there is; never raises, costs little, to be called often."""
        ...
