"""What another group has landed of offsets that Kafka has lost, as a ``source.Backup``.

Its ledger is read: a few requests for each question, however much that group has landed. What is
committed and not confirmed yet is looked up in its store, and is never called lost: it is in the
ledger for good. That an object is gone or damaged which was visible, the task finds out that reads
it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock

from landfall.checks.places import applied
from landfall.errors import Reason, Stalled
from landfall.landed import pieces
from landfall.landed.history import History, Life
from landfall.landed.pieces import FoundRange
from landfall.landed.specs import LandedBy
from landfall.landed.stretches import first_stretch
from landfall.lane.replacements import read_replaced
from landfall.ledger import Commit, Record, Replace
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import Replaced
from landfall.source import Stretch
from landfall.store import Slots

MAX_OFFSETS = 1_000_000
"""How many offsets are looked up at once: each COMMIT about them is read."""


class LandedBackup:
    """A ``source.Backup``. Thread-safe, for a driver that has ended may still be asking."""

    def __init__(self, group: str, field: str, open_history: Callable[[], History]) -> None:
        """Connect at the first question.

        Args:
            group: the name of the other group.
            field: of the spec that names it, for messages.
            open_history: opens the history of its lane.
        """
        self.group = group
        self._field, self._open_history = field, open_history
        self._lock = Lock()

    @cached_property
    def _history(self) -> History:
        return self._open_history()

    @cached_property
    def _landed_by(self) -> LandedBy:
        return LandedBy(self._history, self._field)

    def first_stretch(self, tp: TopicPartition, topic_id: str, offsets: OffsetRange) -> Stretch:
        """See ``source.Backup``."""
        with self._lock:
            return self._first_stretch(tp, topic_id, offsets)

    def _first_stretch(self, tp: TopicPartition, topic_id: str, offsets: OffsetRange) -> Stretch:
        self._history.follow()
        life = self._history.life(tp)
        if life is None or life.topic_id != topic_id:
            return _lacking(offsets, another_topic(self.group, life, topic_id), tp)
        if offsets.start < life.start:
            before = OffsetRange(offsets.start, min(life.start, offsets.end))
            return _lacking(before, f"{self.group} began at offset {life.start}", tp)
        if life.end <= offsets.start < life.committed:
            committed = OffsetRange(offsets.start, min(offsets.end, life.committed))
            return Stretch(committed, self._unconfirmed(tp, life), is_committed=True)
        if offsets.start >= life.end:
            why = f"{self.group} has landed it up to offset {life.end}"
            return replace(_lacking(offsets, why, tp), is_final=life.ended >= 0)
        end = min(offsets.end, life.end, offsets.start + MAX_OFFSETS)
        return self._within(Slice(tp, OffsetRange(offsets.start, end)), life)

    def _unconfirmed(self, tp: TopicPartition, life: Life) -> Stalled:
        """Why what is committed and not visible has to wait."""
        return Stalled(
            Reason.SOURCE_UNAVAILABLE,
            f"{tp}: {self.group} has committed it up to offset {life.committed}, but its objects "
            f"from offset {life.end} on are not visible yet; the driver of {self.group} makes "
            "them visible: see that it runs and that its store answers",
        )

    def _within(self, slice_: Slice, life: Life) -> Stretch:
        """The first stretch of a range that the other group has dealt with."""
        tp = slice_.topic_partition
        records = self._history.records(tp, life, slice_.offsets)
        found = pieces.ranges(self.group, slice_, records, self._lists(records))
        stretch, why = first_stretch(
            slice_.offsets,
            [*found, *self._unreadable(tp, records)],
            lambda offset: pieces.not_landed(self.group, tp, offset),
        )
        return Stretch(stretch, why, is_final=why is not None)

    def _lists(self, records: Sequence[Record]) -> Mapping[int, Replaced]:
        replacements = (record for record in records if isinstance(record, Replace))
        slots: Slots = self._history.lane.slots
        return {
            record.header.seq: read_replaced(slots, record.header.seq, record.listed)
            for record in applied(replacements, self._history.state.applied_through)
        }

    def _unreadable(self, tp: TopicPartition, records: Iterable[Record]) -> list[FoundRange]:
        """Ranges that were landed by a spec which does not keep what Kafka held."""
        found = list[FoundRange]()
        for record in records:
            try:
                self._landed_by.check(record, tp.topic)
            except Stalled as stalled:
                if stalled.reason is not Reason.SPEC_INVALID:
                    raise
                found += [(each.offsets, stalled) for each in _about(record, tp)]
        return found


def another_topic(group: str, life: Life | None, topic_id: str) -> str:
    """What is wrong with a life of a topic partition that is not of this topic."""
    if life is None:
        return f"{group} has never landed it"
    return (
        f"{group} has landed another topic of this name: its id is {life.topic_id}, not {topic_id}"
    )


def _about(record: Record, tp: TopicPartition) -> list[Slice]:
    match record:
        case Commit(slices=slices):
            about = [each.piece for each in slices]
        case Replace(slices=named):
            about = [*named]
        case _:
            about = []
    return [each for each in about if each.topic_partition == tp]


def _lacking(offsets: OffsetRange, why: str, tp: TopicPartition) -> Stretch:
    return Stretch(offsets, Stalled(Reason.DATA_LOSS, f"{tp}: {why}"), is_final=True)
