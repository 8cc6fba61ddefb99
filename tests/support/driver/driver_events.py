"""What happens to a driver's topics and batches in tests of the loop."""

from collections.abc import Callable, Sequence

from landfall.api.contract import LANE
from landfall.driver.core.runner import Bin
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.task_results import SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
)


def ledger_state(store: MemoryStore) -> State:
    return Lane(store, "fake", LANE).read()


def recreate(log: FakeLog, topic: str, end: int) -> None:
    """Delete a topic, create it again, and write into it."""
    log.ids[topic] += "-again"
    log.write(topic, end)


def after_next_batch(runner: FakeRunner, happens: Callable[[], object]) -> None:
    """Call ``happens`` while the next batch runs, after its tasks have read the log."""
    run = runner.run

    def run_then(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        runner.run = run  # type: ignore[method-assign]
        results = run(batch, bins)
        happens()
        return results

    runner.run = run_then  # type: ignore[method-assign]
