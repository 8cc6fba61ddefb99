"""Drivers with one rule of the loop broken.

What goes wrong with them shows that the rule, and its test, are needed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

from landfall import ledger
from landfall.driver.commits import BatchCommitter
from landfall.driver.decide.batch_results import check_results
from landfall.driver.in_flight import InFlightBatch
from landfall.driver.loop import Driver
from landfall.driver.lost_uploads import LostUploads
from landfall.driver.recovery import LostSlice, Remade
from landfall.driver.replay import Landed, Replayer
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.lane import Read
from landfall.ledger.offsets import TopicPartition
from landfall.task.dead_letter_reader import DeadLetters


class CompletesFirst(Driver):
    """Objects become visible before the COMMIT is in the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _CompletesFirst


class _CompletesFirst(BatchCommitter):
    def _commit(
        self, batch: InFlightBatch, _: Mapping[TopicPartition, Retry], __: datetime
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
        self._housekeeping.begin_first_sweep(self._is_ours, self._completer.decided, now)


class TakesItsOwnForAnothers(Driver):
    """A check ends the driver if it finds any record after the last one.

    The record may be the driver's own, whose answer is still under way.
    """

    def check_owner(self, read: Read) -> None:
        if read(self.writer.lane.next_key(self.writer.state)):
            self._newer_owner = "there is a record"


class LandsANamesake(Driver):
    """Nobody asks which topic the records were read from."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._committer.__class__ = _LandsANamesake


class _LandsANamesake(BatchCommitter):
    def recreated_topics(self, _: Collection[TopicPartition]) -> Mapping[TopicPartition, Retry]:
        return {}


class CompletesReplaysFirst(Driver):
    """Objects of a replay become visible before the REPLAY is in the ledger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        replayer = self._decisions.replayer
        self._decisions.replayer = _CompletesReplaysFirst(
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
