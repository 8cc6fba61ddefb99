"""Drivers that read from another group what Kafka has lost, with one rule broken."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from landfall.driver.decide.lost_ranges import Settled
from landfall.driver.landing.lost_ranges import LostRanges
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, Stalled
from landfall.ledger import State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.plan import Backlog
from landfall.source import CoveredPrefix
from landfall.task import FromBackup


class AsksNobody(Driver):
    """What Kafka has lost is skipped, whoever has it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches.lost_ranges.__class__ = _AsksNobody


class _AsksNobody(LostRanges):
    def look(
        self, state: State, lost: Mapping[TopicPartition, OffsetRange], now: datetime
    ) -> Settled:
        super().look(state, lost, now)
        return Settled({}, tuple(Slice(tp, offsets) for tp, offsets in lost.items()), {})


class ReadsOn(Driver):
    """A slice that begins in what Kafka has lost may end anywhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches.lost_ranges.__class__ = _ReadsOn


class _ReadsOn(LostRanges):
    def readable(self, backlogs: Iterable[Backlog]) -> list[Backlog]:
        backlogs = list(backlogs)
        some = {each.topic_partition for each in super().readable(backlogs)}
        return [each for each in backlogs if each.topic_partition in some]


class TakesUnconfirmedForAbsent(Driver):
    """What the other group has committed counts as lacking as long as it is not visible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches.lost_ranges.__class__ = _TakesUnconfirmedForAbsent


class _TakesUnconfirmedForAbsent(LostRanges):
    def _take_answers(self, now: datetime) -> None:
        super()._take_answers(now)
        for tp, found in self._found.items():
            match found.answer:
                case CoveredPrefix(is_committed=True, offsets=offsets):
                    why = Stalled(Reason.DATA_LOSS, f"{tp}: not landed")
                    self._found[tp] = replace(
                        found, answer=CoveredPrefix(offsets, why, is_final=True)
                    )
                case _:
                    pass


class TellsNoTask(Driver):
    """Tasks are not told where to read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches.lost_ranges.__class__ = _TellsNoTask


class _TellsNoTask(LostRanges):
    def sources(self, slices: Iterable[Slice]) -> tuple[tuple[Slice, FromBackup], ...]:
        super().sources(slices)
        return ()
