"""Drivers that replace objects with one rule broken; see ``driver_mutants``."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial

from landfall import ledger
from landfall.driver.landing.completer import Completer
from landfall.driver.process.loop import Driver
from landfall.driver.replacing.cleaning_up import CleaningUp, Deletion
from landfall.driver.replacing.grace_period import GracePeriod
from landfall.driver.replacing.replacements import Replacements
from landfall.ledger import PendingReplacement, State
from landfall.ledger.replace.replacement_lists import ReplacementList


class RetiresFirst(Driver):
    """What is replaced is deleted at once, whether the new objects are visible or not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.__class__ = _RetiresFirst


class _RetiresFirst(Replacements):
    def _proceed(self, now: datetime, *, begins: bool) -> None:
        for slot, running in self._running.items():
            if running.record is not None:
                self._cleaning_up.begin(slot, running.pending)
        super()._proceed(now, begins=begins)


class ForgetsWhatRetires(Driver):
    """RETIRED is recorded as soon as a REPLACE is applied, whatever is left of the old objects."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements._cleaning_up.__class__ = _ForgetsWhatRetires


class _ForgetsWhatRetires(CleaningUp):
    def advance(self, now: datetime, pending: dict[int, PendingReplacement]) -> list[int]:
        super().advance(now, pending)
        return [slot for slot in pending if slot in self._begun]


class CallsItApplied(Driver):
    """A REPLACE is applied before its new objects are visible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._completer.__class__ = _CallsItApplied


class _CallsItApplied(Completer):
    @property
    def applied_through(self) -> int:
        return ledger.applied_through(self._pending.keys() - self._held, self._highest)


class KeepsNothing(Driver):
    """No copy is kept of what retires."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements._cleaning_up.__class__ = _KeepsNothing


class _KeepsNothing(CleaningUp):
    def deletions(
        self,
        slot: int,  # noqa: ARG002  # copies would have it in their names
        listed: ReplacementList,
        given_up: Iterable[ReplacementList],  # noqa: ARG002  # none of it is kept, either
    ) -> Iterator[Deletion]:
        for each in listed.retire:
            upload = each.landed.upload
            yield Deletion(upload.key, partial(self._deps.store.retire, upload))


class DeletesAtOnce(Driver):
    """Old objects have no grace period."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements._grace.__class__ = _DeletesAtOnce


class _DeletesAtOnce(GracePeriod):
    def over(self, state: State, now: datetime) -> frozenset[int]:  # noqa: ARG002  # as the protocol's
        return frozenset(state.retiring)


class SweepsUnknown(Driver):
    """Open uploads are aborted before it is known which of them a REPLACE has decided."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.recover = lambda *_: None  # type: ignore[method-assign]


class LeavesWhatItGivesUp(Driver):
    """What a lost REPLACE has made visible stays, beside what takes its place."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements._cleaning_up.__class__ = _LeavesWhatItGivesUp


class _LeavesWhatItGivesUp(CleaningUp):
    def deletions(
        self,
        slot: int,
        listed: ReplacementList,
        given_up: Iterable[ReplacementList],  # noqa: ARG002  # it stays
    ) -> Iterator[Deletion]:
        return super().deletions(slot, listed, ())


class PassesWhatIsRefused(Driver):
    """What comes after a REPLACE is applied without its being decided again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.__class__ = _PassesWhatIsRefused


class _PassesWhatIsRefused(Replacements):
    def _decide_again(self, now: datetime) -> None:
        for slot, running in self._running.items():
            if self._holds_up(slot, running, now):
                self.completer.release(slot)
                self.completer._pending.pop(slot, None)
