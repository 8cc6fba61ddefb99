"""Drivers with one rule of the loop broken: what must go wrong with them shows that the rule, and
its test, are needed.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import partial
from itertools import chain

from landfall import ledger
from landfall.driver.decide.batch_results import check_results
from landfall.driver.in_flight import InFlightBatch
from landfall.driver.loop import Driver
from landfall.errors import LandfallError, Retry
from landfall.lane import Read
from landfall.ledger.offsets import TopicPartition


class CompletesFirst(Driver):
    """Objects become visible before the ledger says so."""

    def _land(self, flight: InFlightBatch, _: Mapping[TopicPartition, Retry], __: datetime) -> None:
        verdict = check_results(flight.round.slices, flight.results.result(), 1.0)
        for landed in chain.from_iterable(s.objects for s in verdict.commit):
            self.parts.store.complete(landed.upload)
        state = self._append(
            partial(ledger.Commit, token=flight.batch.token, slices=verdict.commit)
        )
        self._completer.apply(state.seq, ())


class PlansBeforeRecovery(Driver):
    """Nothing that a predecessor committed is rolled forward."""

    def _recover(self) -> None:
        """Trust that everything committed is visible."""


class GivesUpInDoubt(Driver):
    """What was uploaded is given up on any error of the COMMIT that names it."""

    def _append_or_give_up(
        self, commit: Callable[..., ledger.Record], flight: InFlightBatch
    ) -> ledger.State:
        try:
            return self._append(commit)
        except LandfallError:
            self._housekeeping.abort_results(flight.results.result())
            raise


class SweepsThoughFenced(Driver):
    """Open uploads are swept without a look at the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._housekeeping._is_fenced = lambda: False


class TakesItsOwnForAnothers(Driver):
    """A look that finds any record after the last ends the driver, be it its own, whose answer is
    not there yet.
    """

    def look(self, read: Read) -> None:
        if read(self.writer.lane.slot_key(self.writer.state.seq + 1)):
            self._overtaken = "there is a record"


class LandsANamesake(Driver):
    """Nobody asks which topic it was that was read."""

    def _strangers(self, _: Collection[TopicPartition]) -> Mapping[TopicPartition, Retry]:
        return {}
