"""Drivers with one rule of the loop broken.

What goes wrong with them shows that the rule, and its test, are needed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

from msgspec import structs

from landfall import ledger
from landfall.driver.decide.batch_results import check_results
from landfall.driver.landing.commits import BatchCommitter
from landfall.driver.landing.in_flight import InFlightBatch
from landfall.driver.landing.lost_uploads import LostUploads
from landfall.driver.landing.recovery import LostSlice, Remade
from landfall.driver.landing.segment_rolling import SegmentRolling
from landfall.driver.process.loop import Driver
from landfall.driver.process.passes import BatchStarts, DriverParts
from landfall.driver.requests.replay import Landed, Replayer
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.lane import Read
from landfall.ledger import Rolled
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.task.dead_letter_reader import DeadLetters


class CompletesFirst(Driver):
    """Objects become visible before the COMMIT is in the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _CompletesFirst


class _CompletesFirst(BatchCommitter):
    def _commit(
        self, batch: InFlightBatch, _: Mapping[TopicPartition, LandfallError], __: datetime
    ) -> None:
        decision = check_results(batch.planned.slices, batch.results.result())
        for landed in chain.from_iterable(s.objects for s in decision.commit):
            self.deps.store.complete(landed.upload)
        commit = partial(ledger.Commit, token=batch.batch.token, slices=decision.commit)
        state = self.append(commit)
        self.background.completer.apply(state.seq, ())


class PlansBeforeRecovery(Driver):
    """Nothing that a predecessor committed is rolled forward."""

    def _recover(self) -> None:
        """Trust that everything committed is visible."""


class GivesUpInDoubt(Driver):
    """A COMMIT that the store refuses is given up, and the uploads that it names are aborted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _GivesUpInDoubt
        self.writer._on_retry = _give_up


def _give_up(error: Retry) -> None:
    raise Stalled(Reason.STORE_DENIED, str(error))


class _GivesUpInDoubt(BatchCommitter):
    def _append_or_abort(
        self, commit: Callable[..., ledger.Record], batch: InFlightBatch
    ) -> ledger.State:
        try:
            return self.append(commit)
        except LandfallError:
            self.background.housekeeping.abort_results(batch.results.result())
            raise


class SweepsThoughFenced(Driver):
    """Open uploads are aborted without a look at the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._housekeeping._first_sweep._is_fenced = lambda: False


class ListsWhileItLands(Driver):
    """Uploads are aborted whenever they were listed, even after a batch has started."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._housekeeping.end_first_listing = lambda: None  # type: ignore[method-assign]

    def _list_fenced_uploads(self) -> None:
        now = self.deps.clock()
        uploads = self._completer.protected_uploads
        self._housekeeping.begin_first_sweep(self._store_upkeep.is_ours, uploads, now)


class TakesItsOwnForAnothers(Driver):
    """A check ends the driver if it finds any record after the last one.

    The record may be the driver's own, whose answer is still under way.
    """

    def check_owner(self, read: Read) -> None:
        if read(self.writer.lane.next_key(self.writer.state)):
            self._newer_owner = "there is a record"


class WaitsForEveryLeader(Driver):
    """One Kafka partition without a leader makes all others wait."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._starts.__class__ = _WaitsForEveryLeader


class _WaitsForEveryLeader(BatchStarts):
    def _start(self, now: datetime) -> None:
        if not self.parts.deps.observer.view.unavailable:
            super()._start(now)


class NeverComesBack(Driver):
    """A Kafka partition that was once without a leader stays blocked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._parts.__class__ = _NeverComesBack


class _NeverComesBack(DriverParts):
    def stalled_partitions(self) -> Mapping[TopicPartition, Stalled]:
        self._once = {**vars(self).get("_once", {}), **super().stalled_partitions()}
        return self._once


class TakesShortForWhole(Driver):
    """A result that ends before its slice does is committed as if it were the whole slice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _TakesShortForWhole


class _TakesShortForWhole(BatchCommitter):
    def _commit(
        self, batch: InFlightBatch, recreated: Mapping[TopicPartition, LandfallError], now: datetime
    ) -> None:
        planned = {(s.topic_partition, s.offsets.start): s for s in batch.planned.slices}
        results = Future[list[SliceResult]]()
        results.set_result([_stretched(r, planned) for r in batch.results.result()])
        super()._commit(replace(batch, results=results), recreated, now)


def _stretched(
    result: SliceResult, planned: Mapping[tuple[TopicPartition, int], Slice]
) -> SliceResult:
    whole = planned.get((result.piece.topic_partition, result.piece.offsets.start))
    if whole is None or not isinstance(result, LandedSlice):
        return result
    more = len(whole.offsets) - len(result.piece.offsets)
    return structs.replace(result, piece=whole, invisible=result.invisible + more)


class TakesAnyRange(Driver):
    """Whatever range a task returns is committed, also if it does not begin where it must."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _TakesAnyRange


class _TakesAnyRange(BatchCommitter):
    def _commit(
        self, batch: InFlightBatch, recreated: Mapping[TopicPartition, LandfallError], now: datetime
    ) -> None:
        returned = replace(
            batch.planned, bins=(tuple(result.piece for result in batch.results.result()),)
        )
        super()._commit(replace(batch, planned=returned), recreated, now)


class DeletesOneTooMany(Driver):
    """With the slots that a segment holds, the one after them is deleted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rolling.__class__ = _DeletesOneTooMany


class _DeletesOneTooMany(SegmentRolling):
    def _finish(self, rolled: Rolled | None, now: datetime, applied_through: int) -> None:
        super()._finish(rolled, now, applied_through)
        if rolled and not self._may_delete:
            lane = self.writer.lane
            lane.slots.delete_slots([lane.slot_key(rolled.epoch + 1, 0)])


class LandsANamesake(Driver):
    """Nobody asks which topic the records were read from."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _LandsANamesake


class _LandsANamesake(BatchCommitter):
    def recreated_topics(
        self, _: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, LandfallError]:
        return {}


class CompletesReplaysFirst(Driver):
    """Objects of a replay become visible before the REPLAY is in the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        executor = self._requests.executor
        replayer = executor.replayer
        executor.replayer = _CompletesReplaysFirst(
            replayer.group, replayer.store, replayer.runner, replayer.new_name
        )


class _CompletesReplaysFirst(Replayer):
    def land(self, objects: Sequence[DeadLetters]) -> Landed:
        landed = super().land(objects)
        for o in chain.from_iterable(s.objects for s in landed[1]):
            self.store.complete(o.upload)
        return landed


class ForgetsWhatIsLost(Driver):
    """What cannot be made again is neither given up nor blocked, but forgotten."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lost.__class__ = _ForgetsWhatIsLost


class _ForgetsWhatIsLost(LostUploads):
    def _give_up(self, lost: Sequence[LostSlice]) -> None:
        self.completer.forget({key for s in lost for key in s.keys})

    def _block(self, gone: Sequence[tuple[LostSlice, LandfallError]]) -> None:
        self._give_up([s for s, _ in gone])


class GivesUpUnasked(Driver):
    """Records are given up though the spec says that a person decides."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lost.__class__ = _GivesUpUnasked


class _GivesUpUnasked(LostUploads):
    def _must_ask(self, lost: LostSlice) -> bool:  # noqa: ARG002  # the rule that is broken
        return False


class RepairsUnrecorded(Driver):
    """An object that is made again is completed before a REPAIR names its upload."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lost.__class__ = _RepairsUnrecorded


class _RepairsUnrecorded(LostUploads):
    def _record(self, remade: Remade) -> None:
        for slot, objects in remade.objects.items():
            self.completer.apply(slot, objects)
        super()._record(replace(remade, objects={}))
