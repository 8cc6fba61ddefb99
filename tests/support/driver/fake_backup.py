"""What another group has landed of a log, as tests say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.source import CoveredPrefix

READ_FROM = {"readFrom": {"group": "backup", "url": "s3://backup/raw"}}
"""A value of ``onDataLoss``."""


@dataclass
class FakeBackup:
    """A ``source.Backup``.

    Attributes:
        landed: by topic partition, the ranges that it has.
        topic_ids: of topics; ``id-NAME`` if there is none.
        hidden: by topic partition, the offset from which on what it has landed is not visible yet.
        final: whether it will never land more.
        error: raised instead of each answer.
        gate: called before each answer.
        asked: each question.
    """

    landed: dict[TopicPartition, list[OffsetRange]]
    topic_ids: dict[str, str] = field(default_factory=dict)
    hidden: dict[TopicPartition, int] = field(default_factory=dict)
    final: bool = True
    error: LandfallError | None = None
    gate: Callable[[], object] = lambda: None
    asked: list[tuple[TopicPartition, OffsetRange]] = field(default_factory=list)
    group: str = "backup"

    def first_stretch(
        self, tp: TopicPartition, topic_id: str, offsets: OffsetRange
    ) -> CoveredPrefix:
        """See ``source.Backup``."""
        self.gate()
        self.asked.append((tp, offsets))
        if self.error:
            raise self.error
        at, end = offsets.start, offsets.end
        for landed in sorted(self._of(tp, topic_id)):
            if landed.start <= at < landed.end:
                return self._committed(tp, OffsetRange(at, min(end, landed.end)))
            if at < landed.start < end:
                end = landed.start
                break
        why = Stalled(Reason.DATA_LOSS, f"{tp}: offset {at} is in no COMMIT of backup")
        return CoveredPrefix(OffsetRange(at, end), why, self.final)

    def _committed(self, tp: TopicPartition, offsets: OffsetRange) -> CoveredPrefix:
        hidden = self.hidden.get(tp, offsets.end)
        if offsets.start < hidden:
            return CoveredPrefix(OffsetRange(offsets.start, min(offsets.end, hidden)))
        why = Stalled(Reason.SOURCE_UNAVAILABLE, f"{tp}: not visible from offset {hidden} on")
        return CoveredPrefix(offsets, why, is_committed=True)

    def has(self, tp: TopicPartition, topic_id: str, offsets: OffsetRange) -> bool:
        """Whether all of a range is there, and visible."""
        return offsets.end <= self.hidden.get(tp, offsets.end) and any(
            landed.start <= offsets.start and offsets.end <= landed.end
            for landed in self._of(tp, topic_id)
        )

    def _of(self, tp: TopicPartition, topic_id: str) -> Sequence[OffsetRange]:
        is_it = self.topic_ids.get(tp.topic, f"id-{tp.topic}") == topic_id
        return self.landed.get(tp, []) if is_it else []
