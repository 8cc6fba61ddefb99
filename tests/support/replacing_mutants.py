"""Drivers that replace objects with one rule broken; see ``tests.support.driver_mutants``."""

from concurrent.futures import Future
from datetime import datetime

from landfall.driver.completer import Completer
from landfall.driver.loop import Driver
from landfall.driver.replacements import Replacements
from landfall.ledger.replacement_lists import Replaced


class RetiresFirst(Driver):
    """What is replaced is deleted at once, whether the new objects are visible or not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.__class__ = _RetiresFirst


class _RetiresFirst(Replacements):
    def advance(self, now: datetime, *, begins: bool) -> None:
        for slot, running in self._running.items():
            if running.lists is not None and running.retiring is None:
                running.retiring = self._retire(slot, running.lists)
        super().advance(now, begins=begins)


class CallsItApplied(Driver):
    """A REPLACE is applied once its new objects are visible, whatever is left of the old ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._completer.__class__ = _CallsItApplied
        for slot in self.writer.state.replacing:
            self._completer.release(slot)


class _CallsItApplied(Completer):
    def hold(self, slot: int) -> None:
        """Hold nothing."""


class KeepsNothing(Driver):
    """No copy is kept of what retires."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.__class__ = _KeepsNothing


class _KeepsNothing(Replacements):
    def _retire(
        self,
        slot: int,  # noqa: ARG002  # copies would have it in their names
        lists: tuple[Replaced, ...],
    ) -> "list[Future[None]]":
        uploads = [each.landed.upload for each in lists[0].retire]
        retire = self.deps.store.retire
        return [self._submit(self._pool, self._until_done, retire, upload) for upload in uploads]


class SweepsUnknown(Driver):
    """Open uploads are aborted before it is known which of them a REPLACE has decided."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.recover = lambda *_: None  # type: ignore[method-assign]


class LeavesWhatItGivesUp(Driver):
    """What a lost REPLACE has made visible stays, beside what takes its place."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements.__class__ = _LeavesWhatItGivesUp


class _LeavesWhatItGivesUp(Replacements):
    def _retire(self, slot: int, lists: tuple[Replaced, ...]) -> "list[Future[None]]":
        return super()._retire(slot, lists[:1])
