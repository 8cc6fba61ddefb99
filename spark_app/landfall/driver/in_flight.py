"""Rounds under way: what is due is planned and started, each in a thread of its own, and comes back to the driver's loop.

Used by the driver's thread alone. Nothing here commits: a flight that the loop takes out may be
named by a COMMIT from then on, and what is still here when the loop ends certainly is not.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from landfall.api.spec import ConsumerGroup
from landfall.driver.retry_backoff import RetryBackoff
from landfall.driver.runner import Runner
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.plan import Backlog, Capacity, Policy, Round, Sizes, plan
from landfall.task import Batch


@dataclass
class InFlightBatch:
    """A round under way."""

    batch: Batch
    round: Round
    started: datetime
    results: Future[list[SliceResult]]


class InFlightBatches:
    """Plans and starts rounds, and has them until they are taken out.

    Attributes:
        policy: when records are due.
        setbacks: topic partitions that failed, and wait.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        runner: Runner,
        name: Callable[[], str],
        wake: Callable[[], object],
    ) -> None:
        """``name`` gives batches their names; ``wake`` is called, from any thread, when a round is back."""
        self._group, self._runner, self._name, self._wake = group, runner, name, wake
        self._tuning = group.spec.tuning
        self._pool = ThreadPoolExecutor(self._tuning.max_rounds, thread_name_prefix="round")
        self._flights: dict[str, InFlightBatch] = {}
        self._sizes = Sizes()
        self.policy = Policy.of(group.spec.upload_policy)
        self.backoff = RetryBackoff()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._flights)

    @property
    def is_full(self) -> bool:
        """Whether there may be no more of them."""
        return len(self._flights) >= self._tuning.max_rounds

    def in_flight(self) -> set[TopicPartition]:
        """Topic partitions that are being landed now."""
        return {
            tp
            for batch_in_flight in self._flights.values()
            for tp in batch_in_flight.round.topic_partitions
        }

    def start(
        self,
        backlogs: Sequence[Backlog],
        stalled_partitions: Collection[TopicPartition],
        now: datetime,
        *,
        flush: bool,
    ) -> None:
        """Start rounds for what is due, or with ``flush`` for all there is, except of topic partitions that stand still."""
        while not self.is_full:
            busy = self.in_flight() | self.backoff.waiting(now) | set(stalled_partitions)
            capacity = Capacity(
                self._runner.slots, self._tuning.max_round_bytes, busy, self.backoff.isolated
            )
            todo = plan(backlogs, self.policy, self._sizes, capacity, flush=flush)
            if todo is None:
                return
            batch = Batch(self._group, self._name())
            results = self._pool.submit(self._runner.run, batch, todo.bins)
            self._flights[batch.token] = InFlightBatch(batch, todo, now, results)
            results.add_done_callback(lambda _: self._wake())

    def back(self) -> list[InFlightBatch]:
        """Those that are back."""
        return [
            batch_in_flight
            for batch_in_flight in self._flights.values()
            if batch_in_flight.results.done()
        ]

    def remove(self, batch_in_flight: InFlightBatch) -> None:
        """It is nobody's to give up any more: a COMMIT may name it."""
        del self._flights[batch_in_flight.batch.token]

    def learn(self, landed: Iterable[LandedSlice]) -> None:
        """Know what was landed, for the next plans."""
        self._sizes = self._sizes.learn(landed)

    def stop(self) -> list[list[SliceResult]]:
        """Start no more, and return what came back and nobody took out; what still runs is left to the next sweep."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        back = (batch_in_flight.results for batch_in_flight in self.back())
        return [results.result() for results in back if not results.cancelled()]
